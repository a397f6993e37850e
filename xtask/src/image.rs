//! An image as one file: an [OCI layout](https://github.com/opencontainers/image-spec/blob/v1.1.1/image-layout.md)
//! in a tar, with the `manifest.json` that `docker load` looks for besides.

use std::collections::BTreeMap;
use std::io::Write as _;

use anyhow::{Context as _, Result, bail};
use flate2::{Compression, GzBuilder};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::program::Program;
use crate::rfc3339;

/// Who runs the program: `nonroot`, as other small images have it.
pub const USER: u32 = 65532;

/// The user's entry. Without it the program would have root's group: where the pod names no user, the kubelet passes on
/// the image's number without its group, which the runtime looks up here.
#[must_use]
pub fn passwd() -> String {
    format!("nonroot:x:{USER}:{USER}:nonroot:/:/sbin/nologin\n")
}

const MANIFEST_TYPE: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG_TYPE: &str = "application/vnd.oci.image.config.v1+json";
const LAYER_TYPE: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
const INDEX_TYPE: &str = "application/vnd.oci.image.index.v1+json";

/// What an image is besides its program.
#[derive(Clone, Debug)]
pub struct Description {
    /// Its name and tag: `registry/repository:tag`.
    pub reference: String,
    /// What the program is started with where nothing else is said.
    pub arguments: Vec<String>,
    /// The labels, which are the manifest's annotations too.
    pub labels: BTreeMap<String, String>,
    /// The time of everything in it, in seconds since 1970.
    pub created: u64,
}

/// An image as one file.
#[derive(Clone, Debug)]
pub struct Archive {
    /// The file.
    pub bytes: Vec<u8>,
    /// What the image is known by: the digest of its manifest.
    pub digest: String,
}

/// Puts an image together: the program, and who runs it.
///
/// # Errors
/// Where the reference has no tag, or the time is no date.
pub fn build(program: &Program, description: &Description) -> Result<Archive> {
    let Description { reference, labels, created, .. } = description;
    let Some((_, tag)) = reference.rsplit_once(':').filter(|(_, tag)| !tag.contains('/')) else {
        bail!("{reference} has no tag: name the image as registry/repository:tag");
    };
    let passwd = passwd();
    let files = [("etc/passwd", 0o644, passwd.as_bytes()), (program.name.as_str(), 0o755, &program.bytes[..])];
    let files = tar(files, *created)?;
    let layer = Blob::new(LAYER_TYPE, gzip(&files)?);
    let config = configuration(program, description, &digest(&files))?;
    let config = Blob::new(CONFIG_TYPE, config.to_string().into_bytes());
    let manifest = json!({
        "schemaVersion": 2, "mediaType": MANIFEST_TYPE,
        "config": config.descriptor(), "layers": [layer.descriptor()], "annotations": labels,
    });
    let manifest = Blob::new(MANIFEST_TYPE, manifest.to_string().into_bytes());

    let mut entry = manifest.descriptor();
    entry["platform"] = json!({"architecture": program.architecture, "os": "linux"});
    // The first is what containerd goes by, which would take the second for a name as well.
    entry["annotations"] = json!({
        "io.containerd.image.name": reference, "org.opencontainers.image.ref.name": tag,
    });
    let index = json!({"schemaVersion": 2, "mediaType": INDEX_TYPE, "manifests": [entry]});
    let docker = json!([{
        "Config": config.path(), "RepoTags": [reference], "Layers": [layer.path()],
    }]);
    let texts = [
        ("index.json".to_owned(), index.to_string().into_bytes()),
        ("manifest.json".to_owned(), docker.to_string().into_bytes()),
        ("oci-layout".to_owned(), json!({"imageLayoutVersion": "1.0.0"}).to_string().into_bytes()),
    ];
    let digest = manifest.digest.clone();
    let blobs = [config, layer, manifest].map(|blob| (blob.path(), blob.bytes));
    let entries: BTreeMap<_, _> = texts.into_iter().chain(blobs).collect();
    let entries = entries.iter().map(|(name, bytes)| (name.as_str(), 0o644, &bytes[..]));
    Ok(Archive { bytes: tar(entries, *created)?, digest })
}

/// What a runtime has to know, with the digest of the layer as it is unpacked.
fn configuration(program: &Program, description: &Description, files: &str) -> Result<Value> {
    let created = rfc3339(description.created)?;
    Ok(json!({
        "created": created, "architecture": program.architecture, "os": "linux",
        "config": {
            // By number: Kubernetes' runAsNonRoot cannot check a name.
            "User": format!("{USER}:{USER}"),
            "Entrypoint": [format!("/{}", program.name)],
            "Cmd": description.arguments,
            "WorkingDir": "/",
            "Labels": description.labels,
        },
        "rootfs": {"type": "layers", "diff_ids": [files]},
        "history": [{"created": created, "created_by": format!("COPY {} /", program.name)}],
    }))
}

/// A part of an image, which the others refer to by its digest.
struct Blob {
    media_type: &'static str,
    digest: String,
    bytes: Vec<u8>,
}

impl Blob {
    fn new(media_type: &'static str, bytes: Vec<u8>) -> Self {
        Self { media_type, digest: digest(&bytes), bytes }
    }

    fn descriptor(&self) -> Value {
        json!({"mediaType": self.media_type, "digest": self.digest, "size": self.bytes.len()})
    }

    fn path(&self) -> String {
        format!("blobs/{}", self.digest.replace(':', "/"))
    }
}

/// The digest of some bytes, as images refer to them.
#[must_use]
pub fn digest(bytes: &[u8]) -> String {
    let hex: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}

/// Files in the order given, all of them root's.
fn tar<'a>(files: impl IntoIterator<Item = (&'a str, u32, &'a [u8])>, created: u64) -> Result<Vec<u8>> {
    let mut tar = tar::Builder::new(Vec::new());
    for (name, mode, bytes) in files {
        let mut header = tar::Header::new_ustar();
        header.set_entry_type(tar::EntryType::Regular);
        header.set_size(bytes.len() as u64);
        header.set_mode(mode);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(created);
        tar.append_data(&mut header, name, bytes).with_context(|| format!("cannot archive {name}"))?;
    }
    tar.into_inner().context("cannot end an archive")
}

/// Without a name or a time, which would be other ones the next time.
fn gzip(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut gzip = GzBuilder::new().write(Vec::new(), Compression::best());
    gzip.write_all(bytes).and_then(|()| gzip.finish()).context("cannot compress the layer")
}
