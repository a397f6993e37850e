//! Versions that do not fit each other.

use std::collections::BTreeMap;

use crate::inspect::doctor::finding::{Finding, NotRun, ObjectName, Outcome};
use crate::inspect::doctor::snapshot::{Snapshot, Version, known};

/// The versions of Kubernetes that docs/compatibility.md lists: the oldest that is supported, and the newest that has
/// been tested.
pub(crate) const OLDEST: (u32, u32) = (1, 30);
pub(crate) const NEWEST: (u32, u32) = (1, 37);

/// How many minor versions a kubelet may be older than its API server:
/// <https://kubernetes.io/releases/version-skew-policy/>.
const KUBELET_SKEW: u32 = 3;

const PROGRAM: &str = env!("CARGO_PKG_VERSION");

fn release(version: &Version) -> (u32, u32) {
    (version.major, version.minor)
}

/// Finds a version of Kubernetes that is not supported, or was not tested.
pub(super) fn kubernetes(snapshot: &Snapshot) -> Outcome {
    let version = known(&snapshot.version)?;
    let object = || vec![ObjectName::new("Kubernetes", &*version.text)];
    let range = |(major, minor): (u32, u32)| format!("{major}.{minor}");
    let finding = if release(version) < OLDEST {
        let problem = format!("versions before {} are not supported", range(OLDEST));
        Finding::error(object(), problem, format!("upgrade the cluster to {} or later", range(OLDEST)))
    } else if release(version) > NEWEST {
        let problem = format!("this version of node-resource-advertiser was tested with {} at most", range(NEWEST));
        Finding::warning(object(), problem, "look for a later version of node-resource-advertiser")
    } else {
        return Ok(Vec::new());
    };
    Ok(vec![finding])
}

/// Finds kubelets that are older or newer than Kubernetes allows.
pub(super) fn kubelets(snapshot: &Snapshot) -> Outcome {
    let server = known(&snapshot.version)?;
    let mut odd = BTreeMap::<Version, Vec<ObjectName>>::new();
    for node in known(&snapshot.nodes)? {
        // A node without a kubelet has none.
        let Some(kubelet) = Version::parse(&node.kubelet_version) else { continue };
        let is_older = kubelet.major < server.major || server.minor > kubelet.minor.saturating_add(KUBELET_SKEW);
        if release(&kubelet) > release(server) || is_older {
            odd.entry(kubelet).or_default().push(node.object());
        }
    }
    let findings = odd.into_iter().map(|(kubelet, nodes)| {
        let (than, what) = match release(&kubelet) > release(server) {
            true => ("newer than", "upgrade the API server first"),
            false => ("more than three minor versions older than", "upgrade these kubelets"),
        };
        let problem = format!("its kubelet {} is {than} the API server {}", kubelet.text, server.text);
        Finding::warning(nodes, problem, what)
    });
    Ok(findings.collect())
}

/// Finds controllers of another version than this program.
pub(super) fn program(snapshot: &Snapshot) -> Outcome {
    snapshot.installed()?;
    let deployments = known(&snapshot.deployments)?.iter();
    let versions = deployments.filter_map(|deployment| {
        let labels = deployment.metadata.labels.as_ref()?;
        Some((&deployment.metadata, labels.get("app.kubernetes.io/version")?))
    });
    let versions: Vec<_> = versions.collect();
    if versions.is_empty() {
        let why = "no Deployment has the labels that the chart gives to the controller's";
        return Err(NotRun::Unavailable(why.to_owned()));
    }
    let others = versions.into_iter().filter(|(_, version)| version.trim_start_matches('v') != PROGRAM);
    let findings = others.map(|(metadata, version)| {
        let object = ObjectName::of("Deployment", metadata);
        let problem = format!("its version is {version}, and this program's is {PROGRAM}: they may decide differently");
        Finding::warning(vec![object], problem, "use the same version of both")
    });
    Ok(findings.collect())
}
