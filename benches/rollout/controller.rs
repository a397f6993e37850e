//! The running release binary.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use harness::{Process, Signal};

use crate::cluster::{Cluster, MAX_CONCURRENT_PATCHES, RESOURCE, ROLLOUT_RATE, RULE};
use crate::machine::{self, Cpu};

/// The program guarantees to stop within 5 seconds.
const STOP_DEADLINE: Duration = Duration::from_secs(10);
/// The baseline has no maximum rate.
const UNLIMITED: u32 = 0;
/// The times measured by polling are about ten to a hundred times as long.
const POLL_INTERVAL: Duration = Duration::from_millis(2);
/// Of what lasts longer, and whose CPU time is measured.
const SLOW_POLL_INTERVAL: Duration = Duration::from_millis(50);
const HTTP_TIMEOUT: Duration = Duration::from_secs(5);

pub struct Controller {
    process: Process,
    address: SocketAddr,
}

impl Controller {
    /// Starts the program with the administrator's kubeconfig, and waits until it is ready.
    pub fn start(cluster: &Cluster) -> Result<(Self, Duration)> {
        Self::start_with(cluster, &cluster.control_plane.kubeconfig())
    }

    /// Starts the program with rollouts as slow as in an installation.
    pub fn start_limited(cluster: &Cluster) -> Result<Self> {
        let (controller, _) = Self::spawn(cluster, &cluster.control_plane.kubeconfig(), ROLLOUT_RATE)?;
        Ok(controller)
    }

    /// Starts the program, waits until it is ready, and returns how long that took.
    pub fn start_with(cluster: &Cluster, kubeconfig: &Path) -> Result<(Self, Duration)> {
        Self::spawn(cluster, kubeconfig, UNLIMITED)
    }

    fn spawn(cluster: &Cluster, kubeconfig: &Path, rollout_rate: u32) -> Result<(Self, Duration)> {
        let address = SocketAddr::from(([127, 0, 0, 1], harness::free_port()?));
        let kubeconfig = kubeconfig.to_str().context("the kubeconfig's path is not UTF-8")?;
        let log = cluster.control_plane.logs().join("controller.log");
        let program = Path::new(env!("CARGO_BIN_EXE_node-resource-advertiser"));
        let (bind, patches) = (address.to_string(), MAX_CONCURRENT_PATCHES.to_string());
        let args = ["run", "--bind-address", &bind, "--max-concurrent-patches", &patches];
        let start = Instant::now();
        let rate = rollout_rate.to_string();
        // The self-test is a patch too, once a minute: in the middle of what is measured, or not.
        let env = [("KUBECONFIG", kubeconfig), ("NRA_CONFINEMENT_TEST", "false"), ("NRA_MAX_ROLLOUT_RATE", &rate)];
        let process = Process::spawn("controller", program, &args, &env, &log)?;
        let controller = Self { process, address };
        controller.poll("to be ready", POLL_INTERVAL, cluster.deadline(), |controller| {
            controller.http_get("/readyz").is_ok_and(|(code, _)| code == "200")
        })?;
        Ok((controller, start.elapsed()))
    }

    /// Waits until this replica leads.
    pub fn wait_leader(&self, deadline: Duration) -> Result<()> {
        self.wait_metric("node_resource_advertiser_leader 1", POLL_INTERVAL, deadline)
    }

    /// Waits until this replica knows that pods request so much of the rule's resource.
    pub fn wait_requested(&self, amount: i64, deadline: Duration) -> Result<()> {
        let series =
            format!("node_resource_advertiser_requested{{resource=\"{RESOURCE}\",rule=\"{RULE}\"}} {amount}.0");
        self.wait_metric(&series, SLOW_POLL_INTERVAL, deadline)
    }

    fn wait_metric(&self, series: &str, interval: Duration, deadline: Duration) -> Result<()> {
        self.poll(&format!("to show {series}"), interval, deadline, |controller| {
            let metrics = controller.http_get("/metrics");
            metrics.is_ok_and(|(_, text)| text.lines().any(|line| line == series))
        })
    }

    fn poll(&self, what: &str, interval: Duration, deadline: Duration, is_so: impl Fn(&Self) -> bool) -> Result<()> {
        let start = Instant::now();
        while !is_so(self) {
            self.process.check_running()?;
            if start.elapsed() > deadline {
                bail!("waited {deadline:?} in vain for the controller {what}");
            }
            std::thread::sleep(interval);
        }
        Ok(())
    }

    /// Returns the status code and the whole response.
    fn http_get(&self, path: &str) -> Result<(String, String)> {
        let mut stream = TcpStream::connect_timeout(&self.address, HTTP_TIMEOUT)?;
        stream.set_read_timeout(Some(HTTP_TIMEOUT))?;
        write!(stream, "GET {path} HTTP/1.0\r\n\r\n")?;
        let mut response = String::new();
        stream.read_to_string(&mut response)?;
        let code = response.split_whitespace().nth(1).context("no status line")?.to_owned();
        Ok((code, response))
    }

    pub fn cpu(&self) -> Cpu {
        Cpu::Process(self.process.pid())
    }

    pub fn peak_memory_mib(&self) -> Result<f64> {
        machine::peak_memory_mib(self.process.pid())
    }

    pub fn reset_peak_memory(&self) -> Result<()> {
        machine::reset_peak_memory(self.process.pid())
    }

    /// Sends SIGTERM.
    pub fn terminate(&self) -> Result<()> {
        self.process.signal(Signal::TERM)
    }

    /// Sends SIGTERM, and waits for the exit.
    pub fn stop(mut self) -> Result<()> {
        // A process that was terminated before may have ended.
        let _ = self.terminate();
        let code = self.process.wait_exit(STOP_DEADLINE)?;
        ensure!(code == 0, "the controller ended with {code}");
        Ok(())
    }
}
