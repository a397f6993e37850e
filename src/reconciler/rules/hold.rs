//! Delays mass withdrawals.
//!
//! If a list lacks most of the rules that ledgers name, a CustomResourceDefinition was probably deleted and recreated
//! while no controller was watching, or a backup is being restored. The values of the missing rules stay, and are
//! repaired, for some minutes: those of one term of leadership, since a leader alone can withdraw. Then a list that began
//! after these minutes decides. A deletion in the watch takes effect at once, even if the API server deletes all rules
//! together with their CustomResourceDefinition.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

/// The maximum number of rules that are known to be gone.
const MAX_GONE: usize = 10_000;

/// How many missing rules that only one node names count elsewhere: a kubelet can write its node's ledger, and must not
/// delay the withdrawals of other nodes.
const COUNTED_ELSEWHERE: usize = 3;

/// The rules that ledgers name.
#[derive(Clone, Debug, Default)]
pub(crate) struct NamedRules {
    /// Each with the number of its node, if only one names it.
    rules: BTreeMap<Arc<str>, Option<usize>>,
    nodes: usize,
}

impl NamedRules {
    /// Adds the rules that a ledger names which so many nodes have.
    pub(crate) fn add<'a>(&mut self, rules: impl IntoIterator<Item = &'a str>, nodes: usize) {
        let only = (nodes == 1).then_some(self.nodes);
        self.nodes += nodes;
        for rule in rules {
            match self.rules.get_mut(rule) {
                Some(by) => *by = by.filter(|by| Some(*by) == only),
                None => drop(self.rules.insert(rule.into(), only)),
            }
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.rules.len()
    }

    pub(crate) fn contains(&self, rule: &str) -> bool {
        self.rules.contains_key(rule)
    }

    /// Returns those of the missing rules that are held: each is, if most rules are missing. Of the node that alone names the
    /// most missing rules, three count elsewhere. Its own are held all the same: that delays nobody else.
    fn held<'m>(&self, missing: &'m BTreeSet<Arc<str>>, existing: usize) -> impl Iterator<Item = &'m Arc<str>> {
        let only = |rule: &Arc<str>| self.rules.get(rule).copied().flatten();
        let mut of_nodes = HashMap::<usize, usize>::new();
        missing.iter().filter_map(only).for_each(|node| *of_nodes.entry(node).or_default() += 1);
        let most = of_nodes.iter().max_by_key(|(node, count)| (**count, **node)).map(|(node, _)| *node);
        let doubtful = |node: Option<usize>| {
            let others = of_nodes.iter().filter(|(other, _)| node != Some(**other));
            others.map(|(_, count)| count.saturating_sub(COUNTED_ELSEWHERE)).max().unwrap_or_default()
        };
        let [on_that_node, elsewhere] = [most, None].map(|node| missing.len() > existing + doubtful(node));
        missing.iter().filter(move |rule| match only(rule) {
            Some(node) if Some(node) == most => on_that_node,
            _ => elsewhere,
        })
    }
}

/// Rules that ledgers name and that do not exist.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hold {
    rules: BTreeSet<Arc<str>>,
    /// Those of them that were there when the hold began, or came back since: the whole delay is theirs too.
    later: BTreeSet<Arc<str>>,
    /// `None` while no rule is held.
    end: Option<End>,
    /// Rules that are certainly gone: their deletion was observed, or they were held long enough.
    gone: BTreeSet<Arc<str>>,
}

/// Whether a complete list has a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Existence {
    Known,
    /// There may have been no memory to know it.
    Possible,
    Missing,
}

/// What ends the hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// At this time, another list is requested.
    ListAt(Instant),
    /// That list, if it lacks the rules too.
    List,
}

impl Hold {
    /// Records that a rule that was gone is in a list. Returns whether there was one.
    pub(super) fn is_back(&mut self, name: &str) -> bool {
        self.gone.remove(name)
    }

    /// Returns the rules that are certainly gone.
    pub(super) fn gone(&self) -> impl Iterator<Item = &Arc<str>> {
        self.gone.iter()
    }

