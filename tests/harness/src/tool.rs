//! The programs that make builds for the tests.

use std::env;
use std::path::PathBuf;

use anyhow::{Result, bail};

use crate::builder;

/// Where one of make's commands leaves what it builds.
pub(crate) struct Programs {
    /// The folder, below that of the project.
    folder: &'static str,
    /// The environment variable that names another one.
    variable: &'static str,
    /// The command.
    command: &'static str,
}

/// Kubernetes, and what it takes besides.
pub(crate) const CONTROL_PLANE: Programs = Programs {
    folder: "target/controlplane/bin",
    variable: "CONTROLPLANE_BIN",
    command: "make controlplane",
};

/// What runs containers.
pub(crate) const CONTAINERS: Programs = Programs {
    folder: "target/containers/bin",
    variable: "CONTAINERS_BIN",
    command: "make test-cluster",
};

const TOOLS: Programs =
    Programs { folder: "target/tools/bin", variable: "TOOLS_BIN", command: "make tools" };

impl Programs {
    pub(crate) fn folder(&self) -> PathBuf {
        let built = || builder::workspace().join(self.folder);
        env::var_os(self.variable).map_or_else(built, PathBuf::from)
    }

    /// Where a program is.
    ///
    /// # Errors
    /// Where it has not been built.
    pub(crate) fn find(&self, name: &str) -> Result<PathBuf> {
        let path = self.folder().join(name);
        if !path.exists() {
            bail!("{} is not there: run `{}`", path.display(), self.command);
        }
        Ok(path)
    }
}

/// Where a tool is, such as helm: below `target/tools/`, or in the folder that TOOLS_BIN names.
///
/// # Errors
/// Where it has not been built.
pub fn tool(name: &str) -> Result<PathBuf> {
    Ok(TOOLS.find(name)?.canonicalize()?)
}
