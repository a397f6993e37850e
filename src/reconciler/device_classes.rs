//! Resources that DRA provides too: DeviceClasses that map their names (`spec.extendedResourceName`, Kubernetes 1.34
//! and later).
//!
//! The implicit name `deviceclass.resource.kubernetes.io/<class>` is ignored, since no rule can declare a name under
//! kubernetes.io.

use std::collections::{BTreeMap, BTreeSet};

use kube::ResourceExt as _;
use kube::api::{NotUsed, Object};
use kube::runtime::watcher::{self, Event};
use serde::Deserialize;

use crate::response::error::{describe_watch, is_not_served};

/// The fields of a DeviceClass that the controller reads.
pub(crate) type DeviceClass = Object<DeviceClassSpec, NotUsed>;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DeviceClassSpec {
    extended_resource_name: Option<String>,
}

/// Whether a DeviceClass maps a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Mapping {
    None,
    /// This DeviceClass maps it.
    By(String),
    /// DeviceClasses cannot be read, for this reason.
    Unknown(String),
}

/// The resources that DeviceClasses map.
#[derive(Clone, Debug, Default)]
pub(super) struct DeviceClasses {
    /// By the name of the DeviceClass.
    mapped: BTreeMap<String, String>,
    listing: BTreeMap<String, String>,
    unreadable: Option<String>,
}

impl DeviceClasses {
    /// Returns whether a DeviceClass maps `resource`.
    pub(super) fn mapping(&self, resource: &str) -> Mapping {
        if let Some(why) = &self.unreadable {
            return Mapping::Unknown(why.clone());
        }
        let mut classes = self.mapped.iter();
        let class = classes.find(|(_, mapped)| *mapped == resource);
        class.map_or(Mapping::None, |(class, _)| Mapping::By(class.clone()))
    }

    /// Returns why DeviceClasses cannot be read, if so.
    pub(super) fn unreadable(&self) -> Option<&str> {
        self.unreadable.as_deref()
    }

    /// Handles an event of the watch. Returns whether the mapping of a resource may have changed.
    pub(super) fn apply(&mut self, event: watcher::Result<Event<DeviceClass>>) -> bool {
        let event = match event {
            Ok(event) => event,
            Err(error) => return self.fail(&error),
        };
        let before = self.resources();
        // The start of a list does not show yet that DeviceClasses can be read.
        let is_read = !matches!(event, Event::Init | Event::InitApply(_));
        let was_unreadable = is_read && self.unreadable.take().is_some();
        match event {
            Event::Init => self.listing.clear(),
            Event::InitApply(class) => insert(&mut self.listing, class),
            Event::InitDone => self.mapped = std::mem::take(&mut self.listing),
            Event::Apply(class) => {
                self.mapped.remove(&class.name_any());
                insert(&mut self.mapped, class);
            }
            Event::Delete(class) => {
                self.mapped.remove(&class.name_any());
            }
        }
        was_unreadable || self.resources() != before
    }

    fn fail(&mut self, error: &watcher::Error) -> bool {
        // A watch resumes where it was, and shows nothing if nothing has changed.
        if !matches!(error, watcher::Error::InitialListFailed(_)) {
            return false;
        }
        let before = self.unreadable.clone();
        self.unreadable = (!is_not_served(error)).then(|| format!("DeviceClasses {}", describe_watch(error, "")));
        self.unreadable != before
    }

    fn resources(&self) -> BTreeSet<(String, String)> {
        self.mapped.iter().map(|(class, resource)| (class.clone(), resource.clone())).collect()
    }
}

fn insert(mapped: &mut BTreeMap<String, String>, class: DeviceClass) {
    let name = class.name_any();
    mapped.extend(class.spec.extended_resource_name.map(|resource| (name, resource)));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forbidden() -> watcher::Result<Event<DeviceClass>> {
        let status = kube::core::Status::failure("no right", "Forbidden").with_code(403);
        Err(watcher::Error::InitialListFailed(kube::Error::Api(Box::new(status))))
    }

    /// Else classes would be unreadable until one of them changes.
    #[test]
    fn watch_that_breaks_leaves_classes_readable() {
        let mut classes = DeviceClasses::default();
        classes.apply(Ok(Event::InitDone));
        let broken = || std::io::Error::from(std::io::ErrorKind::ConnectionReset);
        for error in [
            watcher::Error::WatchFailed(kube::Error::ReadEvents(broken())),
            watcher::Error::WatchStartFailed(kube::Error::Service(broken().into())),
        ] {
            assert!(!classes.apply(Err(error)));
            assert_eq!(classes.unreadable(), None);
        }
    }

    #[test]
    fn beginning_of_a_list_does_not_end_that_classes_are_unreadable() {
        let mut classes = DeviceClasses::default();
        assert!(classes.apply(forbidden()));
        assert!(!classes.apply(Ok(Event::Init)));
        assert!(matches!(classes.mapping("example.com/a"), Mapping::Unknown(_)));
        assert!(!classes.apply(forbidden()), "nothing has changed");
        assert!(classes.apply(Ok(Event::InitDone)));
        assert_eq!(classes.mapping("example.com/a"), Mapping::None);
    }
}
