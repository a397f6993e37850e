//! The control plane with the chart's objects, and the bench's requests to it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use futures::TryStreamExt as _;
use harness::ControlPlane;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client, Config};
use node_resource_advertiser::cluster::client::with_config;
use node_resource_advertiser::cluster::protobuf;
use node_resource_advertiser::model::api::{NodeCounts, NodeExtendedResource, ShrinkPolicy};
use node_resource_advertiser::model::node::{ApiNode, Interner, Node};
use node_resource_advertiser::model::pod::pod_use::ApiPod;
use node_resource_advertiser::planner::rules::{Rule, RuleSet};
use serde_json::{Value, json};

pub const RESOURCE: &str = "example.com/dongle";
pub const QUANTITY: i64 = 4;
/// The lowered quantity of the rule: not below what pods request, which would hold their nodes.
pub const LOWERED: i64 = 2;
/// A quantity below what pods request.
pub const HELD: i64 = 1;
pub const RULE: &str = "dongle";
/// The raised quantity of the rule: so far above the lowered one that many pods hold it.
pub const RAISED: i64 = 32;
/// Another resource, which a second rule rolls out while the rows about one node are measured.
pub const OTHER_RESOURCE: &str = "example.com/license";
pub const OTHER_RULE: &str = "license";
/// The chart's maximum of patches per second for a rollout.
pub const ROLLOUT_RATE: u32 = 50;
/// Maximum of patches in flight, in the controller and in the baseline.
pub const MAX_CONCURRENT_PATCHES: usize = 16;

/// The CRD, and everything else that the chart installs. No kubelet runs its Deployment.
const INSTALL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/install.yaml");

/// The controller's.
const PAGE_SIZE: u32 = 200;
/// The pods that it watches, and the page size of their list.
const BOUND: &str = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed";
pub const POD_PAGE_SIZE: u32 = 2500;

pub struct Cluster {
    pub control_plane: ControlPlane,
    pub client: Client,
    pub config: Config,
    pub node_count: usize,
    own_requests: RefCell<BTreeMap<String, u64>>,
}

impl Cluster {
    /// Starts the control plane, without nodes.
    pub async fn start(node_count: usize) -> Result<Self> {
        let control_plane = ControlPlane::builder().start()?;
        let config = read_config(&control_plane.kubeconfig()).await?;
        let client = with_config(config.clone()).await.context("no client from the kubeconfig")?;
        let cluster = Self { control_plane, client, config, node_count, own_requests: RefCell::default() };
        cluster.install()?;
        Ok(cluster)
    }

    /// Applies everything that the chart installs.
    pub fn install(&self) -> Result<()> {
        self.control_plane.kubectl(&["apply", "--server-side", "-f", INSTALL])?;
        let wait = ["wait", "--for=condition=Established", "crd", "--all", "--timeout=60s"];
        self.control_plane.kubectl(&wait)?;
        Ok(())
    }

    /// Returns a client for the same cluster that authenticates with `token`.
    pub async fn client_with(&self, token: String) -> Result<Client> {
        let mut config = self.config.clone();
        config.auth_info = AuthInfo { token: Some(token.into()), ..AuthInfo::default() };
        with_config(config).await.context("no client with a token")
    }

    /// Deadline of an operation on all nodes. Generous, because the machine may be busy.
    pub fn deadline(&self) -> Duration {
        Duration::from_secs(60) + Duration::from_millis(50) * u32::try_from(self.node_count).unwrap_or(u32::MAX)
    }

    /// Lists the nodes in pages, as JSON.
    pub async fn list_nodes(&self) -> Result<Vec<Node>> {
        let mut nodes = Vec::new();
        let mut strings = Interner::default();
        let mut events = std::pin::pin!(watch_nodes(&self.client));
        while let Some(event) = events.try_next().await.context("cannot list the nodes")? {
            match event {
                watcher::Event::InitApply(node) => nodes.push(Node::new(node, &mut strings)),
                watcher::Event::InitDone => break,
                _ => {}
            }
        }
        Ok(nodes)
    }

    fn rules(&self) -> Api<NodeExtendedResource> {
        Api::all(self.client.clone())
    }

    /// Creates the rule, which selects every node.
    pub async fn create_rule(&self) -> Result<()> {
        self.create_rule_with(ShrinkPolicy::WhenFree).await
    }

    pub async fn create_rule_with(&self, shrink_policy: ShrinkPolicy) -> Result<()> {
        let mut rule = rule(RULE, RESOURCE, QUANTITY)?;
        rule.spec.shrink_policy = shrink_policy;
        self.create(&rule).await
    }

    async fn create(&self, rule: &NodeExtendedResource) -> Result<()> {
        let created = self.rules().create(&PostParams::default(), rule).await;
        created.context("the rule cannot be created")?;
        self.count_own_request("POST nodeextendedresources");
        Ok(())
    }

    /// Creates the second rule, which selects every node too.
    pub async fn create_other_rule(&self, shrink_policy: ShrinkPolicy) -> Result<()> {
        let mut rule = rule(OTHER_RULE, OTHER_RESOURCE, QUANTITY)?;
        rule.spec.shrink_policy = shrink_policy;
        self.create(&rule).await
    }

    /// Deletes the second rule.
    pub async fn delete_other_rule(&self) -> Result<()> {
        self.delete(OTHER_RULE).await
    }

