//! The tools that `make tools` builds, such as helm.

use std::env;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

/// Where a tool is: below `target/tools/`, or in the folder that TOOLS_BIN names.
///
/// # Errors
/// Where it has not been built.
pub fn tool(name: &str) -> Result<PathBuf> {
    let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tools/bin");
    let dir = env::var_os("TOOLS_BIN").map_or(built, PathBuf::from);
    let path = dir.join(name);
    if !path.exists() {
        bail!("{} is not there: run `make tools`", path.display());
    }
    Ok(path.canonicalize()?)
}
