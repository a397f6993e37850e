//! What is explored.

use super::planning::Spec;
use super::world::Family;
use crate::model::api::DeletionPolicy;

const SPEC: Spec = Spec {
    resource: 0,
    quantity: 1,
    priority: 0,
    overwrite: false,
    immediate: false,
    deletion: DeletionPolicy::Withdraw,
    is_frozen: false,
    is_paused: false,
};

const TWO: Spec = Spec { quantity: 2, ..SPEC };
const OVERWRITE: Spec = Spec { overwrite: true, ..SPEC };
const RETAIN: Spec = Spec { deletion: DeletionPolicy::Retain, ..SPEC };
const WHEN_UNUSED: Spec = Spec { deletion: DeletionPolicy::WhenUnused, ..TWO };
const FROZEN: Spec = Spec { is_frozen: true, ..SPEC };
const PAUSED: Spec = Spec { is_frozen: true, is_paused: true, ..TWO };

const fn first(spec: Spec) -> Spec {
    Spec { priority: 1, ..spec }
}

/// Those of some thousand states, for tests without optimization.
pub(super) fn small_families() -> Vec<Family> {
    vec![
        Family {
            name: "a pod is bound while a rule is lowered",
            variants: [vec![SPEC, TWO], vec![]],
            rules: [2, 0],
            max_pods: [2, 0],
            losses: true,
            crashes: true,
            ..Family::default()
        },
        Family {
            name: "a rule is deleted whose values leave when they are unused",
            variants: [vec![WHEN_UNUSED], vec![]],
            rules: [1, 0],
            max_pods: [2, 0],
            losses: true,
            ..Family::default()
        },
        Family {
            name: "another field manager writes over a recorded value",
            variants: [vec![SPEC], vec![first(OVERWRITE)]],
            rules: [1, 0],
            foreign: vec![Some(2)],
            foreign_resources: 1,
            ..Family::default()
        },
        Family {
            name: "a standby repairs while another field manager writes",
            variants: [vec![SPEC], vec![]],
            rules: [1, 0],
            foreign: vec![Some(2)],
            foreign_resources: 1,
            resets: true,
            repairing_standby: true,
            ..Family::default()
        },
    ]
}

/// All.
pub(super) fn families() -> Vec<Family> {
    let b = |spec: Spec| Spec { resource: 1, ..spec };
    let mut all = small_families();
    all.extend([
        Family {
            name: "a kubelet resets, and a standby repairs",
            variants: [vec![SPEC, TWO], vec![]],
            rules: [1, 0],
            resets: true,
            repairing_standby: true,
            crashes: true,
            ..Family::default()
        },
        Family {
            name: "another field manager writes, under Keep",
            variants: [vec![SPEC], vec![first(TWO)]],
            foreign: vec![Some(0), Some(2)],
            foreign_resources: 1,
            ..Family::default()
        },
        Family {
            name: "another field manager writes, under Overwrite",
            variants: [vec![OVERWRITE, TWO], vec![]],
            foreign: vec![None, Some(2)],
            foreign_resources: 1,
            ..Family::default()
        },
        Family {
            name: "another field manager writes, and pods are bound",
            variants: [vec![SPEC, TWO], vec![]],
            foreign: vec![Some(2)],
            foreign_resources: 1,
            max_pods: [2, 0],
            ..Family::default()
        },
        Family {
            name: "what is deleted is retained",
            variants: [vec![RETAIN, Spec { quantity: 2, ..RETAIN }], vec![]],
            foreign: vec![Some(2)],
            foreign_resources: 1,
            resets: true,
            ..Family::default()
        },
        Family {
            name: "a kubelet resets values that leave when they are unused",
            variants: [vec![WHEN_UNUSED], vec![]],
            rules: [1, 0],
            max_pods: [2, 0],
            resets: true,
            repairing_standby: true,
            crashes: true,
            ..Family::default()
        },
        Family {
            name: "another field manager writes, or another rule declares, what leaves when it is unused",
            variants: [vec![WHEN_UNUSED], vec![SPEC]],
            rules: [1, 0],
            max_pods: [1, 0],
            foreign: vec![Some(1)],
            foreign_resources: 1,
            ..Family::default()
        },
        Family {
            name: "an administrator removes the ledger",
            variants: [vec![SPEC, TWO, RETAIN], vec![first(TWO)]],
            resets: true,
            wipes: 1,
            ..Family::default()
        },
        Family {
            name: "a rule becomes invalid",
            variants: [vec![SPEC, FROZEN], vec![first(TWO)]],
            resets: true,
            max_pods: [2, 0],
            ..Family::default()
        },
        Family {
            name: "a rule is edited while it is paused",
            variants: [vec![SPEC, PAUSED], vec![TWO]],
            resets: true,
            foreign: vec![Some(2)],
            foreign_resources: 1,
            ..Family::default()
        },
        Family {
            name: "Immediate and WhenFree take turns under pods",
            variants: [vec![Spec { immediate: true, ..SPEC }, SPEC, TWO], vec![]],
            max_pods: [2, 0],
            losses: true,
            resets: true,
            ..Family::default()
        },
        Family {
            name: "a young node is deleted and created again",
            variants: [vec![SPEC, TWO], vec![]],
            is_young: true,
            recreations: 1,
            max_pods: [2, 0],
            losses: true,
            ..Family::default()
        },
        Family {
            name: "two resources, in parts",
            variants: [vec![SPEC, b(TWO)], vec![b(SPEC)]],
            resets: true,
            parts: true,
            wipes: 1,
            ..Family::default()
        },
        Family {
            name: "two resources under pods",
            variants: [vec![SPEC, TWO], vec![b(SPEC)]],
            max_pods: [2, 1],
            parts: true,
            ..Family::default()
        },
        Family {
            name: "two processes, each with a view of its own",
            variants: [vec![SPEC, TWO], vec![]],
            resets: true,
            repairing_standby: true,
            crashes: true,
            losses: true,
            second_view: true,
            ..Family::default()
        },
        Family {
            name: "two processes, and another field manager",
            variants: [vec![SPEC], vec![]],
            foreign: vec![Some(2)],
            foreign_resources: 1,
            crashes: true,
            second_view: true,
            ..Family::default()
        },
    ]);
    all
}
