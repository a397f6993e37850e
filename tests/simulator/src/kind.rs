//! The kinds of objects, and their names.

use std::fmt;

use serde_json::Value;

/// A kind of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// `v1` Node.
    Node,
    /// `v1` Pod.
    Pod,
    /// `noderesource.dev/v1alpha1` NodeExtendedResource.
    Rule,
    /// `coordination.k8s.io/v1` Lease.
    Lease,
    /// `events.k8s.io/v1` Event.
    Event,
    /// `resource.k8s.io/v1` DeviceClass.
    DeviceClass,
    /// `admissionregistration.k8s.io/v1` MutatingAdmissionPolicy.
    Policy,
    /// `admissionregistration.k8s.io/v1` MutatingAdmissionPolicyBinding.
    PolicyBinding,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 8] = [
        Self::Node,
        Self::Pod,
        Self::Rule,
        Self::Lease,
        Self::Event,
        Self::DeviceClass,
        Self::Policy,
        Self::PolicyBinding,
    ];

    /// Returns the API group, empty for the core group.
    #[must_use]
    pub fn group(self) -> &'static str {
        match self {
            Self::Node | Self::Pod => "",
            Self::Rule => "noderesource.dev",
            Self::Lease => "coordination.k8s.io",
            Self::Event => "events.k8s.io",
            Self::DeviceClass => "resource.k8s.io",
            Self::Policy | Self::PolicyBinding => "admissionregistration.k8s.io",
        }
    }

    /// Returns the version of the API.
    #[must_use]
    pub fn version(self) -> &'static str {
        match self {
            Self::Rule => "v1alpha1",
            _ => "v1",
        }
    }

    /// Returns group and version as in objects.
    #[must_use]
    pub fn api_version(self) -> String {
        match self.group() {
            "" => self.version().to_owned(),
            group => format!("{group}/{}", self.version()),
        }
    }

    /// Returns the name in paths and messages.
    #[must_use]
    pub fn plural(self) -> &'static str {
        match self {
            Self::Node => "nodes",
            Self::Pod => "pods",
            Self::Rule => "nodeextendedresources",
            Self::Lease => "leases",
            Self::Event => "events",
            Self::DeviceClass => "deviceclasses",
            Self::Policy => "mutatingadmissionpolicies",
            Self::PolicyBinding => "mutatingadmissionpolicybindings",
        }
    }

    /// Returns the kind's name in objects.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Node => "Node",
            Self::Pod => "Pod",
            Self::Rule => "NodeExtendedResource",
            Self::Lease => "Lease",
            Self::Event => "Event",
            Self::DeviceClass => "DeviceClass",
            Self::Policy => "MutatingAdmissionPolicy",
            Self::PolicyBinding => "MutatingAdmissionPolicyBinding",
        }
    }

    /// Returns the etcd key of an object, as in messages.
    #[must_use]
    pub fn storage_key(self, key: &Key) -> String {
        let resource = match self {
            Self::Node => "minions".to_owned(),
            Self::Rule => format!("{}/{}", self.group(), self.plural()),
            _ => self.plural().to_owned(),
        };
        format!("/registry/{resource}/{key}")
    }

    /// Returns whether its objects are in namespaces.
    #[must_use]
    pub fn is_namespaced(self) -> bool {
        matches!(self, Self::Pod | Self::Lease | Self::Event)
    }

    /// Returns the resource as messages name it: `leases.coordination.k8s.io`.
    #[must_use]
    pub fn qualified(self) -> String {
        match self.group() {
            "" => self.plural().to_owned(),
            group => format!("{}.{group}", self.plural()),
        }
    }
}

/// The name of an object, and its namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The namespace, empty for cluster-scoped kinds.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl Key {
    /// A cluster-scoped object.
    pub fn named(name: impl Into<String>) -> Self {
        Self { namespace: String::new(), name: name.into() }
    }

    /// An object in a namespace.
    pub fn namespaced(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }

    /// Returns the key of an object.
    #[must_use]
    pub fn of(object: &Value) -> Self {
        let text = |field: &str| object["metadata"][field].as_str().map(str::to_owned).unwrap_or_default();
        Self { namespace: text("namespace"), name: text("name") }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.namespace.as_str() {
            "" => f.write_str(&self.name),
            namespace => write!(f, "{namespace}/{}", self.name),
        }
    }
}
