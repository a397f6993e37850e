//! What holds in every state, and what a state comes to where nothing happens but answers.

use std::collections::HashSet;
use std::sync::Arc;

use super::super::world::object;
use super::actions::Action;
use super::world::{NODE, Open, World};
use crate::controller::tests::exploration::planning::requests;
use crate::model::pod::{NodeRequests, Requests};
use crate::planner::input::{NewValues, PlanningInput, PodUsage};
use crate::planner::plan;
use crate::planner::rules::{Rule, RuleSet};

/// So many steps lead to rest, at most: a hold of missing rules, and what fails with growing pauses.
const MAX_STEPS: usize = 400;
/// So many times a state at rest is woken, to see that nothing is written.
const MAX_WAKES: usize = 3;

/// How time passes.
pub(super) enum Rest {
    Woken,
    /// Nothing is to be done at any time.
    Forever,
}

impl World {
    /// Lets time pass until the reconciler wakes for something that is more than the Lease.
    pub(super) fn wait(&mut self) -> Result<Rest, String> {
        let Some(wake) = self.run()? else { return Ok(Rest::Forever) };
        self.pass(wake);
        self.run()?;
        Ok(Rest::Woken)
    }

    /// Every node with work to do is in exactly one place (I8).
    pub(super) fn check_places(&self) -> Result<(), String> {
        let queue = &self.reconciler.schedule.queue;
        let key = NODE.into();
        let requests = |open: &&Open| !matches!(open, Open::Rules { .. });
        let open = self.open.iter().filter(requests).count();
        let Some(state) = self.reconciler.nodes.get(NODE) else {
            let is_gone = !queue.has(&key) || queue.is_in_flight(&key);
            return if is_gone { Ok(()) } else { Err("I8: a node is queued that is gone".into()) };
        };
        let is_sent = state.work().is_some_and(|work| work.sent.is_some());
        if is_sent != queue.is_in_flight(&key) {
            return Err("I8: what is in flight is not what is marked as such".into());
        }
        if is_sent && open == 0 {
            return Err("I8: a node waits for a response that never comes".into());
        }
        let waits_for_moment = queue.is_waiting(&key) && queue.next_due().is_none();
        if waits_for_moment {
            return Err("I8: a node waits for no moment".into());
        }
        Ok(())
    }

    /// Checks that silence and answers lead to a state with nothing to do. `known` are states that have been seen to
    /// come to rest.
    pub(super) fn check_rest(&self, known: &mut HashSet<u64>) -> Result<(), String> {
        let mut world = self.clone();
        // What a state may still happen to, it does not here.
        (world.actions_left, world.faults_left) = (0, 0);
        let mut path = Vec::new();
        for _ in 0..MAX_STEPS {
            let fingerprint = world.fingerprint();
            if known.contains(&fingerprint) {
                known.extend(path);
                return Ok(());
            }
            path.push(fingerprint);
            world.check_places()?;
            let next = world.actions().into_iter().find(|action| *action != Action::Wait);
            if let Some(action) = next {
                world.act(action)?;
                continue;
            }
            if world.is_converged()? {
                world.check_silence()?;
                known.extend(path);
                return Ok(());
            }
            if matches!(world.wait()?, Rest::Forever) {
                return Err(format!("I8: the node is lost: {}", world.describe()));
            }
        }
        Err(format!("it does not come to rest: {}", world.describe()))
    }

    fn check_silence(&mut self) -> Result<(), String> {
        let patches = self.patches;
        for _ in 0..MAX_WAKES {
            self.wait()?;
            while let Some(open) = self.open.pop() {
                self.answer(open)?;
                self.run()?;
            }
        }
        let is_silent = self.patches == patches;
        if is_silent { Ok(()) } else { Err(format!("it writes at rest: {}", self.describe())) }
    }

    /// Whether the node is as the rules and its pods ask for, by a plan of what is really there, and nothing is to follow.
    fn is_converged(&self) -> Result<bool, String> {
        let Some(node) = self.node_object() else { return Ok(true) };
        let valid = self.rules.values().cloned().map(|rule| Arc::new(Rule::new(&object(rule)).unwrap()));
        let rules = RuleSet::new(valid, []);
        // What a lost leader has lowered is raised for started pods only once they are watched.
        let pods = NodeRequests { started: Requests::default(), ..requests([self.pods, 0]) };
        let input =
            PlanningInput { pods: PodUsage::Known(pods), new_values: NewValues::Check, ..PlanningInput::default() };
        let node = crate::controller::tests::exploration::node::SmallNode::decoded(node);
        if !plan(&node, &rules, &input).changes().is_empty() {
            return Ok(false);
        }
        // What a crashed process has lowered is owed to nobody, and may be raised all the same.
        let is_queued = self.reconciler.schedule.queue.has(&NODE.into());
        let is_lowered = self
            .reconciler
            .nodes
            .get(NODE)
            .is_some_and(|state| state.work().is_some_and(|work| !work.lowered_from.is_empty()));
        if is_queued && is_lowered {
            return Ok(false);
        }
        if self.is_owed {
            return Err(format!("I5: no raise follows a lowering: {}", self.describe()));
        }
        Ok(true)
    }

    /// The state in a line.
    pub(super) fn describe(&self) -> String {
        let node = self.node.map_or("no node".to_owned(), |node| node.to_string());
        let rules = self
            .rules
            .iter()
            .map(|(rule, object)| format!("{}={}", ["first", "second"][*rule], object["spec"]["quantity"]));
        let rules = rules.collect::<Vec<_>>().join(" ");
        let mut text = format!("{node}; pods {}, rules {rules}", self.pods);
        for open in &self.open {
            text += match open {
                Open::Patch { .. } => ", a patch is open",
                Open::Pods { .. } => ", a list of pods is open",
                Open::Rules { .. } => ", a list of rules is open",
            };
        }
        if !self.late.is_empty() {
            text += ", a patch is late";
        }
        text
    }
}
