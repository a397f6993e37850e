//! A release, from its publication to what a user does with it: get it, verify it, install the plugin.
//!
//! Method: push the files of `make release` (DIST) to a registry of the test's own, signed with a key of its own, and run
//! the commands of docs/verify.md in a folder that has nothing but what a release has. Then change one file after the
//! other, and expect that the same commands fail and name it.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // a test that fails panics

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use harness::documents::{self, Shell};
use harness::{Output, PLATFORM, Registry, control_plane_program, project_file, tool};
use serde_json::Value;

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What the documented commands verify in place of the workflow's identity. A key has no entry in a public log.
const IDENTITY: &str = "--certificate-identity $SIGNER --certificate-oidc-issuer $ISSUER";

/// The folder that `make release` has written.
fn dist() -> PathBuf {
    project_file(&std::env::var("DIST").expect("DIST names a folder that `make release` has written"))
}

/// The names of the files in a folder, sorted.
fn names(folder: &Path) -> Vec<String> {
    let files = fs::read_dir(folder).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = files.collect();
    names.sort();
    names
}

/// Copies the files of a folder into a new one.
fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for name in names(from) {
        fs::copy(from.join(&name), to.join(&name)).unwrap();
    }
}

/// Runs crane, and returns its output.
fn crane(args: &[&str]) -> String {
    let output = Output::run(Command::new(tool("crane").unwrap()).args(args), None).unwrap();
    assert_eq!(output.code, 0, "crane {args:?}: {}", output.stderr);
    output.stdout.trim().to_owned()
}

/// Puts another chart under this tag.
fn replace_chart(reference: &str) {
    crane(&["mutate", reference, "--annotation", "changed=true", "--tag", reference]);
}

/// A published release.
struct Published {
    /// The folder that has what a release has, and everything else below it.
    folder: PathBuf,
    registry: String,
    _server: Registry,
}

impl Published {
    fn publish(name: &str) -> Self {
        let folder = project_file("target/release-test").join(name);
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        copy(&dist(), &folder.join("release"));
        let server = Registry::start(&folder.join("registry.log")).unwrap();
        let published = Self { registry: format!("{}/noderesource", server.address), folder, _server: server };
        let krew = published.folder.join("krew-itself");
        fs::create_dir(&krew).unwrap();
        std::os::unix::fs::symlink(tool("krew").unwrap(), krew.join("kubectl-krew")).unwrap();
        published.cosign(&["generate-key-pair", "--output-key-prefix", "key"]);
        let output = published.publish_again();
        assert_eq!(output.code, 0, "{}{}", output.stdout, output.stderr);
        published
    }

    /// Runs the command that publishes.
    fn publish_again(&self) -> Output {
        let mut publish = Command::new(project_file("hack/publish.sh"));
        publish.arg(self.files()).arg(&self.registry);
        // In a workflow, these would publish what this test has signed.
        for variable in ["GH_TOKEN", "GITHUB_TOKEN", "GITHUB_REF_TYPE", "GITHUB_REF_NAME", "GITHUB_ACTOR"] {
            publish.env_remove(variable);
        }
        publish.env("DOCKER_CONFIG", &self.folder);
        publish.envs([("COSIGN_KEY", self.folder.join("key.key")), ("COSIGN_PASSWORD", PathBuf::new())]);
        Output::run(&mut publish, None).unwrap()
    }

    /// The folder that has what a release has.
    fn files(&self) -> PathBuf {
        self.folder.join("release")
    }

    /// Signs the checksums with another key, as whoever replaces all files would.
    fn sign_with_another_key(&self, folder: &Path) {
        self.cosign(&["generate-key-pair", "--output-key-prefix", "another"]);
        self.cosign(&["signing-config", "create", "--out", "none.json"]);
        let [bundle, sums] = ["SHA256SUMS.sigstore.json", "SHA256SUMS"].map(|name| folder.join(name));
        let [bundle, sums] = [&bundle, &sums].map(|path| path.to_str().unwrap());
        let key = ["--key", "another.key", "--signing-config", "none.json", "--bundle", bundle];
        self.cosign(&[&["sign-blob", "--yes"], &key[..], &[sums]].concat());
    }

