use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use crate::{program, read};

const VERSION: &str = env!("CARGO_PKG_VERSION");

fn yaml(text: &str) -> Value {
    serde_saphyr::from_str(text).unwrap()
}

fn example(path: &str) -> String {
    read(&format!("examples/gitops/{path}"))
}

#[test]
fn argocd_config_map_embeds_the_health_script() {
    let config = yaml(&example("argocd/argocd-cm.yaml"));
    let data = config["data"].as_object().unwrap();
    let key = "resource.customizations.health.noderesource.dev_NodeExtendedResource";
    assert_eq!(data.keys().collect::<Vec<_>>(), [key]);
    let same = data[key] == example("argocd/health.lua");
    assert!(same, "argocd-cm.yaml has another script than health.lua: copy it, with four more spaces");
}

#[test]
fn gitops_examples_name_the_current_release() {
    let image = format!("ghcr.io/noderesource/node-resource-advertiser:{VERSION}\n");
    for (path, version) in [
        ("ci/github-actions.yaml", format!("VERSION: {VERSION}\n")),
        ("ci/gitlab-ci.yaml", image),
        ("argocd/controller.yaml", format!("targetRevision: {VERSION}\n")),
    ] {
        assert!(example(path).contains(&version), "{path}: not {version}");
    }
    let hooks = read(".pre-commit-hooks.yaml");
    assert!(hooks.contains(&format!(":{VERSION} validate\n")), "{hooks}");
    let config = yaml(&example("ci/pre-commit-config.yaml"));
    assert_eq!(config["repos"][0]["rev"], format!("v{VERSION}"));
}

/// What signs a release is what docs/verify.md names.
#[test]
fn gitops_examples_install_only_what_the_release_workflow_signed() {
    let signer = format!(
        "https://github.com/noderesource/node-resource-advertiser/.github/workflows/release.yaml@refs/tags/v{VERSION}"
    );
    assert!(read("docs/verify.md").contains(&format!("SIGNER={signer}\n")));
    let issuer = "https://token.actions.githubusercontent.com";
    let mut repositories = 0;
    for object in example("flux/controller.yaml").split("\n---\n").map(yaml) {
        if object["kind"] != "OCIRepository" {
            continue;
        }
        repositories += 1;
        assert_eq!(object["spec"]["verify"]["provider"], "cosign", "{object}");
        let identity = &object["spec"]["verify"]["matchOIDCIdentity"][0];
        let pattern = |field: &str| regex::Regex::new(identity[field].as_str().unwrap()).unwrap();
        assert!(pattern("subject").is_match(&signer) && pattern("issuer").is_match(issuer), "{identity}");
        for another in
            [signer.replace("release.yaml", "ci.yaml"), signer.replace("tags/v", "heads/v"), format!("{signer}-a")]
        {
            assert!(!pattern("subject").is_match(&another), "{another}");
        }
    }
    assert_eq!(repositories, 2);
    let job = yaml(&example("ci/github-actions.yaml"));
    let steps = job["jobs"]["check"]["steps"].as_array().unwrap();
    let install = steps.iter().find(|step| step["name"] == "Install").unwrap()["run"].as_str().unwrap();
    let (verified, used) = (install.find("gh attestation verify \"$file\" "), install.find("tar --extract"));
    assert!(verified.is_some() && verified < used, "{install}");
    assert!(install.contains(" --signer-workflow \"$REPOSITORY/.github/workflows/release.yaml\""), "{install}");
}

#[test]
fn pre_commit_hook_examples_validate_rules() {
    let hooks = yaml(&read(".pre-commit-hooks.yaml"));
    let hooks = hooks.as_array().unwrap();
    let rules = Folder::new("hooks");
    for hook in hooks {
        let entry = hook["entry"].as_str().unwrap();
        let command: Vec<_> = entry.split(' ').skip(1).collect();
        let args = hook["args"].as_array().unwrap().iter().map(|arg| arg.as_str().unwrap());
        let command: Vec<_> = command.into_iter().chain(args).collect();
        assert_eq!(rules.program(&command).status.code(), Some(0), "{hook}");
        rules.spoil();
        assert_eq!(rules.program(&command).status.code(), Some(1), "{hook}");
        rules.repair();
    }
    let config = yaml(&example("ci/pre-commit-config.yaml"));
    let used = &config["repos"][0]["hooks"][0];
    assert!(hooks.iter().any(|hook| hook["id"] == used["id"]), "{used}");
}

/// The steps that validate, by the shell that runs them there.
#[test]
fn ci_examples_fail_for_an_invalid_rule() {
    let job = yaml(&example("ci/github-actions.yaml"));
    let steps = job["jobs"]["check"]["steps"].as_array().unwrap();
    let step = steps.iter().find(|step| step["name"] == "Validate").unwrap();
    let job = yaml(&example("ci/gitlab-ci.yaml"));
    for (shell, script, says) in [
        ("bash", &step["run"], "::error file=rules/dongle.yaml,line=8"),
        ("sh", &job["validate"]["script"][0], "rules/dongle.yaml:8:13"),
    ] {
        let script = script.as_str().unwrap();
        let rules = Folder::new(shell);
        let output = rules.run(shell, script);
        assert!(output.status.success(), "{script}: {output:?}");
        rules.spoil();
        let output = rules.run(shell, script);
        let stdout = String::from_utf8_lossy(&output.stdout);
        assert!(!output.status.success() && stdout.contains(says), "{script}: {stdout}");
    }
}

/// The subcommands and flags of all jobs are those of the program.
#[test]
fn ci_examples_use_existing_flags() {
    let mut commands = 0;
    for path in ["ci/github-actions.yaml", "ci/gitlab-ci.yaml"] {
        let text = example(path);
        let uses = text.split("node-resource-advertiser ").skip(1);
        for rest in uses.filter(|rest| rest.starts_with(['v', 'p'])) {
            let end = rest.find(['\n', ')']).unwrap();
            let command: Vec<_> = rest[..end].split(' ').chain(["--help"]).collect();
            let output = program(&command);
            assert!(output.status.success(), "{path}: {command:?}: {output:?}");
            commands += 1;
        }
    }
    assert_eq!(commands, 4);
}

/// A repository with the folder rules/, and the program in its root.
struct Folder(std::path::PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("gitops").join(name);
        fs::create_dir_all(path.join("rules")).unwrap();
        let link = path.join("node-resource-advertiser");
        if !link.exists() {
            std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_node-resource-advertiser"), link).unwrap();
        }
        let folder = Self(path);
        folder.repair();
        folder
    }

    fn repair(&self) {
        let rule = example("kustomize/base/dongle.yaml");
        fs::write(self.0.join("rules/dongle.yaml"), rule).unwrap();
    }

    fn spoil(&self) {
        let rule = example("kustomize/base/dongle.yaml").replace("quantity: 4", "quantity: 0");
        fs::write(self.0.join("rules/dongle.yaml"), rule).unwrap();
    }

    fn program(&self, args: &[&str]) -> Output {
        let mut program = Command::new(env!("CARGO_BIN_EXE_node-resource-advertiser"));
        program.args(args).current_dir(&self.0).output().unwrap()
    }

    fn run(&self, shell: &str, script: &str) -> Output {
        let path = format!("{}:{}", self.0.display(), std::env::var("PATH").unwrap());
        Command::new(shell).args(["-e", "-c", script]).env("PATH", path).current_dir(&self.0).output().unwrap()
    }
}
