//! The control plane with the CRD in it, and what is asked of it outside the measured times.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use futures::TryStreamExt as _;
use harness::ControlPlane;
use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client, Config};
use node_resource_advertiser::cluster::client::with_config;
use node_resource_advertiser::model::api::{DeclaredQuantity, NodeExtendedResource};
use node_resource_advertiser::model::node::{ApiNode, Node, Strings};
use node_resource_advertiser::planner::rules::{Rule, RuleSet};
use serde_json::json;

use crate::observer::Observer;
use crate::policy;

pub const RESOURCE: &str = "example.com/dongle";
pub const QUANTITY: i64 = 4;
pub const RULE: &str = "dongle";

/// The CRD, and all else that the chart installs. Nothing here runs its Deployment.
const INSTALL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/install.yaml");

/// As many as the controller asks for at once.
const PAGE_SIZE: u32 = 200;

pub struct Cluster {
    pub control_plane: ControlPlane,
    pub client: Client,
    pub nodes: usize,
    config: Config,
}

impl Cluster {
    pub async fn start(nodes: usize) -> Result<Self> {
        let control_plane = ControlPlane::builder().start()?;
        let config = config(&control_plane.kubeconfig()).await?;
        let client = with_config(config.clone()).context("no client from the kubeconfig")?;
        let cluster = Self { control_plane, client, nodes, config };
        cluster.install()?;
        policy::unbind(&cluster).await?;
        Ok(cluster)
    }

    /// Has everything there that the chart installs.
    pub fn install(&self) -> Result<()> {
        self.control_plane.kubectl(&["apply", "--server-side", "-f", INSTALL])?;
        let wait = ["wait", "--for=condition=Established", "crd", "--all", "--timeout=60s"];
        self.control_plane.kubectl(&wait)?;
        Ok(())
    }

    /// A client for the same cluster with a token.
    pub fn client_with(&self, token: String) -> Result<Client> {
        let mut config = self.config.clone();
        config.auth_info = AuthInfo { token: Some(token.into()), ..AuthInfo::default() };
        with_config(config).context("no client with a token")
    }

    pub async fn observer(&self) -> Result<Observer> {
        Observer::start(self.config.clone(), self.nodes).await
    }

    /// How long anything that is done to every node may take. Generous: the machine may be busy.
    pub fn deadline(&self) -> Duration {
        Duration::from_secs(60)
            + Duration::from_millis(50) * u32::try_from(self.nodes).unwrap_or(u32::MAX)
    }

    /// Lists the nodes like the controller does.
    pub async fn list(&self) -> Result<Vec<Node>> {
        let mut nodes = Vec::new();
        let mut strings = Strings::default();
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

    /// How many patches of a node's status there have been.
    pub fn patches(&self) -> Result<u64> {
        self.control_plane.request_count("PATCH", "nodes", "status")
    }

    /// How many writes there have been to what the controller writes to.
    pub fn writes(&self) -> Result<u64> {
        let counts = self.control_plane.request_counts()?;
        let writes = counts.iter().filter(|((verb, resource, _), _)| {
            matches!(resource.as_str(), "nodes" | "nodeextendedresources" | "events")
                && !matches!(verb.as_str(), "GET" | "LIST" | "WATCH")
        });
        Ok(writes.map(|(_, count)| count).sum())
    }

    /// How much CPU time the API server has used, in milliseconds. What else the machine
    /// does tells on it too, though less than on wall time.
    pub fn apiserver_cpu(&self) -> Result<f64> {
        let path = format!("/proc/{}/stat", self.control_plane.apiserver_pid());
        let stat = std::fs::read_to_string(&path).with_context(|| path.clone())?;
        // Past the name, which may have blanks in it, utime and stime are the 12th and 13th, in
        // hundredths of a second.
        let (_, fields) = stat.rsplit_once(") ").with_context(|| path.clone())?;
        let times = fields.split(' ').skip(11).take(2).map(str::parse::<f64>);
        let ticks = times.sum::<Result<f64, _>>().with_context(|| path.clone())?;
        Ok(ticks * 10.0)
    }

    pub fn rules(&self) -> Api<NodeExtendedResource> {
        Api::all(self.client.clone())
    }

    /// Waits until the rule's status says that all nodes have it.
    pub async fn wait_rule_ready(&self) -> Result<()> {
        let wanted = format!("{0}/{0}", self.nodes);
        let ready = async {
            loop {
                let rule = self.rules().get(RULE).await.context("cannot read the rule")?;
                let nodes = rule.status.and_then(|status| status.nodes);
                if nodes.is_some_and(|nodes| nodes.summary == wanted) {
                    return anyhow::Ok(());
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        let deadline = self.deadline();
        tokio::time::timeout(deadline, ready)
            .await
            .with_context(|| format!("waited {deadline:?} in vain for the rule to say {wanted}"))?
    }
}

async fn config(kubeconfig: &Path) -> Result<Config> {
    let kubeconfig = Kubeconfig::read_from(kubeconfig).context("cannot read the kubeconfig")?;
    let options = KubeConfigOptions::default();
    Config::from_custom_kubeconfig(kubeconfig, &options).await.context("a kubeconfig of no use")
}

/// A watch such as the controller's.
pub fn watch_nodes(
    client: &Client,
) -> impl futures::Stream<Item = watcher::Result<watcher::Event<ApiNode>>> + Send + use<> {
    let by_pages = watcher::Config::default().page_size(PAGE_SIZE);
    watcher(Api::<ApiNode>::all(client.clone()), by_pages).default_backoff()
}

/// The rule that is rolled out.
pub fn rule() -> Result<NodeExtendedResource> {
    let rule = json!({
        "apiVersion": "noderesource.dev/v1alpha1", "kind": "NodeExtendedResource",
        "metadata": {"name": RULE},
        "spec": {
            "resourceName": RESOURCE,
            "quantity": DeclaredQuantity::Int(QUANTITY),
            "nodeSelector": {},
        },
    });
    serde_json::from_value(rule).context("the rule is none")
}

/// The same, as the plan takes it.
pub fn rule_set() -> Result<RuleSet> {
    Ok(RuleSet::new([Arc::new(Rule::new(&rule()?)?)], []))
}