    fn cosign(&self, args: &[&str]) -> String {
        let mut cosign = Command::new(tool("cosign").unwrap());
        let output = Output::run(cosign.args(args).env("COSIGN_PASSWORD", "").current_dir(&self.folder), None).unwrap();
        assert_eq!(output.code, 0, "cosign {args:?}: {}{}", output.stdout, output.stderr);
        output.stdout
    }

    /// Runs the page's commands in a folder. Returns how many there are, or the first error.
    fn run_page(&self, marker: &str, folder: &Path) -> Result<usize, String> {
        let krew = self.folder.join("krew");
        // What krew installs, and krew itself as a plugin of kubectl.
        let plugins = [krew.join("bin/kubectl-extended_resources"), self.folder.join("krew-itself/kubectl-krew")];
        let programs = [tool("cosign").unwrap(), control_plane_program("kubectl").unwrap()];
        let programs = [&plugins[..], &programs].concat();
        let mut shell = Shell::without_cluster(folder, &programs).unwrap();
        shell.environment.push(("KREW_ROOT".to_owned(), krew.display().to_string()));
        let key = format!("--key {} --insecure-ignore-tlog", self.folder.join("key.pub").display());
        shell.variables.insert("PLATFORM", PLATFORM.to_owned());
        shell.words.extend([(IDENTITY, key), ("ghcr.io/noderesource", self.registry.clone())]);
        let blocks = documents::blocks_run_by(marker, &[project_file("docs/verify.md")]).unwrap();
        assert!(!blocks.is_empty());
        shell.run(&blocks).map_err(|error| format!("{error:#}"))
    }
}

#[test]
fn release_is_verified_and_its_plugin_installed_as_documented() {
    let published = Published::publish("verified");
    let files = published.run_page("verify-files", &published.files()).unwrap();
    let artifacts = published.run_page("verify-artifacts", &published.files()).unwrap();
    println!("verified: {files} commands about files and {artifacts} about artifacts work");
    every_artifact_has_the_digest_of_the_provenance(&published);
}

/// What the registry serves is what the statement names.
fn every_artifact_has_the_digest_of_the_provenance(published: &Published) {
    let text = fs::read_to_string(published.files().join("provenance.intoto.json")).unwrap();
    let statement: Value = serde_json::from_str(&text).unwrap();
    let subjects = statement["subject"].as_array().unwrap();
    let digests: BTreeMap<_, _> =
        subjects.iter().map(|it| (it["name"].as_str().unwrap(), it["digest"]["sha256"].as_str().unwrap())).collect();
    let artifacts: Vec<_> = digests.iter().filter(|(name, _)| name.starts_with("ghcr.io/")).collect();
    assert_eq!(artifacts.len(), 3, "{digests:?}");
    for (name, digest) in artifacts {
        let reference = format!("{}:{VERSION}", name.replace("ghcr.io/noderesource", &published.registry));
        assert_eq!(crane(&["digest", &reference]), format!("sha256:{digest}"), "{reference}");
    }
    for name in names(&published.files()) {
        let is_later = name.ends_with(".sigstore.json") || ["SHA256SUMS", "provenance.intoto.json"].contains(&&*name);
        assert!(is_later || digests.contains_key(&*name), "{name} is no subject of {digests:?}");
    }
}

