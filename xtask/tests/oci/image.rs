//! Images are reproducible, well formed, and contain nothing but the program and its user. `IMAGE` is the path of an
//! archive to check in addition.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::path::Path;

use flate2::read::GzDecoder;
use serde_json::{Value, json};
use xtask::image::{self, Description};
use xtask::oci::{Archive, digest};
use xtask::program::Program;
use xtask::sbom;

use crate::{Entry, unpack};

const CREATED: u64 = 1_700_000_000;
const TARGET: &str = "x86_64-unknown-linux-gnu";
const PACKAGE: &str = "node-resource-advertiser";

fn program() -> Program {
    Program { name: "program".to_owned(), bytes: b"static".repeat(9999), architecture: "arm64" }
}

fn description() -> Description {
    Description {
        reference: "registry:5000/a/program:1.2".to_owned(),
        arguments: vec!["run".to_owned()],
        labels: BTreeMap::from([("org.opencontainers.image.version".to_owned(), "1.2".to_owned())]),
        created: CREATED,
        licenses: BTreeMap::from([("LICENSE".to_owned(), b"Apache".to_vec())]),
    }
}

fn build() -> Archive {
    image::build(&[program()], &description()).expect("an archive")
}

/// Follows every reference from the index, and checks sizes and digests. Returns the manifest, the configuration and the
/// files of the layer. A file without a reference is an error.
fn check(archive: &[u8]) -> (Value, Value, BTreeMap<String, Entry>) {
    let mut files = unpack(archive);
    let mut take = |name: &str| files.remove(name).unwrap_or_else(|| panic!("no {name}, of {:?}", files.keys())).bytes;
    let parse = |bytes: Vec<u8>| -> Value { serde_json::from_slice(&bytes).unwrap() };
    let mut follow = |descriptor: &Value, media_type: &str| {
        assert_eq!(descriptor["mediaType"], media_type);
        let expected = descriptor["digest"].as_str().unwrap();
        let bytes = take(&format!("blobs/{}", expected.replace(':', "/")));
        assert_eq!(digest(&bytes), expected);
        assert_eq!(descriptor["size"], bytes.len());
        bytes
    };
    let index = parse(unpack(archive).remove("index.json").unwrap().bytes);
    let entry = index["manifests"][0].clone();
    assert_eq!(index["manifests"].as_array().unwrap().len(), 1);
    let manifest = parse(follow(&entry, "application/vnd.oci.image.manifest.v1+json"));
    let config = parse(follow(&manifest["config"], "application/vnd.oci.image.config.v1+json"));
    let layers = manifest["layers"].as_array().unwrap();
    assert_eq!(layers.len(), 1);
    let layer = follow(&layers[0], "application/vnd.oci.image.layer.v1.tar+gzip");
    let mut unpacked = Vec::new();
    GzDecoder::new(&layer[..]).read_to_end(&mut unpacked).unwrap();
    assert_eq!(config["rootfs"]["diff_ids"], json!([digest(&unpacked)]));
    for field in ["architecture", "os"] {
        assert_eq!(entry["platform"][field], config[field]);
    }
    assert_eq!(parse(take("oci-layout")), json!({"imageLayoutVersion": "1.0.0"}));
    let path = |descriptor: &Value| format!("blobs/{}", descriptor["digest"].as_str().unwrap().replace(':', "/"));
    let name = &entry["annotations"]["io.containerd.image.name"];
    let docker = json!([{
        "Config": path(&manifest["config"]), "RepoTags": [name], "Layers": [path(&layers[0])],
    }]);
    assert_eq!(parse(take("manifest.json")), docker);
    take("index.json");
    assert!(files.is_empty(), "{:?}", files.keys());
    (manifest, config, unpack(&unpacked))
}

#[test]
fn archive_of_the_same_input_has_the_same_bytes() {
    let (one, other) = (build(), build());
    assert!(one.bytes == other.bytes);
    assert_eq!(one.digest, other.digest);
    let later = Description { created: CREATED + 1, ..description() };
    assert_ne!(image::build(&[program()], &later).unwrap().digest, one.digest);
}

#[test]
fn archive_is_well_formed_and_holds_the_program_and_its_user() {
    let archive = build();
    let (manifest, config, files) = check(&archive.bytes);
    assert_eq!(files.keys().collect::<Vec<_>>(), ["etc/passwd", "licenses/LICENSE", "program"]);
    let passwd = String::from_utf8_lossy(&files["etc/passwd"].bytes);
    assert_eq!(passwd, "nonroot:x:65532:65532:nonroot:/:/sbin/nologin\n");
    assert!(files["program"].bytes == program().bytes);
    assert_eq!(digest(manifest.to_string().as_bytes()), archive.digest);
    let labels = json!({"org.opencontainers.image.version": "1.2"});
    assert_eq!(manifest["annotations"], labels);
    assert_eq!(
        config["config"],
        json!({
            "User": "65532:65532", "Entrypoint": ["/program"], "Cmd": ["run"], "WorkingDir": "/",
            "Labels": labels,
        })
    );
    assert_eq!(config["architecture"], "arm64");
    assert_eq!(config["created"], "2023-11-14T22:13:20Z");
}

