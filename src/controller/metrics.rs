//! Prometheus metrics. Labels have few values, all known in advance: no node has its own series, and of rules a bounded
//! number has two.

mod amounts;

use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Metric, Registry};

use amounts::Amounts;

use crate::reconciler::confinement;
use crate::reconciler::happening::{Happening, LeaderGauges};
use crate::reconciler::protection::{Start, State};
use crate::reconciler::rules_by_state::RULE_STATES;
use crate::reconciler::standing;

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
    pub(crate) rules_missing: Gauge,
    /// Recorded values that no rule declares and that pods use.
    pub(crate) values_leaving: Gauge,
    /// The sum that each rule advertises, and the pods' requests for it.
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
    /// Whether a policy keeps recorded values when a kubelet resets them, by state: 1 or 0.
    pub(crate) protection: Family<Label, Gauge>,
    /// Kubelet starts after a reboot, by whether recorded values were kept.
    pub(crate) kubelet_starts: Family<Label, Counter>,
    /// Whether the API server confines this account, by state: 1 or 0.
    pub(crate) confinement: Family<Label, Gauge>,
    /// Tests of the confinement, by result.
    pub(crate) confinement_tests: Family<Label, Counter>,
}

/// Whether recorded values were kept when a kubelet started.
pub(crate) const KEPT: Label = [("values", "kept")];
pub(crate) const RESET: Label = [("values", "reset")];

/// A label, and all values that it has.
struct Values<const N: usize>(&'static str, [&'static str; N]);

const PATCH_RESULTS: Values<5> = Values("result", ["patched", "stale", "not_found", "forbidden", "failed"]);
const STATUS_RESULTS: Values<5> = Values("result", ["written", "gone", "rejected", "forbidden", "failed"]);
const WATCHED: Values<3> = Values("resource", ["nodes", "rules", "pods"]);

/// Histogram buckets, in seconds. The threshold of an alert is one of them, since a quantile between two is
/// interpolated.
const EVENT_TO_PATCH: [f64; 14] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 30.0, 300.0];
const PLAN: [f64; 7] = [0.000_001, 0.000_01, 0.000_1, 0.001, 0.01, 0.1, 1.0];

impl Default for Metrics {
    fn default() -> Self {
        let mut new = Registering(Registry::with_prefix("node_resource_advertiser"));
        let metrics = Self {
            patches: new.counters("patches", "Patches of nodes, by result", PATCH_RESULTS),
            repairs: new.metric("repairs", "Values restored after another field manager changed them"),
            nodes: new.gauges(
                "nodes",
                "Nodes that rules select, by state; a node that two rules select counts twice",
                Values("state", standing::names()),
            ),
            rules: new.gauges("rules", "Rules, by state", Values("state", RULE_STATES)),
            rules_without_nodes: new.metric("rules_without_nodes", "Valid rules that select no node"),
            rules_missing: new
                .metric("rules_missing", "Missing rules whose values are kept for now, because most rules are missing"),
            values_leaving: new.metric(
                "values_leaving",
                "Values on nodes that no rule declares and that leave when they are unused (deletionPolicy: WhenUnused)",
            ),
            amounts: Amounts::default(),
            rules_memory: new.metric(
                "rules_memory_bytes",
                "Memory that rules take, or their states on nodes, whatever is more",
            ),
            rules_memory_limit: new.metric(
                "rules_memory_limit_bytes",
                "Memory that rules may take: the youngest of those that do not fit are stalled",
            ),
            event_to_patch: new.histogram(
                "event_to_patch_duration_seconds",
                "Time from when a node has to be planned until the response to its patch, without rollouts",
                EVENT_TO_PATCH,
            ),
            plan: new.histogram("plan_duration_seconds", "Time to plan a node", PLAN),
            status_writes: new.counters("status_writes", "Writes of statuses of rules, by result", STATUS_RESULTS),
            watch_restarts: new.counters("watch_restarts", "Watches that ended and were restarted", WATCHED),
            unreadable_pods: new
                .metric("unreadable_pods", "Bound pods that cannot be decoded, so that their requests are not known"),
            watch_broken: new.gauges(
                "watch_broken_timestamp_seconds",
                "Since when a watch is broken, in seconds since the Unix epoch; 0 while it works",
                WATCHED,
            ),
            leader: new.metric("leader", "Whether this process is the leader (1) or a standby (0)"),
            protection: new.gauges(
                "protection",
                "Whether a policy keeps recorded values when a kubelet resets them: 1 for the current state",
                Values("state", State::NAMES),
            ),
            kubelet_starts: new.counters(
                "kubelet_starts",
                "Kubelet starts after a reboot, by whether the kubelet reset recorded values",
                Values("values", [KEPT, RESET].map(|[(_, value)]| value)),
            ),
            confinement: new.gauges(
                "confinement",
                "Whether the API server rejects forbidden changes by this account: 1 for the result of the last test",
                Values("state", confinement::State::NAMES),
            ),
            confinement_tests: new.counters(
                "confinement_tests",
                "Dry runs that the API server must reject, by result",
                Values("result", confinement::State::RESULTS),
            ),
            registry: Registry::default(),
        };
        new.0.register_collector(Box::new(metrics.amounts.clone()));
        new.0.register("build", "Build information", Info::new([("version", env!("CARGO_PKG_VERSION"))]));
        Self { registry: new.0, ..metrics }
    }
}

