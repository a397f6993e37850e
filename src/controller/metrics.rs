//! Prometheus metrics. Labels have few values, all known in advance: no node has its own series, and of rules a bounded
//! number has two.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;

use super::confinement;
use super::protection::State;
use super::standing::TABLE;
use crate::model::quantity::Quantity;

/// The media type of [`Metrics::text`].
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// One label, whose values are all constants in the source.
pub(crate) type Label = [(&'static str, &'static str); 1];

/// All metrics of a controller.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    /// Patches of nodes, by result.
    pub(crate) patches: Family<Label, Counter>,
    /// Values restored after another field manager changed them.
    pub(crate) repairs: Counter,
    /// Nodes that rules select, by state.
    pub(crate) nodes: Family<Label, Gauge>,
    /// Rules, by state.
    pub(crate) rules: Family<Label, Gauge>,
    /// Valid rules that select no node.
    pub(crate) rules_without_nodes: Gauge,
    /// Missing rules whose values are kept for now, because most rules are missing.
    pub(crate) rules_held: Gauge,
    /// What each rule advertises, and what pods request of it.
    pub(crate) amounts: Amounts,
    /// How many bytes rules take, about, and how many they may.
    pub(crate) rules_memory: Gauge,
    pub(crate) rules_memory_limit: Gauge,
    /// Time from when a node has to be planned until the response to its patch.
    pub(crate) event_to_patch: Histogram,
    /// Time to plan a node.
    pub(crate) plan: Histogram,
    /// Writes of statuses of rules, by result.
    pub(crate) status_writes: Family<Label, Counter>,
    /// Watches that ended and were restarted.
    pub(crate) watch_restarts: Family<Label, Counter>,
    /// How many pods cannot be decoded.
    pub(crate) unreadable_pods: Gauge,
    /// Since when a watch is broken, in seconds since the Unix epoch; 0 while it works.
    pub(crate) watch_broken: Family<Label, Gauge>,
    /// Whether this process is the leader: 1 or 0.
    pub(crate) leader: Gauge,
    /// Whether a policy keeps listed values when a kubelet resets them, by state: 1 or 0.
    pub(crate) protection: Family<Label, Gauge>,
    /// Kubelet starts after a reboot, by whether listed values were kept.
    pub(crate) kubelet_starts: Family<Label, Counter>,
    /// Whether the API server confines this account, by state: 1 or 0.
    pub(crate) confinement: Family<Label, Gauge>,
    /// Tests of the confinement, by result.
    pub(crate) confinement_tests: Family<Label, Counter>,
}

