//! Whatever happens, in whatever order: every node ends as declared, and none is lost (I8).

use super::*;

impl World {
    /// Every node that differs from what is declared is somewhere to be worked on.
    fn check_no_node_is_lost(&self) {
        if !self.reconciler.leads(self.now.instant) {
            return;
        }
        for name in self.nodes.keys() {
            let is_declared = self.is_declared(name);
            let key = Key::Node(name.as_str().into());
            assert!(is_declared || self.reconciler.schedule.queue.has(&key), "{name} is lost");
        }
    }

    fn is_declared(&self, name: &str) -> bool {
        let declared =
            self.rules.get("dongle").map(|rule| rule["spec"]["quantity"].as_i64().unwrap());
        match (declared, self.ledger(name)) {
            (Some(quantity), Some(ledger)) => {
                let pods = self.pods.get(name).copied().unwrap_or_default() as i64;
                let dongles = self.dongles(name);
                ledger.contains(&format!("\"{dongles}\""))
                    && (dongles == quantity || (quantity..=pods).contains(&dongles))
            }
            (None, None) => true,
            _ => false,
        }
    }
}

#[test]
fn random_faults_end_with_every_node_as_declared() {
    for seed in 0..60 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut world = World::leading(6, &[("dongle", 4)]);
        for _ in 0..150 {
            let node = format!("node-{}", random.u32(0..6));
            match random.u32(0..15) {
                0 => world.set_rule("dongle", json!({"quantity": random.u64(1..6)})),
                1 if world.rules.contains_key("dongle") => world.delete_rule("dongle"),
                2 if world.nodes.contains_key(&node) => world.set_dongles(&node, 0),
                3 if world.nodes.contains_key(&node) => world.delete_node(&node),
                9 if world.nodes.contains_key(&node) => world.reset(&node),
                4 if !world.nodes.contains_key(&node) => world.set_node(&node, json!({})),
                5 => drop(world.pods.insert(node, random.u64(0..5))),
                6 => world.advance(Duration::from_millis(random.u64(0..20_000))),
                7 => world.renews = random.bool(),
                8 => {
                    world.observe(Observation::Node(Ok(Event::Init)));
                    world.list_nodes();
                }
                _ if !world.open.is_empty() => {
                    let place = random.usize(0..world.open.len());
                    let open = world.open.remove(place);
                    match (random.u32(0..6), open) {
                        (0, Open::Patch { id, node, .. }) => world.reply(id, &node, failed(500)),
                        (1, Open::Patch { id, node, .. }) => {
                            world.reply(id, &node, Reply::Rejected("a policy".to_owned()));
                        }
                        // It is applied, and its response is lost.
                        (2, Open::Patch { id, node, patch, .. }) => {
                            world.apply(&node, &patch);
                            world.reply(id, &node, failed(504));
                        }
                        (0, Open::Pods { id, scope }) => {
                            let reply = Err(error(500));
                            world
                                .reconciler
                                .complete(Completion::PodsListed { id, scope, reply }, world.now);
                        }
                        (_, open) => world.answer(open),
                    }
                }
                _ => {}
            }
            world.run();
            world.check_no_node_is_lost();
        }
        world.renews = true;
        for _ in 0..40 {
            world.settle();
            world.advance(Duration::from_secs(30));
        }
        for name in world.nodes.keys() {
            assert!(world.is_declared(name), "seed {seed}, {name}: {:?}", world.nodes[name]);
        }
    }
}
