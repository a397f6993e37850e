//! The settings of `run`, checked: everything that is wrong is reported at once, so that nobody has to correct a
//! Deployment once for each mistake.

use std::fmt::Display;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use k8s_openapi::jiff::SignedDuration;
use thiserror::Error;
use tracing_subscriber::EnvFilter;

use super::args::{ClusterArgs, LeaseArgs};
use crate::model::label::{excerpt, is_dns_subdomain};

/// kube logs an error of its own for what the controller reports in its own words.
const LOG_DIRECTIVES: &str = "kube_runtime=error,kube_client=error";

/// Every flag has an environment variable of its name, with the prefix NRA_. All of them are checked at
/// the start.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Where /readyz, /livez and /metrics are answered.
    #[arg(long, env = "NRA_BIND_ADDRESS", default_value = "[::]:8080")]
    pub(super) bind_address: String,
    /// How many nodes are patched at once, from 1 to 1000. The API server is busy at about ten.
    #[arg(long, env = "NRA_MAX_CONCURRENT_PATCHES", default_value = "16")]
    pub(super) max_concurrent_patches: String,
    /// How long a request may take, from 1s to 60s.
    #[arg(long, env = "NRA_REQUEST_TIMEOUT", default_value = "15s")]
    pub(super) request_timeout: String,
    /// How long what rules advertised stays where a list of the rules lacks most of those that nodes'
    /// annotations name, from 0s to 24h: a CustomResourceDefinition may have been deleted and recreated while no
    /// controller was running, or a backup restored.
    #[arg(long, env = "NRA_MASS_WITHDRAWAL_DELAY", default_value = "5m")]
    pub(super) mass_withdrawal_delay: String,
    /// Whether the leader tests once a minute, by a dry run, that the API server rejects what this account must
    /// not do: true or false, where no ValidatingAdmissionPolicy is to confine it.
    #[arg(long, env = "NRA_CONFINEMENT_TEST", default_value = "true")]
    pub(super) confinement_test: String,
    #[command(flatten)]
    pub(super) lease: LeaseArgs,
    /// How long another process waits for this one's next sign of life before it takes over, from 3s
    /// to 300s.
    #[arg(long, env = "NRA_LEADER_ELECT_LEASE_DURATION", default_value = "15s")]
    pub(super) leader_elect_lease_duration: String,
    /// What stands in the Lease, with something at random behind it: the pod's name.
    #[arg(long, env = "NRA_IDENTITY", default_value = "node-resource-advertiser")]
    pub(super) identity: String,
    /// What is logged: error, warn, info, debug or trace, for all or by module (info,kube=debug).
    #[arg(long, env = "NRA_LOG_LEVEL", default_value = "info")]
    pub(super) log_level: String,
    /// How it is logged: text or json.
    #[arg(long, env = "NRA_LOG_FORMAT", default_value = "text")]
    pub(super) log_format: String,
    #[command(flatten)]
    pub(super) cluster: ClusterArgs,
}