/// One reference for every machine: registries and containerd choose by the platform.
#[test]
fn image_of_two_architectures_is_an_index() {
    let other = Program { architecture: "amd64", bytes: b"other".to_vec(), ..program() };
    let archive = image::build(&[other.clone(), program()], &description()).unwrap();
    let files = unpack(&archive.bytes);
    assert!(!files.contains_key("manifest.json"), "docker load knows one image only");
    let parse = |bytes: &[u8]| -> Value { serde_json::from_slice(bytes).unwrap() };
    let blob = |descriptor: &Value| {
        let expected = descriptor["digest"].as_str().unwrap();
        let bytes = &files[&format!("blobs/{}", expected.replace(':', "/"))].bytes;
        assert_eq!((digest(bytes), json!(bytes.len())), (expected.to_owned(), descriptor["size"].clone()));
        parse(bytes)
    };
    let top = parse(&files["index.json"].bytes);
    assert_eq!(top["manifests"].as_array().unwrap().len(), 1);
    assert_eq!(top["manifests"][0]["digest"], *archive.digest);
    let index = blob(&top["manifests"][0]);
    let manifests = index["manifests"].as_array().unwrap();
    let architectures: Vec<_> = manifests.iter().map(|entry| entry["platform"]["architecture"].clone()).collect();
    assert_eq!(architectures, ["amd64", "arm64"]);
    for (entry, program) in manifests.iter().zip([other, program()]) {
        let alone = image::build(&[program], &description()).unwrap();
        assert_eq!(entry["digest"], *alone.digest, "the same as alone");
        let manifest = blob(entry);
        assert_eq!(blob(&manifest["config"])["architecture"], entry["platform"]["architecture"]);
    }
    let none = image::build(&[], &description()).unwrap_err();
    assert!(none.to_string().contains("has no manifest"), "{none}");
}

#[test]
fn archive_keeps_its_reference() {
    let mut files = unpack(&build().bytes);
    let index: Value = serde_json::from_slice(&files.remove("index.json").unwrap().bytes).unwrap();
    let annotations = json!({
        "io.containerd.image.name": "registry:5000/a/program:1.2",
        "org.opencontainers.image.ref.name": "1.2",
    });
    assert_eq!(index["manifests"][0]["annotations"], annotations);
    for reference in ["program", "registry:5000/a/program"] {
        let untagged = Description { reference: reference.to_owned(), ..description() };
        let error = image::build(&[program()], &untagged).unwrap_err();
        assert!(error.to_string().contains("has no tag"), "{error}");
    }
}

#[test]
fn archive_does_not_depend_on_the_machine() {
    let archive = build();
    for (name, entry) in unpack(&archive.bytes) {
        assert_eq!((entry.mode, entry.owner, entry.time), (0o644, (0, 0), CREATED), "{name}");
    }
    let (.., files) = check(&archive.bytes);
    let file = &files["program"];
    assert_eq!((file.mode, file.owner, file.time), (0o755, (0, 0), CREATED));
}

#[test]
fn program_that_is_not_static_is_rejected() {
    let dynamic = Program::read(&std::env::current_exe().unwrap()).unwrap_err();
    assert!(format!("{dynamic:#}").contains("link it statically"), "{dynamic:#}");
    let text = Program::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml"));
    assert!(format!("{:#}", text.unwrap_err()).contains("not a 64-bit ELF file"));
    let missing = Program::read(Path::new("/nowhere/program")).unwrap_err();
    assert!(missing.to_string().contains("cannot read /nowhere/program"), "{missing}");
}

#[test]
fn built_archive_is_well_formed_and_runs_unprivileged() {
    let Some(path) = std::env::var_os("IMAGE") else {
        println!("IMAGE is not set: checking only the archive of this test");
        return;
    };
    let archive = std::fs::read(path).unwrap();
    let (_, config, files) = check(&archive);
    assert_eq!(files.keys().collect::<Vec<_>>(), ["etc/passwd", PACKAGE]);
    let file = &files[PACKAGE];
    assert_eq!((file.mode, file.owner), (0o755, (0, 0)));
    assert_eq!(config["config"]["User"], "65532:65532");
    assert_eq!(config["config"]["Entrypoint"], json!([format!("/{PACKAGE}")]));
    assert_eq!(config["config"]["Cmd"], json!(["run"]));
    for label in ["title", "description", "version", "revision", "source", "licenses"] {
        let label = format!("org.opencontainers.image.{label}");
        assert!(config["config"]["Labels"][&label].as_str().is_some_and(|text| !text.is_empty()));
    }
}

/// Without Docker, only the texts can be compared.
#[test]
fn dockerfile_matches_the_archive() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../Dockerfile");
    let text = std::fs::read_to_string(path).unwrap();
    let (build, image) = text.split_once("\nFROM scratch\n").expect("a last stage from scratch");
    assert!(build.contains("+crt-static"), "{build}");
    assert!(build.contains(&image::passwd().replace("\n", "\\n")), "{build}");
    let lines: Vec<_> =
        image.lines().filter(|line| !line.starts_with([' ', '#']) && !line.starts_with("LABEL")).collect();
    let expected = [
        "COPY --from=build /passwd /etc/".to_owned(),
        format!("COPY --from=build /{PACKAGE} /"),
        format!("USER {0}:{0}", image::USER),
        "WORKDIR /".to_owned(),
        format!("ENTRYPOINT [\"/{PACKAGE}\"]"),
        "CMD [\"run\"]".to_owned(),
    ];
    assert_eq!(lines, expected);
}

#[test]
fn sbom_lists_what_cargo_builds_the_program_from() {
    let linked = [("glibc".to_owned(), "2.36".to_owned())];
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
    expected.insert("glibc v2.36".to_owned());
    assert_eq!(listed, expected);

    for part in components.iter().filter(|part| part["name"] != "glibc") {
        let licence = part["licenses"][0]["expression"].as_str();
        assert!(licence.is_some_and(|licence| !licence.contains('/')), "{part}");
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
