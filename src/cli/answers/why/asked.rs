//! Which pods `why` is asked about.

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::Client;
use kube::core::Selector;

use crate::cli::answers::answer::AnswerError;
use crate::cli::answers::pod::Place;
use crate::cluster::clock;
use crate::inspect::hint;
use crate::inspect::inventory::placement::Placement;
use crate::inspect::inventory::pods::PodEntry;
use crate::inspect::inventory::workloads::{self, Failing, FailingWorkloads, Kind, Workload};
use crate::inspect::inventory::{Inventory, read};
use crate::model::count::plural;
use crate::response::request_error::RequestError;

/// How long a rejected pod counts without a name, as in `doctor`.
const RECENT: SignedDuration = SignedDuration::from_hours(1);

/// Names pods.
#[derive(Debug, clap::Args)]
pub(super) struct AskedArgs {
    /// A pod (NAME, pod/NAME or NAMESPACE/NAME), or a workload: deployment/NAME, daemonset/NAME, statefulset/NAME,
    /// replicaset/NAME or job/NAME [default: every pod of the namespace without a node]
    #[arg(value_name = "POD | TYPE/NAME")]
    pod: Option<String>,
    /// Namespace of the pods [default: the kubeconfig's]
    #[arg(short, long, value_name = "NAME")]
    namespace: Option<String>,
    /// Ask about the pods of all namespaces
    #[arg(short = 'A', long, conflicts_with_all = ["namespace", "pod"])]
    all_namespaces: bool,
}

/// The pods of a question.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Asked {
    Pod(Place),
    Workload {
        kind: &'static Kind,
        place: Place,
    },
    /// All that wait, in one namespace or in all.
    Waiting(Option<String>),
}

/// The pods of a question, as they were read.
pub(super) enum AskedPods {
    One((PodEntry, Placement)),
    Group(Group),
}

/// The pods without a node of a namespace or of a workload.
pub(super) struct Group {
    /// The namespace; `None` for all.
    pub(super) namespace: Option<String>,
    pub(super) workload: Option<Workload>,
    pub(super) pods: Vec<(PodEntry, Placement)>,
    /// The pods that kubelets have rejected, lately or of the workload.
    pub(super) rejected: Vec<(PodEntry, Placement)>,
    /// The workloads whose pods cannot be created.
    pub(super) failing: Vec<Failing>,
    /// What could not be read.
    pub(super) gap: Option<String>,
}

impl AskedArgs {
    /// Returns the pods that the arguments name. Names without a namespace are in the default one.
    pub(super) fn asked(&self, default: &str) -> Result<Asked, AnswerError> {
        let Self { pod, namespace, all_namespaces } = self;
        let Some(word) = pod else {
            let one = || namespace.clone().unwrap_or_else(|| default.to_owned());
            return Ok(Asked::Waiting((!all_namespaces).then(one)));
        };
        let kind = word.split_once('/').and_then(|(kind, name)| Some((Kind::named(kind)?, name)));
        let place = |word| Place::named(word, namespace.as_deref(), default);
        Ok(match kind {
            Some((kind, name)) => Asked::Workload { kind, place: place(name)? },
            None => Asked::Pod(place(word)?),
        })
    }
}

impl Asked {
    /// Reads the pods, and where each may be.
    pub(super) async fn read(&self, client: &Client) -> Result<AskedPods, AnswerError> {
        Ok(match self {
            Self::Pod(place) => AskedPods::One(place.get(client).await?),
            Self::Workload { kind, place } => AskedPods::Group(of_workload(client, kind, place).await?),
            Self::Waiting(namespace) => AskedPods::Group(waiting(client, namespace.as_deref()).await?),
        })
    }
}

async fn waiting(client: &Client, namespace: Option<&str>) -> Result<Group, AnswerError> {
    let everything = Selector::default();
    let lately = clock::now() - RECENT;
    let (pods, rejected, failing) = tokio::join!(
        read::waiting_pods(client, namespace, &everything),
        read::rejected_pods(client, namespace, &everything, lately),
        workloads::failing_in(client, namespace),
    );
    let gap = failing_gap(&failing);
    let failing = failing.map(|failing| failing.found).unwrap_or_default();
    Ok(Group {
        namespace: namespace.map(str::to_owned),
        workload: None,
        pods: pods?,
        rejected: rejected?,
        failing,
        gap,
    })
}

/// Returns which workloads are missing in an answer.
fn failing_gap(failing: &Result<FailingWorkloads, RequestError>) -> Option<String> {
    match failing {
        Ok(FailingWorkloads { unread: 0, .. }) => None,
        Ok(FailingWorkloads { unread, .. }) => {
            let more = plural(*unread, "more workload has", "more workloads have");
            Some(format!("{more} FailedCreate events, and may be unable to create pods"))
        }
        Err(error) => {
            Some(format!("events cannot be listed: workloads whose pods cannot be created are missing ({error})"))
        }
    }
}

