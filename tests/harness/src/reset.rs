//! Returns a control plane to an earlier state without a restart: what its API server stores, and its folder.
//!
//! ```text
//! snapshot ── all keys and values of etcd
//! reset    ── deletes new keys, writes those that are gone or changed ──▶ etcd ──watch──▶ caches of the API server
//!             └ waits until the API server acts accordingly
//! ```
//!
//! To the API server this looks like the writes of another API server with the same etcd. It needs no namespace
//! controller and no finalizer.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde_json::Value;

use crate::canary;
use crate::etcd::Objects;
use crate::{ControlPlane, kubectl, wait_until};

/// Keys that the control plane keeps up to date by itself: Leases of API servers and nodes, and what follows from CRDs.
const KEPT_BY_OTHERS: [&str; 2] = ["/registry/leases/kube-", "/registry/apiregistration.k8s.io/"];
const CRDS: &str = "/registry/apiextensions.k8s.io/";
const GROUP: &str = "noderesource.dev";
const RULES: &str = "/apis/noderesource.dev/v1alpha1/nodeextendedresources";

/// The state of a control plane, to which it can return.
#[derive(Debug)]
pub(crate) struct Snapshot {
    objects: Objects,
    groups: BTreeSet<String>,
    files: [BTreeSet<OsString>; 2],
}

/// The keys that a reset writes or deletes.
struct Changes<'a>(Vec<&'a String>);

impl Changes<'_> {
    fn include(&self, prefix: &str) -> bool {
        self.0.iter().any(|key| key.starts_with(prefix))
    }
}

impl ControlPlane {
    /// Returns the current state.
    pub(crate) fn snapshot(&self) -> Result<Snapshot> {
        let [dir, logs] = self.folders();
        let mut files = [files(&dir)?, files(&logs)?];
        files[0].remove(OsStr::new(kubectl::CACHE));
        Ok(Snapshot { objects: self.objects()?, groups: self.groups()?, files })
    }

    /// Returns to an earlier state, and waits until the API server and the kubelets act accordingly.
    pub(crate) fn reset(&self, snapshot: &Snapshot) -> Result<()> {
        // No wait: if a test has left the API server dead, it stays so.
        self.get("/readyz")?;
        let found = self.objects()?;
        let new: Vec<_> = found.keys().filter(|key| !snapshot.objects.contains_key(*key)).collect();
        let lost: Vec<_> = snapshot.objects.iter().filter(|(key, value)| found.get(*key) != Some(value)).collect();
        let changes = Changes(new.iter().copied().chain(lost.iter().map(|(key, _)| *key)).collect());
        self.etcd.delete(&new)?;
        let crds: Vec<_> = lost.iter().map(|(key, _)| *key).filter(|key| key.starts_with(CRDS)).collect();
        if !crds.is_empty() {
            // So that the API server cannot use the changed one for a moment longer.
            self.etcd.delete(&crds)?;
            wait_until("the changed CRD to be gone", || Ok(self.get(RULES).is_err().then_some(())))?;
        }
        self.etcd.put(&lost)?;
        self.wait_reset(snapshot, &changes)?;
        let folders = self.folders();
        folders.iter().zip(&snapshot.files).try_for_each(|(folder, before)| remove_others(folder, before))
    }

    fn wait_reset(&self, snapshot: &Snapshot, changes: &Changes<'_>) -> Result<()> {
        if changes.include(CRDS) {
            wait_until("the API server to serve the groups of before", || {
                Ok((self.groups()? == snapshot.groups).then_some(()))
            })?;
        }
        if changes.include(CRDS) && snapshot.groups.contains(GROUP) {
            wait_until("the API server to serve rules", || self.get(RULES).map(Some))?;
        }
        // What is gone from the store is gone from a cache of the API server once the cache has a later object.
        for canary in canary::ALL {
            if changes.include(canary.keys) {
                canary.observe(self)?;
            }
        }
        for kind in ["nodes", "pods", "namespaces", "secrets", "serviceaccounts"] {
            // A consistent list waits until the cache of the API server has caught up.
            self.get(&format!("/api/v1/{kind}"))?;
        }
        self.wait_kubelets()
    }

    fn objects(&self) -> Result<Objects> {
        let mut objects = self.etcd.objects()?;
        objects.retain(|key, _| !KEPT_BY_OTHERS.iter().any(|prefix| key.starts_with(prefix)));
        Ok(objects)
    }

    /// Returns the names of the API groups that are served.
    fn groups(&self) -> Result<BTreeSet<String>> {
        let list: Value = serde_json::from_str(&self.get("/apis")?)?;
        let groups = list["groups"].as_array().context("the API server lists no groups")?;
        Ok(groups.iter().filter_map(|group| group["name"].as_str()).map(str::to_owned).collect())
    }

    /// The folders in which a test leaves files.
    fn folders(&self) -> [PathBuf; 2] {
        [self.dir().to_owned(), self.logs()]
    }
}

fn files(folder: &Path) -> Result<BTreeSet<OsString>> {
    let entries = fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?;
    entries.map(|entry| Ok(entry?.file_name())).collect()
}

/// Removes what was not there before.
fn remove_others(folder: &Path, before: &BTreeSet<OsString>) -> Result<()> {
    for name in files(folder)?.difference(before) {
        let path = folder.join(name);
        let removed = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        removed.with_context(|| format!("cannot remove {}", path.display()))?;
    }
    Ok(())
}
