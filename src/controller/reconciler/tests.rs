//! The state machine, tried without a network, a client or a runtime.

mod conflicts;
mod failures;
mod leadership;
mod pods;
mod queue;
mod races;
mod random;
mod responses;
mod standby;
mod starts;
mod world;

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::json;

use super::*;
use crate::cluster::node_client::Reply;
use crate::cluster::requests::RequestError;
use crate::controller::effect::PodScope;
use world::{Open, World, error, failed, object};

#[test]
fn rule_is_advertised_and_withdrawn() {
    let mut world = World::leading(3, &[("dongle", 4)]);
    world.settle();
    assert_eq!(world.dongles("node-2"), 4);
    world.advance(Duration::from_secs(2));
    assert_eq!(world.ready("dongle"), "True Advertised");
    world.delete_rule("dongle");
    world.settle();
    assert_eq!((world.dongles("node-0"), world.ledger("node-0")), (-1, None));
}
