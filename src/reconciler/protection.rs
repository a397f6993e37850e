//! Whether the cluster has the policy that keeps recorded values when a kubelet resets them, and its binding
//! (`MutatingAdmissionPolicy`, Kubernetes 1.36 and later). The controller only reads them. The API does not show a
//! policy that an API server has loaded from a file: starts of kubelets are the evidence of its effect.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use kube::ResourceExt as _;
use kube::api::{NotUsed, Object};
use kube::runtime::watcher::{self, Event};
use serde::Deserialize;

use crate::response::error::{describe_watch, is_not_served};

/// Whether recorded values were kept when a kubelet started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    /// A kubelet wrote over them, and they were kept.
    Kept,
    /// They are there, and no kubelet is known to have written over them: it does not where the files of a device plugin
    /// have outlived the reboot (`ManagerImpl` of the kubelet's `devicemanager`).
    Untouched,
    /// The kubelet set some of them to 0.
    Reset,
}

/// The label of the policy and of its binding.
pub(crate) const LABEL: &str = "noderesource.dev/protection=true";

/// The fields of the policy, or of its binding, that the controller reads.
pub(crate) type PolicyObject = Object<Spec, NotUsed>;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Spec {
    /// The policy of a binding.
    policy_name: Option<String>,
}

/// The kind of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Policy,
    Binding,
}

/// Where the policy is expected (`--protection`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ExpectedPolicy {
    /// In the API, or else in files, if a kubelet has kept its values.
    #[default]
    Auto,
    /// In the API.
    Api,
    /// In files of the API server.
    Static,
    /// Nowhere.
    None,
}

impl FromStr for ExpectedPolicy {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match text {
            "auto" => Ok(Self::Auto),
            "api" => Ok(Self::Api),
            "static" => Ok(Self::Static),
            "none" => Ok(Self::None),
            _ => Err(()),
        }
    }
}

/// The state of the protection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// The policy of this name is in force.
    Present(String),
    /// The cluster serves the kind, but this is missing.
    Absent(&'static str),
    /// The API shows no policy, and files have it, as is expected or as the last start of a kubelet indicates.
    Static(Option<Start>),
    /// No policy is expected.
    Unexpected,
    /// The cluster does not serve the kind.
    NotServed,
    /// Unknown, for this reason.
    Unknown(String),
}

impl State {
    /// The states in the metrics.
    pub(crate) const NAMES: [&str; 6] = ["present", "absent", "static", "none", "not_served", "unknown"];

    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Present(_) => "present",
            Self::Absent(_) | Self::Static(Some(Start::Reset)) => "absent",
            Self::Static(_) => "static",
            Self::Unexpected => "none",
            Self::NotServed => "not_served",
            Self::Unknown(_) => "unknown",
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Present(policy) => {
                write!(f, "the policy {policy} keeps recorded values when a kubelet resets them")
            }
            Self::Static(Some(Start::Kept | Start::Untouched)) => f.write_str(
                "the API has no policy, and the last kubelet that started kept its values: a file of the API server \
                 has the policy",
            ),
            Self::Static(Some(Start::Reset)) => f.write_str(
                "not in force: a file of the API server is expected to have the policy (--protection=static), and the \
                 last kubelet that started reset its values",
            ),
            Self::Static(None) => f.write_str(
                "a file of the API server is expected to have the policy (--protection=static); no kubelet has started \
                 after a reboot yet",
            ),
            Self::Unexpected => f.write_str(
                "none expected (--protection=none): the controller repairs recorded values after a kubelet resets them",
            ),
            Self::Absent(missing) => write!(
                f,
                "{missing}: the controller repairs recorded values after a kubelet resets them, which may be too \
                 late for a pod"
            ),
            Self::NotServed => f.write_str(
                "this cluster does not serve MutatingAdmissionPolicy (Kubernetes 1.36 and later): the controller \
                 repairs recorded values after a kubelet resets them",
            ),
            Self::Unknown(why) => write!(f, "unknown: {why}"),
        }
    }
}

