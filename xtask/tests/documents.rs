//! The documents of a release: the bill of materials, and the statement about its origin.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // a test that fails panics

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use xtask::provenance::{self, Build};
use xtask::sbom::{self, Purl};

const CREATED: u64 = 1_700_000_000;
const TARGET: &str = "x86_64-unknown-linux-gnu";
const PACKAGE: &str = "node-resource-advertiser";

#[test]
fn sbom_lists_what_cargo_builds_the_program_from() {
    let glibc: Purl = "pkg:deb/debian/glibc@2.36-9%2Bdeb12u13".parse().unwrap();
    let linked = [glibc];
    let workspace = sbom::Workspace::new(PACKAGE, TARGET).unwrap();
    let make = || sbom::build(&workspace, PACKAGE, &linked, CREATED).unwrap();
    let made = make();
    assert_eq!(made, make());
    let components = made["components"].as_array().unwrap();
    let application = &made["metadata"]["component"];
    let (name, version) = (|part: &Value| part["name"].clone(), |part: &Value| part["version"].clone());
    let text = |value: Value| value.as_str().unwrap().to_owned();
    let listed: BTreeSet<_> = components
        .iter()
        .chain([application])
        .map(|part| format!("{} v{}", text(name(part)), text(version(part))))
        .collect();
    assert_eq!(listed.len(), components.len() + 1, "a component is listed twice");

    let mut expected = workspace.linked().clone();
    expected.insert("glibc v2.36-9+deb12u13".to_owned());
    assert_eq!(listed, expected);

    for part in components.iter().filter(|part| part["name"] != "glibc") {
        let license = part["licenses"][0]["expression"].as_str();
        assert!(license.is_some_and(|license| !license.contains('/')), "{part}");
    }
    let known: BTreeSet<_> = components.iter().chain([application]).map(|part| text(part["bom-ref"].clone())).collect();
    for dependency in made["dependencies"].as_array().unwrap() {
        assert!(known.contains(dependency["ref"].as_str().unwrap()), "{dependency}");
        for on in dependency["dependsOn"].as_array().unwrap() {
            assert!(known.contains(on.as_str().unwrap()), "{dependency}");
        }
    }
    assert!(!made.to_string().contains(env!("CARGO_MANIFEST_DIR")), "a path of this machine");
}

#[test]
fn component_without_a_version_is_rejected() {
    let workspace = sbom::Workspace::new(PACKAGE, TARGET).unwrap();
    let glibc: Purl = "pkg:deb/debian/glibc".parse().unwrap();
    let error = sbom::build(&workspace, PACKAGE, &[glibc], CREATED).unwrap_err();
    assert_eq!(error.to_string(), "pkg:deb/debian/glibc has no version");
}

#[test]
fn provenance_names_what_was_built_and_from_what() {
    let digest = |digit: &str| format!("sha256:{}", digit.repeat(64));
    let subjects = BTreeMap::from([("file.tar.gz".to_owned(), digest("a")), ("ghcr.io/image".to_owned(), digest("b"))]);
    let build = Build {
        repository: "https://example.com/project".to_owned(),
        commit: "1234".to_owned(),
        command: "make release".to_owned(),
        dependencies: BTreeMap::from([("file:Cargo.lock".to_owned(), digest("c"))]),
        builder: "https://example.com/builder".to_owned(),
    };
    let statement = provenance::statement(&subjects, &build).unwrap();
    assert_eq!(statement["_type"], "https://in-toto.io/Statement/v1");
    assert_eq!(statement["predicateType"], "https://slsa.dev/provenance/v1");
    assert_eq!(
        statement["subject"],
        json!([
            {"name": "file.tar.gz", "digest": {"sha256": "a".repeat(64)}},
            {"name": "ghcr.io/image", "digest": {"sha256": "b".repeat(64)}},
        ])
    );
    let definition = &statement["predicate"]["buildDefinition"];
    assert_eq!(definition["resolvedDependencies"][0]["digest"]["gitCommit"], "1234");
    assert_eq!(definition["resolvedDependencies"][1]["uri"], "file:Cargo.lock");
    assert_eq!(statement["predicate"]["runDetails"]["builder"]["id"], "https://example.com/builder");

    for wrong in ["a".repeat(64), "sha256:a".to_owned(), format!("sha256:{}", "x".repeat(64))] {
        let subjects = BTreeMap::from([("file".to_owned(), wrong.clone())]);
        let error = provenance::statement(&subjects, &build).unwrap_err().to_string();
        assert!(error.contains(&wrong), "{error}");
    }
}