async fn of_workload(client: &Client, kind: &'static Kind, place: &Place) -> Result<Group, AnswerError> {
    let Place { namespace, name } = place;
    let workload = workloads::workload(client, kind, namespace, name).await?.ok_or_else(|| {
        let word = kind.word;
        AnswerError::NotFound(format!("there is no {word} {name} in the namespace {namespace} (-n selects another)"))
    })?;
    let selector = Selector::try_from(workload.selector.clone());
    let selector = selector.map_err(|error| {
        AnswerError::NotFound(format!("the selector of {} selects no pods: {error}", workload.name))
    })?;
    let (pods, rejected) = tokio::try_join!(
        read::waiting_pods(client, Some(namespace), &selector),
        read::rejected_pods(client, Some(namespace), &selector, Timestamp::MIN),
    )?;
    let failure = workload.pods.failure.clone().filter(|_| workload.pods.is_short());
    let failing = failure.map(|failure| {
        let (namespace, name) = (namespace.clone(), workload.name.clone());
        Failing { namespace, name, failure }
    });
    let failing: Vec<_> = failing.into_iter().collect();
    let is_explained = !pods.is_empty() || !rejected.is_empty() || !failing.is_empty() || !workload.pods.is_short();
    let gap = workload.gap.clone().or_else(|| (!is_explained).then(|| unexplained(&workload.name, namespace)));
    Ok(Group { namespace: Some(namespace.clone()), workload: Some(workload), pods, rejected, failing, gap })
}

/// Returns what to do about a workload that lacks pods for no known reason.
fn unexplained(workload: &str, namespace: &str) -> String {
    let describe = hint::kubectl(&format!("describe {workload} -n {namespace}"));
    format!(
        "no event says why pods of {workload} are missing: they may be about to be created, wait for earlier ones or be \
         paused; see {describe}"
    )
}

impl Group {
    /// Returns the pods as the inventory has them, which is read later: without those that have a node by now.
    pub(super) fn listed_in(mut self, inventory: &Inventory) -> Self {
        if inventory.pods.is_some() {
            self.pods.retain_mut(|(pod, _)| {
                let id = (&pod.namespace, &pod.name);
                let mut listed = inventory.pods();
                match listed.find(|listed| (&listed.namespace, &listed.name) == id) {
                    Some(listed) => {
                        *pod = listed.clone();
                        pod.node.is_none()
                    }
                    // One that requests no extended resource is not in an inventory.
                    None => !pod.counts(),
                }
            });
        }
        self.pods.retain(|(pod, _)| !pod.is_terminating);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workload_without_its_pods_is_described() {
        let text = unexplained("statefulset/db", "media");
        assert!(text.contains("`kubectl describe statefulset/db -n media`"), "{text}");
    }

    #[test]
    fn workloads_that_were_not_looked_at_are_a_gap() {
        let gap = |unread| failing_gap(&Ok(FailingWorkloads { found: Vec::new(), unread }));
        assert_eq!(gap(0), None);
        let expected = "1 more workload has FailedCreate events, and may be unable to create pods";
        assert_eq!(gap(1).as_deref(), Some(expected));
        assert!(gap(1234).is_some_and(|gap| gap.starts_with("1,234 more workloads have")));
    }

    #[test]
    fn words_name_pods_and_workloads() {
        let asked = |word: Option<&str>, namespace: Option<&str>, all_namespaces: bool| {
            let [pod, namespace] = [word, namespace].map(|word| word.map(str::to_owned));
            AskedArgs { pod, namespace, all_namespaces }.asked("default")
        };
        let place = |namespace: &str, name: &str| Place { namespace: namespace.to_owned(), name: name.to_owned() };
        let deployment = Kind::named("deploy").unwrap();
        for (word, namespace, expected) in [
            (None, None, Asked::Waiting(Some("default".to_owned()))),
            (None, Some("team"), Asked::Waiting(Some("team".to_owned()))),
            (Some("web"), None, Asked::Pod(place("default", "web"))),
            (Some("pods/web"), Some("team"), Asked::Pod(place("team", "web"))),
            (Some("team/web"), None, Asked::Pod(place("team", "web"))),
            (Some("deployment.apps/web"), None, Asked::Workload { kind: deployment, place: place("default", "web") }),
            (Some("deploy/web"), Some("team"), Asked::Workload { kind: deployment, place: place("team", "web") }),
        ] {
            assert_eq!(asked(word, namespace, false).unwrap(), expected, "{word:?}");
        }
        assert_eq!(asked(None, None, true).unwrap(), Asked::Waiting(None));
        assert!(asked(Some("team/web"), Some("other"), false).is_err());
    }
}
