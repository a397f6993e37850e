//! Build tasks: images, charts, and the documents of a release. They need no container engine, and the same input gives
//! the same bytes.
//!
//! ```text
//! program ─▶ layer (tar, gzip) ─▶ configuration ─▶ manifest ─▶ index ─▶ archive (OCI layout)
//! chart   ─▶ layer             ─▶ configuration ─▶ manifest ─▶ index ─▶ archive
//! cargo metadata ─▶ software bill of materials (SBOM)
//! digests ─▶ provenance
//! ```

pub mod archive;
pub mod chart;
pub mod image;
pub mod oci;
pub mod program;
pub mod provenance;
pub mod sbom;

use anyhow::{Context as _, Result};
use jiff::Timestamp;

/// Formats a time in seconds since 1970, as in `SOURCE_DATE_EPOCH`, for JSON.
fn rfc3339(epoch: u64) -> Result<String> {
    let seconds = i64::try_from(epoch).ok();
    let time = seconds.and_then(|seconds| Timestamp::from_second(seconds).ok());
    Ok(time.with_context(|| format!("{epoch} seconds after 1970 is not a date"))?.to_string())
}
