//! `pod`: what one pod requests, and who else requests it on its node.

use kube::Client;
use serde::Serialize;

use super::answer::{Answer, AnswerError, Common, names_kind};
use super::view::{ResourceView, ShareView, explain_marks, state};
use crate::cli::table::Row;
use crate::inspect::inventory::placement::Placement;
use crate::inspect::inventory::pods::PodEntry;
use crate::inspect::inventory::share::Use;
use crate::inspect::inventory::{Inventory, read};

/// Those of NFD, Koordinator and others: the scheduler counts them, and no rule can declare them.
pub(super) const NO_REQUESTS: &str =
    "The pod requests no extended resources; names below kubernetes.io, which no rule can declare, are not looked at";

/// Show the extended resources that one pod requests, and what its node has of them
///
/// For a pod without a node, `why` explains more.
#[derive(Debug, clap::Args)]
#[command(after_help = super::answer::help(
    "Examples:
  # What a pod requests, and who else does on its node
  node-resource-advertiser pod train-1 -n team-a",
))]
pub(crate) struct Args {
    /// Name of the pod, pod/NAME, or NAMESPACE/NAME
    #[arg(value_name = "POD")]
    pod: String,
    /// Namespace of the pod [default: the kubeconfig's]
    #[arg(short, long, value_name = "NAME")]
    namespace: Option<String>,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct PodAnswer {
    namespace: String,
    name: String,
    phase: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<String>,
    /// The scheduler's message.
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    /// Why the pod failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<String>,
    /// The DeviceClasses that the pod requests by name, from DRA.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    device_classes: Vec<String>,
    resources: Vec<PodResource>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct PodResource {
    pod_requests: String,
    /// Whether the pod has it from a ResourceClaim (DRA).
    from_claim: bool,
    #[serde(flatten)]
    resource: ResourceView,
    /// On the pod's node.
    #[serde(skip_serializing_if = "Option::is_none")]
    on_node: Option<ShareView>,
}

/// The pod that a question is about, where it may be, and everything else.
pub(super) struct Subject {
    pub(super) pod: PodEntry,
    pub(super) placement: Placement,
    pub(super) inventory: Inventory,
}

impl Subject {
    /// Reads the pod and everything else, at about one moment.
    pub(super) async fn read(common: &Common, client: &Client, place: &Place) -> Result<Self, AnswerError> {
        // First, so that a wrong name costs one request.
        let before = place.get(client).await?;
        let inventory = common.read_around_pod(client).await?;
        Self::of(before, inventory, client).await
    }

    /// Returns the pod as the inventory has it, which is read later.
    pub(super) async fn of(
        (before, placement): (PodEntry, Placement),
        inventory: Inventory,
        client: &Client,
    ) -> Result<Self, AnswerError> {
        let listed = inventory.pods().find(|pod| (&pod.namespace, &pod.name) == (&before.namespace, &before.name));
        let pod = match listed {
            Some(listed) => listed.clone(),
            // It has ended since, or is deleted.
            None if before.counts() && inventory.pods.is_some() => {
                let [namespace, name] = [&before.namespace, &before.name].map(ToString::to_string);
                Place { namespace, name }.get(client).await?.0
            }
            None => before,
        };
        Ok(Self { pod, placement, inventory })
    }
}

/// Where a pod is.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) namespace: String,
    pub(super) name: String,
}

impl Place {
    /// Returns the place that a word names: `NAME`, `pod/NAME` or `NAMESPACE/NAME`, which has to be in the namespace of `-n`.
    pub(super) fn named(word: &str, namespace: Option<&str>, default: &str) -> Result<Self, AnswerError> {
        let default = namespace.unwrap_or(default);
        let (own, name) = match word.split_once('/') {
            // As `-o name` of kubectl prints it.
            Some((kind, name)) if names_kind(kind, "pod", "po") => (default, name),
            Some((namespace, name)) => (namespace, name),
            None => (default, word),
        };
        if namespace.is_some_and(|given| given != own) {
            return Err(AnswerError::NotFound(format!("{word} is not in the namespace of -n")));
        }
        Ok(Self { namespace: own.to_owned(), name: name.to_owned() })
    }

