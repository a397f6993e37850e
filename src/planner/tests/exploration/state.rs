//! A state of the world, what may happen in it, and in which words.

use std::fmt;

use super::node::{MAPS, RESOURCES, RULES, SmallNode};

/// A patch by its number; 0 is none.
pub(super) type PatchId = u16;

/// Everything that matters for what may happen next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct State {
    pub(super) node: SmallNode,
    /// How many uids there have been.
    pub(super) uids: u8,
    /// How much pods on the node request of each resource.
    pub(super) pods: [u8; 2],
    /// Each rule as the API server has it, by its place in the family; 0 is none.
    pub(super) rules: [u8; 2],
    pub(super) leader: Leader,
    /// The node as the process that does not lead knows it, where there are two.
    pub(super) standby_view: SmallNode,
    /// A repair of a reset that a process has sent which does not lead.
    pub(super) standby: PatchId,
    /// A patch whose response counts as lost, and which may be applied yet.
    pub(super) late: PatchId,
    /// How often an administrator has removed something from the ledger.
    pub(super) wipes: u8,
}

impl State {
    /// Nobody waits for the response to the patch in flight any more: it is late, if it may be applied at all.
    pub(super) fn orphan(mut self) -> Self {
        let Leader { sent, sent_is_outdated, .. } = self.leader;
        if sent != 0 && !sent_is_outdated && self.late == 0 {
            self.late = sent;
        }
        (self.leader.sent, self.leader.sent_is_outdated) = (0, false);
        self
    }

    /// The late patch will not be applied any more.
    pub(super) fn forget_late(&mut self) {
        self.late = 0;
    }
}

/// What the process that leads knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Leader {
    pub(super) view: SmallNode,
    /// Whether it has listed the rules since it leads, and those that it knows of since.
    pub(super) listed: bool,
    pub(super) rules: [u8; 2],
    /// What the watch has shown that pods request, unless it is silent.
    pub(super) pods: Option<[u8; 2]>,
    pub(super) has_withdrawn: bool,
    /// What is in flight.
    pub(super) sent: PatchId,
    /// Whether the ledger that it tests has been replaced since.
    pub(super) sent_is_outdated: bool,
}

impl Leader {
    /// Takes in the node as a watch or a response shows it.
    pub(super) fn observe(&mut self, node: SmallNode) {
        if self.view.uid != node.uid {
            let Self { listed, rules, .. } = *self;
            *self = Self { listed, rules, ..Self::default() };
        }
        self.view = node;
    }
}

/// Something that happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Observe,
    StandbyObserves,
    ObserveRules,
    ListRules,
    ObservePods,
    ForgetPods,
    Send(PatchId),
    /// Whether it is applied.
    Answered(bool),
    LostApplied,
    Lost,
    Vanished,
    Late(bool),
    StandbySends,
    StandbyLands(bool),
    Lapse,
    Crash,
    Tick,
    Reset,
    Foreign {
        resource: usize,
        maps: [bool; 2],
        value: Option<u8>,
    },
    WipeEntry(usize),
    WipeLedger,
    Bind {
        resource: usize,
        amount: u8,
    },
    End {
        resource: usize,
        amount: u8,
    },
    Edit {
        rule: usize,
        to: u8,
    },
    DeleteNode,
    CreateNode,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let applied = |is_applied: bool| if is_applied { "applied" } else { "rejected by a test" };
        let text = match *self {
            Self::Observe => "the watch shows the leader the node".to_owned(),
            Self::StandbyObserves => "the watch shows the standby the node".to_owned(),
            Self::ObserveRules => "the watch shows the leader the rules".to_owned(),
            Self::ListRules => "the leader lists the rules".to_owned(),
            Self::ObservePods => "the watch shows the leader the pods".to_owned(),
            Self::ForgetPods => "the watch of pods is silent".to_owned(),
            Self::Send(_) => "the leader sends a patch".to_owned(),
            Self::Answered(is_applied) => {
                format!("the patch is {}, as the response shows", applied(is_applied))
            }
            Self::LostApplied => "the patch is applied, and its response lost".to_owned(),
            Self::Lost => "the response counts as lost, the patch may be applied yet".to_owned(),
            Self::Vanished => "the late patch is never applied".to_owned(),
            Self::Late(is_applied) => format!("the late patch is {}", applied(is_applied)),
            Self::StandbySends => "a standby sends a repair of a reset".to_owned(),
            Self::StandbyLands(is_applied) => {
                format!("the standby's repair is {}", applied(is_applied))
            }
            Self::Lapse => "the leader loses its Lease, and takes it again".to_owned(),
            Self::Crash => "the leader crashes, and another process leads".to_owned(),
            Self::Tick => "the kubelet copies capacity to allocatable".to_owned(),
            Self::Reset => "the kubelet resets extended resources to 0".to_owned(),
            Self::Foreign { resource, maps, value } => {
                let maps: Vec<_> = MAPS.into_iter().zip(maps).filter(|it| it.1).map(|it| it.0).collect();
                let value = value.map_or("nothing".to_owned(), |value| value.to_string());
                let resource = RESOURCES[resource];
                format!("kubectl-patch writes {value} to {resource} in {}", maps.join(" and "))
            }
            Self::WipeEntry(resource) => {
                format!("an administrator removes {} from the ledger", RESOURCES[resource])
            }
            Self::WipeLedger => "an administrator removes the ledger".to_owned(),
            Self::Bind { resource, amount } => {
                format!("a pod is bound that requests {amount} of {}", RESOURCES[resource])
            }
            Self::End { resource, amount } => {
                format!("pods end that request {amount} of {}", RESOURCES[resource])
            }
            Self::Edit { rule, to: 0 } => format!("the rule {} is deleted", RULES[rule]),
            Self::Edit { rule, to } => format!("the rule {} is as variant {to}", RULES[rule]),
            Self::DeleteNode => "the node is deleted".to_owned(),
            Self::CreateNode => "the node is created again".to_owned(),
        };
        f.write_str(&text)
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { node, pods, rules, leader, late, standby, .. } = self;
        write!(f, "{node}; pods {pods:?}, rules {rules:?}; ")?;
        if leader.view == *node {
            f.write_str("leader is up to date")?;
        } else {
            write!(f, "leader sees {}", leader.view)?;
        }
        if leader.listed {
            write!(f, ", rules {:?}", leader.rules)?;
        }
        if let Some(pods) = leader.pods {
            write!(f, ", pods {pods:?}")?;
        }
        for (what, patch) in [("in flight", leader.sent), ("late", *late), ("standby", *standby)] {
            if patch != 0 {
                write!(f, ", patch {patch} is {what}")?;
            }
        }
        Ok(())
    }
}
