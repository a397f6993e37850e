//! What follows from rules that take nearly all memory that they may.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::states::RuleStates;

/// The time between two lists for rules that did not fit before: rules that come and go must not cause lists.
const RELIST_INTERVAL: Duration = Duration::from_secs(60);

/// How many tenths of the memory are taken when that is reported, and when it may be reported again.
const SCARCE_TENTHS: usize = 8;
const AMPLE_TENTHS: usize = 6;

#[derive(Clone, Debug, Default)]
pub(super) struct Crowding {
    is_scarce: bool,
    /// How many bytes the states of rules on nodes take.
    on_nodes: usize,
    next_relist: Option<Instant>,
}

impl Crowding {
    /// Forgets the states on nodes, which a leader alone keeps.
    pub(super) fn stand_by(&mut self) {
        self.on_nodes = 0;
    }

    /// Returns how many bytes rules take, or their states on nodes, whatever is more: each may take all.
    pub(super) fn size(&self, states: &RuleStates) -> usize {
        states.size().max(self.on_nodes)
    }

    /// Returns whether the rules have begun to take nearly all memory that they may.
    pub(super) fn becomes_scarce(&mut self, states: &RuleStates) -> bool {
        let tenths = self.size(states).saturating_mul(10) / states.max_size().max(1);
        let was_scarce = self.is_scarce;
        self.is_scarce = tenths >= if was_scarce { AMPLE_TENTHS } else { SCARCE_TENTHS };
        self.is_scarce && !was_scarce
    }

    /// Returns whether the rules are to be listed again, because some that did not fit would fit by now.
    pub(super) fn take_relist(&mut self, states: &RuleStates, now: Instant) -> bool {
        let is_due = states.has_room_again(self.on_nodes) && self.next_relist.is_none_or(|next| next <= now);
        if is_due {
            self.next_relist = Some(now + RELIST_INTERVAL);
        }
        is_due
    }

    /// Stalls the youngest rules if the states of all on nodes take more bytes than they may. Returns them.
    pub(super) fn bound_states(
        &mut self,
        states: &mut RuleStates,
        on_nodes: usize,
        of_rule: impl Fn(&str) -> usize,
    ) -> Vec<Arc<str>> {
        self.on_nodes = on_nodes;
        if on_nodes <= states.max_size() { Vec::new() } else { states.stall_by_states(of_rule) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_on_nodes_count_while_this_process_leads() {
        let (mut crowding, mut states) = (Crowding::default(), RuleStates::new(1000));
        assert!(crowding.bound_states(&mut states, 900, |_| 0).is_empty());
        assert!(crowding.size(&states) == 900 && crowding.becomes_scarce(&states));
        crowding.stand_by();
        assert_eq!(crowding.size(&states), 0);
    }
}
