//! What `run` is told, checked: everything that is wrong is told at once, so that nobody has to mend a
//! Deployment once for each mistake.

use std::fmt::Display;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use thiserror::Error;
use tracing_subscriber::EnvFilter;

use super::args::LeaseArgs;
use crate::model::label::{excerpt, is_dns_subdomain};

/// kube logs an error of its own for what the controller reports in its own words.
const QUIET: &str = "kube_runtime=error,kube_client=error";

/// Every flag has an environment variable of its name, with the prefix NRA_. All of them are checked at
/// the start.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Where /readyz, /livez and /metrics are answered.
    #[arg(long, env = "NRA_LISTEN", default_value = "0.0.0.0:8080")]
    pub(super) listen: String,
    /// How many nodes are patched at once, from 1 to 1000. The API server is busy at about ten.
    #[arg(long, env = "NRA_CONCURRENCY", default_value = "16")]
    pub(super) concurrency: String,
    /// How many seconds a request may take, from 1 to 60.
    #[arg(long, env = "NRA_REQUEST_TIMEOUT", default_value = "15")]
    pub(super) request_timeout: String,
    #[command(flatten)]
    pub(super) lease: LeaseArgs,
    /// How many seconds another process waits for this one's next sign of life before it takes over,
    /// from 3 to 300.
    #[arg(long, env = "NRA_LEASE_DURATION", default_value = "15")]
    pub(super) lease_duration: String,
    /// What stands in the Lease, with something at random behind it: the pod's name.
    #[arg(long, env = "NRA_IDENTITY", default_value = "node-resource-advertiser")]
    pub(super) identity: String,
    /// What is logged: error, warn, info, debug or trace, for all or by module (info,kube=debug).
    #[arg(long, env = "NRA_LOG", default_value = "info")]
    pub(super) log: String,
    /// How it is logged: text or json.
    #[arg(long, env = "NRA_LOG_FORMAT", default_value = "text")]
    pub(super) log_format: String,
}

/// How the controller is to run.
#[derive(Debug)]
pub(super) struct Settings {
    pub(super) listen: SocketAddr,
    pub(super) concurrency: usize,
    pub(super) request_timeout: Duration,
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
        let mut wrong = Wrong::default();
        let listen = wrong.parse::<SocketAddr>(
            "listen",
            &args.listen,
            "an address and a port, such as 0.0.0.0:8080",
        );
        let concurrency = wrong.number("concurrency", &args.concurrency, 1..=1000);
        let request_timeout = wrong.number("request-timeout", &args.request_timeout, 1..=60);
        let lease_duration = wrong.number("lease-duration", &args.lease_duration, 3..=300);
        let log_format = match args.log_format.as_str() {
            "text" => Some(LogFormat::Text),
            "json" => Some(LogFormat::Json),
            other => wrong.add("log-format", other, "text or json"),
        };
        let log = EnvFilter::try_new(format!("{QUIET},{}", args.log)).ok();
        let log = log.or_else(|| {
            wrong.add(
                "log",
                &args.log,
                "error, warn, info, debug or trace, for all or by module: info,kube=debug",
            )
        });
        let LeaseArgs { lease_namespace, lease_name } = &args.lease;
        let names =
            [("lease-name", Some(lease_name)), ("lease-namespace", lease_namespace.as_ref())];
        for (flag, name) in names {
            if let Some(name) = name.filter(|name| !is_dns_subdomain(name)) {
                wrong.add::<()>(flag, name, "a name in lower case letters, digits, '-' and '.'");
            }
        }
        if args.identity.is_empty() || args.identity.len() > 253 {
            wrong.add::<()>(
                "identity",
                &args.identity,
                "1 to 253 characters, such as the pod's name",
            );
        }
        match (listen, concurrency, request_timeout, lease_duration, log, log_format, wrong.0) {
            (
                Some(listen),
                Some(concurrency),
                Some(request_timeout),
                Some(lease_duration),
                Some(log),
                Some(log_format),
                wrong,
            ) if wrong.is_empty() => Ok(Self {
                listen,
                concurrency: usize::try_from(concurrency).unwrap_or(usize::MAX),
                request_timeout: Duration::from_secs(request_timeout),
                lease: args.lease,
                lease_duration: Duration::from_secs(lease_duration),
                identity: args.identity,
                log,
                log_format,
            }),
            (.., wrong) => Err(InvalidSettings(wrong)),
        }
    }
}

/// What has been found wrong so far.
#[derive(Default)]
struct Wrong(Vec<String>);

impl Wrong {
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
}