    /// Counts the nodes with the second rule's resource.
    pub async fn count_other(&self) -> Result<usize> {
        let nodes = self.list_nodes().await?;
        Ok(nodes.iter().filter(|node| has_other(node)).count())
    }

    /// Waits until no node has the second rule's resource.
    pub async fn wait_other_withdrawn(&self) -> Result<()> {
        let withdrawn = async {
            while self.count_other().await? > 0 {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            anyhow::Ok(())
        };
        let deadline = self.deadline();
        tokio::time::timeout(deadline, withdrawn)
            .await
            .with_context(|| format!("nodes still have {OTHER_RESOURCE} after {deadline:?}"))?
    }

    /// Edits the rule's spec.
    pub async fn edit_rule(&self, spec: Value) -> Result<()> {
        let edit = Patch::Merge(json!({ "spec": spec }));
        let edited = self.rules().patch(RULE, &PatchParams::default(), &edit).await;
        edited.context("the rule cannot be edited")?;
        self.count_own_request("PATCH nodeextendedresources");
        Ok(())
    }

    pub async fn delete_rule(&self) -> Result<()> {
        self.delete(RULE).await
    }

    async fn delete(&self, name: &str) -> Result<()> {
        let deleted = self.rules().delete(name, &DeleteParams::default()).await;
        deleted.context("the rule cannot be deleted")?;
        self.count_own_request("DELETE nodeextendedresources");
        Ok(())
    }

    /// Waits until the rule's status reports all nodes, as the rule is now.
    pub async fn wait_rule_ready(&self) -> Result<()> {
        let desired = format!("{0}/{0}", self.node_count);
        self.wait_status(&desired, |nodes| nodes.summary == desired).await
    }

    /// Waits until the rule's status, as the rule is now, reports `count` held nodes or more.
    pub async fn wait_held(&self, count: usize) -> Result<()> {
        let count = i64::try_from(count)?;
        self.wait_status(&format!("{count} held nodes"), |nodes| nodes.held >= count).await
    }

    async fn wait_status(&self, what: &str, is_so: impl Fn(&NodeCounts) -> bool) -> Result<()> {
        let reported = async {
            loop {
                self.count_own_request("GET nodeextendedresources");
                let rule = self.rules().get(RULE).await.context("cannot read the rule")?;
                let generation = rule.metadata.generation;
                let status = rule.status.filter(|status| status.observed_generation == generation);
                if status.and_then(|status| status.nodes).is_some_and(|nodes| is_so(&nodes)) {
                    return anyhow::Ok(());
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        let deadline = self.deadline();
        tokio::time::timeout(deadline, reported)
            .await
            .with_context(|| format!("the rule's status is not {what} after {deadline:?}"))?
    }

    /// Counts a request of the bench itself, to subtract it from those of the controller.
    pub fn count_own_request(&self, request: &str) {
        *self.own_requests.borrow_mut().entry(request.to_owned()).or_default() += 1;
    }

    pub fn own_requests(&self) -> BTreeMap<String, u64> {
        self.own_requests.borrow().clone()
    }
}

pub async fn read_config(kubeconfig: &Path) -> Result<Config> {
    let kubeconfig = Kubeconfig::read_from(kubeconfig).context("cannot read the kubeconfig")?;
    let options = KubeConfigOptions::default();
    Config::from_custom_kubeconfig(kubeconfig, &options).await.context("an unusable kubeconfig")
}

/// Opens a watch like the controller's, in the encoding of `client`.
pub fn watch_nodes(
    client: &Client,
) -> impl futures::Stream<Item = watcher::Result<watcher::Event<ApiNode>>> + Send + use<> {
    let by_pages = watcher::Config::default().page_size(PAGE_SIZE);
    watcher(Api::<ApiNode>::all(client.clone()), by_pages).default_backoff()
}

/// Opens a watch like the controller's, as protobuf.
pub fn watch_pods(
    client: &Client,
) -> impl futures::Stream<Item = watcher::Result<watcher::Event<ApiPod>>> + Send + use<> {
    let bound = watcher::Config::default().fields(BOUND).page_size(POD_PAGE_SIZE);
    watcher(Api::<ApiPod>::all(protobuf::client(client, protobuf::Objects::Pods)), bound).default_backoff()
}

pub fn has_other(node: &Node) -> bool {
    let amounts = [&node.capacity, &node.allocatable];
    amounts.iter().any(|map| map.as_ref().is_some_and(|map| map.get(OTHER_RESOURCE).is_some()))
}

/// Returns a rule that selects every node.
fn rule(name: &str, resource: &str, quantity: i64) -> Result<NodeExtendedResource> {
    let rule = json!({
        "apiVersion": "noderesource.dev/v1alpha1", "kind": "NodeExtendedResource",
        "metadata": {"name": name},
        "spec": {
            "resourceName": resource,
            "quantity": quantity,
            "nodeSelector": {"matchLabels": {"kubernetes.io/os": "linux"}},
        },
    });
    serde_json::from_value(rule).context("the rule does not decode")
}

/// Returns the same rule in the planner's form, or no rule.
pub fn rule_set(quantity: Option<i64>) -> Result<RuleSet> {
    let Some(quantity) = quantity else { return Ok(RuleSet::default()) };
    Ok(RuleSet::new([Arc::new(Rule::new(&rule(RULE, RESOURCE, quantity)?)?)], []))
}
