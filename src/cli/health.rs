//! `health`: asks the replicas whether one leads, and whether the policies are in force. `helm test` runs it: the image has
//! no other program that could ask.

use std::time::Duration;

use http::uri::PathAndQuery;
use http::{StatusCode, Uri};
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Bytes;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use thiserror::Error;
use tokio::time::{Instant, sleep, timeout_at};

use super::duration::parse_duration;
use crate::response::error::chain;

/// The time between two questions. Each opens a connection, for which a Service chooses another replica.
const INTERVAL: Duration = Duration::from_secs(1);

/// How long a policy may be in another state at first: it takes effect a moment after the installation, and the controller tests
/// that again.
const GRACE: Duration = Duration::from_secs(15);

/// Ask the replicas whether one leads, and whether the policies are in force
///
/// health reads /metrics until the leader answers. Exits with 1 if none does in time, or if a state is another one.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Address of the replicas, such as http://node-resource-advertiser:8080
    address: Uri,
    /// Expected state of the confinement, as in the metric; can be repeated [default: any]
    #[arg(long, value_name = "STATE", value_delimiter = ',')]
    confinement: Vec<String>,
    /// Expected state of the protection, as in the metric; can be repeated [default: any]
    #[arg(long, value_name = "STATE", value_delimiter = ',')]
    protection: Vec<String>,
    /// How long to wait for a leader that knows its states
    #[arg(long, default_value = "2m", value_parser = duration)]
    timeout: Duration,
}

fn duration(text: &str) -> Result<Duration, &'static str> {
    parse_duration(text).ok_or("this is not a duration, such as 2m")
}

/// Why the replicas are not as expected.
#[derive(Debug, Error)]
pub enum HealthError {
    /// No leader has answered.
    #[error("no leader has answered at {address} within {timeout:?}: {last}")]
    NoAnswer {
        /// The address of the replicas.
        address: String,
        /// How long it was asked.
        timeout: Duration,
        /// What the last answer was.
        last: String,
    },
    /// A policy is in another state.
    #[error("the {policy} is {found}, not {expected}: /readyz?verbose of the leader has the reason")]
    State {
        /// Confinement or protection.
        policy: &'static str,
        /// Its state.
        found: String,
        /// The states that were expected.
        expected: String,
    },
}

/// Returns the states to print.
pub(super) async fn run(args: Args) -> Result<String, HealthError> {
    let uri = metrics_of(args.address.clone());
    let begun = Instant::now();
    let deadline = begun + args.timeout;
    loop {
        let answer = timeout_at(deadline, get(&uri)).await.unwrap_or_else(|_| Err("it takes too long".to_owned()));
        let states = answer.and_then(|metrics| States::of(&metrics).ok_or_else(|| "a standby answered".to_owned()));
        let last = match states {
            Ok(states) if states.are_known() => match states.expect(&args) {
                Err(error) if begun.elapsed() < GRACE && Instant::now() + INTERVAL < deadline => error.to_string(),
                result => return result,
            },
            Ok(States { confinement, protection }) => {
                format!("the leader's confinement is {confinement}, and its protection {protection}")
            }
            Err(why) => why,
        };
        if Instant::now() + INTERVAL >= deadline {
            let Args { address, timeout, .. } = args;
            return Err(HealthError::NoAnswer { address: address.to_string(), timeout, last });
        }
        sleep(INTERVAL).await;
    }
}

/// Returns the address of the metrics; an address without a scheme or a host has none, which the request reports.
fn metrics_of(address: Uri) -> Uri {
    let mut parts = address.into_parts();
    parts.path_and_query = Some(PathAndQuery::from_static("/metrics"));
    Uri::from_parts(parts).unwrap_or_default()
}

async fn get(uri: &Uri) -> Result<String, String> {
    let client = Client::builder(TokioExecutor::new()).build_http::<Empty<Bytes>>();
    let response = client.get(uri.clone()).await.map_err(|error| chain(&error))?;
    match response.status() {
        StatusCode::OK => {}
        status => return Err(format!("it answered {status}")),
    }
    let body = response.into_body().collect().await.map_err(|error| chain(&error))?;
    Ok(String::from_utf8_lossy(&body.to_bytes()).into_owned())
}

