//! Images are reproducible, well formed, and contain nothing but the program and its user. `IMAGE` is the path of an
//! archive to check in addition.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::Path;

use flate2::read::GzDecoder;
use serde_json::{Value, json};
use xtask::image::{self, Description};
use xtask::oci::{Archive, digest};
use xtask::program::Program;

use crate::{Entry, unpack};

const CREATED: u64 = 1_700_000_000;
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

/// An image for one platform.
struct Image {
    manifest: Value,
    config: Value,
    /// The files of the layer.
    files: BTreeMap<String, Entry>,
}

/// Follows every reference from the index, and checks sizes and digests. A file without a reference is an error.
fn check(archive: &[u8]) -> Vec<Image> {
    let mut files = unpack(archive);
    let mut take = |name: &str| files.remove(name).unwrap_or_else(|| panic!("no {name}, of {:?}", files.keys())).bytes;
    let parse = |bytes: &[u8]| -> Value { serde_json::from_slice(bytes).unwrap() };
    let path = |descriptor: &Value| format!("blobs/{}", descriptor["digest"].as_str().unwrap().replace(':', "/"));
    assert_eq!(parse(&take("oci-layout")), json!({"imageLayoutVersion": "1.0.0"}));
    let index = parse(&take("index.json"));
    let [top] = &index["manifests"].as_array().unwrap()[..] else { panic!("not one artifact: {index}") };
    let is_single = top["mediaType"] == "application/vnd.oci.image.manifest.v1+json";
    let docker = is_single.then(|| parse(&take("manifest.json")));
    let mut follow = |descriptor: &Value, media_type: &str| {
        assert_eq!(descriptor["mediaType"], media_type);
        let bytes = take(&path(descriptor));
        assert_eq!(descriptor["digest"], digest(&bytes));
        assert_eq!(descriptor["size"], bytes.len());
        bytes
    };
    let entries = if is_single {
        vec![top.clone()]
    } else {
        let index = parse(&follow(top, "application/vnd.oci.image.index.v1+json"));
        index["manifests"].as_array().unwrap().clone()
    };
    let mut image = |entry: &Value| {
        let manifest = parse(&follow(entry, "application/vnd.oci.image.manifest.v1+json"));
        let config = parse(&follow(&manifest["config"], "application/vnd.oci.image.config.v1+json"));
        let [layer] = &manifest["layers"].as_array().unwrap()[..] else { panic!("not one layer: {manifest}") };
        let mut unpacked = Vec::new();
        let packed = follow(layer, "application/vnd.oci.image.layer.v1.tar+gzip");
        GzDecoder::new(&packed[..]).read_to_end(&mut unpacked).unwrap();
        assert_eq!(config["rootfs"]["diff_ids"], json!([digest(&unpacked)]));
        for field in ["architecture", "os"] {
            assert_eq!(entry["platform"][field], config[field]);
        }
        Image { manifest, config, files: unpack(&unpacked) }
    };
    let images: Vec<_> = entries.iter().map(&mut image).collect();
    if let Some(docker) = docker {
        let manifest = &images[0].manifest;
        let name = &top["annotations"]["io.containerd.image.name"];
        let layers = [path(&manifest["layers"][0])];
        assert_eq!(docker, json!([{"Config": path(&manifest["config"]), "RepoTags": [name], "Layers": layers}]));
    }
    assert!(files.is_empty(), "{:?}", files.keys());
    images
}

fn check_single(archive: &[u8]) -> Image {
    let mut images = check(archive);
    assert_eq!(images.len(), 1);
    images.remove(0)
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
    let Image { manifest, config, files } = check_single(&archive.bytes);
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
    let images = check(&archive.bytes);
    let architectures: Vec<_> = images.iter().map(|image| image.config["architecture"].as_str().unwrap()).collect();
    assert_eq!(architectures, ["amd64", "arm64"]);
    for (image, program) in images.iter().zip([other, program()]) {
        let alone = image::build(&[program], &description()).unwrap();
        assert_eq!(image.manifest, check_single(&alone.bytes).manifest, "the same as alone");
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
    let image = check_single(&archive.bytes);
    let file = &image.files["program"];
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
    for Image { config, files, .. } in check(&std::fs::read(path).unwrap()) {
        let expected = ["etc/passwd", "licenses/LICENSE", "licenses/crates.txt", "licenses/glibc.txt", PACKAGE];
        assert_eq!(files.keys().collect::<Vec<_>>(), expected);
        // Images for tests have no license texts of crates: hack/licenses.sh.
        let is_release = std::env::var("RELEASE").is_ok_and(|value| !value.is_empty());
        assert_eq!(String::from_utf8_lossy(&files["licenses/crates.txt"].bytes).contains("tokio"), is_release);
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
}

/// Without Docker, only the texts can be compared.
#[test]
fn dockerfile_matches_the_archive() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../Dockerfile");
    let text = std::fs::read_to_string(path).unwrap();
    let (build, image) = text.split_once("\nFROM scratch\n").expect("a last stage from scratch");
    // The commands of a release, on a base that cannot change.
    for command in ["make cargo-about cargo-auditable", "hack/licenses.sh /licenses", "hack/program.sh \"$machine-"] {
        assert!(build.contains(command), "{command}: {build}");
    }
    let toolchain = Path::new(env!("CARGO_MANIFEST_DIR")).join("../rust-toolchain.toml");
    let toolchain = std::fs::read_to_string(toolchain).unwrap();
    let version = toolchain.lines().find_map(|line| line.strip_prefix("channel = ")).unwrap().trim_matches('"');
    let base = build.lines().find_map(|line| line.strip_prefix("FROM --platform=$BUILDPLATFORM ")).unwrap();
    let digest = base.strip_prefix(&format!("rust:{version}-bookworm@sha256:")).unwrap_or_else(|| panic!("{base}"));
    let digits = digest.strip_suffix(" AS build").unwrap();
    assert!(digits.len() == 64 && digits.bytes().all(|byte| byte.is_ascii_hexdigit()), "{base}");
    assert!(build.contains(&image::passwd().replace("\n", "\\n")), "{build}");
    let lines: Vec<_> =
        image.lines().filter(|line| !line.starts_with([' ', '#']) && !line.starts_with("LABEL")).collect();
    let expected = [
        "COPY --from=build /passwd /etc/".to_owned(),
        format!("COPY --from=build /{0} /{0}", image::LICENSES),
        format!("COPY --from=build /{PACKAGE} /"),
        format!("USER {0}:{0}", image::USER),
        "WORKDIR /".to_owned(),
        format!("ENTRYPOINT [\"/{PACKAGE}\"]"),
        "CMD [\"run\"]".to_owned(),
    ];
    assert_eq!(lines, expected);
}
