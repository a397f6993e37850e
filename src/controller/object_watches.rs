//! The watches of rules and of nodes, which take turns, so that rules that come and go do not delay repairs; and those of
//! what a cluster may not serve.

use std::iter;

use futures::stream::{self, BoxStream};
use futures::{FutureExt as _, Stream, StreamExt as _, future};
use kube::api::{ApiResource, GroupVersionKind};
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client};

use crate::cluster::bounded_pages;
use crate::cluster::optional_watch::watch_optional;
use crate::cluster::paging::PAGE_SIZE;
use crate::cluster::protobuf::{self, Objects};
use crate::cluster::watch::{Sign, reporting, watch};
use crate::model::node::ApiNode;
use crate::reconciler::device_classes::DeviceClass;
use crate::reconciler::effect::{Observation, Watched};
use crate::reconciler::protection::{self, PolicyObject};
use crate::reconciler::rules::RuleObject;

/// The number of rules that are observed before nodes are planned, and rules compiled, again. One takes up to 1.5 MB.
const RULES_AT_ONCE: usize = 8;

pub(super) struct ObjectWatches {
    rules: Api<RuleObject>,
    nodes: Api<ApiNode>,
    seed: u64,
    rule_events: BoxStream<'static, Vec<watcher::Result<Event<RuleObject>>>>,
    node_events: BoxStream<'static, watcher::Result<Event<ApiNode>>>,
    signs: BoxStream<'static, Observation>,
    /// Whether it is the rules' turn.
    rules_first: bool,
}

impl ObjectWatches {
    pub(super) fn new(client: &Client, seed: u64) -> Self {
        let (client_of_rules, of_rules) = reporting(client);
        let (client_of_nodes, of_nodes) = reporting(client);
        let rules = Api::all(bounded_pages::client(&client_of_rules));
        let nodes = Api::all(protobuf::client(&client_of_nodes, Objects::Nodes));
        let observed = |watched| {
            move |sign| match sign {
                Sign::Accepted => Observation::WatchBegan(watched),
                Sign::Heard => Observation::WatchHeard(watched),
            }
        };
        let signs = stream::select(of_rules.map(observed(Watched::Rules)), of_nodes.map(observed(Watched::Nodes)));
        Self {
            rule_events: watch_rules(&rules, seed),
            node_events: watch_nodes(&nodes, seed),
            rules,
            nodes,
            seed,
            signs: signs.boxed(),
            rules_first: true,
        }
    }

    /// Begins the watch of these anew, with a list.
    pub(super) fn list_again(&mut self, watched: Watched) {
        match watched {
            Watched::Rules => self.rule_events = watch_rules(&self.rules, self.seed),
            Watched::Nodes => self.node_events = watch_nodes(&self.nodes, self.seed),
        }
    }

    /// Returns what happens next. No watch ends.
    pub(super) async fn next(&mut self) -> Vec<Observation> {
        let Self { rule_events, node_events, signs, rules_first, .. } = self;
        let rules =
            rule_events.next().map(|events| events.into_iter().flatten().map(Observation::Rule).collect::<Vec<_>>());
        let nodes = node_events.next().map(|event| event.into_iter().map(Observation::Node).collect::<Vec<_>>());
        let mut turns = [rules.boxed(), nodes.boxed()];
        if !*rules_first {
            turns.reverse();
        }
        tokio::select! {
            biased;
            Some(sign) = signs.next() => vec![sign],
            (observations, ..) = future::select_all(turns) => {
                *rules_first = !*rules_first;
                // A watch that has begun in between may have ended in between too.
                let signs = iter::from_fn(|| signs.next().now_or_never().flatten());
                signs.chain(observations).collect()
            }
        }
    }
}

fn watch_rules(rules: &Api<RuleObject>, seed: u64) -> BoxStream<'static, Vec<watcher::Result<Event<RuleObject>>>> {
    let by_pages = watcher::Config::default().page_size(bounded_pages::PAGE_SIZE);
    watch(rules.clone(), by_pages, seed).ready_chunks(RULES_AT_ONCE).boxed()
}

fn watch_nodes(nodes: &Api<ApiNode>, seed: u64) -> BoxStream<'static, watcher::Result<Event<ApiNode>>> {
    watch(nodes.clone(), watcher::Config::default().page_size(PAGE_SIZE), seed).boxed()
}

/// Watches DeviceClasses.
pub(super) fn device_classes(
    client: Client,
    seed: u64,
) -> impl Stream<Item = watcher::Result<Event<DeviceClass>>> + Send {
    let kind = GroupVersionKind::gvk("resource.k8s.io", "v1", "DeviceClass");
    let resource = ApiResource::from_gvk_with_plural(&kind, "deviceclasses");
    let classes = Api::<DeviceClass>::all_with(client, &resource);
    watch_optional(classes, watcher::Config::default(), seed)
}

/// Watches the policies and bindings with the label of the protection.
pub(super) fn policies(
    client: Client,
    seed: u64,
) -> impl Stream<Item = (protection::Kind, watcher::Result<Event<PolicyObject>>)> + Send {
    let watch = |kind: &str, plural: &str| {
        let gvk = GroupVersionKind::gvk("admissionregistration.k8s.io", "v1", kind);
        let resource = ApiResource::from_gvk_with_plural(&gvk, plural);
        let api = Api::<PolicyObject>::all_with(client.clone(), &resource);
        watch_optional(api, watcher::Config::default().labels(protection::LABEL), seed)
    };
    let policies = watch("MutatingAdmissionPolicy", "mutatingadmissionpolicies");
    let bindings = watch("MutatingAdmissionPolicyBinding", "mutatingadmissionpolicybindings");
    stream::select(
        policies.map(|event| (protection::Kind::Policy, event)),
        bindings.map(|event| (protection::Kind::Binding, event)),
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http::{Request, Response};
    use kube::client::Body;
    use tokio::time::timeout;
    use tower::BoxError;

    use super::*;
    use crate::cluster::client;

    const LIST: &str = r#"{"metadata": {"resourceVersion": "1"}, "items": []}"#;

    /// Otherwise, the pause after the failure would count as time in which the watch worked.
    #[tokio::test(start_paused = true)]
    async fn watch_that_ends_at_once_begins_before_it_fails() {
        let service = tower::service_fn(|request: Request<Body>| async move {
            let is_watch = request.uri().to_string().contains("watch=true");
            let body = if is_watch { Body::empty() } else { Body::from(LIST.as_bytes().to_vec()) };
            Response::builder().header("content-type", "application/json").body(body).map_err(BoxError::from)
        });
        let mut watches = ObjectWatches::new(&client::over(service), 7);
        let (mut begun, mut failed) = ([0; 2], [0; 2]);
        let all = async {
            loop {
                for observation in watches.next().await {
                    let watched = match &observation {
                        Observation::WatchBegan(watched) => {
                            begun[*watched as usize] += 1;
                            continue;
                        }
                        Observation::Node(Err(_)) => Watched::Nodes,
                        Observation::Rule(Err(_)) => Watched::Rules,
                        _ => continue,
                    };
                    failed[watched as usize] += 1;
                    assert_eq!(begun, failed, "{observation:?}");
                }
            }
        };
        assert!(timeout(Duration::from_secs(120), all).await.is_err());
        assert!(failed.iter().all(|failed| *failed > 10), "{failed:?}");
    }
}
