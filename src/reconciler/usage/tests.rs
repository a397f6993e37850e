//! What is known of pods, event by event.

use std::slice;

use kube::core::Status;
use serde_json::{Value, json};

use super::*;

const DONGLE: &str = "example.com/dongle";

struct World {
    usage: Usage,
    now: Instant,
}

impl World {
    /// A watch that has listed these pods.
    fn listing(pods: &[Value]) -> Self {
        let mut world = Self { usage: Usage::default(), now: Instant::now() };
        world.usage.follow(true);
        assert_eq!(world.list(pods), Woken::All);
        world
    }

    fn see(&mut self, event: Event<PodObject>) -> Woken {
        self.usage.observe(Ok(event), self.now)
    }

    fn list(&mut self, pods: &[Value]) -> Woken {
        assert_eq!(self.see(Event::Init), Woken::Nothing);
        for pod in pods {
            assert_eq!(self.see(Event::InitApply(object(pod))), Woken::Nothing);
        }
        self.see(Event::InitDone)
    }

    fn apply(&mut self, pod: &Value) -> Woken {
        self.see(Event::Apply(object(pod)))
    }

    fn delete(&mut self, pod: &Value) -> Woken {
        self.see(Event::Delete(object(pod)))
    }

    fn fail(&mut self, code: u16, message: &str) -> Woken {
        let status = Status { code, message: message.to_owned(), ..Status::default() }.boxed();
        self.usage.observe(Err(watcher::Error::WatchError(status)), self.now)
    }

    fn pass(&mut self, seconds: u64) {
        self.now += Duration::from_secs(seconds);
    }

    /// Dongles that bound and started pods request, and why that may have changed.
    fn on(&self, node: &str) -> String {
        let amounts = |requests: &NodeRequests| {
            let [bound, started] = [&requests.bound, &requests.started].map(|it| it.get(DONGLE).to_string());
            format!("{bound} {started}")
        };
        match self.usage.on(node, self.now) {
            PodUsage::NotFetched => "not yet".to_owned(),
            PodUsage::Unavailable(why) => format!("unknown: {why}"),
            PodUsage::Known(requests) => amounts(&requests),
            PodUsage::LastKnown { requests, why } => format!("{}: {why}", amounts(&requests)),
        }
    }
}

fn object(pod: &Value) -> PodObject {
    serde_json::from_value(pod.clone()).unwrap()
}

fn pod(name: &str, node: &str, dongles: u32) -> Value {
    let requests = json!({DONGLE: dongles.to_string(), "cpu": "1"});
    json!({"metadata": {"uid": name, "resourceVersion": "7"},
        "spec": {"nodeName": node, "containers": [{"resources": {"requests": requests}}]},
        "status": {"phase": "Pending"}})
}

fn started(mut pod: Value) -> Value {
    pod["status"] = simulator::pods::running();
    pod
}

fn node(name: &str) -> Woken {
    Woken::Node(name.into())
}

#[test]
fn pods_are_known_from_the_end_of_the_first_list() {
    let mut world = World { usage: Usage::default(), now: Instant::now() };
    assert_eq!(world.on("node-1"), "not yet");
    world.usage.follow(true);
    assert_eq!(world.see(Event::Init), Woken::Nothing);
    assert_eq!(world.see(Event::InitApply(object(&pod("a", "node-1", 2)))), Woken::Nothing);
    assert_eq!(world.on("node-1"), "not yet");
    assert_eq!(world.see(Event::InitDone), Woken::All);
    assert_eq!((world.on("node-1"), world.on("node-2")), ("2 0".to_owned(), "0 0".to_owned()));
    world.usage.follow(true);
    assert_eq!(world.on("node-1"), "2 0", "nothing begins anew");
    world.usage.follow(false);
    assert_eq!(world.on("node-1"), "not yet");
    world.usage.follow(true);
    assert_eq!(world.on("node-1"), "not yet", "nothing is left from before");
}

#[test]
fn events_change_what_the_pods_on_their_node_request() {
    let mut world = World::listing(&[pod("a", "node-1", 2)]);
    let (a, b) = (pod("a", "node-1", 2), pod("b", "node-1", 3));
    for (event, woken, expected) in [
        (Event::Apply(b.clone()), node("node-1"), "5 0"),
        (Event::Apply(b.clone()), Woken::Nothing, "5 0"),
        (Event::Apply(started(b.clone())), node("node-1"), "5 3"),
        (Event::Apply(started(a.clone())), node("node-1"), "5 5"),
        // It terminates, and requests the same.
        (Event::Apply(started(a.clone())), Woken::Nothing, "5 5"),
        (Event::Delete(a.clone()), node("node-1"), "3 3"),
        (Event::Delete(a), Woken::Nothing, "3 3"),
        (Event::Apply(pod("other", "node-2", 7)), node("node-2"), "3 3"),
        (Event::Apply(json!({"metadata": {"uid": "c", "resourceVersion": "7"}})), Woken::Nothing, "3 3"),
        (Event::Delete(json!({"metadata": {"uid": "c", "resourceVersion": "7"}})), Woken::Nothing, "3 3"),
    ] {
        let text = format!("{event:?}");
        let is_delete = matches!(event, Event::Delete(_));
        let (Event::Apply(pod) | Event::Delete(pod)) = event else { unreachable!() };
        let seen = if is_delete { world.delete(&pod) } else { world.apply(&pod) };
        assert_eq!((seen, world.on("node-1").as_str()), (woken, expected), "{text}");
    }
    let mut ended = started(b);
    ended["status"]["phase"] = json!("Succeeded");
    assert_eq!((world.apply(&ended), world.on("node-1").as_str()), (node("node-1"), "0 0"));
    assert_eq!(world.on("node-2"), "7 0");
}

