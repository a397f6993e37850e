//! The API server's audit log: who requested what, and what was stored.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context as _, Result};
use jiff::Timestamp;
use serde_json::Value;

use crate::ControlPlane;

/// Logs every request when it is complete, except reads of the tests, of kubelets and of the API server itself. The
/// objects are logged of what decides about nodes.
const POLICY: &str = r#"{
    "apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived", "ResponseStarted"],
    "rules": [
        {"level": "None", "users": ["observer"], "verbs": ["get", "list", "watch"]},
        {"level": "None", "users": ["system:apiserver"]},
        {"level": "None", "userGroups": ["system:nodes"], "verbs": ["get", "list", "watch"]},
        {"level": "None", "userGroups": ["system:nodes"], "resources": [
            {"group": "coordination.k8s.io", "resources": ["leases"]}, {"group": "", "resources": ["events"]}
        ]},
        {"level": "RequestResponse", "verbs": ["create", "update", "patch", "delete", "deletecollection"],
            "resources": [
                {"group": "", "resources": ["nodes", "nodes/status", "pods", "pods/binding", "pods/status"]},
                {"group": "noderesource.dev", "resources": ["nodeextendedresources"]},
                {"group": "coordination.k8s.io", "resources": ["leases"]}
            ]},
        {"level": "Metadata"}
    ]
}"#;

/// The log of one API server, which grows while that runs.
#[derive(Debug)]
pub(crate) struct AuditLog {
    path: PathBuf,
    counted: Mutex<Counted>,
}

/// The program's requests so far.
#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    /// The length of what has been counted.
    length: u64,
    requests: Requests,
}

/// Numbers of requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Requests {
    pub(crate) reads: u64,
    pub(crate) writes: u64,
}

/// A complete request.
#[derive(Clone, Debug)]
pub(crate) struct Entry(Value);

/// Returns the resource version of an object.
pub(crate) fn version_of(object: &Value) -> Option<u64> {
    object["metadata"]["resourceVersion"].as_str()?.parse().ok()
}

impl AuditLog {
    /// Writes the policy. Returns the log, and the API server's arguments.
    pub(crate) fn prepare(dir: &Path) -> Result<(Self, [String; 3])> {
        let policy = dir.join("audit-policy.json");
        fs::write(&policy, POLICY).context("cannot write the audit policy")?;
        let path = dir.join("audit.log");
        let args = [
            format!("--audit-policy-file={}", policy.display()),
            format!("--audit-log-path={}", path.display()),
            // In MiB: the log is one file, whatever its length.
            "--audit-log-maxsize=1000000".to_owned(),
        ];
        Ok((Self { path, counted: Mutex::default() }, args))
    }

    /// Returns the length of the log.
    pub(crate) fn length(&self) -> u64 {
        fs::metadata(&self.path).map_or(0, |metadata| metadata.len())
    }

    /// Returns the lines between two lengths of the log, without one that is incomplete.
    pub(crate) fn lines(&self, from: u64, to: u64) -> Result<String> {
        let mut text = String::new();
        let mut log = File::open(&self.path).context("there is no audit log")?;
        log.seek(SeekFrom::Start(from))?;
        log.take(to.saturating_sub(from)).read_to_string(&mut text).context("the audit log cannot be read")?;
        text.truncate(text.rfind('\n').map_or(0, |end| end + 1));
        Ok(text)
    }

    /// Counts the program's requests, except those that I7 allows a converged cluster: watches, renewals of the Lease,
    /// and dry runs.
    pub(crate) fn count(&self) -> Result<Requests> {
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        let lines = self.lines(counted.length, self.length())?;
        counted.length += lines.len() as u64;
        for entry in lines.lines().filter_map(Entry::parse).filter(Entry::is_program) {
            let is_allowed =
                entry.text("/verb") == "watch" || entry.text("/objectRef/resource") == "leases" || entry.is_dry_run();
            match entry.text("/verb") {
                _ if is_allowed => {}
                "get" | "list" => counted.requests.reads += 1,
                _ => counted.requests.writes += 1,
            }
        }
        Ok(counted.requests)
    }
}

impl Entry {
    pub(crate) fn parse(line: &str) -> Option<Self> {
        serde_json::from_str(line).ok().map(Self)
    }

    /// Returns a field, empty if it is absent.
    pub(crate) fn text(&self, pointer: &str) -> &str {
        self.0.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
    }

    /// Returns whether the request writes.
    pub(crate) fn is_write(&self) -> bool {
        !["get", "list", "watch"].contains(&self.text("/verb"))
    }

    /// Returns the version of the object in the response, if it is one.
    pub(crate) fn version(&self) -> Option<u64> {
        version_of(self.response())
    }

    /// Returns the resource and the subresource, as in `nodes/status`.
    pub(crate) fn resource(&self) -> String {
        match self.text("/objectRef/subresource") {
            "" => self.text("/objectRef/resource").to_owned(),
            subresource => format!("{}/{subresource}", self.text("/objectRef/resource")),
        }
    }

    /// Returns who sent it. Pods that share a service account differ.
    pub(crate) fn client(&self) -> String {
        let pod = "/user/extra/authentication.kubernetes.io~1pod-name/0";
        format!("{} {}", self.text("/user/username"), self.text(pod)).trim_end().to_owned()
    }

    /// Returns whether the program sent it: the controller, or one of the commands.
    pub(crate) fn is_program(&self) -> bool {
        self.text("/userAgent").starts_with("node-resource-advertiser/")
    }