/// The policies and bindings.
#[derive(Clone, Debug, Default)]
pub(super) struct Protection {
    expected: ExpectedPolicy,
    /// The last start of a kubelet after a reboot, unless the policy in the API explains it.
    start: Option<Start>,
    policies: Objects,
    bindings: Objects,
}

/// The objects of one kind with the label.
#[derive(Clone, Debug)]
struct Objects {
    /// The objects, each with the policy that it names.
    by_name: BTreeMap<String, Option<String>>,
    listing: BTreeMap<String, Option<String>>,
    /// Why the objects are unknown.
    unknown: Option<State>,
}

impl Default for Objects {
    fn default() -> Self {
        let unknown = Some(State::Unknown("not read yet".to_owned()));
        Self { by_name: BTreeMap::new(), listing: BTreeMap::new(), unknown }
    }
}

impl Protection {
    pub(super) fn new(expected: ExpectedPolicy) -> Self {
        Self { expected, ..Self::default() }
    }

    /// Records the start of a kubelet after a reboot. Returns whether the state has changed.
    pub(super) fn started(&mut self, start: Start) -> bool {
        if start == Start::Untouched {
            return false;
        }
        let before = self.state();
        let by_the_api = self.expected == ExpectedPolicy::Auto && matches!(self.in_api(), State::Present(_));
        self.start = (!by_the_api).then_some(start);
        self.state() != before
    }

    /// Handles an event of a watch. Returns whether the state has changed.
    pub(super) fn observe(&mut self, kind: Kind, event: watcher::Result<Event<PolicyObject>>) -> bool {
        let before = self.state();
        match kind {
            Kind::Policy => self.policies.observe(event),
            Kind::Binding => self.bindings.observe(event),
        }
        self.state() != before
    }

    pub(super) fn state(&self) -> State {
        match (self.expected, self.in_api()) {
            (ExpectedPolicy::None, _) => State::Unexpected,
            (ExpectedPolicy::Static, _) => State::Static(self.start),
            (ExpectedPolicy::Auto, State::Absent(_)) if self.start == Some(Start::Kept) => State::Static(self.start),
            (ExpectedPolicy::Auto | ExpectedPolicy::Api, state) => state,
        }
    }

    /// Returns what the API shows.
    fn in_api(&self) -> State {
        let unknown = [&self.policies.unknown, &self.bindings.unknown];
        if let Some(unknown) = unknown.into_iter().flatten().next() {
            return unknown.clone();
        }
        let bound = self.bindings.by_name.values().flatten();
        let mut in_force = bound.filter(|policy| self.policies.by_name.contains_key(*policy));
        match in_force.next() {
            Some(policy) => State::Present(policy.clone()),
            None if self.policies.by_name.is_empty() => State::Absent("there is no policy in the API"),
            None => State::Absent("the policy has no binding"),
        }
    }
}

impl Objects {
    fn observe(&mut self, event: watcher::Result<Event<PolicyObject>>) {
        match event {
            Ok(Event::Init) => self.listing.clear(),
            Ok(Event::InitApply(object)) => insert(&mut self.listing, object),
            Ok(Event::InitDone) => {
                self.by_name = std::mem::take(&mut self.listing);
                self.unknown = None;
            }
            Ok(Event::Apply(object)) => insert(&mut self.by_name, object),
            Ok(Event::Delete(object)) => {
                self.by_name.remove(&object.name_any());
            }
            Err(error) if is_not_served(&error) => self.unknown = Some(State::NotServed),
            Err(error @ watcher::Error::InitialListFailed(_)) => {
                let why = format!("the policies and their bindings {}", describe_watch(&error, ""));
                self.unknown = Some(State::Unknown(why));
            }
            // The known state stays until the watch works again.
            Err(_) => {}
        }
    }
}