/// How the controller is to run.
#[derive(Debug)]
pub(super) struct Settings {
    pub(super) listen: SocketAddr,
    pub(super) concurrency: usize,
    pub(super) request_timeout: Duration,
    pub(super) mass_withdrawal_delay: Duration,
    pub(super) confinement_test: bool,
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

/// All that is wrong, a line each.
#[derive(Debug, Error)]
#[error("the settings are wrong:\n{}", .0.join("\n"))]
pub struct InvalidSettings(Vec<String>);

impl Settings {
    /// Checks them all.
    pub(super) fn new(args: Args) -> Result<Self, InvalidSettings> {
        let mut errors = SettingErrors::default();
        let listen = errors.parse::<SocketAddr>(
            "bind-address",
            &args.bind_address,
            "an address and a port, such as [::]:8080",
        );
        let concurrency =
            errors.number("max-concurrent-patches", &args.max_concurrent_patches, 1..=1000);
        let request_timeout = errors.duration("request-timeout", &args.request_timeout, 1..=60);
        let mass_withdrawal_delay =
            errors.duration("mass-withdrawal-delay", &args.mass_withdrawal_delay, 0..=24 * 60 * 60);
        let confinement_test =
            errors.parse("confinement-test", &args.confinement_test, "true or false");
        let lease_duration = errors.duration(
            "leader-elect-lease-duration",
            &args.leader_elect_lease_duration,
            3..=300,
        );
        let log_format = match args.log_format.as_str() {
            "text" => Some(LogFormat::Text),
            "json" => Some(LogFormat::Json),
            other => errors.add("log-format", other, "text or json"),
        };
        let log = EnvFilter::try_new(format!("{LOG_DIRECTIVES},{}", args.log_level)).ok();
        let log = log.or_else(|| {
            errors.add(
                "log-level",
                &args.log_level,
                "error, warn, info, debug or trace, for all or by module: info,kube=debug",
            )
        });
        let LeaseArgs {
            leader_elect_resource_namespace: namespace,
            leader_elect_resource_name: name,
        } = &args.lease;
        let names = [
            ("leader-elect-resource-name", Some(name)),
            ("leader-elect-resource-namespace", namespace.as_ref()),
        ];
        for (flag, name) in names {
            if let Some(name) = name.filter(|name| !is_dns_subdomain(name)) {
                errors.add::<()>(flag, name, "a name in lower case letters, digits, '-' and '.'");
            }
        }
        if args.identity.is_empty() || args.identity.len() > 253 {
            errors.add::<()>(
                "identity",
                &args.identity,
                "1 to 253 characters, such as the pod's name",
            );
        }
        let durations = request_timeout.zip(mass_withdrawal_delay).zip(lease_duration);
        let log = log.zip(log_format);
        match (listen, concurrency, durations, confinement_test, log, errors.0) {
            (
                Some(listen),
                Some(concurrency),
                Some(((request_timeout, mass_withdrawal_delay), lease_duration)),
                Some(confinement_test),
                Some((log, log_format)),
                errors,
            ) if errors.is_empty() => Ok(Self {
                listen,
                concurrency: usize::try_from(concurrency).unwrap_or(usize::MAX),
                request_timeout,
                mass_withdrawal_delay,
                confinement_test,
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

/// What has been found wrong so far.
#[derive(Default)]
struct SettingErrors(Vec<String>);

impl SettingErrors {
    fn add<T>(&mut self, flag: &str, value: &str, instead: impl Display) -> Option<T> {
        let variable = flag.to_uppercase().replace('-', "_");
        let value = excerpt(value);
        self.0.push(format!("  --{flag} (NRA_{variable}) is {value:?}: write {instead}"));
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

    /// As Kubernetes writes durations (`15s`, `1m30s`); a number without a unit is seconds.
    fn duration(
        &mut self,
        flag: &str,
        value: &str,
        seconds: RangeInclusive<u64>,
    ) -> Option<Duration> {
        let (least, most) = (*seconds.start(), *seconds.end());
        let range = Duration::from_secs(least)..=Duration::from_secs(most);
        let duration = parse_duration(value).filter(|duration| range.contains(duration));
        let instead = format!("a duration from {least}s to {most}s, such as 15s");
        duration.or_else(|| self.add(flag, value, instead))
    }
}

fn parse_duration(text: &str) -> Option<Duration> {
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    // jiff knows more notations than Kubernetes has.
    let is_known = text.chars().all(|c| c.is_ascii_digit() || matches!(c, '.' | 'h' | 'm' | 's'));
    let duration = text.parse::<SignedDuration>().ok().filter(|_| is_known)?;
    duration.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duration_in_kubernetes_notation_is_read() {
        for (text, seconds) in [
            ("15", Some(15.0)),
            ("15s", Some(15.0)),
            ("1m", Some(60.0)),
            ("1m30s", Some(90.0)),
            ("5m0s", Some(300.0)),
            ("1.5s", Some(1.5)),
            ("500ms", Some(0.5)),
            ("", None),
            ("s", None),
            ("-15s", None),
            ("15 s", None),
            ("15seconds", None),
            ("PT15S", None),
            ("99999999999999999999s", None),
        ] {
            let parsed = parse_duration(text).map(|duration| duration.as_secs_f64());
            assert_eq!(parsed, seconds, "{text:?}");
        }
    }
}