/// The gauges that only a leader exports: alerts take the maximum over all replicas.
#[derive(Debug)]
pub(crate) struct LeaderGauges {
    /// Nodes that rules select, by state.
    pub(crate) nodes: Vec<(&'static str, usize)>,
    /// Rules, by state.
    pub(crate) rules: [(&'static str, usize); RULE_STATES.len()],
    pub(crate) rules_without_nodes: usize,
    pub(crate) rules_held: usize,
}

/// Whether listed values were kept when a kubelet started.
pub(crate) const KEPT: Label = [("values", "kept")];
pub(crate) const RESET: Label = [("values", "reset")];

/// The states of a rule, from its conditions.
pub(crate) const RULE_STATES: [&str; 3] = ["ready", "not_ready", "stalled"];

/// Histogram buckets, in seconds. The threshold of an alert is one of them, since a quantile between two is
/// interpolated.
const EVENT_TO_PATCH: [f64; 14] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 30.0, 300.0];
const PLAN: [f64; 7] = [0.000_001, 0.000_01, 0.000_1, 0.001, 0.01, 0.1, 1.0];

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("node_resource_advertiser");
        let metrics = Self {
            patches: Family::default(),
            repairs: Counter::default(),
            nodes: Family::default(),
            rules: Family::default(),
            rules_without_nodes: Gauge::default(),
            rules_held: Gauge::default(),
            amounts: Amounts::default(),
            rules_memory: Gauge::default(),
            rules_memory_limit: Gauge::default(),
            event_to_patch: Histogram::new(EVENT_TO_PATCH),
            plan: Histogram::new(PLAN),
            status_writes: Family::default(),
            watch_restarts: Family::default(),
            unreadable_pods: Gauge::default(),
            watch_broken: Family::default(),
            leader: Gauge::default(),
            protection: Family::default(),
            kubelet_starts: Family::default(),
            confinement: Family::default(),
            confinement_tests: Family::default(),
            registry: Registry::default(),
        };
        // A missing series cannot be distinguished from a series that is gone.
        for result in ["patched", "stale", "not_found", "forbidden", "failed"] {
            drop(metrics.patches.get_or_create(&[("result", result)]));
        }
        for result in ["written", "gone", "rejected", "forbidden", "failed"] {
            drop(metrics.status_writes.get_or_create(&[("result", result)]));
        }
        metrics.report(None);
        for resource in ["nodes", "rules", "pods"] {
            drop(metrics.watch_restarts.get_or_create(&[("resource", resource)]));
            metrics.watch_broken(resource, 0);
        }
        set_all(&metrics.protection, "state", State::NAMES.map(|state| (state, 0)));
        [KEPT, RESET].iter().for_each(|values| drop(metrics.kubelet_starts.get_or_create(values)));
        let states = confinement::State::NAMES.map(|state| (state, 0));
        set_all(&metrics.confinement, "state", states);
        for result in confinement::State::RESULTS {
            drop(metrics.confinement_tests.get_or_create(&[("result", result)]));
        }
        registry.register("patches", "Patches of nodes, by result", metrics.patches.clone());
        registry.register(
            "repairs",
            "Values restored after another field manager changed them",
            metrics.repairs.clone(),
        );
        registry.register(
            "nodes",
            "Nodes that rules select, by state; a node that two rules select counts twice",
            metrics.nodes.clone(),
        );
        registry.register("rules", "Rules, by state", metrics.rules.clone());
        registry.register(
            "rules_without_nodes",
            "Valid rules that select no node",
            metrics.rules_without_nodes.clone(),
        );
        registry.register(
            "rules_held",
            "Missing rules whose values are kept for now, because most rules are missing",
            metrics.rules_held.clone(),
        );
        registry.register_collector(Box::new(metrics.amounts.clone()));
        registry.register("rules_memory_bytes", "Memory that rules take, about", metrics.rules_memory.clone());
        registry.register(
            "rules_memory_limit_bytes",
            "Memory that rules may take: the youngest of those that do not fit are stalled",
            metrics.rules_memory_limit.clone(),
        );
        registry.register(
            "event_to_patch_duration_seconds",
            "Time from when a node has to be planned until the response to its patch, without rollouts",
            metrics.event_to_patch.clone(),
        );
        registry.register("plan_duration_seconds", "Time to plan a node", metrics.plan.clone());
        registry.register("status_writes", "Writes of statuses of rules, by result", metrics.status_writes.clone());
        registry.register("watch_restarts", "Watches that ended and were restarted", metrics.watch_restarts.clone());
        registry.register(
            "unreadable_pods",
            "Bound pods that cannot be decoded, so that their requests are not known",
            metrics.unreadable_pods.clone(),
        );
        registry.register(
            "watch_broken_timestamp_seconds",
            "Since when a watch is broken, in seconds since the Unix epoch; 0 while it works",
            metrics.watch_broken.clone(),
        );
        registry.register("leader", "Whether this process is the leader (1) or a standby (0)", metrics.leader.clone());
        registry.register(
            "protection",
            "Whether a policy keeps listed values when a kubelet resets them: 1 for the current state",
            metrics.protection.clone(),
        );
        registry.register(
            "kubelet_starts",
            "Kubelet starts after a reboot, by whether the kubelet reset listed values",
            metrics.kubelet_starts.clone(),
        );
        registry.register(
            "confinement",
            "Whether the API server rejects forbidden changes by this account: 1 for the result of the last test",
            metrics.confinement.clone(),
        );
        registry.register(
            "confinement_tests",
            "Dry runs that the API server must reject, by result",
            metrics.confinement_tests.clone(),
        );
        let version = [("version", env!("CARGO_PKG_VERSION"))];
        registry.register("build", "Build information", Info::new(version));
        Self { registry, ..metrics }
    }
}

