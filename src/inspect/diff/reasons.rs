//! The reasons, as text.

use std::fmt::Write as _;
use std::sync::Arc;

use super::rules::Rules;
use crate::model::count::and_more;
use crate::model::ledger::Entry;
use crate::model::node::{FieldManager, Node};
use crate::model::quantity::Quantity;
use crate::planner::input::Lost;
use crate::planner::rules::Rule;
use crate::planner::{Action, Leaving, Outcome, ReleaseCause};

/// The maximum number of overridden rules that are named.
const MAX_NAMED_RULES: usize = 3;

/// Returns why a resource changes.
pub(super) fn change(
    action: &Action,
    resource: &str,
    node: &Node,
    value_stays: bool,
    listed: Option<&Entry>,
    outcomes: &[(Arc<str>, Outcome)],
    rules: &Rules,
) -> String {
    let winner = |rule: &str| winner(rule, resource, outcomes, rules);
    match action {
        Action::Advertise { rule, .. } => {
            let before = listed.filter(|entry| entry.rule != **rule);
            let mut why = winner(rule);
            if let Some(before) = before {
                why += &format!(", in place of rule {}", before.rule);
            }
            if value_stays {
                why += "; the value stays, and the annotation changes";
            }
            why
        }
        Action::Hold { quantity, rule, declared: Some(declared) } => {
            format!("{} declares {declared}; pods request {quantity}", winner(rule))
        }
        Action::Hold { quantity, rule, declared: None } => {
            format!("{}; pods request {quantity} (deletionPolicy: WhenUnused)", gone(rule, resource, node, rules))
        }
        Action::Repair { rule, manager, .. } => match manager {
            Some(_) => {
                let by = FieldManager::display_changed(manager.as_ref());
                format!("{}; repairs what {by} wrote", winner(rule))
            }
            None => format!("{}; repairs what was changed or removed", winner(rule)),
        },
        Action::TakeOver { rule, manager, .. } => {
            let manager = FieldManager::display(manager.as_ref());
            format!("{}; takes over what {manager} wrote (conflictPolicy: Overwrite)", winner(rule))
        }
        Action::Adopt { rule, .. } => {
            format!("{}; adopts the equal value that this controller wrote", winner(rule))
        }
        Action::Withdraw { rule } => gone(rule, resource, node, rules),
        Action::Release { rule, cause } => {
            let gone = gone(rule, resource, node, rules);
            match cause {
                ReleaseCause::Retained { restored: None } => {
                    format!("{gone}; the value stays (deletionPolicy: Retain)")
                }
                ReleaseCause::Retained { restored: Some(quantity) } => {
                    format!("{gone}; the 0 becomes {quantity} again (deletionPolicy: Retain)")
                }
                ReleaseCause::Overwritten { manager, .. } => {
                    let manager = FieldManager::display_changed(manager.as_ref());
                    format!("{gone}; the value stays, since {manager} wrote it later")
                }
            }
        }
        Action::RemoveZero => "no rule declares this 0".to_owned(),
        Action::RemoveLedger => "the annotation cannot be read".to_owned(),
        Action::SetCondition(condition) => condition.to_string(),
        Action::RemoveCondition => "no controller keeps it up to date".to_owned(),
    }
}

/// Returns what a rule declares, and, if the quantity is read from a node, which one it is there.
pub(crate) fn declares(rule: &Rule, here: Option<Quantity>) -> String {
    let here = here.filter(|_| rule.quantity.fixed().is_none()).map(|here| format!("{here}: ")).unwrap_or_default();
    format!("rule {} declares {here}{}", rule.name, rule.quantity)
}

