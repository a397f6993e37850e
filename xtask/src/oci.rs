//! Artifacts for registries as one file: an
//! [OCI layout](https://github.com/opencontainers/image-spec/blob/v1.1.1/image-layout.md) in a tar.

use std::collections::BTreeMap;

use anyhow::{Result, bail};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::archive::{self, File};

const MANIFEST_TYPE: &str = "application/vnd.oci.image.manifest.v1+json";
const INDEX_TYPE: &str = "application/vnd.oci.image.index.v1+json";

/// An artifact as one file.
#[derive(Clone, Debug)]
pub struct Archive {
    /// The file.
    pub bytes: Vec<u8>,
    /// The digest of the artifact's manifest or index, by which registries identify it.
    pub digest: String,
}

/// A part of an artifact, which others refer to by its digest.
#[derive(Clone, Debug)]
pub struct Blob {
    media_type: &'static str,
    digest: String,
    bytes: Vec<u8>,
}

impl Blob {
    pub(crate) fn new(media_type: &'static str, bytes: Vec<u8>) -> Self {
        Self { media_type, digest: digest(&bytes), bytes }
    }

    fn json(media_type: &'static str, value: &Value) -> Self {
        Self::new(media_type, value.to_string().into_bytes())
    }

    pub(crate) fn descriptor(&self) -> Value {
        json!({"mediaType": self.media_type, "digest": self.digest, "size": self.bytes.len()})
    }

    pub(crate) fn path(&self) -> String {
        format!("blobs/{}", self.digest.replace(':', "/"))
    }
}

/// A manifest with its configuration and its layer.
#[derive(Clone, Debug)]
pub struct Manifest {
    blob: Blob,
    config: Blob,
    layer: Blob,
    /// The platform of an image; `null` for other artifacts.
    platform: Value,
}

impl Manifest {
    pub(crate) fn new(config: Blob, layer: Blob, annotations: &BTreeMap<String, String>, platform: Value) -> Self {
        let manifest = json!({
            "schemaVersion": 2, "mediaType": MANIFEST_TYPE,
            "config": config.descriptor(), "layers": [layer.descriptor()], "annotations": annotations,
        });
        Self { blob: Blob::json(MANIFEST_TYPE, &manifest), config, layer, platform }
    }

    fn entry(&self) -> Value {
        let mut entry = self.blob.descriptor();
        if !self.platform.is_null() {
            entry["platform"] = self.platform.clone();
        }
        entry
    }
}

/// Archives an artifact, named `registry/repository:tag`: one manifest, or an index of one for each platform.
///
/// # Errors
/// If the reference has no tag, or there is no manifest.
pub fn archive(manifests: &[Manifest], reference: &str, created: u64) -> Result<Archive> {
    let Some((_, tag)) = reference.rsplit_once(':').filter(|(_, tag)| !tag.contains('/')) else {
        bail!("{reference} has no tag: name the artifact as registry/repository:tag");
    };
    let mut blobs: Vec<_> = manifests.iter().flat_map(|it| [&it.config, &it.layer, &it.blob]).cloned().collect();
    let mut files =
        BTreeMap::from([("oci-layout".to_owned(), json!({"imageLayoutVersion": "1.0.0"}).to_string().into_bytes())]);
    let (mut entry, digest) = match manifests {
        [] => bail!("{reference} has no manifest"),
        [only] => {
            // `docker load` reads one image by this file.
            let docker = json!([{
                "Config": only.config.path(), "RepoTags": [reference], "Layers": [only.layer.path()],
            }]);
            if !only.platform.is_null() {
                files.insert("manifest.json".to_owned(), docker.to_string().into_bytes());
            }
            (only.entry(), only.blob.digest.clone())
        }
        several => {
            let entries: Vec<_> = several.iter().map(Manifest::entry).collect();
            let index = json!({"schemaVersion": 2, "mediaType": INDEX_TYPE, "manifests": entries});
            let index = Blob::json(INDEX_TYPE, &index);
            let (entry, digest) = (index.descriptor(), index.digest.clone());
            blobs.push(index);
            (entry, digest)
        }
    };
    // containerd reads the first, and would take the second for a name too.
    entry["annotations"] = json!({
        "io.containerd.image.name": reference, "org.opencontainers.image.ref.name": tag,
    });
    let index = json!({"schemaVersion": 2, "mediaType": INDEX_TYPE, "manifests": [entry]});
    files.insert("index.json".to_owned(), index.to_string().into_bytes());
    files.extend(blobs.into_iter().map(|blob| (blob.path(), blob.bytes)));
    let files = files.iter().map(|(path, bytes)| File::plain(path, bytes));
    Ok(Archive { bytes: archive::tar(files, created)?, digest })
}

/// Returns the digest of some bytes, in the form that registries use.
#[must_use]
pub fn digest(bytes: &[u8]) -> String {
    let hex: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}