impl Metrics {
    /// Returns the metrics in the text format of `OpenMetrics`, which Prometheus reads.
    ///
    /// # Errors
    /// If formatting fails, which writing to a string does not.
    pub fn text(&self) -> Result<String, std::fmt::Error> {
        let mut text = String::new();
        encode(&mut text, &self.registry)?;
        Ok(text)
    }

    /// Counts the lines of the log that are lost, by a function that is called when metrics are read.
    pub fn count_lost_lines(&mut self, lost: impl Fn() -> usize + Send + Sync + 'static) {
        self.registry.register_collector(Box::new(LostLines(Box::new(lost))));
    }

    /// Sets the gauges of a leader; all of them are 0 where a process does not lead.
    pub(crate) fn report(&self, gauges: Option<&LeaderGauges>) {
        let none = LeaderGauges {
            nodes: TABLE.map(|row| (row.name, 0)).into(),
            rules: RULE_STATES.map(|state| (state, 0)),
            rules_without_nodes: 0,
            rules_held: 0,
        };
        let LeaderGauges { nodes, rules, rules_without_nodes, rules_held } = gauges.unwrap_or(&none);
        set_all(&self.nodes, "state", nodes.iter().copied());
        set_all(&self.rules, "state", *rules);
        set(&self.rules_without_nodes, *rules_without_nodes);
        set(&self.rules_held, *rules_held);
    }

    /// Counts the response to a patch.
    pub(crate) fn patched(&self, result: &'static str) {
        self.patches.get_or_create(&[("result", result)]).inc();
    }

    /// Counts the response to a write of a status.
    pub(crate) fn status_written(&self, result: &'static str) {
        self.status_writes.get_or_create(&[("result", result)]).inc();
    }

    /// Sets since when a watch is broken; 0 while it works.
    pub(crate) fn watch_broken(&self, resource: &'static str, since: i64) {
        self.watch_broken.get_or_create(&[("resource", resource)]).set(since);
    }

    /// Counts the restart of a watch.
    pub(crate) fn restarted(&self, resource: &'static str) {
        self.watch_restarts.get_or_create(&[("resource", resource)]).inc();
    }
}

/// The lines of the log that are lost so far.
struct LostLines(Box<dyn Fn() -> usize + Send + Sync>);

impl fmt::Debug for LostLines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LostLines").field(&(self.0)()).finish()
    }
}

impl Collector for LostLines {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let lost = ConstCounter::new((self.0)() as u64);
        let help = "Lines of the log that are lost, because standard error is not read";
        lost.encode(encoder.encode_descriptor("log_lines_lost", help, None, lost.metric_type())?)
    }
}

/// The most rules that have series of their own.
const MAX_RULES: usize = 1000;

/// The rules that have series of their own. Only a leader has any.
#[derive(Clone, Debug, Default)]
pub(crate) struct Amounts(Arc<Mutex<BTreeMap<Arc<str>, RuleAmounts>>>);

/// What a rule advertises, and what pods request of that, if it is known.
#[derive(Debug)]
pub(crate) struct RuleAmounts {
    pub(crate) resource: Box<str>,
    pub(crate) advertised: Quantity,
    pub(crate) requested: Option<Quantity>,
}