    pub(crate) fn is_success(&self) -> bool {
        self.0["responseStatus"]["code"].as_u64().is_some_and(|code| code < 300)
    }

    pub(crate) fn is_dry_run(&self) -> bool {
        self.text("/requestURI").contains("dryRun=All")
    }

    /// Returns when the API server received it.
    pub(crate) fn begin(&self) -> Timestamp {
        self.time("/requestReceivedTimestamp")
    }

    /// Returns when the API server had responded.
    pub(crate) fn end(&self) -> Timestamp {
        self.time("/stageTimestamp")
    }

    fn time(&self, pointer: &str) -> Timestamp {
        self.text(pointer).parse().unwrap_or_default()
    }

    /// Returns the object of the request, or null.
    pub(crate) fn request(&self) -> &Value {
        &self.0["requestObject"]
    }

    /// Returns the object of the response, or null.
    pub(crate) fn response(&self) -> &Value {
        &self.0["responseObject"]
    }

    pub(crate) fn into_value(self) -> Value {
        self.0
    }
}

impl ControlPlane {
    /// Returns the requests by service accounts so far, as objects of `audit.k8s.io`.
    ///
    /// # Errors
    /// Returns an error if [`Builder::judged`](crate::Builder::judged) was not set, or the log cannot be read.
    pub fn audit(&self) -> Result<Vec<Value>> {
        let log = self.audit_log()?;
        let lines = log.lines(0, log.length())?;
        let entries = lines.lines().filter_map(Entry::parse);
        let of_pods = entries.filter(|entry| entry.text("/user/username").starts_with("system:serviceaccount:"));
        Ok(of_pods.map(Entry::into_value).collect())
    }

    /// Returns what the program has requested since the test began as an impersonated user: the verb and the resource, as
    /// in `patch nodes/status`.
    ///
    /// # Errors
    /// Returns an error if [`Builder::judged`](crate::Builder::judged) was not set, or the log cannot be read.
    pub fn requests_as(&self, user: &str) -> Result<BTreeSet<String>> {
        let lines = self.log_of_this_test()?;
        let entries = lines.lines().filter_map(Entry::parse).filter(Entry::is_program);
        let of_user = entries.filter(|entry| entry.text("/impersonatedUser/username") == user);
        let of_objects = of_user.filter(|entry| !entry.resource().is_empty());
        Ok(of_objects.map(|entry| format!("{} {}", entry.text("/verb"), entry.resource())).collect())
    }

    /// Returns every version of a node that a request has written since the test began, the oldest first.
    ///
    /// # Errors
    /// Returns an error if [`Builder::judged`](crate::Builder::judged) was not set, or the log cannot be read.
    pub fn node_versions(&self, name: &str) -> Result<Vec<Value>> {
        let lines = self.log_of_this_test()?;
        let entries = lines.lines().filter_map(Entry::parse).filter(|entry| entry.is_success() && !entry.is_dry_run());
        let nodes = entries.map(|mut entry| entry.0["responseObject"].take());
        Ok(nodes.filter(|object| object["kind"] == "Node" && object["metadata"]["name"] == name).collect())
    }

    /// Counts the program's writes, and with `reads` all its requests, except watches, renewals of the Lease, and dry
    /// runs, of which it sends one a minute.
    ///
    /// # Errors
    /// Returns an error if [`Builder::judged`](crate::Builder::judged) was not set, or the log cannot be read.
    pub fn controller_requests(&self, reads: bool) -> Result<u64> {
        let requests = self.audit_log()?.count()?;
        Ok(requests.writes + if reads { requests.reads } else { 0 })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // a test that fails panics

    use serde_json::json;

    use super::*;

    #[test]
    fn requests_are_counted_except_watches_renewals_and_dry_runs() {
        let dir = std::env::temp_dir().join(format!("audit-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let (log, _) = AuditLog::prepare(&dir).unwrap();
        let line = |agent: &str, verb: &str, uri: &str, resource: &str| {
            let request =
                json!({"userAgent": agent, "verb": verb, "requestURI": uri, "objectRef": {"resource": resource}});
            format!("{request}\n")
        };
        let own = "node-resource-advertiser/0.1.0 (linux)";
        let mut text = [
            line(own, "watch", "/api/v1/nodes?watch=true", "nodes"),
            line(own, "update", "/apis/coordination.k8s.io/v1/namespaces/a/leases/b", "leases"),
            line(own, "patch", "/api/v1/nodes/a/status?dryRun=All", "nodes"),
            line("kubectl/v1.37.1", "list", "/api/v1/pods", "pods"),
        ]
        .concat();
        fs::write(&log.path, &text).unwrap();
        assert_eq!(log.count().unwrap(), Requests::default());
        text += &line(own, "list", "/api/v1/pods?fieldSelector=spec.nodeName%3Da", "pods");
        text += &line(own, "get", "/version", "");
        text += &line(own, "patch", "/api/v1/nodes/a/status", "nodes");
        // The line that is being written counts when it is whole.
        fs::write(&log.path, text.clone() + "{\"userAgent\":").unwrap();
        assert_eq!(log.count().unwrap(), Requests { reads: 2, writes: 1 });
        text += &line(own, "create", "/apis/events.k8s.io/v1/namespaces/default/events", "events");
        fs::write(&log.path, text).unwrap();
        assert_eq!(log.count().unwrap(), Requests { reads: 2, writes: 2 });
        fs::remove_dir_all(dir).unwrap();
    }
}
