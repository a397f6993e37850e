//! What came of recorded values when a kubelet started.

use super::world::DONGLE;
use super::*;
use crate::model::node::heartbeats;

fn boot(world: &mut World, boot: &str) {
    world.edit_node("node-0", |node| node["status"]["nodeInfo"] = json!({"bootID": boot}));
}

/// How many starts have kept the values, and how many have reset them.
fn starts(world: &World) -> (u64, u64) {
    let starts = &world.metrics().kubelet_starts;
    let count = |values| starts.get_or_create(&[("values", values)]).get();
    (count("kept"), count("reset"))
}

/// Shows who manages the value, which stays as it is.
fn manage(world: &mut World, manager: &str) {
    let fields = json!({format!("f:{DONGLE}"): {}});
    let status = json!({"f:status": {"f:capacity": fields, "f:allocatable": fields}});
    world.edit_node("node-0", |node| {
        node["metadata"]["managedFields"] = json!([heartbeats("k3s"), {"manager": manager, "fieldsV1": status}]);
    });
}

fn leading() -> World {
    let mut world = World::leading(1, &[("dongle", 4)]);
    world.run_until_idle();
    boot(&mut world, "first");
    assert_eq!(starts(&world), (0, 0), "the first boot that is seen is not new");
    world
}

#[test]
fn boot_without_a_reset_has_kept_the_values() {
    let mut world = leading();
    boot(&mut world, "first");
    assert_eq!(starts(&world), (0, 0), "a heartbeat");
    for number in 1..=3 {
        boot(&mut world, &format!("boot-{number}"));
        assert_eq!(starts(&world), (number, 0));
    }
    // Nothing is listed any more.
    world.delete_rule("dongle");
    world.run_until_idle();
    boot(&mut world, "last");
    assert_eq!(starts(&world), (3, 0));
}

/// A kubelet resets nothing where the files of a device plugin have outlived the reboot.
#[test]
fn boot_shows_a_policy_in_a_file_only_if_the_kubelet_wrote_over_a_value() {
    let mut world = leading();
    let is_static = |world: &World| world.metric("protection{state=\"static\"} 1");
    for kind in [protection::Kind::Policy, protection::Kind::Binding] {
        world.observe(Observation::Protection(kind, Ok(Event::InitDone)));
    }
    manage(&mut world, crate::model::api::FIELD_MANAGER);
    boot(&mut world, "second");
    assert!(!is_static(&world) && starts(&world) == (1, 0));
    // Admission keeps what the kubelet writes over.
    manage(&mut world, "k3s");
    boot(&mut world, "third");
    assert!(is_static(&world) && starts(&world) == (2, 0));
    boot(&mut world, "fourth");
    assert!(is_static(&world) && starts(&world) == (3, 0), "it may own the value since");
}

#[test]
fn boot_after_a_reset_counts_once() {
    let mut world = leading();
    world.reset("node-0");
    assert_eq!(starts(&world), (0, 1));
    world.run_until_idle();
    boot(&mut world, "second");
    assert_eq!(starts(&world), (0, 1));
    boot(&mut world, "third");
    assert_eq!(starts(&world), (1, 1));
    // What is no kubelet's is no start.
    world.set_dongles("node-0", 0);
    assert_eq!(starts(&world), (1, 1));
}

/// The response to a patch may show the boot before the watch does.
#[test]
fn boot_that_a_response_shows_counts() {
    let mut world = leading();
    world.set_rule("dongle", json!({"quantity": 8}));
    world.watching = false;
    boot(&mut world, "second");
    world.pass(1);
    assert_eq!((starts(&world), world.dongles("node-0")), ((1, 0), 8));
}

#[test]
fn starts_are_counted_by_the_leader() {
    let mut world = leading();
    world.renews_no_more();
    boot(&mut world, "second");
    world.reset("node-0");
    assert_eq!(starts(&world), (0, 0));
}

/// The Lease has expired, and nothing has been decided since.
#[test]
fn start_after_the_lease_has_expired_is_not_counted() {
    let mut world = leading();
    world.renews = false;
    world.now.instant += Duration::from_secs(11);
    boot(&mut world, "second");
    world.reset("node-0");
    assert_eq!(starts(&world), (0, 0));
}