    /// Decides after a complete list which rules are held. `in_ledgers` are the rules that ledgers name. Returns
    /// whether the held rules have changed.
    pub(super) fn evaluate(
        &mut self,
        in_ledgers: &NamedRules,
        existence: impl Fn(&str) -> Existence,
        delay: Duration,
        now: Instant,
    ) -> bool {
        self.gone.retain(|name| in_ledgers.contains(name) && existence(name) != Existence::Known);
        let exists = |name: &str| existence(name) != Existence::Missing;
        let missing = in_ledgers.rules.keys().filter(|name| !exists(name) && !self.gone.contains(*name));
        let missing: BTreeSet<_> = missing.cloned().collect();
        // Held rules stay held when others are back: the rest may follow.
        let mut rules = &missing & &self.rules;
        if !delay.is_zero() {
            // Those that are gone are neither: a kubelet may name them for ever.
            let existing = in_ledgers.rules.keys().filter(|name| exists(name)).count();
            rules.extend(in_ledgers.held(&missing, existing).cloned());
        }
        let is_later = |rule: &Arc<str>| !self.rules.contains(rule) || self.later.contains(rule);
        let later = rules.iter().filter(|rule| self.end.is_some() && is_later(rule));
        self.later = later.cloned().collect();
        // Further lists do not postpone the end.
        self.end = (!rules.is_empty()).then(|| self.end.unwrap_or(End::ListAt(now + delay)));
        let changed = self.rules != rules;
        self.rules = rules;
        changed
    }

    /// Returns whether the list that ends the hold must be requested now, once.
    pub(super) fn take_due_list(&mut self, now: Instant) -> bool {
        let is_due = self.until().is_some_and(|until| until <= now);
        if is_due {
            self.end = Some(End::List);
        }
        is_due
    }

    /// Ends the hold after a complete list, if it waits for this list, but for the rules that lists lack only since it
    /// began. Returns the rules that are held no longer.
    pub(super) fn listed(&mut self, delay: Duration, now: Instant) -> BTreeSet<Arc<str>> {
        if self.end != Some(End::List) {
            return BTreeSet::new();
        }
        let later = std::mem::take(&mut self.later);
        let ended = &self.rules - &later;
        self.end = (!later.is_empty()).then_some(End::ListAt(now + delay));
        self.rules = later;
        self.gone.extend(ended.iter().cloned());
        ended
    }

    /// Ends the hold together with the term of leadership: the next leader holds by its own list, for the whole delay.
    pub(super) fn stand_by(&mut self) {
        self.end = None;
        self.rules.clear();
        self.later.clear();
    }

    /// Records a deletion in the watch. Returns whether the rule was held.
    pub(super) fn deleted(&mut self, name: &Arc<str>) -> bool {
        self.gone.insert(Arc::clone(name));
        // A forgotten one is at worst held like those whose deletion nobody saw.
        if self.gone.len() > MAX_GONE {
            self.gone.pop_first();
        }
        self.end(name)
    }

    /// Records that a rule exists again. Returns whether it was held.
    pub(super) fn exists(&mut self, name: &str) -> bool {
        self.gone.remove(name);
        self.end(name)
    }

