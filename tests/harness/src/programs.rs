//! Finds the programs that Cargo and make build for the tests.

use std::env;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

const PROGRAM: &str = "node-resource-advertiser";

/// A folder of programs built by make.
pub(crate) struct Programs {
    /// The folder, below the project's.
    folder: &'static str,
    /// The environment variable that names another folder.
    variable: &'static str,
    /// The command that builds them.
    command: &'static str,
}

/// Kubernetes, and its dependencies.
pub(crate) const CONTROL_PLANE: Programs =
    Programs { folder: "target/controlplane/bin", variable: "CONTROLPLANE_BIN", command: "make controlplane" };

/// The container runtime.
pub(crate) const CONTAINERS: Programs =
    Programs { folder: "target/containers/bin", variable: "CONTAINERS_BIN", command: "make test-cluster" };

/// Karpenter, kwok, and their files.
pub(crate) const KARPENTER: Programs =
    Programs { folder: "target/karpenter", variable: "KARPENTER_BIN", command: "make karpenter" };

const TOOLS: Programs = Programs { folder: "target/tools/bin", variable: "TOOLS_BIN", command: "make tools" };

impl Programs {
    pub(crate) fn folder(&self) -> PathBuf {
        env::var_os(self.variable).map_or_else(|| project_file(self.folder), PathBuf::from)
    }

    pub(crate) fn find(&self, name: &str) -> Result<PathBuf> {
        let path = self.folder().join(name);
        if !path.exists() {
            bail!("{} does not exist: run `{}`", path.display(), self.command);
        }
        Ok(path)
    }
}

/// Returns the path of a program that `make controlplane` builds: below `target/controlplane/bin/`, or
/// in the folder that CONTROLPLANE_BIN names.
///
/// # Errors
/// Returns an error if it has not been built.
pub fn control_plane_program(name: &str) -> Result<PathBuf> {
    CONTROL_PLANE.find(name)
}

/// Returns the path of a tool, such as helm: below `target/tools/`, or in the folder that TOOLS_BIN
/// names.
///
/// # Errors
/// Returns an error if it has not been built.
pub fn tool(name: &str) -> Result<PathBuf> {
    Ok(TOOLS.find(name)?.canonicalize()?)
}

/// Returns the path of `node-resource-advertiser`: what PROGRAM_UNDER_TEST names, or as Cargo built it with the running
/// test or bench: in the same folder, or one folder up. The demo finds it there too.
///
/// # Errors
/// Returns an error if it has not been built.
pub fn program() -> Result<PathBuf> {
    if let Some(path) = env::var_os("PROGRAM_UNDER_TEST") {
        return Ok(PathBuf::from(path));
    }
    // Newer versions of Cargo set the variable at run time too, wherever they build.
    if let Some(path) = env::var_os(format!("CARGO_BIN_EXE_{PROGRAM}")) {
        return Ok(PathBuf::from(path));
    }
    let running = env::current_exe().context("cannot find the running program")?;
    let folders = running.ancestors().skip(1).take(2);
    let found = folders.map(|folder| folder.join(PROGRAM)).find(|path| path.is_file());
    found.with_context(|| format!("no {PROGRAM} next to {}: run `cargo build --bin {PROGRAM}`", running.display()))
}

/// Returns the path of a file of the project, from wherever the tests run.
#[must_use]
pub fn project_file(path: &str) -> PathBuf {
    let project = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    project.canonicalize().unwrap_or(project).join(path)
}