/// What the leader's metrics say of the policies.
#[derive(Debug, PartialEq, Eq)]
struct States {
    confinement: String,
    protection: String,
}

impl States {
    /// Reads metrics; `None` if they are those of a standby, which does not test.
    fn of(metrics: &str) -> Option<Self> {
        let leads = metrics.lines().any(|line| line == "node_resource_advertiser_leader 1");
        let state = |name: &str| {
            let current = metrics.lines().find_map(|line| {
                line.strip_prefix(&format!("node_resource_advertiser_{name}{{state=\""))?.strip_suffix("\"} 1")
            });
            current.unwrap_or("unknown").to_owned()
        };
        leads.then(|| Self { confinement: state("confinement"), protection: state("protection") })
    }

    /// Returns whether the leader has tested one policy, and read the other.
    fn are_known(&self) -> bool {
        self.confinement != "unknown" && self.protection != "unknown"
    }

    /// Returns the states as text, if they are those that are expected.
    fn expect(self, args: &Args) -> Result<String, HealthError> {
        let Self { confinement, protection } = self;
        let text = format!("confinement: {confinement}\nprotection: {protection}\n");
        for (policy, found, expected) in
            [("confinement", confinement, &args.confinement), ("protection", protection, &args.protection)]
        {
            if !expected.is_empty() && !expected.contains(&found) {
                return Err(HealthError::State { policy, found, expected: expected.join(" or ") });
            }
        }
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEADER: &str = "node_resource_advertiser_confinement_tests_total{result=\"confined\"} 1\n\
                          node_resource_advertiser_confinement{state=\"confined\"} 1\n\
                          node_resource_advertiser_confinement{state=\"off\"} 0\n\
                          node_resource_advertiser_leader 1\n\
                          node_resource_advertiser_protection{state=\"absent\"} 1\n\
                          node_resource_advertiser_protection{state=\"present\"} 0\n";

    fn args(confinement: &[&str], protection: &[&str]) -> Args {
        let owned = |states: &[&str]| states.iter().map(|&state| state.to_owned()).collect();
        let timeout = Duration::from_secs(1);
        Args { address: Uri::default(), confinement: owned(confinement), protection: owned(protection), timeout }
    }

    #[test]
    fn states_are_those_of_a_leader() {
        let states = States::of(LEADER).unwrap();
        assert_eq!(states, States { confinement: "confined".to_owned(), protection: "absent".to_owned() });
        assert!(states.are_known());
        assert_eq!(States::of(&LEADER.replace("_leader 1", "_leader 0")), None);
        for unknown in ["_confinement{state=\"confined\"} 1", "_protection{state=\"absent\"} 1"] {
            let untested = LEADER.replace(unknown, &unknown.replace("} 1", "} 0"));
            assert!(!States::of(&untested).unwrap().are_known(), "{untested}");
        }
    }

    #[test]
    fn state_that_is_not_expected_is_named() {
        let expect = |confinement: &[&str], protection: &[&str]| {
            let result = States::of(LEADER).unwrap().expect(&args(confinement, protection));
            result.map_err(|error| error.to_string())
        };
        let text = "confinement: confined\nprotection: absent\n".to_owned();
        assert_eq!(expect(&[], &[]), Ok(text.clone()));
        assert_eq!(expect(&["confined"], &["present", "absent"]), Ok(text));
        let reason = "/readyz?verbose of the leader has the reason";
        assert_eq!(expect(&["off"], &[]), Err(format!("the confinement is confined, not off: {reason}")));
        let error = format!("the protection is absent, not present or static: {reason}");
        assert_eq!(expect(&["confined"], &["present", "static"]), Err(error));
    }

    #[test]
    fn metrics_are_at_the_address() {
        for address in ["http://nra:8080", "http://nra:8080/readyz?verbose"] {
            assert_eq!(metrics_of(address.parse().unwrap()), "http://nra:8080/metrics");
        }
        assert_eq!(metrics_of("nra:8080".parse().unwrap()), Uri::default());
    }
}
