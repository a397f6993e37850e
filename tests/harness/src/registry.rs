//! A registry of images and charts, in memory.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, ensure};

use crate::{Output, Process, free_port, project_file, tool};

/// This machine's platform, as archives of a release are named.
pub const PLATFORM: &str = if cfg!(target_arch = "aarch64") { "linux-arm64" } else { "linux-amd64" };

/// A registry on loopback, without TLS. It ends when this value is dropped.
#[derive(Debug)]
pub struct Registry {
    /// Its host and port.
    pub address: String,
    _process: Process,
}

impl Registry {
    /// Starts a registry.
    ///
    /// # Errors
    /// Returns an error if crane has not been built, or does not serve.
    pub fn start(log: &Path) -> Result<Self> {
        let address = format!("127.0.0.1:{}", free_port()?);
        let args = ["registry", "serve", "--address", &address];
        let process = Process::spawn("registry", &tool("crane")?, &args, &[], log)?;
        process.wait_log("serving")?;
        Ok(Self { address, _process: process })
    }

    /// Pushes the image and the charts of a release, in the folder that `make release` has written, below `noderesource/`.
    ///
    /// # Errors
    /// Returns an error if one of them cannot be pushed.
    pub fn push(&self, dist: &Path) -> Result<()> {
        let mut push = Command::new(project_file("hack/push.sh"));
        let output = Output::run(push.arg(dist).arg(format!("{}/noderesource", self.address)), None)?;
        ensure!(output.code == 0, "hack/push.sh: {}{}", output.stdout, output.stderr);
        Ok(())
    }
}
