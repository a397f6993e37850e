//! The origin of a release, as a statement of [in-toto](https://github.com/in-toto/attestation/tree/main/spec/v1) with a
//! predicate of [SLSA](https://slsa.dev/spec/v1.1/provenance).

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

/// How files were built.
#[derive(Clone, Debug)]
pub struct Build {
    /// The repository's address.
    pub repository: String,
    /// The commit, in hexadecimal digits.
    pub commit: String,
    /// The command.
    pub command: String,
    /// What the files were built with besides the commit: addresses and digests, `sha256:…`.
    pub dependencies: BTreeMap<String, String>,
    /// Who built them: the address of a workflow, or of this project where a person did.
    pub builder: String,
}

/// Returns the statement about files and artifacts of a registry, by name, with their digests, `sha256:…`. It has no time,
/// so that the same commit gives the same statement.
///
/// # Errors
/// If a digest is not a SHA-256 digest.
pub fn statement(subjects: &BTreeMap<String, String>, build: &Build) -> Result<Value> {
    let Build { repository, commit, command, dependencies, builder } = build;
    let subjects = subjects.iter().map(|(name, digest)| Ok(json!({"name": name, "digest": sha256(digest)?})));
    let source = json!({"uri": format!("git+{repository}"), "digest": {"gitCommit": commit}});
    let others = dependencies.iter().map(|(uri, digest)| Ok(json!({"uri": uri, "digest": sha256(digest)?})));
    let dependencies: Result<Vec<_>> = std::iter::once(Ok(source.clone())).chain(others).collect();
    Ok(json!({
        "_type": "https://in-toto.io/Statement/v1",
        "subject": subjects.collect::<Result<Vec<_>>>()?,
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": format!("{repository}/blob/main/RELEASE.md"),
                "externalParameters": {"command": command, "source": source},
                "resolvedDependencies": dependencies?,
            },
            "runDetails": {"builder": {"id": builder}},
        },
    }))
}

fn sha256(digest: &str) -> Result<Value> {
    let hex = digest.strip_prefix("sha256:").with_context(|| format!("{digest:?} does not begin with sha256:"))?;
    ensure!(hex.len() == 64 && hex.bytes().all(|byte| byte.is_ascii_hexdigit()), "{digest} has no 64 digits");
    Ok(json!({"sha256": hex}))
}
