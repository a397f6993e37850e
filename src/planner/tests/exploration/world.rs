//! One family of worlds: what its processes and its environment may do in a state.

use super::actors;
use super::node::{SmallNode, Writer};
use super::planning::{Kind, Planning, Question, Spec};
use super::search::{Model, Taken};
use super::state::{Leader, PatchId, State, Step};

/// What there may be in a world. Each is explored as a graph of its own.
#[derive(Clone, Debug, Default)]
pub(super) struct Family {
    pub(super) name: &'static str,
    /// What each rule may be, besides not there.
    pub(super) variants: [Vec<Spec>; 2],
    /// The rules at first.
    pub(super) rules: [u8; 2],
    /// Whether the node is younger than the rules.
    pub(super) is_young: bool,
    /// How much pods may request.
    pub(super) max_pods: [u8; 2],
    /// What another field manager writes, to which resources.
    pub(super) foreign: Vec<Option<u8>>,
    pub(super) foreign_resources: usize,
    pub(super) resets: bool,
    pub(super) recreations: u8,
    /// How often an administrator may remove something from the ledger.
    pub(super) wipes: u8,
    /// Whether patches are sent in parts too.
    pub(super) parts: bool,
    /// Whether responses are lost, and patches applied late.
    pub(super) losses: bool,
    /// Whether Leases are lost and processes crash.
    pub(super) crashes: bool,
    /// Whether a process that does not lead repairs resets.
    pub(super) repairing_standby: bool,
    /// Whether the process that leads next has a view of its own.
    pub(super) second_view: bool,
}

pub(super) struct World {
    pub(super) family: Family,
    pub(super) planning: Planning,
}

type Steps = Vec<Taken<World>>;
type Outcome = Result<(), (Step, String)>;

impl World {
    pub(super) fn new(family: Family) -> Self {
        let planning = Planning::new(family.variants.clone(), family.is_young);
        Self { family, planning }
    }

    fn question(&self, leader: &Leader) -> Question {
        let &Leader { view, listed, rules, pods, has_withdrawn, .. } = leader;
        let kind = if listed { Kind::Plan } else { Kind::Repairs };
        let is_young = self.family.is_young && !has_withdrawn;
        Question { kind, view, rules, pods, is_young }
    }

    /// What the leader does by itself, as long as its requests are answered.
    fn lead(&mut self, state: &State, steps: &mut Steps) {
        let leader = &state.leader;
        if leader.view != state.node {
            let mut to = *state;
            show(&mut to);
            calm(steps, Step::Observe, to);
        }
        if !leader.listed || leader.rules != state.rules {
            let step = if leader.listed { Step::ObserveRules } else { Step::ListRules };
            let leader = Leader { listed: true, rules: state.rules, ..*leader };
            calm(steps, step, State { leader, ..*state });
        }
        if leader.view.uid == 0 || leader.sent != 0 {
            return;
        }
        let answer = self.planning.ask(self.question(leader));
        let with = self.planning.ask(Question { pods: Some(state.pods), ..self.question(leader) });
        let matters = answer.needs_pods || with.patches != answer.patches;
        if leader.listed && leader.pods != Some(state.pods) && matters {
            let leader = Leader { pods: Some(state.pods), ..*leader };
            calm(steps, Step::ObservePods, State { leader, ..*state });
        }
        if leader.pods.is_some() {
            let leader = Leader { pods: None, ..*leader };
            steps.push(Taken { step: Step::ForgetPods, to: State { leader, ..*state }, is_calm: false });
        }
        let sendable = if self.family.parts { answer.patches.len() } else { 1 };
        for (place, &patch) in answer.patches.iter().take(sendable).enumerate() {
            let sent = self.planning.sent(patch);
            let mut leader = Leader { sent: patch, ..*leader };
            leader.has_withdrawn |= sent.withdraws;
            let mut to = State { leader, ..*state };
            self.outdate(&mut to);
            steps.push(Taken { step: Step::Send(patch), to, is_calm: place == 0 });
        }
    }

    /// What becomes of the patch in flight, and of the late one.
    fn respond(&mut self, state: &State, steps: &mut Steps) -> Outcome {
        let sent = state.leader.sent;
        if sent != 0 {
            let mut to = *state;
            let is_applied = !state.leader.sent_is_outdated
                && self.land(sent, &mut to).map_err(|error| (Step::Answered(true), error))?;
            (to.leader.sent, to.leader.sent_is_outdated) = (0, false);
            let mut shown = to;
            // A patch of a node that is gone is not found, and shows nothing.
            if to.node.uid != 0 {
                show(&mut shown);
            }
            calm(steps, Step::Answered(is_applied), shown);
            if self.family.losses {
                if is_applied {
                    steps.push(Taken { step: Step::LostApplied, to, is_calm: false });
                }
                if state.late == 0 {
                    let to = state.orphan();
                    steps.push(Taken { step: Step::Lost, to, is_calm: false });
                }
            }
        }
        if state.late != 0 {
            let mut to = *state;
            let landed = self.land(state.late, &mut to);
            let is_applied = landed.map_err(|error| (Step::Late(true), error))?;
            to.forget_late();
            calm(steps, Step::Late(is_applied), to);
            if is_applied {
                let mut to = *state;
                to.forget_late();
                calm(steps, Step::Vanished, to);
            }
        }
        Ok(())
    }

