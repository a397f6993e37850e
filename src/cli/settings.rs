//! The settings of `run`, checked. All errors are reported together, so that a Deployment is corrected once and not
//! once per mistake.

use std::fmt::Display;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use thiserror::Error;
use tracing_subscriber::EnvFilter;

use super::args::{ClusterArgs, LeaseArgs};
use super::duration::parse_duration;
use super::memory_limit;
use crate::model::label::{excerpt, is_dns_subdomain};
use crate::model::quantity::Quantity;
use crate::reconciler::ExpectedPolicy;

/// The memory of rules, in bytes.
const MIN_RULES_MEMORY: u64 = 1 << 20;
const MAX_RULES_MEMORY: u64 = 1 << 40;
/// Without a memory limit.
const DEFAULT_RULES_MEMORY: u64 = 256 << 20;
/// With one, rules may take this part.
const RULES_SHARE: u64 = 4;

/// kube logs its own errors for failures that the controller reports itself.
const LOG_DIRECTIVES: &str = "kube_runtime=error,kube_client=error";

/// Run the controller until SIGTERM or SIGINT
///
/// Each flag below can also be set by the environment variable shown with it. All settings are checked at startup,
/// and all invalid settings are reported together.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Args {
    /// Address and port of /readyz, /livez and /metrics
    #[arg(long, env = "NRA_BIND_ADDRESS", default_value = "[::]:8080")]
    pub(super) bind_address: String,
    /// Maximum number of concurrent patches, 1 to 1000; on two cores, throughput stops improving at about ten
    #[arg(long, env = "NRA_MAX_CONCURRENT_PATCHES", default_value = "16")]
    pub(super) max_concurrent_patches: String,
    /// Maximum number of patches per second that follow from edits of rules, 1 to 10000, or 0 for no limit; repairs and
    /// new nodes do not count
    #[arg(long, env = "NRA_MAX_ROLLOUT_RATE", default_value = "50")]
    pub(super) max_rollout_rate: String,
    /// Timeout of each request to the API server, 1s to 60s
    #[arg(long, env = "NRA_REQUEST_TIMEOUT", default_value = "15s")]
    pub(super) request_timeout: String,
    /// Mass withdrawal delay: how long values stay when most of the rules named in node annotations are missing,
    /// 0s to 24h
    ///
    /// Most rules are missing, for example, after the CustomResourceDefinition was deleted and recreated while no
    /// controller was running, or after a backup was restored.
    #[arg(long, env = "NRA_MASS_WITHDRAWAL_DELAY", default_value = "5m")]
    pub(super) mass_withdrawal_delay: String,
    /// Confinement test: whether the leader checks every minute, with a dry run, that the API server rejects
    /// forbidden changes by this account (true or false)
    ///
    /// Use false where no ValidatingAdmissionPolicy confines this account.
    #[arg(long, env = "NRA_CONFINEMENT_TEST", default_value = "true")]
    pub(super) confinement_test: String,
    /// Protection: where the policy that keeps values across reboots is expected, for reports only (auto, api, static
    /// or none)
    ///
    /// The API does not show a policy that an API server has loaded from a file. With auto, a file is assumed if the API
    /// shows none, and a kubelet has kept its values.
    #[arg(long, env = "NRA_PROTECTION", default_value = "auto")]
    pub(super) protection: String,
    /// Node condition: whether each node that a rule selects gets the condition noderesource.dev/Advertised (true or
    /// false)
    ///
    /// With false, the controller removes the condition from nodes that have it.
    #[arg(long, env = "NRA_NODE_CONDITION", default_value = "false")]
    pub(super) node_condition: String,
    /// Memory that rules may take, and their states on nodes as much, 1Mi to 1Ti; the youngest of those that do not fit are
    /// stalled, and keep their values
    /// [default: a quarter of the memory limit of the container, or 256Mi without one]
    #[arg(long, env = "NRA_MAX_RULES_MEMORY", value_name = "QUANTITY")]
    pub(super) max_rules_memory: Option<String>,
    #[command(flatten)]
    pub(super) lease: LeaseArgs,
    /// Lease duration: how long standbys wait after the last renewal, 3s to 300s
    #[arg(long, env = "NRA_LEADER_ELECT_LEASE_DURATION", default_value = "15s")]
    pub(super) leader_elect_lease_duration: String,
    /// Holder identity in the Lease, followed by a random suffix; typically the pod's name
    #[arg(long, env = "NRA_IDENTITY", default_value = "node-resource-advertiser")]
    pub(super) identity: String,
    /// Log level: error, warn, info, debug or trace, for all modules or per module (info,kube=debug)
    #[arg(long, env = "NRA_LOG_LEVEL", default_value = "info")]
    pub(super) log_level: String,
    /// Log format: text or json
    #[arg(long, env = "NRA_LOG_FORMAT", default_value = "text")]
    pub(super) log_format: String,
    #[command(flatten)]
    pub(super) cluster: ClusterArgs,
}

