//! Container images of a static program.

use std::collections::BTreeMap;

use anyhow::Result;
use serde_json::{Value, json};

use crate::archive::{self, File};
use crate::oci::{self, Archive, Blob, Manifest, digest};
use crate::program::Program;
use crate::rfc3339;

/// The user that runs the program: `nonroot`, as in other small images.
pub const USER: u32 = 65532;

/// The folder of the license texts in the image.
pub const LICENSES: &str = "licenses";

const CONFIG_TYPE: &str = "application/vnd.oci.image.config.v1+json";
const LAYER_TYPE: &str = "application/vnd.oci.image.layer.v1.tar+gzip";

/// Returns the user's entry. Without it, the program would have root's group: if the pod names no user, the kubelet passes
/// the image's user ID without a group, which the runtime looks up here.
#[must_use]
pub fn passwd() -> String {
    format!("nonroot:x:{USER}:{USER}:nonroot:/:/sbin/nologin\n")
}

/// The description of an image.
#[derive(Clone, Debug)]
pub struct Description {
    /// The name and tag: `registry/repository:tag`.
    pub reference: String,
    /// The program's default arguments.
    pub arguments: Vec<String>,
    /// The labels, which are also the manifest's annotations.
    pub labels: BTreeMap<String, String>,
    /// The timestamp of everything in the image, in seconds since 1970.
    pub created: u64,
    /// The license texts: the names and contents of files.
    pub licenses: BTreeMap<String, Vec<u8>>,
}

/// Builds an image of a program, for the architecture of each file of it.
///
/// # Errors
/// If the reference has no tag, there is no program, or the timestamp is not a date.
pub fn build(programs: &[Program], description: &Description) -> Result<Archive> {
    let manifests: Result<Vec<_>> = programs.iter().map(|program| manifest(program, description)).collect();
    oci::archive(&manifests?, &description.reference, description.created)
}

fn manifest(program: &Program, description: &Description) -> Result<Manifest> {
    let passwd = passwd();
    let licenses: Vec<_> =
        description.licenses.iter().map(|(name, text)| (format!("{LICENSES}/{name}"), text)).collect();
    let files = [File::plain("etc/passwd", passwd.as_bytes())].into_iter();
    let files = files.chain(licenses.iter().map(|(path, text)| File::plain(path, text)));
    let files = files.chain([File::program(&program.name, &program.bytes)]);
    let files = archive::tar(files, description.created)?;
    let layer = Blob::new(LAYER_TYPE, archive::gzip(&files)?);
    let config = configuration(program, description, &digest(&files))?;
    let config = Blob::new(CONFIG_TYPE, config.to_string().into_bytes());
    let platform = json!({"architecture": program.architecture, "os": "linux"});
    Ok(Manifest::new(config, layer, &description.labels, platform))
}

/// Returns the configuration for the runtime, with the digest of the uncompressed layer.
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
