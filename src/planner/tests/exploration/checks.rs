//! The invariants of one patch that is applied: I1 to I6 of `docs/architecture.md`.

use super::node::{ALLOCATABLE, Amount, MAPS, RESOURCES, SmallNode};
use super::planning::Kind;
use crate::model::api::DeletionPolicy;

/// What a patch may do, by what its sender knew when it was planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct License {
    pub(crate) kind: Kind,
    pub(crate) grants: [Grant; 2],
}

/// What it may do to one resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Grant {
    /// Whether the rule that decides takes values over.
    pub(crate) overwrites: bool,
    /// What it saw there: it lowers nothing that another manager has raised since.
    pub(crate) seen: [Option<u8>; 2],
    pub(crate) floor: Floor,
    /// Whether a value may appear where it is not known what pods request.
    pub(crate) may_appear: bool,
}

/// How far a value may be lowered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Floor {
    Any,
    /// Not at all: it is not known what pods request.
    Unknown,
    /// To what pods request that are bound; and what appears, to what those request that have started.
    Known {
        bound: u8,
        started: u8,
    },
}

/// Checks what an applied patch has done to the node.
pub(crate) fn check(license: &License, before: &SmallNode, after: &SmallNode) -> Result<(), String> {
    for (place, resource) in RESOURCES.into_iter().enumerate() {
        let [old, new] = [before, after].map(|node| &node.amounts[place]);
        let grant = &license.grants[place];
        let checks = [
            check_ownership(old, new, grant),
            check_agreement(old, new),
            check_zero(old, new),
            check_kind(license.kind, old, new),
            check_pods(old, new, grant),
        ];
        if let Some(Err(violation)) = checks.into_iter().find(Result::is_err) {
            return Err(format!("{violation} ({resource}: {before} -> {after})"));
        }
    }
    Ok(())
}

fn check_ownership(old: &Amount, new: &Amount, grant: &Grant) -> Result<(), String> {
    for (map, name) in MAPS.into_iter().enumerate() {
        let (value, written) = (old.values[map], new.values[map]);
        if value == written || value.is_none_or(|value| value == 0) {
            continue;
        }
        let is_own = match old.entry {
            // Only what is as listed is removed.
            Some(entry) => written.is_some() || value == Some(entry.quantity),
            None => written.is_some() && grant.overwrites,
        };
        if !is_own {
            return Err(format!("I1: {name} was another field manager's"));
        }
    }
    Ok(())
}

fn check_agreement(old: &Amount, new: &Amount) -> Result<(), String> {
    if old.agrees() && !new.agrees() {
        return Err("I2: values and ledger do not agree any more".to_owned());
    }
    Ok(())
}

fn check_zero(old: &Amount, new: &Amount) -> Result<(), String> {
    let is_zero = |map: usize| new.values[map] == Some(0) && old.values[map] != Some(0);
    if [0, 1].into_iter().any(is_zero) {
        return Err("I3: a 0 was written".to_owned());
    }
    Ok(())
}

fn check_kind(kind: Kind, old: &Amount, new: &Amount) -> Result<(), String> {
    let invariant = match kind {
        Kind::Plan => return Ok(()),
        Kind::Repairs => "I4: more than a repair was written before the rules were listed",
        Kind::Resets => "I6: a process that does not lead wrote more than a repair of a reset",
    };
    let listed = old.entry.map(|entry| entry.quantity);
    let was_reset = kind == Kind::Repairs || old.values == [Some(0); 2];
    let is_repaired = |map: usize| was_reset && listed.is_some() && new.values[map] == listed;
    let is_fine = |map: usize| old.values[map] == new.values[map] || is_repaired(map);
    if is_fine(0) && is_fine(1) && old.entry == new.entry { Ok(()) } else { Err(invariant.to_owned()) }
}

fn check_pods(old: &Amount, new: &Amount, grant: &Grant) -> Result<(), String> {
    let is_vacant = |values: &[Option<u8>; 2]| values.iter().all(|it| it.is_none_or(|it| it == 0));
    let appears = old.entry.is_none()
        && is_vacant(&old.values)
        && is_vacant(&grant.seen)
        && new.values[ALLOCATABLE].is_some_and(|value| value > 0);
    // Where a value leaves when it is unused, its removal lowers it to 0.
    let leaves = old.entry.is_some_and(|entry| entry.policy == DeletionPolicy::WhenUnused);
    for map in [0, 1] {
        let (written, value) = (new.values[map].or(leaves.then_some(0)), old.values[map]);
        let Some(written) = written else { continue };
        let is_less = |than: Option<u8>| than.is_some_and(|than| written < than);
        let is_lowered = is_less(value) && is_less(grant.seen[map]);
        match grant.floor {
            Floor::Any => {}
            Floor::Unknown if is_lowered => {
                return Err("I5: a value was lowered without knowing what pods request".to_owned());
            }
            Floor::Unknown if appears && !grant.may_appear => {
                return Err("I5: a value appeared without knowing what pods request".to_owned());
            }
            Floor::Unknown => {}
            Floor::Known { bound, started } => {
                let least = if appears { started } else { bound.min(value.unwrap_or_default()) };
                if (is_lowered || appears) && written < least {
                    return Err(format!("I5: pods request {bound}, and those that have started {started}"));
                }
            }
        }
    }
    Ok(())
}
