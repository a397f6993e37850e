//! What may happen next: what the environment does, what fails, and what goes on by itself.

use std::collections::VecDeque;
use std::fmt;

use kube::runtime::watcher;

use super::super::responses::failed;
use super::calm::Rest;
use super::world::{Late, MAX_LATENCY, NODES, Open, Shown, World};
use crate::planner::tests::exploration::node::{RULES, SmallNode, Writer};
use crate::reconciler::effect::{Completion, Observation};
use crate::response::reply::Reply;
use crate::response::request_error::RequestError;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// A request is answered as usual; or by an error of this code.
    Answer(usize),
    Fail(usize, u16),
    /// A patch is applied, and its response lost.
    Lose(usize),
    /// The response to a patch is lost, and it may be applied yet.
    Delay(usize),
    /// A late patch is applied, if its tests hold.
    Land(usize),
    /// A watch that is behind shows the next of what it has not shown.
    Show(usize),
    /// Nothing happens until the reconciler wakes.
    Wait,
    GetBehind(usize),
    List(usize),
    Depose,
    Lead,
    Crash,
    Reset,
    Foreign(u8),
    SetRule(usize, u8),
    DeleteRule(usize),
    DeleteNode,
    CreateNode,
    Bind,
    Start,
    End,
}

impl World {
    /// All that may happen next.
    pub(super) fn actions(&self) -> Vec<Action> {
        let mut actions: Vec<_> = (0..self.open.len()).map(Action::Answer).collect();
        actions.extend((0..self.late.len()).map(Action::Land));
        // That of pods shows a bookmark where there is nothing else.
        let behind = |watch: &usize| self.behind[*watch].as_ref().is_some_and(|it| *watch == 2 || !it.is_empty());
        actions.extend([0, 1, 2].into_iter().filter(behind).map(Action::Show));
        // Some time after a pod is bound, its kubelet has started or rejected it.
        if self.pods > 0 && !self.has_started && self.nodes[0].is_some() {
            actions.push(Action::Start);
            actions.extend((self.pods > self.schedulable()).then_some(Action::End));
        }
        if self.open.is_empty() {
            actions.push(Action::Wait);
        }
        if self.is_deposed {
            actions.push(Action::Lead);
        }
        if self.faults_left > 0 {
            for (place, open) in self.open.iter().enumerate() {
                match open {
                    Open::Patch { .. } => {
                        actions.extend([500, 429, 422, 403].map(|code| Action::Fail(place, code)));
                        actions.extend([Action::Lose(place), Action::Delay(place)]);
                    }
                    _ => actions.push(Action::Fail(place, 500)),
                }
            }
            let is_listing = self.is_listing_rules();
            let shows = |watch: &usize| self.behind[*watch].is_none() && !(*watch == 1 && is_listing);
            let watched = if self.has_listed_pods() { 3 } else { 2 };
            actions.extend((0..watched).filter(shows).map(Action::GetBehind));
            actions.extend((0..watched).filter(|watch| *watch != 1 || !is_listing).map(Action::List));
            actions.push(Action::Crash);
            actions.extend((!self.is_deposed).then_some(Action::Depose));
        }
        if self.actions_left > 0 {
            match self.nodes[0] {
                Some(node) => {
                    let is_reset = node.amounts[0].values == [Some(0); 2];
                    let has_value = node.amounts[0].values[0].is_some();
                    actions.extend((has_value && !is_reset).then_some(Action::Reset));
                    actions.extend([Action::Foreign(2), Action::DeleteNode]);
                    actions.extend((self.pods == 0 && self.schedulable() > 0).then_some(Action::Bind));
                }
                None => actions.push(Action::CreateNode),
            }
            actions.extend((self.pods > 0).then_some(Action::End));
            for rule in [0, 1] {
                let quantity = self.rules.get(&rule).map(|rule| rule["spec"]["quantity"].as_u64());
                let set = [1, 2].into_iter().filter(|new| quantity != Some(Some(*new)));
                actions.extend(set.map(|new| Action::SetRule(rule, new as u8)));
                actions.extend(quantity.map(|_| Action::DeleteRule(rule)));
            }
        }
        actions
    }

