//! Everybody else: the kubelet, other field managers, an administrator, pods, and whoever edits rules.

use super::node::{ALLOCATABLE, CAPACITY, SmallNode, Writer};
use super::search::Taken;
use super::state::{State, Step};
use super::world::{World, calm, schedulable};

pub(super) fn act(world: &World, state: &State, steps: &mut Vec<Taken<World>>) {
    let family = &world.family;
    let mut add = |step, to: State| {
        if to != *state {
            steps.push(Taken { step, to, is_calm: false });
        }
    };
    for rule in [0, 1] {
        for to in (0..=family.variants[rule].len() as u8).filter(|to| *to != state.rules[rule]) {
            let mut edited = *state;
            edited.rules[rule] = to;
            add(Step::Edit { rule, to }, edited);
        }
    }
    if state.node.uid == 0 {
        if state.uids <= family.recreations {
            let uids = state.uids + 1;
            add(Step::CreateNode, State { node: SmallNode::new(uids), uids, ..*state });
        }
        return;
    }
    if family.recreations > 0 {
        let node = SmallNode::default();
        add(Step::DeleteNode, State { node, pods: [0; 2], ..*state });
    }
    if family.resets {
        let mut to = *state;
        for amount in &mut to.node.amounts {
            if amount.values[CAPACITY].is_some() {
                amount.write(CAPACITY, Some(0), Writer::Kubelet);
                amount.write(ALLOCATABLE, Some(0), Writer::Kubelet);
            }
        }
        add(Step::Reset, to);
    }
    for resource in 0..family.foreign_resources {
        for value in family.foreign.iter().copied() {
            for maps in [[true, false], [false, true], [true, true]] {
                let mut to = *state;
                for map in [CAPACITY, ALLOCATABLE].into_iter().filter(|map| maps[*map]) {
                    to.node.amounts[resource].write(map, value, Writer::Other);
                }
                add(Step::Foreign { resource, maps, value }, to);
            }
        }
    }
    if state.wipes < family.wipes {
        let wipe = |resources: &[usize]| {
            let mut to = State { wipes: state.wipes + 1, ..*state };
            resources.iter().for_each(|resource| to.node.amounts[*resource].entry = None);
            world.outdate(&mut to);
            to
        };
        let is_listed = |resource: usize| state.node.amounts[resource].entry.is_some();
        for resource in (0..2).filter(|resource| is_listed(*resource)) {
            add(Step::WipeEntry(resource), wipe(&[resource]));
        }
        if is_listed(0) && is_listed(1) {
            add(Step::WipeLedger, wipe(&[0, 1]));
        }
    }
    for resource in [0, 1] {
        let (pods, most) = (state.pods[resource], family.max_pods[resource]);
        let free = schedulable(&state.node, resource).min(most).saturating_sub(pods);
        for amount in 1..=free {
            let mut to = *state;
            to.pods[resource] += amount;
            add(Step::Bind { resource, amount }, to);
        }
        for amount in 1..=pods {
            let mut to = *state;
            to.pods[resource] -= amount;
            add(Step::End { resource, amount }, to);
        }
    }
    let mut to = *state;
    for amount in &mut to.node.amounts {
        let capacity = amount.values[CAPACITY];
        amount.write(ALLOCATABLE, capacity, Writer::Kubelet);
    }
    if to != *state {
        calm(steps, Step::Tick, to);
    }
}