    /// Reads the pod, and where it may be.
    pub(super) async fn get(&self, client: &Client) -> Result<(PodEntry, Placement), AnswerError> {
        let Self { namespace, name } = self;
        let pod = read::pod(client, namespace, name).await?;
        pod.ok_or_else(|| {
            AnswerError::NotFound(format!("there is no pod {name} in the namespace {namespace} (-n selects another)"))
        })
    }
}

pub(crate) async fn run(args: Args) -> Result<(), AnswerError> {
    let client = args.common.connect().await?;
    let place = Place::named(&args.pod, args.namespace.as_deref(), client.default_namespace())?;
    let Subject { pod, inventory, .. } = Subject::read(&args.common, &client, &place).await?;
    args.common.print(&answer(&inventory, &pod), &inventory.gaps)
}

fn answer(inventory: &Inventory, pod: &PodEntry) -> PodAnswer {
    let uses = inventory.uses();
    let amounts = pod.requests.iter().map(|amount| (amount, false));
    let amounts = amounts.chain(pod.claimed.iter().map(|amount| (amount, true)));
    let nothing = Use::default();
    let resources = amounts.map(|((resource, quantity), from_claim)| {
        let of_resource = uses.get(&**resource).unwrap_or(&nothing);
        let share = pod.node.as_ref().and_then(|node| of_resource.shares.get(node));
        PodResource {
            pod_requests: quantity.to_string(),
            from_claim,
            resource: ResourceView::new(inventory, resource, of_resource),
            on_node: share.map(|share| ShareView::new(inventory, share, None)),
        }
    });
    PodAnswer {
        namespace: pod.namespace.to_string(),
        name: pod.name.to_string(),
        phase: state(pod),
        node: pod.node.as_ref().map(ToString::to_string),
        message: pod.message.as_deref().map(str::to_owned),
        failure: pod.failure.as_deref().map(str::to_owned),
        device_classes: pod.device_classes.iter().map(ToString::to_string).collect(),
        resources: resources.collect(),
    }
}

impl Answer for PodAnswer {
    const KIND: &'static str = "PodResources";

    fn table(&self, is_wide: bool) -> (Vec<&'static str>, Vec<Row>) {
        let Self { namespace, name, phase, node, resources, .. } = self;
        let place = node.as_ref().map_or_else(|| phase.clone(), |node| format!("{phase} on {node}"));
        let mut rows =
            vec![Row::new([format!("{namespace}/{name}").into(), "".into(), "".into(), "".into(), place.into()])];
        for PodResource { pod_requests, from_claim, resource, on_node } in resources {
            let owners = if *from_claim { "from DRA".to_owned() } else { resource.owners.text(is_wide) };
            let [total, _, free] = on_node.as_ref().map(ShareView::cells).unwrap_or_default();
            let requested = pod_requests.clone().into();
            rows.push(Row::below(1, [resource.resource.clone().into(), total, requested, free, owners.into()]));
            let others = on_node.iter().flat_map(|share| &share.pods);
            let others = others.filter(|pod| (&pod.namespace, &pod.name) != (namespace, name));
            rows.extend(others.map(|pod| pod.row(2)));
        }
        (vec!["NAME", "NODE HAS", "REQUESTED", "FREE", "STATE OR RULES"], rows)
    }

    fn names(&self) -> Vec<String> {
        self.resources.iter().map(|resource| resource.resource.resource.clone()).collect()
    }

    fn remarks(&self) -> Vec<String> {
        let none = self.resources.is_empty().then(|| NO_REQUESTS.to_owned());
        let message = self.message.as_ref().map(|message| format!("The scheduler says: {message}"));
        let failure = self.failure.as_ref().map(|failure| format!("Its status says: {failure}"));
        let classes = self.device_classes.iter().map(|class| format!("It also requests DeviceClass {class} from DRA"));
        let marks = explain_marks(self.resources.iter().map(|resource| &resource.resource.owners));
        none.into_iter().chain(message).chain(failure).chain(classes).chain(marks).collect()
    }
}
