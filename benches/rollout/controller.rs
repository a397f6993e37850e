//! The release binary, running.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use harness::{Process, Signal};

use crate::cluster::Cluster;
use crate::floor::CONCURRENCY;

/// What the program promises for its end is 5 seconds.
const STOP: Duration = Duration::from_secs(10);

pub struct Controller {
    process: Process,
    address: SocketAddr,
}

impl Controller {
    /// Starts it, and waits until it is ready; how long that took.
    pub fn start(cluster: &Cluster) -> Result<(Self, Duration)> {
        let address = SocketAddr::from(([127, 0, 0, 1], harness::free_port()?));
        let kubeconfig = cluster.control_plane.kubeconfig();
        let kubeconfig = kubeconfig.to_str().context("a path that is no text")?;
        let log = cluster.control_plane.logs().join("controller.log");
        let program = Path::new(env!("CARGO_BIN_EXE_node-resource-advertiser"));
        let (listen, concurrency) = (address.to_string(), CONCURRENCY.to_string());
        let args = ["run", "--listen", &listen, "--concurrency", &concurrency];
        let start = Instant::now();
        let process =
            Process::spawn("controller", program, &args, &[("KUBECONFIG", kubeconfig)], &log)?;
        let controller = Self { process, address };
        controller.wait_ready(cluster.deadline())?;
        Ok((controller, start.elapsed()))
    }

    fn wait_ready(&self, deadline: Duration) -> Result<()> {
        let start = Instant::now();
        // The harness looks every 50 ms, which is about what is measured here.
        while !self.is_ready() {
            self.process.check_running()?;
            if start.elapsed() > deadline {
                bail!("waited {deadline:?} in vain for the controller to be ready");
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }

    fn is_ready(&self) -> bool {
        let answer = || -> std::io::Result<String> {
            let mut stream = TcpStream::connect_timeout(&self.address, Duration::from_secs(5))?;
            stream.set_read_timeout(Some(Duration::from_secs(5)))?;
            stream.write_all(b"GET /readyz HTTP/1.0\r\n\r\n")?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            Ok(answer)
        };
        answer().is_ok_and(|answer| answer.split_whitespace().nth(1) == Some("200"))
    }

    /// The most memory it has had so far, in MiB.
    pub fn peak_memory(&self) -> Result<f64> {
        let path = format!("/proc/{}/status", self.process.pid());
        let status = std::fs::read_to_string(&path).with_context(|| path.clone())?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|line| line.trim().strip_suffix(" kB")).context("no VmHWM")?;
        let kib: f64 = kib.trim().parse().with_context(|| format!("VmHWM: {kib}"))?;
        Ok(kib / 1024.0)
    }

    /// SIGTERM, and waits for its end.
    pub fn stop(mut self) -> Result<()> {
        self.process.signal(Signal::TERM)?;
        let code = self.process.wait_exit(STOP)?;
        ensure!(code == 0, "the controller ended with {code}");
        Ok(())
    }
}