impl Amounts {
    /// Sets what a rule has; `None` if it is gone.
    pub(crate) fn set(&self, rule: Arc<str>, amounts: Option<RuleAmounts>) {
        let mut rules = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match amounts {
            Some(amounts) if rules.len() < MAX_RULES || rules.contains_key(&rule) => drop(rules.insert(rule, amounts)),
            Some(_) => {}
            None => drop(rules.remove(&rule)),
        }
    }

    /// Removes all rules.
    pub(crate) fn clear(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

impl Collector for Amounts {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let rules = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut series = |name, help, amount: fn(&RuleAmounts) -> Option<Quantity>| {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for (rule, amounts) in &*rules {
                let Some(amount) = amount(amounts) else { continue };
                let labels = [("resource", &*amounts.resource), ("rule", &**rule)];
                ConstGauge::new(amount.to_float()).encode(family.encode_family(&labels)?)?;
            }
            Ok(())
        };
        let help = "Total quantity on the nodes of a rule, of up to 1,000 rules";
        series("advertised", help, |amounts| Some(amounts.advertised))?;
        let help = "Requests of pods on these nodes, while pods are watched";
        series("requested", help, |amounts| amounts.requested)
    }
}

/// Sets the gauges of a family, by the values of its one label.
pub(crate) fn set_all(
    family: &Family<Label, Gauge>,
    label: &'static str,
    counts: impl IntoIterator<Item = (&'static str, usize)>,
) {
    for (value, count) in counts {
        set(&family.get_or_create(&[(label, value)]), count);
    }
}

fn set(gauge: &Gauge, count: usize) {
    gauge.set(i64::try_from(count).unwrap_or(i64::MAX));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_beyond_a_number_have_no_series() {
        let metrics = Metrics::default();
        let set = |number: usize, requested: Option<i64>| {
            let advertised = Quantity::from(4);
            let amounts = RuleAmounts { resource: "a/b".into(), advertised, requested: requested.map(Quantity::from) };
            metrics.amounts.set(number.to_string().into(), Some(amounts));
        };
        (0..MAX_RULES + 10).for_each(|number| set(number, Some(1)));
        let count = |what: &str| metrics.text().unwrap().lines().filter(|line| line.contains(what)).count();
        assert_eq!([count("_advertised{"), count("_requested{")], [MAX_RULES; 2]);
        set(7, Some(3));
        assert_eq!(count("_requested{resource=\"a/b\",rule=\"7\"} 3.0"), 1, "a known one follows");
        set(7, None);
        assert_eq!([count("_advertised{"), count("_requested{")], [MAX_RULES, MAX_RULES - 1]);
        metrics.amounts.set("8".into(), None);
        set(MAX_RULES, Some(1));
        assert_eq!(count("_advertised{"), MAX_RULES, "there is room again");
        metrics.amounts.clear();
        assert_eq!(count("rule="), 0);
    }

    #[test]
    fn metric_series_exist_from_the_start_with_bounded_labels() {
        let metrics = Metrics::default();
        metrics.patched("patched");
        let text = metrics.text().unwrap();
        for line in [
            "node_resource_advertiser_patches_total{result=\"patched\"} 1",
            "node_resource_advertiser_patches_total{result=\"failed\"} 0",
            "node_resource_advertiser_repairs_total 0",
            "node_resource_advertiser_leader 0",
            "node_resource_advertiser_watch_restarts_total{resource=\"nodes\"} 0",
            concat!("node_resource_advertiser_build_info{version=\"", env!("CARGO_PKG_VERSION"), "\"} 1"),
            "node_resource_advertiser_rules_without_nodes 0",
            "node_resource_advertiser_event_to_patch_duration_seconds_count 0",
            "node_resource_advertiser_event_to_patch_duration_seconds_bucket{le=\"0.5\"} 0",
            "node_resource_advertiser_event_to_patch_duration_seconds_bucket{le=\"2.0\"} 0",
        ] {
            assert!(text.lines().any(|other| other == line), "{line}\n{text}");
        }
    }
}
