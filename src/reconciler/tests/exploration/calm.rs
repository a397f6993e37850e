//! What holds in every state, and what a state comes to where nothing happens but answers.

use std::sync::Arc;

use super::super::world::object;
use super::actions::Action;
use super::world::{NODES, Open, World};
use crate::model::pod::{NodeRequests, Requests};
use crate::planner::input::{NewValues, PlanningInput, PodUsage};
use crate::planner::plan;
use crate::planner::rules::{Rule, RuleSet};
use crate::planner::tests::exploration::node::{RESOURCES, SmallNode};

/// So many steps lead to rest, at most: a hold of missing rules, and what fails with growing pauses.
const MAX_STEPS: usize = 400;
/// So many times a state at rest is woken, to see that nothing is written.
const MAX_WAKES: usize = 3;

/// So many times the watch of pods shows a bookmark, and nothing else is to be done, where nothing is to be done at all.
const MAX_BOOKMARKS: usize = 10;

/// How time passes.
pub(super) enum Rest {
    Woken,
    /// Nothing is to be done at any time.
    Forever,
}

impl World {
    /// Lets time pass until the reconciler wakes for something that is more than the Lease.
    pub(super) fn wait(&mut self) -> Result<Rest, String> {
        for _ in 0..MAX_BOOKMARKS {
            let Some(wake) = self.run()? else { return Ok(Rest::Forever) };
            let silence = self.reconciler.usage.next_change(self.now.instant);
            self.pass(wake);
            // A bookmark comes in time.
            if silence != Some(wake) || !self.hears_pods() {
                self.run()?;
                return Ok(Rest::Woken);
            }
        }
        Ok(Rest::Forever)
    }

    /// Every node with work to do is in exactly one place (I8).
    pub(super) fn check_places(&self) -> Result<(), String> {
        (0..self.nodes.len()).try_for_each(|node| self.check_place(node))
    }

    fn check_place(&self, place: usize) -> Result<(), String> {
        let queue = self.reconciler.queue();
        let key = NODES[place].into();
        let is_open = self.open.iter().any(|open| matches!(open, Open::Patch { node, .. } if *node == place));
        if self.reconciler.nodes().get(NODES[place]).is_none() {
            let is_gone = !queue.has(&key) || queue.is_in_flight(&key);
            return if is_gone { Ok(()) } else { Err("I8: a node is queued that is gone".into()) };
        }
        if queue.is_in_flight(&key) && !is_open {
            return Err("I8: a node waits for a response that never comes".into());
        }
        if queue.awaits_usage(&key) && !self.watches_pods() {
            return Err("I8: a node waits for what pods request, and nobody watches pods".into());
        }
        let waits_for_moment = queue.is_waiting(&key) && !queue.awaits_usage(&key);
        if waits_for_moment && queue.next_due().is_none() {
            return Err("I8: a node waits for no moment".into());
        }
        Ok(())
    }

    /// Checks that silence and answers lead to a state with nothing to do. `is_known` says whether a state has been seen
    /// to come to rest. Returns the states on the way that were not.
    pub(super) fn check_rest(&self, is_known: impl Fn(u64) -> bool) -> Result<Vec<u64>, String> {
        let mut world = self.clone();
        // What a state may still happen to, it does not here.
        (world.actions_left, world.faults_left) = (0, 0);
        let mut path = Vec::new();
        for _ in 0..MAX_STEPS {
            let fingerprint = world.fingerprint();
            if is_known(fingerprint) {
                return Ok(path);
            }
            path.push(fingerprint);
            world.check_places()?;
            let next = world.actions().into_iter().find(|action| *action != Action::Wait);
            if let Some(action) = next {
                world.act(action)?;
                continue;
            }
            if world.is_converged() {
                world.check_silence()?;
                return Ok(path);
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
    fn is_converged(&self) -> bool {
        let valid = self.rules.values().cloned().map(|rule| Arc::new(Rule::new(&object(rule)).unwrap()));
        let rules = RuleSet::new(valid, []);
        let is_converged = |place: usize| {
            let Some(node) = self.node_object(place) else { return true };
            let requests = if place == 0 { self.requests() } else { NodeRequests::default() };
            let pods = PodUsage::Known(requests);
            let input = PlanningInput { pods, new_values: NewValues::Check, ..PlanningInput::default() };
            plan(&SmallNode::decoded(node), &rules, &input).changes().is_empty()
        };
        (0..self.nodes.len()).all(is_converged)
    }

    /// What the pod requests, and what is so if it has started.
    fn requests(&self) -> NodeRequests {
        let [bound, started] = [true, self.has_started].map(|counts| {
            let mut requests = Requests::default();
            requests.add_amount(RESOURCES[0], i64::from(if counts { self.pods } else { 0 }).into());
            requests
        });
        NodeRequests { bound, started }
    }

    /// The state in a line.
    pub(super) fn describe(&self) -> String {
        let nodes = self.nodes.iter().map(|node| node.map_or("no node".to_owned(), |node| node.to_string()));
        let nodes = nodes.collect::<Vec<_>>().join(", ");
        let rules = self
            .rules
            .iter()
            .map(|(rule, object)| format!("{}={}", ["first", "second"][*rule], object["spec"]["quantity"]));
        let rules = rules.collect::<Vec<_>>().join(" ");
        let mut text =
            format!("{nodes}; pod {}{}, rules {rules}", self.pods, if self.has_started { " started" } else { "" });
        for open in &self.open {
            text += match open {
                Open::Patch { node, .. } => [", a patch is open", ", a patch of node-2 is open"][*node],
                Open::Pods => ", a list of pods is open",
                Open::Rules { .. } => ", a list of rules is open",
            };
        }
        if !self.late.is_empty() {
            text += ", a patch is late";
        }
        text
    }
}