const AFTER_HELP: &str = "\
Exits with 0 after SIGTERM or SIGINT, and 1 on an error.

Examples:
  # Run with the current context of the kubeconfig
  node-resource-advertiser run

  # Set flags by environment variables
  NRA_LOG_LEVEL=debug NRA_LOG_FORMAT=json node-resource-advertiser run";

/// The checked settings of the controller.
#[derive(Debug)]
pub(super) struct Settings {
    pub(super) listen: SocketAddr,
    pub(super) concurrency: usize,
    /// `None` for no limit.
    pub(super) max_rollout_rate: Option<u32>,
    pub(super) request_timeout: Duration,
    pub(super) mass_withdrawal_delay: Duration,
    pub(super) confinement_test: bool,
    pub(super) protection: ExpectedPolicy,
    pub(super) node_condition: bool,
    /// In bytes.
    pub(super) max_rules_memory: usize,
    pub(super) cluster: ClusterArgs,
    pub(super) lease: LeaseArgs,
    pub(super) lease_duration: Duration,
    pub(super) identity: String,
    pub(super) log: EnvFilter,
    pub(super) log_format: LogFormat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LogFormat {
    Text,
    Json,
}

/// The invalid settings, one line each.
#[derive(Debug, Error)]
#[error("invalid settings:\n{}", .0.join("\n"))]
pub struct InvalidSettings(Vec<String>);

impl Settings {
    /// Checks all settings.
    pub(super) fn new(args: Args) -> Result<Self, InvalidSettings> {
        let mut errors = SettingErrors::default();
        let listen =
            errors.parse::<SocketAddr>("bind-address", &args.bind_address, "an address and a port, such as [::]:8080");
        let concurrency = errors.number("max-concurrent-patches", &args.max_concurrent_patches, 1..=1000);
        let max_rollout_rate = errors.number("max-rollout-rate", &args.max_rollout_rate, 0..=10_000);
        let request_timeout = errors.duration("request-timeout", &args.request_timeout, 1..=60);
        let mass_withdrawal_delay =
            errors.duration("mass-withdrawal-delay", &args.mass_withdrawal_delay, 0..=24 * 60 * 60);
        let confinement_test = errors.parse("confinement-test", &args.confinement_test, "true or false");
        let protection = errors.parse("protection", &args.protection, "auto, api, static or none");
        let node_condition = errors.parse("node-condition", &args.node_condition, "true or false");
        let max_rules_memory = match &args.max_rules_memory {
            Some(quantity) => errors.bytes("max-rules-memory", quantity, MIN_RULES_MEMORY..=MAX_RULES_MEMORY),
            None => Some(memory_limit::read().map_or(DEFAULT_RULES_MEMORY, |limit| limit / RULES_SHARE)),
        };
        let lease_duration = errors.duration("leader-elect-lease-duration", &args.leader_elect_lease_duration, 3..=300);
        let log_format = match args.log_format.as_str() {
            "text" => Some(LogFormat::Text),
            "json" => Some(LogFormat::Json),
            other => errors.add("log-format", other, "text or json"),
        };
        let log = log_filter(&args.log_level).or_else(|| {
            errors.add(
                "log-level",
                &args.log_level,
                "error, warn, info, debug or trace, for all modules or per module (info,kube=debug)",
            )
        });
        errors.names(&args.lease);
        if args.identity.is_empty() || args.identity.len() > 253 {
            errors.add::<()>("identity", &args.identity, "1 to 253 characters long, such as the pod's name");
        }
        let durations = request_timeout.zip(mass_withdrawal_delay).zip(lease_duration);
        let log = log.zip(log_format);
        let limits = concurrency.zip(max_rollout_rate).zip(max_rules_memory);
        match (listen, limits, durations, confinement_test.zip(protection).zip(node_condition), log, errors.0) {
            (
                Some(listen),
                Some(((concurrency, max_rollout_rate), max_rules_memory)),
                Some(((request_timeout, mass_withdrawal_delay), lease_duration)),
                Some(((confinement_test, protection), node_condition)),
                Some((log, log_format)),
                errors,
            ) if errors.is_empty() => Ok(Self {
                listen,
                concurrency: usize::try_from(concurrency).unwrap_or(usize::MAX),
                max_rollout_rate: u32::try_from(max_rollout_rate).ok().filter(|rate| *rate > 0),
                request_timeout,
                mass_withdrawal_delay,
                confinement_test,
                protection,
                node_condition,
                max_rules_memory: usize::try_from(max_rules_memory).unwrap_or(usize::MAX),
                cluster: args.cluster,
                lease: args.lease,
                lease_duration,
                identity: args.identity,
                log,
                log_format,
            }),
            (.., errors) => Err(InvalidSettings(errors)),
        }
    }
}

/// The errors found so far.
#[derive(Default)]
struct SettingErrors(Vec<String>);

impl SettingErrors {
    fn names(&mut self, lease: &LeaseArgs) {
        let LeaseArgs { leader_elect_resource_namespace: namespace, leader_elect_resource_name: name } = lease;
        let names =
            [("leader-elect-resource-name", Some(name)), ("leader-elect-resource-namespace", namespace.as_ref())];
        for (flag, name) in names {
            if let Some(name) = name.filter(|name| !is_dns_subdomain(name)) {
                self.add::<()>(flag, name, "a name of lowercase letters, digits, '-' and '.'");
            }
        }
    }

