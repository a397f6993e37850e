//! Charts as artifacts of a registry: what Helm expects, and the same every time.

use serde_json::{Value, json};
use xtask::archive::{self, File};
use xtask::chart;

use crate::unpack;

const CHART: &str = "apiVersion: v2\nname: some\nversion: 1.2.3+build\ndescription: Does it\n";

fn package(files: &[(&str, &str)]) -> Vec<u8> {
    let files = files.iter().map(|(path, text)| File::plain(path, text.as_bytes()));
    archive::gzip(&archive::tar(files, 0).unwrap()).unwrap()
}

#[test]
fn chart_is_archived_as_helm_stores_it() {
    let package = package(&[("some/charts/part/Chart.yaml", "name: part"), ("some/Chart.yaml", CHART)]);
    let archive = chart::build(package.clone(), "registry:5000/charts", 1_700_000_000).unwrap();
    assert_eq!(archive.bytes, chart::build(package.clone(), "registry:5000/charts", 1_700_000_000).unwrap().bytes);
    let files = unpack(&archive.bytes);
    let json = |path: &str| -> Value { serde_json::from_slice(&files[path].bytes).unwrap() };
    let blob = |descriptor: &Value| format!("blobs/{}", descriptor["digest"].as_str().unwrap().replace(':', "/"));
    let entry = &json("index.json")["manifests"][0];
    assert_eq!(entry["annotations"]["io.containerd.image.name"], "registry:5000/charts/some:1.2.3_build");
    assert_eq!(entry["digest"], *archive.digest);
    assert!(entry["platform"].is_null() && !files.contains_key("manifest.json"), "it is not an image");
    let manifest = json(&blob(entry));
    assert_eq!(manifest["config"]["mediaType"], "application/vnd.cncf.helm.config.v1+json");
    assert_eq!(manifest["layers"][0]["mediaType"], "application/vnd.cncf.helm.chart.content.v1.tar+gzip");
    let expected = json!({"apiVersion": "v2", "name": "some", "version": "1.2.3+build", "description": "Does it"});
    assert_eq!(json(&blob(&manifest["config"])), expected);
    assert!(files[&blob(&manifest["layers"][0])].bytes == package);
    assert_eq!(manifest["annotations"]["org.opencontainers.image.created"], "2023-11-14T22:13:20Z");
}

#[test]
fn package_without_a_chart_is_rejected() {
    let without = |field: &str| CHART.lines().filter(|line| !line.starts_with(field)).collect::<Vec<_>>().join("\n");
    for (bytes, why) in [
        (b"no archive".to_vec(), "cannot read Chart.yaml in the package"),
        (package(&[("some/values.yaml", "{}")]), "there is none"),
        (package(&[("some/Chart.yaml", "{")]), "cannot read Chart.yaml in the package"),
        (package(&[("some/Chart.yaml", &without("version"))]), "Chart.yaml has no version"),
        (package(&[("some/Chart.yaml", &without("name"))]), "Chart.yaml has no name"),
    ] {
        let error = chart::build(bytes, "registry/charts", 0).unwrap_err();
        assert!(format!("{error:#}").contains(why), "{error:#}");
    }
}