/// Another bit in the middle of each file, one by one.
#[test]
fn verification_of_a_tampered_file_fails_and_names_it() {
    let published = Published::publish("tampered");
    let names = names(&published.files());
    assert!(names.len() > 10, "{names:?}");
    for name in names {
        let folder = published.folder.join("copy");
        let _ = fs::remove_dir_all(&folder);
        copy(&published.files(), &folder);
        let path = folder.join(&name);
        let mut bytes = fs::read(&path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(&path, bytes).unwrap();
        let error = published.run_page("verify-files", &folder).expect_err(&name);
        let expected = match &*name {
            "SHA256SUMS" | "SHA256SUMS.sigstore.json" => "cosign verify-blob ".to_owned(),
            "provenance.sigstore.json" => "cosign verify-blob-attestation ".to_owned(),
            file => format!("{file}: FAILED"),
        };
        assert!(error.contains(&expected), "{name}: {error}");
        println!("{name}: {}", error.lines().last().unwrap_or_default());
    }
    let folder = published.folder.join("copy");
    published.sign_with_another_key(&folder);
    let error = published.run_page("verify-files", &folder).unwrap_err();
    assert!(error.contains("cosign verify-blob ") && error.contains("invalid signature"), "{error}");
}

#[test]
fn documented_identity_is_that_of_the_release_workflow() {
    let page = fs::read_to_string(project_file("docs/verify.md")).unwrap();
    let signers: Vec<_> = page.lines().filter_map(|line| line.strip_prefix("SIGNER=")).collect();
    let repository = "https://github.com/noderesource/node-resource-advertiser/";
    for signer in &signers {
        let (workflow, tag) = signer.split_once('@').unwrap();
        let workflow = workflow.strip_prefix(repository).unwrap();
        let text = fs::read_to_string(project_file(workflow)).unwrap();
        assert!(text.contains("id-token: write") && text.contains("make publish"), "{workflow}");
        assert_eq!(tag, format!("refs/tags/v{VERSION}"));
    }
    assert_eq!(signers.len(), 2);
}

/// Another image under the released tag, as after the theft of a registry's password.
#[test]
fn verification_of_another_artifact_under_the_tag_fails() {
    let published = Published::publish("replaced");
    let image = format!("{}/node-resource-advertiser:{VERSION}", published.registry);
    let chart = format!("{}/charts/node-resource-advertiser:{VERSION}", published.registry);
    let digest = crane(&["digest", &image]);
    crane(&["mutate", &image, "--label", "changed=true", "--tag", &image]);
    assert_ne!(crane(&["digest", &image]), digest);
    let error = published.run_page("verify-artifacts", &published.files()).unwrap_err();
    assert!(error.contains("node-resource-advertiser:$VERSION") && error.contains("no signatures"), "{error}");
    let (repository, _) = image.rsplit_once(':').unwrap();
    crane(&["tag", &format!("{repository}@{digest}"), VERSION]);
    published.run_page("verify-artifacts", &published.files()).unwrap();
    replace_chart(&chart);
    let error = published.run_page("verify-artifacts", &published.files()).unwrap_err();
    assert!(error.contains("charts/node-resource-advertiser:$VERSION") && error.contains("no signatures"), "{error}");
}

/// The chart of rules, which is verified last.
#[test]
fn verification_of_another_rules_chart_under_the_tag_fails() {
    let published = Published::publish("replaced-rules");
    let chart = format!("{}/charts/node-resource-advertiser-rules:{VERSION}", published.registry);
    replace_chart(&chart);
    let error = published.run_page("verify-artifacts", &published.files()).unwrap_err();
    assert!(error.contains("node-resource-advertiser-rules:$VERSION") && error.contains("no signatures"), "{error}");
}

/// Another file would be uploaded, and a version that exists would get other contents.
#[test]
fn publishing_what_was_not_built_or_exists_fails() {
    let published = Published::publish("again");
    fs::write(published.files().join("added.txt"), "unsigned").unwrap();
    let output = published.publish_again();
    assert_eq!(output.code, 1);
    assert!(output.stderr.contains("does not list: added.txt"), "{}", output.stderr);
    fs::remove_file(published.files().join("added.txt")).unwrap();
    let chart = format!("{}/charts/node-resource-advertiser:{VERSION}", published.registry);
    replace_chart(&chart);
    let output = published.publish_again();
    assert_eq!(output.code, 1);
    assert!(output.stderr.contains("exists with other contents"), "{}", output.stderr);
}

/// `cargo audit bin` reads what the compiler has put into the program.
#[test]
fn bill_of_materials_has_only_crates_that_the_program_lists() {
    let archives: Vec<_> = names(&dist()).into_iter().filter(|name| name.ends_with(".tar.gz")).collect();
    assert!(!archives.is_empty());
    for name in archives {
        let program =
            if name.contains("windows") { "./node-resource-advertiser.exe" } else { "./node-resource-advertiser" };
        let mut tar = Command::new("tar");
        let tar = tar
            .arg("--extract")
            .arg("--to-stdout")
            .arg("--file")
            .arg(dist().join(&name))
            .arg(program)
            .output()
            .unwrap();
        assert!(tar.status.success(), "{}", String::from_utf8_lossy(&tar.stderr));
        let Ok(listed) = auditable_info::audit_info_from_slice(&tar.stdout, 8 << 20) else {
            assert!(dist().ends_with("dist-test"), "{name}: its program lists no crates");
            println!("{name}: the tests' build of the program lists no crates");
            continue;
        };
        // Runtime is the kind that is left out.
        let listed = serde_json::to_value(&listed).unwrap();
        let packages = listed["packages"].as_array().unwrap().iter();
        let linked = packages.filter(|package| package["kind"].is_null() && package["root"] != true);
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let crates: BTreeSet<_> =
            linked.map(|package| format!("{}@{}", text(&package["name"]), text(&package["version"]))).collect();
        let sbom = dist().join(name.replace(".tar.gz", ".cdx.json"));
        let sbom: Value = serde_json::from_slice(&fs::read(sbom).unwrap()).unwrap();
        let components = sbom["components"].as_array().unwrap().iter().map(|part| part["purl"].as_str().unwrap());
        let components = components.filter_map(|purl| purl.strip_prefix("pkg:cargo/"));
        let components: BTreeSet<_> = components.map(str::to_owned).collect();
        // The program's list also has procedural macros, which are not linked.
        let missing: Vec<_> = components.difference(&crates).collect();
        assert!(components.len() > 50 && missing.is_empty(), "{name} does not list {missing:?}");
        println!("{name}: {} crates, all in the program's list of {}", components.len(), crates.len());
    }
}

/// Two users who build the same commit, in whatever folders, get the same program.
#[test]
fn program_does_not_depend_on_the_folder_it_is_built_in() {
    let programs = ["one", "two/deeper"].map(|name| {
        let folder = project_file("target/release-test/folders").join(name);
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(folder.join("src")).unwrap();
        // A copy: a program finds its own path, not that of a link to it.
        let auditable = "target/tools/bin/cargo-auditable";
        fs::create_dir_all(folder.join("target/tools/bin")).unwrap();
        fs::copy(project_file(auditable), folder.join(auditable)).unwrap();
        copy(&project_file("hack"), &folder.join("hack"));
        fs::copy(project_file("rust-toolchain.toml"), folder.join("rust-toolchain.toml")).unwrap();
        let manifest =
            "[package]\nname = \"node-resource-advertiser\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[workspace]\n";
        fs::write(folder.join("Cargo.toml"), manifest).unwrap();
        let lock = "version = 4\n\n[[package]]\nname = \"node-resource-advertiser\"\nversion = \"0.1.0\"\n";
        fs::write(folder.join("Cargo.lock"), lock).unwrap();
        fs::write(folder.join("src/lib.rs"), "pub fn answer() -> u32 {\n    42\n}\n").unwrap();
        let main = "fn main() {\n    println!(\"{}\", node_resource_advertiser::answer());\n}\n";
        fs::write(folder.join("src/main.rs"), main).unwrap();
        let mut build = Command::new("hack/program.sh");
        build.arg("host").current_dir(&folder).env("SOURCE_DATE_EPOCH", "1");
        // A user's own settings.
        build.env("CARGO_TARGET_DIR", folder.join("elsewhere")).env("CARGO_PROFILE_RELEASE_LTO", "off");
        let output = build.output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{errors}");
        let path = String::from_utf8(output.stdout).unwrap();
        fs::read(folder.join(path.trim())).unwrap()
    });
    assert!(programs[0] == programs[1], "the programs differ");
}
