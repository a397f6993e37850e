//! The one decision about a node: what its rules come to there, and what it needs next. Each step narrows what the plan
//! asks for.
//!
//! ```text
//! plan ─▶ as recorded, where rejected ─▶ without stopped rollouts ─▶ without what failed a moment ago ─▶ Decision
//! ```

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::conditions::Claims;
use super::effect::Now;
use super::nodes::NodeState;
use super::rollouts::Rollouts;
use super::rules::Rules;
use super::work_queue::Rank;
use crate::model::ledger::InvalidLedger;
use crate::model::node::Node;
use crate::planner::input::{Contested, NewValues, PlanningInput, PodUsage};
use crate::planner::rules::RuleSet;
use crate::planner::{self, Change, Leaving, Memo, NodePlan, Outcome, Plan};

/// The age up to which a node is young.
const YOUNG_NODE_SECONDS: i64 = 600;
/// The maximum difference between the clocks of this process and of the API server.
const CLOCK_SKEW_SECONDS: i64 = 60;
/// How long a standby waits for the leader.
const LEADER_TIME: Duration = Duration::from_millis(100);

/// What this process may write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Authority {
    /// A standby: values that a kubelet has reset (I6).
    Resets,
    /// A leader that does not know all rules: repairs of recorded values (I4).
    Repairs,
    /// A leader.
    Rules,
}

/// All that a decision depends on.
pub(super) struct Question<'a> {
    pub(super) state: &'a NodeState,
    pub(super) authority: Authority,
    pub(super) rules: &'a Rules,
    pub(super) rule_set: &'a Arc<RuleSet>,
    pub(super) pods: PodUsage,
    pub(super) rollouts: &'a Rollouts,
    /// Whether the node has a condition.
    pub(super) has_condition: bool,
    pub(super) now: Now,
}

/// What a node comes to.
#[derive(Debug)]
pub(super) struct Decision {
    /// The outcome of each rule that selects the node.
    pub(super) outcomes: Vec<(Arc<str>, Outcome)>,
    /// The values that no rule declares and that leave when they are unused.
    pub(super) leaving: Vec<Leaving>,
    /// Why the ledger cannot be read, if it cannot.
    pub(super) unreadable: Option<InvalidLedger>,
    /// What the plan asks for, apart from what is withheld.
    pub(super) changes: Vec<Change>,
    pub(super) withheld: Withheld,
    /// Whether the plan may ask for more once it is known what pods request.
    pub(super) awaits_usage: bool,
    /// Whether the condition is as it is to be.
    pub(super) is_condition_right: bool,
    pub(super) next: Next,
    /// When something else is due, or the first that waits.
    pub(super) until: Option<Instant>,
}

/// What a node needs next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Nothing.
    Rest,
    /// Knowledge of what pods request.
    AwaitUsage,
    /// A patch with these changes.
    Send { rank: Rank, changes: Vec<Change> },
}

/// The changes of a node that wait because rollouts are stopped.
#[derive(Debug, Default)]
pub(super) struct Withheld {
    pub(super) changes: Vec<Change>,
    /// When the first of them may be sent.
    pub(super) until: Option<Instant>,
}

impl Withheld {
    /// Returns the rules whose stopped rollouts withhold something.
    pub(super) fn rules(&self) -> impl Iterator<Item = &str> {
        self.changes.iter().filter_map(Change::rule)
    }
}

impl Decision {
    /// Returns whether the plan asks for a change of a resource.
    pub(super) fn asks_for(&self, resource: &str) -> bool {
        self.changes.iter().chain(&self.withheld.changes).any(|change| change.is_of(resource))
    }

    /// Returns whether nothing is to be done, now or later, as far as this process may write.
    pub(super) fn is_in_sync(&self) -> bool {
        self.changes.is_empty() && self.withheld.until.is_none() && !self.awaits_usage && self.is_condition_right
    }
}

/// Decides what a node needs. The plans of nodes that are alike are made once.
pub(super) fn decide(question: &Question<'_>, plans: &mut Memo) -> Decision {
    let input = question.input();
    let NodePlan { outcomes, leaving, plan } = question.plan(&input, plans);
    let (mut changes, awaits_usage, unreadable) = match plan {
        Plan::Patch { changes, needs_pods } => (changes, needs_pods, None),
        Plan::NeedsPods => (Vec::new(), true, None),
        Plan::InSync => (Vec::new(), false, None),
        Plan::Blocked(error) => (Vec::new(), false, Some(error)),
    };
    question.repair_as_recorded(&mut changes, &input.contested);
    let withheld = question.withhold(&mut changes);
    let claims = question.claims(&outcomes, || changes.iter().chain(&withheld.changes));
    let condition =
        |changes: &[Change]| claims.as_ref()?.change(question.state, question.rules, changes, question.now.wall);
    let alone = condition(&[]);
    let is_condition_right = alone.is_none();
    let mut until = earliest([question.state.next_change(question.now.instant), withheld.until]);
    let next = match question.sendable(&changes, &mut until) {
        Some(mut sent) => {
            let rank = question.state.rank(&sent);
            sent.extend(condition(&sent).filter(|change| question.goes_along(change)));
            Next::Send { rank, changes: sent }
        }
        None if awaits_usage && question.pods == PodUsage::NotFetched => Next::AwaitUsage,
        None => match alone.and_then(|alone| question.sendable_alone(alone, &mut until)) {
            // Pods do not depend on it, so it has the limits of a rollout.
            Some(changes) => Next::Send { rank: Rank::Replan, changes },
            None if awaits_usage => Next::AwaitUsage,
            None => Next::Rest,
        },
    };
    Decision { outcomes, leaving, unreadable, changes, withheld, awaits_usage, is_condition_right, next, until }
}