/// The registry, while metrics are made.
struct Registering(Registry);

impl Registering {
    fn metric<M: Metric + Clone + Default>(&mut self, name: &str, help: &str) -> M {
        self.register(name, help, M::default())
    }

    /// Returns a counter for each value of a label: a missing series cannot be distinguished from one that is gone.
    fn counters<const N: usize>(
        &mut self,
        name: &str,
        help: &str,
        Values(label, values): Values<N>,
    ) -> Family<Label, Counter> {
        let family = Family::default();
        values.iter().for_each(|value| drop(family.get_or_create(&[(label, *value)])));
        self.register(name, help, family)
    }

    /// Returns a gauge for each value of a label.
    fn gauges<const N: usize>(
        &mut self,
        name: &str,
        help: &str,
        Values(label, values): Values<N>,
    ) -> Family<Label, Gauge> {
        let family = Family::default();
        set_all(&family, label, values.map(|value| (value, 0)));
        self.register(name, help, family)
    }

    fn histogram<const N: usize>(&mut self, name: &str, help: &str, buckets: [f64; N]) -> Histogram {
        self.register(name, help, Histogram::new(buckets))
    }

    fn register<M: Metric + Clone>(&mut self, name: &str, help: &str, metric: M) -> M {
        self.0.register(name, help, metric.clone());
        metric
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

    /// Counts what has happened.
    pub(super) fn count(&self, happening: &Happening) {
        match happening {
            Happening::Started { start, is_counted: true, .. } => {
                let values = if *start == Start::Reset { RESET } else { KEPT };
                self.kubelet_starts.get_or_create(&values).inc();
            }
            Happening::Answered { result } => _ = self.patches.get_or_create(&[("result", *result)]).inc(),
            Happening::Patched { after } => self.event_to_patch.observe(after.as_secs_f64()),
            Happening::Repaired => _ = self.repairs.inc(),
            Happening::StatusAnswered { result } => _ = self.status_writes.get_or_create(&[("result", *result)]).inc(),
            Happening::Memory { size, limit } => {
                set(&self.rules_memory, *size);
                set(&self.rules_memory_limit, *limit);
            }
            Happening::Restarted { resource } => {
                _ = self.watch_restarts.get_or_create(&[("resource", *resource)]).inc()
            }
            Happening::Broken { resource, since } => {
                let since = since.map_or(0, |since| since.as_second());
                self.watch_broken.get_or_create(&[("resource", *resource)]).set(since);
            }
            Happening::UnreadablePods { number } => set(&self.unreadable_pods, *number),
            Happening::Leads(leads) => _ = self.leader.set((*leads).into()),
            Happening::Protection(state) => {
                let states = State::NAMES.map(|name| (name, usize::from(name == state.name())));
                set_all(&self.protection, "state", states);
            }
            Happening::Confinement(state) => {
                let states = confinement::State::NAMES.map(|name| (name, usize::from(name == state.name())));
                set_all(&self.confinement, "state", states);
            }
            Happening::ConfinementTested { result } => {
                self.confinement_tests.get_or_create(&[("result", *result)]).inc();
            }
            Happening::Amounts { rule, amounts } => self.amounts.set(Arc::clone(rule), amounts.clone()),
            Happening::Gauges(gauges) => self.report(gauges.as_ref()),
            _ => {}
        }
    }

    /// Sets the gauges of a leader; all of them are 0 where a process does not lead, and no rule has amounts.
    fn report(&self, gauges: Option<&LeaderGauges>) {
        if gauges.is_none() {
            self.amounts.clear();
        }
        let none = LeaderGauges {
            nodes: standing::names().map(|name| (name, 0)).into(),
            rules: RULE_STATES.map(|state| (state, 0)),
            rules_without_nodes: 0,
            rules_missing: 0,
            values_leaving: 0,
        };
        let LeaderGauges { nodes, rules, rules_without_nodes, rules_missing, values_leaving } = gauges.unwrap_or(&none);
        set_all(&self.nodes, "state", nodes.iter().copied());
        set_all(&self.rules, "state", *rules);
        set(&self.rules_without_nodes, *rules_without_nodes);
        set(&self.rules_missing, *rules_missing);
        set(&self.values_leaving, *values_leaving);
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

/// Sets the gauges of a family, by the values of its one label.
fn set_all(
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
    fn metric_series_exist_from_the_start_with_bounded_labels() {
        let metrics = Metrics::default();
        metrics.count(&Happening::Answered { result: "patched" });
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
