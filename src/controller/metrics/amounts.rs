//! The sum that each rule advertises, and the pods' requests for it: the only series whose number grows with the rules,
//! up to a bound.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;

use crate::model::quantity::Quantity;
use crate::reconciler::happening::RuleAmounts;

/// The most rules that have series of their own.
const MAX_RULES: usize = 1000;
/// The most characters that the names of these rules and of their resources have together. The text of the metrics has them
/// twice, and each of the clients that read slowly keeps one text.
const MAX_NAMES_LENGTH: usize = 100 * 1024;

/// The rules that have series of their own. Only a leader has any.
#[derive(Clone, Debug, Default)]
pub(crate) struct Amounts(Arc<Mutex<Series>>);

#[derive(Debug, Default)]
struct Series {
    by_rule: BTreeMap<Arc<str>, RuleAmounts>,
    /// The length of all names.
    length: usize,
}

impl Series {
    fn insert(&mut self, rule: Arc<str>, amounts: RuleAmounts) {
        let length = self.length + length(&rule, &amounts);
        if self.by_rule.len() < MAX_RULES && length <= MAX_NAMES_LENGTH {
            self.length = length;
            self.by_rule.insert(rule, amounts);
        }
    }

    fn remove(&mut self, rule: &str) {
        if let Some(amounts) = self.by_rule.remove(rule) {
            self.length -= length(rule, &amounts);
        }
    }
}

fn length(rule: &str, amounts: &RuleAmounts) -> usize {
    rule.len() + amounts.resource.len()
}

impl Amounts {
    /// Sets what a rule has; `None` if it is gone.
    pub(super) fn set(&self, rule: Arc<str>, amounts: Option<RuleAmounts>) {
        let mut rules = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        rules.remove(&rule);
        amounts.into_iter().for_each(|amounts| rules.insert(Arc::clone(&rule), amounts));
    }

    /// Removes all rules.
    pub(super) fn clear(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Series::default();
    }
}

impl Collector for Amounts {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let rules = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut series = |name, help, amount: fn(&RuleAmounts) -> Option<Quantity>| {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for (rule, amounts) in &rules.by_rule {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::metrics::Metrics;

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

    /// As many clients as the port has connections may keep a text each, in a process with 128 MiB.
    #[test]
    fn text_of_the_metrics_is_short_whatever_the_names_of_rules_are() {
        let metrics = Metrics::default();
        for number in 0..MAX_RULES {
            let rule = format!("{number:04}{}", "a".repeat(249));
            let resource = format!("{}/{}", "a".repeat(244), "b".repeat(63)).into();
            let (advertised, requested) = (Quantity::from(4), Some(Quantity::from(4)));
            metrics.amounts.set(rule.into(), Some(RuleAmounts { resource, advertised, requested }));
        }
        let text = metrics.text().unwrap();
        assert!(text.contains("0100aaa") && text.len() * 64 < 32 * 1024 * 1024, "{} bytes", text.len());
    }
}