    fn end(&mut self, name: &str) -> bool {
        let was_held = self.rules.remove(name);
        self.later.remove(name);
        if self.rules.is_empty() {
            self.end = None;
        }
        was_held
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &Arc<str>> {
        self.rules.iter()
    }

    pub(crate) fn len(&self) -> usize {
        self.rules.len()
    }

    /// Returns when another list is requested, after which the hold ends.
    pub(crate) fn until(&self) -> Option<Instant> {
        match self.end? {
            End::ListAt(at) => Some(at),
            End::List => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DELAY: Duration = Duration::from_secs(300);

    fn known(exists: impl Fn(&str) -> bool) -> impl Fn(&str) -> Existence {
        move |name| if exists(name) { Existence::Known } else { Existence::Missing }
    }

    fn evaluate(hold: &mut Hold, in_ledgers: &[&str], existing: &[&str], now: Instant) -> usize {
        let mut named = NamedRules::default();
        // Two nodes name each.
        named.add(in_ledgers.iter().copied(), 2);
        let in_ledgers = named;
        hold.evaluate(&in_ledgers, known(|name| existing.contains(&name)), DELAY, now);
        assert_eq!(hold.end.is_some(), hold.len() > 0);
        hold.len()
    }

    #[tokio::test(start_paused = true)]
    async fn rules_are_held_where_most_are_missing() {
        let now = Instant::now();
        for (in_ledgers, existing, held) in
            [(&["a", "b"][..], &["a"][..], 0), (&[], &[], 0), (&["a", "b", "c"], &["a", "x"], 2), (&["a"], &[], 1)]
        {
            assert_eq!(evaluate(&mut Hold::default(), in_ledgers, existing, now), held);
        }
    }

    /// A kubelet can write its node's ledger.
    #[tokio::test(start_paused = true)]
    async fn rules_that_one_node_invents_hold_no_withdrawal_of_others() {
        let now = Instant::now();
        let invented: Vec<_> = (0..400).map(|number| format!("invented-{number}")).collect();
        let invented = || invented.iter().map(String::as_str);
        let held = |ledgers: &[Vec<&str>], existing: &[&str]| {
            let mut named = NamedRules::default();
            ledgers.iter().for_each(|ledger| named.add(ledger.iter().copied(), 1));
            let mut hold = Hold::default();
            hold.evaluate(&named, known(|name| existing.contains(&name)), DELAY, now);
            hold.names().filter(|name| !name.starts_with("invented")).count()
        };
        let honest = ["a", "b", "c", "d", "gone"];
        let existing = &honest[..4];
        assert_eq!(held(&[invented().collect(), honest.to_vec(), honest.to_vec()], existing), 0);
        assert_eq!(held(&[invented().collect(), honest.to_vec()], existing), 0);
        assert_eq!(held(&[invented().collect(), honest.to_vec(), vec!["own"]], &honest), 0);
        // The CRD was recreated: on one node, on two with rules of their own, and on many.
        assert_eq!(held(&[honest.to_vec()], &[]), 5);
        assert_eq!(held(&[honest.to_vec()], &["a", "b"]), 3);
        assert_eq!(held(&[vec!["a", "b", "c", "d"], vec!["e", "f"]], &[]), 6);
        assert_eq!(held(&[vec!["a"], vec!["b"], vec!["c"]], &["c"]), 2);
        // Or the rules come back one after another, those that all nodes share first.
        let own = |node: &str| (0..12).map(|number| format!("{node}-{number}")).collect::<Vec<_>>();
        let own = ["x", "y", "z"].map(own);
        let ledgers = own.each_ref().map(|own| own.iter().map(String::as_str).chain(honest).collect::<Vec<_>>());
        assert_eq!(held(&[ledgers[0].clone(), honest.to_vec()], &honest), 12);
        assert_eq!(held(&ledgers, &honest), 36);
        assert_eq!(held(&ledgers, existing), 37);
    }

    #[tokio::test(start_paused = true)]
    async fn rules_that_one_node_has_invented_before_hide_no_loss() {
        let now = Instant::now();
        let invented: Vec<_> = (0..400).map(|number| format!("invented-{number}")).collect();
        let mut named = NamedRules::default();
        named.add(invented.iter().map(String::as_str), 1);
        named.add(["a", "b", "c"], 2);
        let mut hold = Hold::default();
        let exists = |name: &str| !name.starts_with("invented");
        hold.evaluate(&named, known(exists), DELAY, now);
        assert_eq!(hold.len(), 400);
        assert!(hold.take_due_list(now + DELAY));
        hold.evaluate(&named, known(exists), DELAY, now + DELAY);
        assert_eq!(hold.listed(DELAY, now + DELAY).len(), 400);
        // The kubelet writes them again, and the CRD is recreated.
        hold.evaluate(&named, known(|_| false), DELAY, now + DELAY * 2);
        assert_eq!(hold.names().map(|name| &**name).collect::<Vec<_>>(), ["a", "b", "c"]);
    }

    #[tokio::test(start_paused = true)]
    async fn hold_ends_once_and_is_not_put_off() {
        let now = Instant::now();
        let mut hold = Hold::default();
        assert_eq!(evaluate(&mut hold, &["a", "b"], &[], now), 2);
        assert_eq!(evaluate(&mut hold, &["a", "b"], &[], now + DELAY / 2), 2);
        assert_eq!(hold.until(), Some(now + DELAY));
        assert!(!hold.take_due_list(now + DELAY / 2));
        assert!(hold.listed(DELAY, now).is_empty(), "this list began before the end of the delay");
        assert!(hold.take_due_list(now + DELAY) && !hold.take_due_list(now + DELAY));
        assert_eq!(evaluate(&mut hold, &["a", "b"], &[], now + DELAY), 2, "that list lacks them too");
        assert_eq!(hold.listed(DELAY, now + DELAY).len(), 2);
        assert_eq!(evaluate(&mut hold, &["a", "b"], &[], now + DELAY), 0, "they are certainly gone");
        hold.exists("a");
        assert_eq!(evaluate(&mut hold, &["a"], &[], now + DELAY), 1, "it has been there again");
    }

    #[tokio::test(start_paused = true)]
    async fn hold_ends_with_the_term_of_leadership() {
        let now = Instant::now();
        for is_due in [false, true] {
            let mut hold = Hold::default();
            evaluate(&mut hold, &["a", "b"], &[], now);
            assert_eq!(hold.take_due_list(if is_due { now + DELAY } else { now }), is_due);
            hold.stand_by();
            let later = now + DELAY * 10;
            assert_eq!((hold.len(), hold.until()), (0, None));
            assert_eq!(evaluate(&mut hold, &["c", "d"], &[], later), 2);
            assert_eq!(hold.until(), Some(later + DELAY), "the delay begins anew");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn rules_stay_held_while_others_come_back() {
        let now = Instant::now();
        let mut hold = Hold::default();
        let all = ["a", "b", "c", "d", "e"];
        assert_eq!(evaluate(&mut hold, &all, &[], now), 5);
        assert!(["a", "b", "c"].into_iter().all(|name| hold.exists(name)));
        assert_eq!(evaluate(&mut hold, &all, &["a", "b", "c"], now), 2);
        assert_eq!(hold.until(), Some(now + DELAY));
    }

    /// The CRD may be recreated a second time.
    #[tokio::test(start_paused = true)]
    async fn rules_that_vanish_during_a_hold_are_held_for_the_whole_delay() {
        let now = Instant::now();
        let mut hold = Hold::default();
        let all = ["a", "b", "c", "d", "e"];
        assert_eq!(evaluate(&mut hold, &all, &[], now), 5);
        assert!(["a", "b", "c", "d"].into_iter().all(|name| hold.exists(name)));
        assert_eq!(evaluate(&mut hold, &all, &all[..4], now + DELAY / 2), 1);
        assert!(hold.take_due_list(now + DELAY));
        assert_eq!(evaluate(&mut hold, &all, &[], now + DELAY), 5);
        let ended = hold.listed(DELAY, now + DELAY);
        assert_eq!(ended.into_iter().collect::<Vec<_>>(), ["e".into()]);
        assert_eq!((hold.len(), hold.until()), (4, Some(now + DELAY * 2)));
        // One of them is back.
        assert!(hold.exists("a"));
        assert!(hold.take_due_list(now + DELAY * 2));
        assert_eq!(evaluate(&mut hold, &all, &["a"], now + DELAY * 2), 3);
        assert_eq!(hold.listed(DELAY, now + DELAY * 2).len(), 3);
        assert_eq!((hold.len(), hold.until()), (0, None));
    }

    #[tokio::test(start_paused = true)]
    async fn rule_whose_deletion_was_seen_is_not_held() {
        let now = Instant::now();
        let mut hold = Hold::default();
        assert!(!hold.deleted(&"a".into()));
        assert_eq!(evaluate(&mut hold, &["a"], &[], now), 0);
        assert_eq!(evaluate(&mut hold, &["a", "b", "c"], &[], now), 2);
        assert!(hold.deleted(&"b".into()), "the watch was behind the list");
        assert_eq!(hold.names().count(), 1);
        assert!(hold.deleted(&"c".into()));
        assert_eq!(hold.until(), None);
    }

    #[test]
    fn rules_known_to_be_gone_take_limited_memory() {
        let mut hold = Hold::default();
        for number in 0..MAX_GONE * 2 {
            hold.deleted(&format!("rule-{number}").into());
        }
        assert_eq!(hold.gone.len(), MAX_GONE);
    }
}
