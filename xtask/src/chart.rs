//! Helm charts as artifacts of a registry, as `helm push` stores them, except for its timestamp: the digest is known
//! before anything is published.

use std::collections::BTreeMap;
use std::io::Read as _;

use anyhow::{Context as _, Result};
use flate2::read::GzDecoder;
use serde_json::Value;

use crate::oci::{self, Archive, Blob, Manifest};
use crate::rfc3339;

// https://helm.sh/docs/topics/registries/#oci-feature-deprecation-and-behavior-changes-with-v380
const CONFIG_TYPE: &str = "application/vnd.cncf.helm.config.v1+json";
const LAYER_TYPE: &str = "application/vnd.cncf.helm.chart.content.v1.tar+gzip";

/// Archives a packaged chart for a repository, `registry/folder`: Helm adds the chart's name and version.
///
/// # Errors
/// If the package has no readable Chart.yaml, or the timestamp, in seconds since 1970, is not a date.
pub fn build(package: Vec<u8>, repository: &str, created: u64) -> Result<Archive> {
    let chart = metadata(&package).context("cannot read Chart.yaml in the package")?;
    let field = |name: &str| chart[name].as_str().with_context(|| format!("Chart.yaml has no {name}"));
    let (name, version) = (field("name")?, field("version")?);
    // A tag has no `+`, which Helm replaces too.
    let reference = format!("{repository}/{name}:{}", version.replace('+', "_"));
    let annotations = [
        ("title", name.to_owned()),
        ("version", version.to_owned()),
        ("description", field("description")?.to_owned()),
        ("created", rfc3339(created)?),
    ];
    let annotations = annotations.map(|(key, value)| (format!("org.opencontainers.image.{key}"), value));
    let config = Blob::new(CONFIG_TYPE, chart.to_string().into_bytes());
    let layer = Blob::new(LAYER_TYPE, package);
    let manifest = Manifest::new(config, layer, &BTreeMap::from(annotations), Value::Null);
    oci::archive(&[manifest], &reference, created)
}

/// Reads the chart's Chart.yaml, which is at the second level of the archive: charts of dependencies are deeper.
fn metadata(package: &[u8]) -> Result<Value> {
    let mut archive = tar::Archive::new(GzDecoder::new(package));
    for entry in archive.entries()? {
        let mut entry = entry?;
        let path = entry.path()?.into_owned();
        if path.ends_with("Chart.yaml") && path.components().count() == 2 {
            let mut text = String::new();
            entry.read_to_string(&mut text)?;
            return Ok(serde_saphyr::from_str(&text)?);
        }
    }
    anyhow::bail!("there is none")
}