impl Question<'_> {
    /// Returns the input of the plan besides the node and the rules.
    pub(super) fn input(&self) -> PlanningInput {
        let (state, now) = (self.state, self.now.instant);
        // A new value on a young node cannot be less than what the pods there started with.
        let is_new = is_young(&state.node, self.now) && !state.has_withdrawn;
        let work = state.work();
        PlanningInput {
            contested: work.map(|work| work.conflicts.contested(now)).unwrap_or_default(),
            pods: self.pods.clone(),
            new_values: if is_new { NewValues::CheckOlderNodes } else { NewValues::Check },
            released: state.released.names().clone(),
            moved: work.map(|work| work.moves.recent(now)).unwrap_or_default(),
        }
    }

    pub(super) fn plan(&self, input: &PlanningInput, plans: &mut Memo) -> NodePlan {
        let node = &self.state.node;
        match self.authority {
            Authority::Resets => planner::plan_resets(node),
            Authority::Repairs => planner::plan_repairs(node, &input.contested),
            Authority::Rules => plans.plan(node, self.rule_set, input),
        }
    }

    /// If the API server rejects what a rule declares, on this node or on many others, a lost value is restored as it was
    /// recorded. What is planned without rules is as recorded, and a standby's tests of what it saw stay in its patch.
    fn repair_as_recorded(&self, changes: &mut [Change], contested: &Contested) {
        let node = &self.state.node;
        let is_rejected = |change: &Change| {
            let is_rejected_here = self.state.work().is_some_and(|work| work.failures.is_rejected(change.name()));
            let is_stopped = || self.rollouts.stopped_until(change, &node.name, self.now.instant).is_some();
            change.is_repair() && (is_rejected_here || is_stopped())
        };
        if self.authority != Authority::Rules || !changes.iter().any(is_rejected) {
            return;
        }
        let repairs = planner::plan_repairs(node, contested);
        for change in changes.iter_mut().filter(|change| is_rejected(change)) {
            let recorded = repairs.changes().iter().find(|other| other.subject == change.subject);
            if let Some(recorded) = recorded {
                change.clone_from(recorded);
            }
        }
    }

    /// Removes the changes that wait: for the end of the stop of a rollout, or for the leader.
    fn withhold(&self, changes: &mut Vec<Change>) -> Withheld {
        let mut withheld = Withheld::default();
        let waiting = changes.extract_if(.., |change| {
            let until = match self.authority {
                Authority::Resets => self.left_to_leader_until(change),
                Authority::Repairs | Authority::Rules => self.stopped_until(change),
            };
            withheld.until = earliest([withheld.until, until]);
            until.is_some()
        });
        withheld.changes = waiting.collect();
        withheld
    }

    fn stopped_until(&self, change: &Change) -> Option<Instant> {
        let waits = self.state.is_rollout && !self.state.is_urgent(change);
        self.rollouts.stopped_until(change, &self.state.node.name, self.now.instant).filter(|_| waits)
    }

    /// I6: a standby gives the leader a moment, and restores the same value a few times only.
    fn left_to_leader_until(&self, change: &Change) -> Option<Instant> {
        let now = self.now.instant;
        let due = self.state.pending_since.unwrap_or(now) + LEADER_TIME;
        let again = self.state.work().and_then(|work| work.resets.not_before(change.name(), now));
        again.or(Some(due)).filter(|at| now < *at)
    }

    /// Returns what decides the condition; with no rule, or without the option, there is none.
    fn claims<'c, I: Iterator<Item = &'c Change>>(
        &self,
        outcomes: &[(Arc<str>, Outcome)],
        planned: impl Fn() -> I,
    ) -> Option<Claims> {
        (self.authority == Authority::Rules).then(|| match self.has_condition {
            true => Claims::new(outcomes, self.rules, planned),
            false => Claims::default(),
        })
    }

    /// Returns the changes that may be sent now, if any: what failed a moment ago waits (I9).
    fn sendable(&self, changes: &[Change], until: &mut Option<Instant>) -> Option<Vec<Change>> {
        // In a rollout, what is urgent is sent alone: what the rollout asks for may be rejected, and has its turn. So has
        // the rollout while what is urgent waits.
        let is_urgent = |change: &Change| self.state.is_rollout && self.state.is_urgent(change);
        let (urgent, others): (Vec<_>, Vec<_>) = changes.iter().cloned().partition(is_urgent);
        [urgent, others]
            .into_iter()
            .filter(|changes| !changes.is_empty())
            .find_map(|changes| unless_later(self.state.sendable(changes, self.now.instant), until))
    }

    /// Returns the change of the condition alone, if it may be sent now.
    fn sendable_alone(&self, condition: Change, until: &mut Option<Instant>) -> Option<Vec<Change>> {
        unless_later(self.state.sendable_condition(condition, self.now.instant), until)
    }

    fn goes_along(&self, condition: &Change) -> bool {
        self.state.work().is_none_or(|work| work.failures.takes_along(condition, self.now.instant))
    }
}

/// Returns whether a node was created a short time ago.
pub(super) fn is_young(node: &Node, now: Now) -> bool {
    node.created.is_some_and(|created| {
        let age = now.wall.duration_since(created).as_secs();
        (-CLOCK_SKEW_SECONDS..YOUNG_NODE_SECONDS).contains(&age)
    })
}

/// Returns what may be sent now; or records when it may be.
fn unless_later<T>(sendable: Result<T, Instant>, until: &mut Option<Instant>) -> Option<T> {
    sendable.map_err(|at| *until = earliest([*until, Some(at)])).ok()
}

fn earliest<const N: usize>(times: [Option<Instant>; N]) -> Option<Instant> {
    times.into_iter().flatten().min()
}