    fn add<T>(&mut self, flag: &str, value: &str, instead: impl Display) -> Option<T> {
        let variable = flag.to_uppercase().replace('-', "_");
        let value = excerpt(value);
        self.0.push(format!("  --{flag} (NRA_{variable}) is {value:?}: must be {instead}"));
        None
    }

    fn parse<T: FromStr>(&mut self, flag: &str, value: &str, instead: &str) -> Option<T> {
        value.parse().ok().or_else(|| self.add(flag, value, instead))
    }

    fn number(&mut self, flag: &str, value: &str, range: RangeInclusive<u64>) -> Option<u64> {
        let (least, most) = (range.start(), range.end());
        let number = value.parse().ok().filter(|number| range.contains(number));
        let instead = format!("a whole number from {least} to {most}");
        number.or_else(|| self.add(flag, value, instead))
    }

    /// Parses a number of bytes in the notation of Kubernetes (`32Mi`).
    fn bytes(&mut self, flag: &str, value: &str, range: RangeInclusive<u64>) -> Option<u64> {
        let bytes = value.parse::<Quantity>().ok().and_then(|bytes| u64::try_from(bytes.whole()?).ok());
        let instead = "a whole number of bytes from 1Mi to 1Ti, such as 64Mi";
        bytes.filter(|bytes| range.contains(bytes)).or_else(|| self.add(flag, value, instead))
    }

    /// Parses a duration in the notation of Kubernetes (`15s`, `1m30s`); a number without a unit is seconds.
    fn duration(&mut self, flag: &str, value: &str, seconds: RangeInclusive<u64>) -> Option<Duration> {
        let (least, most) = (*seconds.start(), *seconds.end());
        let range = Duration::from_secs(least)..=Duration::from_secs(most);
        let duration = parse_duration(value).filter(|duration| range.contains(duration));
        let instead = format!("a duration from {least}s to {most}s, such as 15s");
        duration.or_else(|| self.add(flag, value, instead))
    }
}

/// Parses levels, for all modules or per module. A filter takes a word that is no level for a module, and would log
/// nothing of the others, errors included.
fn log_filter(levels: &str) -> Option<EnvFilter> {
    const LEVELS: [&str; 5] = ["error", "warn", "info", "debug", "trace"];
    let directives = levels.split(',').map(|directive| {
        let (module, level) =
            directive.rsplit_once('=').map_or((None, directive), |(module, level)| (Some(module), level));
        let level = level.to_ascii_lowercase();
        let level = if level == "warning" { "warn" } else { &*level };
        let directive = module.map_or_else(|| level.to_owned(), |module| format!("{module}={level}"));
        let is_module =
            |name: &str| !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | ':'));
        (LEVELS.contains(&level) && module.is_none_or(is_module)).then_some(directive)
    });
    let directives = directives.collect::<Option<Vec<_>>>()?;
    EnvFilter::try_new(format!("{LOG_DIRECTIVES},{}", directives.join(","))).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_level_is_a_level_for_all_or_for_each_module() {
        for levels in ["warning", "WARN", "info,kube=debug", "a::b=warning", "trace"] {
            assert!(log_filter(levels).is_some(), "{levels:?}");
        }
        let words =
            ["verbose", "inf", "information", "info;kube=debug", "off", "info,", "kube", "kube=high", "=info", ""];
        for levels in words {
            assert!(log_filter(levels).is_none(), "{levels:?}");
        }
        assert!(log_filter("warning").unwrap().to_string().split(',').any(|directive| directive == "warn"));
    }
}