#[test]
fn pods_of_the_previous_list_serve_until_the_next_is_complete() {
    let mut world = World::listing(&[started(pod("a", "node-1", 2)), pod("gone", "node-1", 1)]);
    assert_eq!(world.fail(410, "too old resource version"), Woken::Nothing);
    assert_eq!(world.see(Event::Init), Woken::Nothing);
    assert_eq!(world.see(Event::InitApply(object(&pod("b", "node-1", 4)))), Woken::Nothing);
    assert_eq!(world.on("node-1"), "3 2");
    // The list begins anew.
    assert_eq!(world.list(&[pod("c", "node-1", 8)]), Woken::All);
    assert_eq!(world.on("node-1"), "8 0");
}

#[test]
fn watch_is_stale_ninety_seconds_after_its_last_frame() {
    let mut world = World::listing(slice::from_ref(&started(pod("a", "node-1", 2))));
    world.pass(60);
    assert_eq!(world.usage.next_change(world.now), Some(world.now + Duration::from_secs(30)));
    assert_eq!(world.usage.heard(world.now), Woken::Nothing);
    world.pass(60);
    assert_eq!(world.apply(&pod("b", "node-2", 1)), node("node-2"));
    world.pass(89);
    assert_eq!(world.on("node-1"), "2 2");
    world.pass(1);
    assert_eq!(world.usage.next_change(world.now), None);
    assert_eq!(world.on("node-1"), "2 2: the watch of pods has shown nothing for 90 s");
    assert_eq!(world.usage.broken(), None);
    assert_eq!(world.usage.heard(world.now), Woken::All);
    assert_eq!(world.on("node-1"), "2 2");
    // An event says as much as a bookmark, and concerns all nodes if there was none for so long.
    world.pass(90);
    assert_eq!(world.apply(&pod("c", "node-2", 1)), Woken::All);
    assert_eq!((world.on("node-1"), world.on("node-2")), ("2 2".to_owned(), "2 0".to_owned()));
    world.pass(90);
    assert_eq!(world.delete(&pod("c", "node-2", 1)), Woken::All);
}

#[test]
fn broken_watch_is_reported_once_and_works_again_with_its_next_frame() {
    let mut world = World::listing(&[started(pod("a", "node-1", 2))]);
    let failed = world.now;
    world.pass(1);
    assert_eq!(world.fail(403, "no"), Woken::All);
    let why = world.usage.broken().cloned().unwrap();
    assert!(why.contains("no"), "{why}");
    assert_eq!(world.on("node-1"), format!("2 2: {why}"));
    world.pass(1);
    assert_eq!(world.fail(403, "no"), Woken::Nothing);
    assert_eq!(world.fail(500, "neither"), Woken::All);
    // A frame from before it broke.
    assert_eq!(world.usage.heard(failed), Woken::Nothing);
    assert!(world.on("node-1").starts_with("2 2: "), "{}", world.on("node-1"));
    world.pass(1);
    assert_eq!(world.usage.heard(world.now), Woken::All);
    assert_eq!(world.on("node-1"), "2 2");
    assert_eq!(world.fail(500, "again"), Woken::All);
    world.pass(1);
    assert_eq!(world.apply(&pod("b", "node-1", 1)), Woken::All);
    assert_eq!(world.on("node-1"), "3 2");
}

#[test]
fn watch_that_never_listed_knows_nothing() {
    let mut world = World { usage: Usage::default(), now: Instant::now() };
    world.usage.follow(true);
    assert_eq!(world.fail(403, "forbidden"), Woken::All);
    assert!(world.on("node-1").starts_with("unknown: "), "{}", world.on("node-1"));
    world.pass(1);
    assert_eq!(world.usage.heard(world.now), Woken::Nothing, "there is no watch yet");
    assert_eq!(world.list(&[pod("a", "node-1", 1)]), Woken::All);
    assert_eq!(world.on("node-1"), "1 0");
    world.usage.follow(false);
    assert_eq!(world.fail(500, "late"), Woken::Nothing);
    assert_eq!(world.on("node-1"), "not yet");
}

#[test]
fn pod_that_cannot_be_decoded_is_counted_and_hides_no_other() {
    let mut odd = pod("odd", "node-1", 4);
    odd["spec"]["containers"] = json!("none");
    let mut world = World::listing(&[pod("a", "node-1", 1), odd.clone(), pod("b", "node-1", 2)]);
    assert_eq!((world.on("node-1").as_str(), world.usage.unreadable()), ("3 0", 1));
    let why = world.usage.take_unreadable().unwrap();
    assert!(why.contains("none") && world.usage.take_unreadable().is_none(), "{why}");
    // What was known of one is not forgotten.
    let mut b = pod("b", "node-1", 2);
    b["spec"] = json!(7);
    assert_eq!(world.apply(&b), Woken::Nothing);
    assert_eq!((world.on("node-1").as_str(), world.usage.unreadable()), ("3 0", 2));
    assert_eq!(world.delete(&b), node("node-1"));
    assert_eq!(world.delete(&odd), Woken::Nothing);
    assert_eq!((world.on("node-1").as_str(), world.usage.unreadable()), ("1 0", 0));
    assert_eq!(world.apply(&odd), Woken::Nothing);
    assert_eq!(world.apply(&pod("odd", "node-1", 4)), node("node-1"));
    assert_eq!((world.on("node-1").as_str(), world.usage.unreadable()), ("5 0", 0));
}
