//! A software bill of materials (SBOM) of a program, in the format of
//! [CycloneDX](https://cyclonedx.org/docs/1.6/json/).

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use cargo_metadata::{DependencyKind, Metadata, MetadataCommand, Node, Package, PackageId};
use packageurl::PackageUrl;
use serde_json::{Value, json};

use crate::rfc3339;

/// A [package URL](https://github.com/package-url/purl-spec), by which scanners look up a component.
pub type Purl = PackageUrl<'static>;

/// A workspace, as cargo describes it.
#[derive(Debug)]
pub struct Workspace {
    metadata: Metadata,
    /// The crates in a package's program, as `<name> v<version>`. The metadata alone has more: also optional crates of
    /// which a feature is enabled only if something else enables the crate.
    linked: BTreeSet<String>,
}

impl Workspace {
    /// Reads the dependencies of a package for a target, such as `x86_64-unknown-linux-gnu`.
    ///
    /// # Errors
    /// If cargo fails.
    pub fn new(package: &str, target: &str) -> Result<Self> {
        let options = ["--locked", "--filter-platform", target].map(str::to_owned).to_vec();
        let metadata = MetadataCommand::new().other_options(options).exec();
        let tree = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
            .args(["tree", "--locked", "--package", package, "--target", target])
            .args(["--edges", "normal,no-proc-macro", "--prefix", "none", "--format", "{p}"])
            .output()
            .context("cannot run cargo tree")?;
        let stderr = String::from_utf8_lossy(&tree.stderr);
        ensure!(tree.status.success(), "cargo tree failed: {stderr}");
        // The path of a workspace member follows its version.
        let tree = String::from_utf8(tree.stdout).context("cargo tree prints text")?;
        let linked = tree.lines().filter_map(|line| line.split(" (").next());
        Ok(Self {
            metadata: metadata.context("cannot read cargo's metadata")?,
            linked: linked.map(str::to_owned).collect(),
        })
    }

    /// Returns the crates in the program, as `<name> v<version>`.
    #[must_use]
    pub fn linked(&self) -> &BTreeSet<String> {
        &self.linked
    }
}

/// Returns the SBOM of a package of the workspace: the crates in the program, without those that only build or test it,
/// and the other `linked` components, by package URL.
///
/// # Errors
/// If the workspace has no such package, the timestamp, in seconds since 1970, is not a date, or a package URL has no
/// version.
pub fn build(workspace: &Workspace, package: &str, linked: &[Purl], created: u64) -> Result<Value> {
    let crates = Crates::new(workspace)?;
    let root = workspace.metadata.workspace_packages().into_iter().find(|root| root.name == package);
    let root = root.with_context(|| format!("the workspace has no package {package}"))?;
    let all = crates.reach(&root.id);

    let others = all.iter().filter(|&&id| *id != root.id);
    let others = others.filter_map(|id| crates.packages.get(id));
    let others = others.map(|package| component(package, "library"));
    let linked = linked.iter().map(|purl| {
        let version = purl.version().with_context(|| format!("{purl} has no version"))?;
        Ok(json!({
            "type": "library", "bom-ref": purl.to_string(), "name": purl.name(), "version": version,
            "purl": purl.to_string(),
        }))
    });
    let linked: Vec<_> = linked.collect::<Result<_>>()?;
    let dependencies = all.iter().filter_map(|&id| {
        let mut on: BTreeSet<_> = crates.dependencies(id).map(reference).collect();
        if *id == root.id {
            on.extend(linked.iter().filter_map(|part| part["bom-ref"].as_str()).map(str::to_owned));
        }
        Some(json!({"ref": reference(crates.packages.get(id)?), "dependsOn": on}))
    });
    Ok(json!({
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1,
        "metadata": {"timestamp": rfc3339(created)?, "component": component(root, "application")},
        "dependencies": dependencies.collect::<Vec<_>>(),
        "components": others.chain(linked.iter().cloned()).collect::<Vec<_>>(),
    }))
}

/// The crates of a workspace and their dependencies.
struct Crates<'a> {
    packages: BTreeMap<&'a PackageId, &'a Package>,
    nodes: BTreeMap<&'a PackageId, &'a Node>,
}

impl<'a> Crates<'a> {
    fn new(Workspace { metadata, linked }: &'a Workspace) -> Result<Self> {
        let resolve = metadata.resolve.as_ref().context("cargo reports no dependencies")?;
        let packages = metadata
            .packages
            .iter()
            .filter(|package| linked.contains(&format!("{} v{}", package.name, package.version)));
        Ok(Self {
            packages: packages.map(|package| (&package.id, package)).collect(),
            nodes: resolve.nodes.iter().map(|node| (&node.id, node)).collect(),
        })
    }

    /// Returns the direct dependencies that are linked. A procedural macro runs in the compiler and is not.
    fn dependencies(&self, id: &PackageId) -> impl Iterator<Item = &'a Package> {
        let dependencies = self.nodes.get(id).into_iter().flat_map(|node| &node.deps);
        let linked = dependencies.filter(|on| on.dep_kinds.iter().any(|kind| kind.kind == DependencyKind::Normal));
        let packages = linked.filter_map(|on| self.packages.get(&on.pkg).copied());
        packages.filter(|package| !package.targets.iter().any(cargo_metadata::Target::is_proc_macro))
    }

    /// Returns a package and all its linked dependencies, sorted.
    fn reach(&self, root: &'a PackageId) -> Vec<&'a PackageId> {
        let (mut found, mut open) = (BTreeSet::from([root]), vec![root]);
        while let Some(id) = open.pop() {
            open.extend(self.dependencies(id).map(|on| &on.id).filter(|&on| found.insert(on)));
        }
        let mut all: Vec<_> = found.into_iter().collect();
        // Not by id, which contains the folder of the workspace.
        all.sort_by_key(|id| self.packages.get(id).map(|package| reference(package)));
        all
    }
}

fn component(package: &Package, kind: &str) -> Value {
    let reference = reference(package);
    let mut component = json!({
        "type": kind, "bom-ref": reference, "name": package.name, "version": package.version,
        "purl": reference,
    });
    if let Some(license) = &package.license {
        // Old crates write a slash instead of SPDX's OR.
        component["licenses"] = json!([{"expression": license.replace('/', " OR ")}]);
    }
    if let Some(repository) = &package.repository {
        component["externalReferences"] = json!([{"type": "vcs", "url": repository}]);
    }
    component
}

/// Returns the package URL of a crate.
fn reference(package: &Package) -> String {
    format!("pkg:cargo/{}@{}", package.name, package.version)
}