fn insert(objects: &mut BTreeMap<String, Option<String>>, object: PolicyObject) {
    objects.insert(object.name_any(), object.spec.policy_name);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(name: &str, policy: Option<&str>) -> PolicyObject {
        let spec = json!({"policyName": policy});
        serde_json::from_value(json!({"apiVersion": "v1", "kind": "a", "metadata": {"name": name}, "spec": spec}))
            .unwrap()
    }

    fn failed(code: u16) -> watcher::Result<Event<PolicyObject>> {
        let status = kube::core::Status::failure("no", "").with_code(code);
        Err(watcher::Error::InitialListFailed(kube::Error::Api(Box::new(status))))
    }

    #[test]
    fn protection_takes_a_policy_and_a_binding_of_it() {
        let mut protection = Protection::default();
        assert_eq!(protection.state().name(), "unknown");
        for kind in [Kind::Policy, Kind::Binding] {
            protection.observe(kind, Ok(Event::Init));
            assert_eq!(protection.state().name(), "unknown", "not listed to the end");
            protection.observe(kind, Ok(Event::InitDone));
        }
        assert_eq!(protection.state(), State::Absent("there is no policy in the API"));
        assert!(protection.observe(Kind::Policy, Ok(Event::Apply(object("protect", None)))));
        assert_eq!(protection.state(), State::Absent("the policy has no binding"));
        let binding = object("binding", Some("another"));
        assert!(!protection.observe(Kind::Binding, Ok(Event::Apply(binding))));
        let binding = object("binding", Some("protect"));
        assert!(protection.observe(Kind::Binding, Ok(Event::Apply(binding.clone()))));
        assert_eq!(protection.state(), State::Present("protect".to_owned()));
        // A watch that breaks shows nothing.
        let broken = watcher::Error::NoResourceVersion;
        assert!(!protection.observe(Kind::Policy, Err(broken)));
        assert!(protection.observe(Kind::Binding, Ok(Event::Delete(binding))));
        assert_eq!(protection.state().name(), "absent");
    }

    /// A policy in a file does not show in the API.
    #[test]
    fn protection_is_judged_by_starts_of_kubelets_where_the_api_shows_no_policy() {
        let empty = |expected| {
            let mut protection = Protection::new(expected);
            protection.observe(Kind::Policy, Ok(Event::InitDone));
            protection.observe(Kind::Binding, Ok(Event::InitDone));
            protection
        };
        for (expected, names) in [
            (ExpectedPolicy::Auto, ["absent", "static", "absent"]),
            (ExpectedPolicy::Api, ["absent"; 3]),
            (ExpectedPolicy::Static, ["static", "static", "absent"]),
            (ExpectedPolicy::None, ["none"; 3]),
        ] {
            let mut protection = empty(expected);
            assert!(!protection.started(Start::Untouched), "that shows nothing");
            let mut seen = vec![protection.state().name()];
            for start in [Start::Kept, Start::Reset] {
                protection.started(start);
                seen.push(protection.state().name());
            }
            assert_eq!(seen, names, "{expected:?}");
        }
        // A policy that was in the API is no evidence of a file.
        let mut protection = empty(ExpectedPolicy::Auto);
        let binding = object("binding", Some("protect"));
        protection.observe(Kind::Policy, Ok(Event::Apply(object("protect", None))));
        protection.observe(Kind::Binding, Ok(Event::Apply(binding.clone())));
        protection.started(Start::Kept);
        protection.observe(Kind::Binding, Ok(Event::Delete(binding)));
        assert_eq!(protection.state().name(), "absent");

        let mut protection = empty(ExpectedPolicy::Static);
        assert!(protection.state().to_string().ends_with("no kubelet has started after a reboot yet"));
        assert!(protection.started(Start::Reset));
        assert!(protection.state().to_string().starts_with("not in force: "));
        assert!(!protection.started(Start::Reset));
        assert!(protection.started(Start::Kept));
        assert!(protection.state().to_string().contains("kept its values"));
    }

    #[test]
    fn protection_that_cannot_be_read_is_not_absent() {
        for (code, name) in [(404, "not_served"), (403, "unknown"), (500, "unknown")] {
            let mut protection = Protection::default();
            protection.observe(Kind::Policy, Ok(Event::InitDone));
            protection.observe(Kind::Binding, failed(code));
            assert_eq!(protection.state().name(), name);
            // After an upgrade of the cluster, or of the rights.
            protection.observe(Kind::Binding, Ok(Event::InitDone));
            assert_eq!(protection.state().name(), "absent");
        }
    }
}
