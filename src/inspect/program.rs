//! The name by which this program is called.

use std::ffi::OsStr;
use std::path::Path;

pub(crate) const NAME: &str = env!("CARGO_PKG_NAME");

/// Returns the name of a program's file, without its folder and extension.
pub(crate) fn stem(program: &OsStr) -> Option<&str> {
    Path::new(program).file_stem()?.to_str()
}

/// Returns how kubectl calls this program, if it does.
pub(crate) fn typed(program: &OsStr) -> Option<String> {
    let plugin = stem(program)?.strip_prefix("kubectl-")?;
    Some(format!("kubectl {}", plugin.replace('_', "-")))
}

/// Returns how this program is called: `kubectl ner` as a plugin.
pub(super) fn program() -> String {
    std::env::args_os().next().and_then(|program| typed(&program)).unwrap_or_else(|| NAME.to_owned())
}