    fn stand_by(&mut self, state: &State, steps: &mut Steps) -> Outcome {
        if self.family.second_view && state.standby_view != state.node {
            calm(steps, Step::StandbyObserves, State { standby_view: state.node, ..*state });
        }
        if !self.family.repairing_standby {
            return Ok(());
        }
        if state.standby != 0 {
            let mut to = *state;
            let landed = self.land(state.standby, &mut to);
            let is_applied = landed.map_err(|error| (Step::StandbyLands(true), error))?;
            to.standby = 0;
            calm(steps, Step::StandbyLands(is_applied), to);
            return Ok(());
        }
        let view = if self.family.second_view { state.standby_view } else { state.node };
        if view.uid == 0 || !view.amounts.iter().any(|amount| amount.values == [Some(0); 2]) {
            return Ok(());
        }
        let question = Question { kind: Kind::Resets, view, rules: [0; 2], pods: None, is_young: false };
        let patch = self.planning.ask(question).patches.first().copied();
        let to = patch.map(|standby| State { standby, ..*state });
        let step = Step::StandbySends;
        steps.extend(to.map(|to| Taken { step, to, is_calm: false }));
        Ok(())
    }

    /// Another process leads, or the same one anew.
    fn change_leaders(&self, state: &State, steps: &mut Steps) {
        if !self.family.crashes {
            return;
        }
        let leader = Leader { listed: false, rules: [0; 2], pods: None, ..state.leader };
        if leader != state.leader {
            let to = State { leader, ..*state };
            steps.push(Taken { step: Step::Lapse, to, is_calm: false });
        }
        let mut to = state.orphan();
        let view = state.leader.view;
        let view = if self.family.second_view { std::mem::replace(&mut to.standby_view, view) } else { view };
        to.leader = Leader { view, ..Leader::default() };
        if to != *state {
            steps.push(Taken { step: Step::Crash, to, is_calm: false });
        }
    }

    /// Applies a patch, if its tests hold.
    fn land(&mut self, patch: PatchId, state: &mut State) -> Result<bool, String> {
        if state.node.uid == 0 {
            return Ok(false);
        }
        let Some(after) = self.planning.apply(patch, state.node)? else { return Ok(false) };
        state.node = after;
        self.outdate(state);
        Ok(true)
    }

    /// A patch is not applied once the ledger is not as it was: that the node comes to carry the very same ledger
    /// again takes longer than a request lives.
    pub(super) fn outdate(&self, state: &mut State) {
        let ledger = state.node.ledger();
        let is_outdated = |patch: PatchId| patch != 0 && self.planning.sent(patch).ledger != ledger;
        state.leader.sent_is_outdated |= is_outdated(state.leader.sent);
        if is_outdated(state.late) {
            state.forget_late();
        }
    }
}

impl Model for World {
    type State = State;
    type Step = Step;

    fn starts(&self) -> Vec<State> {
        let node = SmallNode::new(1);
        let rules = self.family.rules;
        let state = State { node, uids: 1, rules, ..State::default() };
        // One that carries a value of another field manager already.
        let mut taken = state;
        taken.node.amounts[0].write(0, Some(2), Writer::Other);
        taken.node.amounts[0].write(1, Some(1), Writer::Kubelet);
        if self.family.foreign.is_empty() { vec![state] } else { vec![state, taken] }
    }

    fn steps(&mut self, state: &State, steps: &mut Steps) -> Outcome {
        self.lead(state, steps);
        self.respond(state, steps)?;
        self.stand_by(state, steps)?;
        self.change_leaders(state, steps);
        actors::act(self, state, steps);
        Ok(())
    }

    fn describe(&self, step: &Step) -> String {
        match *step {
            Step::Send(patch) => format!("{step} ({})", self.planning.sent(patch).text),
            _ => step.to_string(),
        }
    }

    fn is_turn(&self, step: &Step) -> bool {
        let is_leading = matches!(step, Step::ListRules | Step::ObservePods | Step::Send(_) | Step::Answered(_));
        self.family.second_view && (is_leading || *step == Step::Crash)
    }

    fn writes(&self, from: &State, to: &State) -> bool {
        from.node != to.node
    }

    fn check_end(&mut self, state: &State) -> Result<(), String> {
        let question = Question {
            kind: Kind::Plan,
            view: state.node,
            rules: state.rules,
            pods: Some(state.pods),
            is_young: self.family.is_young,
        };
        let left = self.planning.ask(question).changes;
        if left != [false; 2] && state.node.uid != 0 {
            return Err(format!("something is left to do: {state}"));
        }
        Ok(())
    }
}

/// Shows the leader the node as it is.
fn show(state: &mut State) {
    if ![0, state.node.uid].contains(&state.leader.view.uid) {
        *state = state.orphan();
    }
    state.leader.observe(state.node);
}

/// What the scheduler goes by.
pub(super) fn schedulable(node: &SmallNode, resource: usize) -> u8 {
    node.amounts[resource].values[1].unwrap_or_default()
}

pub(super) fn calm(steps: &mut Steps, step: Step, to: State) {
    steps.push(Taken { step, to, is_calm: true });
}