    /// Lets something happen, and the reconciler do what it can then. An error is a violation.
    pub(super) fn act(&mut self, action: Action) -> Result<(), String> {
        match action {
            Action::Answer(_) | Action::Land(_) | Action::Show(_) | Action::Wait | Action::Lead | Action::Start => {}
            Action::End if !self.has_started && self.pods > self.schedulable() => {}
            Action::Reset
            | Action::Foreign(_)
            | Action::SetRule(..)
            | Action::DeleteRule(_)
            | Action::DeleteNode
            | Action::CreateNode
            | Action::Bind
            | Action::End => self.actions_left -= 1,
            _ => self.faults_left -= 1,
        }
        match action {
            Action::Answer(place) => {
                let open = self.open.remove(place);
                self.answer(open)?;
            }
            Action::Fail(place, code) => match self.open.remove(place) {
                Open::Patch { slot, node, .. } => {
                    let node = NODES[node].into();
                    let reply = match code {
                        403 => Reply::Forbidden("no right".to_owned()),
                        422 => Reply::Rejected("a policy".to_owned()),
                        code => failed(code),
                    };
                    self.reconciler.complete(Completion::NodePatched { slot, node, reply }, self.now);
                }
                // It is tried again.
                list => {
                    let status = kube::core::Status::failure("no", "").with_code(code);
                    let error = watcher::Error::InitialListFailed(kube::Error::Api(Box::new(status)));
                    let is_of_pods = matches!(list, Open::Pods);
                    self.observe(if is_of_pods {
                        Observation::Pods(Err(error))
                    } else {
                        Observation::Rule(Err(error))
                    });
                    self.open.push(list);
                }
            },
            Action::Lose(place) | Action::Delay(place) => {
                if let Open::Patch { slot, node, patch, license } = self.open.remove(place) {
                    if action == Action::Lose(place) {
                        self.apply(node, &patch, &license)?;
                    } else {
                        let until = self.now.instant + MAX_LATENCY;
                        self.late.push(Late { node, patch, license, until });
                    }
                    let lost = RequestError::Transport("no answer".to_owned());
                    let (node, reply) = (NODES[node].into(), Reply::from(lost));
                    self.reconciler.complete(Completion::NodePatched { slot, node, reply }, self.now);
                }
            }
            Action::Land(place) => {
                let Late { node, patch, license, .. } = self.late.remove(place);
                self.apply(node, &patch, &license)?;
            }
            Action::Show(watch) => {
                let shown = self.behind[watch].as_mut().and_then(VecDeque::pop_front);
                match shown {
                    Some(shown) => self.show_now(watch, shown),
                    None => self.observe(Observation::PodsHeard(self.now.instant)),
                }
                self.behind[watch].take_if(|behind| behind.is_empty());
            }
            Action::Wait => return self.wait().map(|_: Rest| ()),
            Action::GetBehind(watch) => self.behind[watch] = Some(VecDeque::new()),
            Action::List(0) => self.list_nodes(),
            Action::List(1) => self.list_rules(),
            Action::List(_) => self.list_pods(),
            Action::Depose => self.depose(true),
            Action::Lead => self.depose(false),
            Action::Crash => self.crash(),
            Action::Reset => self.write(0, Writer::Kubelet),
            Action::Foreign(value) => self.write(value, Writer::Other),
            Action::SetRule(rule, quantity) => self.set_rule(rule, quantity),
            Action::DeleteRule(rule) => self.delete_rule(rule),
            Action::DeleteNode => {
                let node = self.node_object(0);
                self.nodes[0] = None;
                node.into_iter().for_each(|node| self.show(0, Shown::Delete(node)));
            }
            Action::CreateNode => {
                self.uids += 1;
                self.nodes[0] = Some(SmallNode::new(self.uids));
                self.show_node(0);
            }
            Action::Bind => self.change_pod(self.schedulable(), false),
            Action::Start => self.change_pod(self.pods, true),
            Action::End => self.change_pod(0, false),
        }
        self.run().map(|_| ())
    }

    /// Answers a request as an API server does that works.
    pub(super) fn answer(&mut self, open: Open) -> Result<(), String> {
        let completion = match open {
            Open::Patch { slot, node, patch, license } => {
                let reply = self.apply(node, &patch, &license)?;
                Completion::NodePatched { slot, node: NODES[node].into(), reply }
            }
            Open::Rules { is_valid } => {
                self.has_rules |= is_valid;
                self.list_rules();
                return Ok(());
            }
            Open::Pods => {
                self.list_pods();
                return Ok(());
            }
        };
        self.reconciler.complete(completion, self.now);
        Ok(())
    }

    /// Another process leads from now on, which knows nothing of what this one has sent.
    fn crash(&mut self) {
        for open in std::mem::take(&mut self.open) {
            if let Open::Patch { node, patch, license, .. } = open {
                let until = self.now.instant + MAX_LATENCY;
                self.late.push(Late { node, patch, license, until });
            }
        }
        self.restart();
    }

    fn write(&mut self, value: u8, writer: Writer) {
        if let Some(node) = &mut self.nodes[0] {
            [0, 1].into_iter().for_each(|map| node.amounts[0].write(map, Some(value), writer));
            self.show_node(0);
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let watch = |watch: usize| ["nodes", "rules", "pods"][watch];
        match *self {
            Self::Answer(_) => f.write_str("the request is answered"),
            Self::Fail(_, code) => write!(f, "the request fails with {code}"),
            Self::Lose(_) => f.write_str("the patch is applied, and its response lost"),
            Self::Delay(_) => f.write_str("the response is lost, the patch may be applied yet"),
            Self::Land(_) => f.write_str("the late patch arrives"),
            Self::Show(place) => write!(f, "the watch of {} shows what is next", watch(place)),
            Self::Wait => f.write_str("nothing happens until the reconciler wakes"),
            Self::GetBehind(place) => write!(f, "the watch of {} gets behind", watch(place)),
            Self::List(place) => write!(f, "the watch of {} lists anew", watch(place)),
            Self::Depose => f.write_str("another process takes the Lease"),
            Self::Lead => f.write_str("the other process releases the Lease"),
            Self::Crash => f.write_str("the process crashes, and a new one leads"),
            Self::Reset => f.write_str("the kubelet resets the resource"),
            Self::Foreign(value) => write!(f, "kubectl-patch writes {value}"),
            Self::SetRule(rule, quantity) => {
                write!(f, "the rule {} declares {quantity}", RULES[rule])
            }
            Self::DeleteRule(rule) => write!(f, "the rule {} is deleted", RULES[rule]),
            Self::DeleteNode => f.write_str("the node is deleted"),
            Self::CreateNode => f.write_str("the node is created again"),
            Self::Bind => f.write_str("a pod is bound that requests all there is"),
            Self::Start => f.write_str("the pod starts"),
            Self::End => f.write_str("the pod ends"),
        }
    }
}