/// Returns why a rule is not simply advertised.
pub(crate) fn outcome(outcome: &Outcome, rule: &Rule, rules: &Rules) -> Option<String> {
    let declares = declares(rule, None);
    Some(match outcome {
        // Reported for the node.
        Outcome::InvalidLedger { .. } => return None,
        Outcome::Advertised => return None,
        Outcome::Held { pods_error: Some(reason), .. } | Outcome::AwaitingPods { pods_error: Some(reason) } => {
            format!("may be held: {declares}; {reason}")
        }
        Outcome::AwaitingPods { pods_error: None } => {
            format!("may be held: {declares}; what pods request is not known (--pods)")
        }
        Outcome::Held { at, .. } => format!("held: {declares}; pods request at least {at}"),
        Outcome::Conflicted { manager, .. } => {
            let manager = FieldManager::display(manager.as_ref());
            format!("conflict: written by {manager}; {declares} (conflictPolicy: Keep)")
        }
        Outcome::Contested { lost: Lost::LedgerEntry, .. } => {
            format!("contested: the annotation keeps losing it; {declares}")
        }
        Outcome::Contested { lost: Lost::OwnWrite, .. } => {
            format!("contested: an admission policy or webhook keeps changing what the controller writes; {declares}")
        }
        Outcome::Contested { manager, lost: Lost::Value } => {
            let manager = FieldManager::display(manager.as_ref());
            format!("contested: {manager} keeps changing it back; {declares}")
        }
        Outcome::Paused { at: Some(at) } => format!("paused: stays at {at}; {declares}"),
        Outcome::Paused { at: None } => format!("paused: not advertised; {declares}"),
        Outcome::QuantityUnknown { at: Some(at), why } => format!("stays at {at}: {why}; {declares}"),
        Outcome::QuantityUnknown { at: None, why } => format!("not advertised: {why}; {declares}"),
        Outcome::Moving { at } => format!("still {at}, since it has moved a moment ago; {declares}"),
        // Names the rule, so that two of them on a node are two rows.
        Outcome::Overridden { by, .. } => {
            let name = &rule.name;
            match rules.get(by) {
                Some(winner) if winner.paused => {
                    format!("rule {name} is overridden by rule {by}, which is paused and keeps its values")
                }
                Some(winner) => {
                    let priority = match winner.priority == rule.priority {
                        true => String::new(),
                        false => format!(" (priority {})", winner.priority),
                    };
                    let standing = standing(winner, rule);
                    format!("rule {name} ({standing}) is overridden by rule {by}{priority}")
                }
                None => format!("rule {name} is overridden by rule {by}, which is invalid and keeps its values"),
            }
        }
        Outcome::LedgerFull => format!("the annotation has no room for another entry; {declares}"),
    })
}

/// Returns why a value stays that no rule declares, or may.
pub(super) fn leaving(leaving: &Leaving, node: &Node, rules: &Rules) -> String {
    let Leaving { resource, rule, at, pods_error } = leaving;
    let gone = gone(rule, resource, node, rules);
    let gone = format!("{gone} (deletionPolicy: WhenUnused)");
    match (pods_error, at) {
        (Some(error), _) => format!("may stay: {gone}; {error}"),
        (None, Some(at)) => format!("held: {gone}; pods request at least {at}"),
        (None, None) => format!("may stay: {gone}; what pods request is not known (--pods)"),
    }
}

/// Names the rule that decides, and the rules that it overrides.
fn winner(name: &str, resource: &str, outcomes: &[(Arc<str>, Outcome)], rules: &Rules) -> String {
    let mut text = format!("rule {name}");
    let Some(rule) = rules.get(name) else {
        return text + " (invalid: its values stay)";
    };
    if rule.paused {
        return text + " (paused: its values stay)";
    }
    if let Some(origin) = rule.quantity.origin() {
        // Writing to a String cannot fail.
        let _ = write!(text, ", from {origin}");
    }
    let losers = outcomes.iter().filter_map(|(loser, outcome)| {
        let overridden = matches!(outcome, Outcome::Overridden { by, .. } if **by == *name);
        rules.get(loser).filter(|loser| overridden && loser.resource.as_str() == resource)
    });
    let losers: Vec<_> = losers.collect();
    if losers.iter().any(|loser| loser.priority != rule.priority) {
        // Writing to a String cannot fail.
        let _ = write!(text, " (priority {})", rule.priority);
    }
    let named = losers.iter().take(MAX_NAMED_RULES).map(|loser| format!("{} ({})", loser.name, standing(rule, loser)));
    if !losers.is_empty() {
        let named = and_more(&named.collect::<Vec<_>>(), losers.len().saturating_sub(MAX_NAMED_RULES), ", ");
        let _ = write!(text, " over {named}");
    }
    text
}

/// Returns why a rule loses against another.
fn standing(winner: &Rule, loser: &Rule) -> String {
    if winner.priority != loser.priority {
        format!("priority {}", loser.priority)
    } else if winner.created != loser.created {
        "younger".to_owned()
    } else {
        "later by name".to_owned()
    }
}

/// Returns why a rule no longer declares a listed resource.
fn gone(name: &str, resource: &str, node: &Node, rules: &Rules) -> String {
    match rules.get(name) {
        None if rules.contains(name) => format!("rule {name} gave it up before it became invalid"),
        None => format!("rule {name} is gone"),
        Some(rule) if rule.resource.as_str() != resource => {
            format!("rule {name} now declares {}", rule.resource.as_str())
        }
        Some(rule) if !rule.selection.selects(node) => format!("rule {name} no longer selects the node"),
        Some(rule) if rule.paused => format!("rule {name} gave it up before it was paused"),
        Some(_) => format!("rule {name} no longer declares a quantity for the node"),
    }
}
