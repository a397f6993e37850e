use std::process::Command;

use crate::{commands, program};

#[test]
fn run_without_kubeconfig_suggests_what_to_set() {
    let output = program(&["run", "--bind-address", "127.0.0.1:0"]);
    assert_eq!(output.status.code(), Some(1));
    let stderr = String::from_utf8(output.stderr).unwrap();
    let last = stderr.lines().last().unwrap();
    assert!(last.starts_with("error: cannot find a cluster: the kubeconfig /"), "{stderr}");
    assert!(last.ends_with("; set KUBECONFIG, or use --kubeconfig"), "{stderr}");
}

#[test]
fn run_reports_all_invalid_settings_together() {
    let output = program(&[
        "run",
        "--bind-address",
        "here",
        "--max-concurrent-patches",
        "0",
        "--max-rollout-rate",
        "many",
        "--request-timeout",
        "61",
        "--leader-elect-lease-duration",
        "2",
        "--leader-elect-resource-name",
        "Lease",
        "--leader-elect-resource-namespace",
        "a b",
        "--identity",
        "",
        "--log-level",
        "info,=x=",
        "--log-format",
        "xml",
    ]);
    assert_eq!(output.status.code(), Some(1));
    let expected = "\
error: invalid settings:
  --bind-address (NRA_BIND_ADDRESS) is \"here\": must be an address and a port, such as [::]:8080
  --max-concurrent-patches (NRA_MAX_CONCURRENT_PATCHES) is \"0\": must be a whole number from 1 to 1000
  --max-rollout-rate (NRA_MAX_ROLLOUT_RATE) is \"many\": must be a whole number from 0 to 10000
  --request-timeout (NRA_REQUEST_TIMEOUT) is \"61\": must be a duration from 1s to 60s, such as 15s
  --leader-elect-lease-duration (NRA_LEADER_ELECT_LEASE_DURATION) is \"2\": must be a duration from 3s to 300s, such as 15s
  --log-format (NRA_LOG_FORMAT) is \"xml\": must be text or json
  --log-level (NRA_LOG_LEVEL) is \"info,=x=\": must be error, warn, info, debug or trace, for all modules or per module (info,kube=debug)
  --leader-elect-resource-name (NRA_LEADER_ELECT_RESOURCE_NAME) is \"Lease\": must be a name of lowercase letters, digits, '-' and '.'
  --leader-elect-resource-namespace (NRA_LEADER_ELECT_RESOURCE_NAMESPACE) is \"a b\": must be a name of lowercase letters, digits, '-' and '.'
  --identity (NRA_IDENTITY) is \"\": must be 1 to 253 characters long, such as the pod's name
";
    assert_eq!(String::from_utf8(output.stderr).unwrap(), expected);
    let output = program(&["rum"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8(output.stderr).unwrap().contains("run"));
}

/// Without them, the fields of a node do not show who wrote a value.
#[test]
fn plan_help_names_a_command_that_prints_the_managed_fields() {
    let help = String::from_utf8(program(&["plan", "--help"]).stdout).unwrap();
    let words = help.split_whitespace().collect::<Vec<_>>().join(" ");
    let command = "nodes as `kubectl get nodes -o json --show-managed-fields` prints them";
    assert!(words.contains(command), "{help}");
}

#[test]
fn run_flags_have_environment_variables() {
    let output = program(&["run", "--help"]);
    let help = String::from_utf8(output.stdout).unwrap();
    let (help, _) = help.split_once("\nCluster:\n").expect("kubectl's flags have none");
    let flags = help.lines().filter(|line| line.trim_start().starts_with("--"));
    // Of every command; what it is by default depends on NO_COLOR and CLICOLOR_FORCE.
    let flags = flags.filter(|line| !line.contains("--color"));
    assert_eq!(flags.count(), help.matches("[env: NRA_").count(), "{help}");
}

#[test]
fn prune_of_everything_needs_a_terminal_or_a_flag() {
    for (args, says) in [
        (&["prune", "--all"][..], "there is no terminal to ask on: add --yes, or --dry-run"),
        (&["prune", "--all", "--yes"], "cannot find a cluster"),
        (&["prune", "--all", "--dry-run"], "cannot find a cluster"),
        (&["prune", "--zeros"], "cannot find a cluster"),
        // In a pod, its own cluster would be another one.
        (&["prune", "--all", "--yes", "--cluster", "prod"], "cannot use the kubeconfig"),
        (&["prune", "--all", "--yes", "--user", "me"], "cannot use the kubeconfig"),
        (&["prune", "--resource", "example.com/dongle"], "there is no terminal to ask on: add --yes, or --dry-run"),
        (&["prune", "--resource", "example.com/dongle", "--yes"], "cannot find a cluster"),
    ] {
        let output = program(args);
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{args:?}: {stderr}");
        assert!(stderr.contains(says), "{args:?}: {stderr}");
    }
}

/// What belongs to Kubernetes is no resource that anybody may have left.
#[test]
fn prune_takes_one_extended_resource_and_nothing_beside_it() {
    for (args, says) in [
        (&["--resource", "cpu"][..], "is a native resource"),
        (&["--resource", "hugepages-2Mi"], "is a native resource"),
        (&["--resource", "kubernetes.io/batch"], "is reserved"),
        (&["--resource", "example.com/a", "--all"], "cannot be used with"),
        (&["--resource", "example.com/a", "--zeros"], "cannot be used with"),
        (&["--resource", "example.com/a", "--force"], "cannot be used with"),
    ] {
        let output = program(&[&["prune", "--dry-run"], args].concat());
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {stderr}");
        assert!(stderr.contains(says), "{args:?}: {stderr}");
    }
}

#[test]
fn kubectl_completes_no_command_that_a_plugin_rejects() {
    let offered = String::from_utf8(program(&["complete", "--", ""]).stdout).unwrap();
    let offers = |command: &str| offered.lines().any(|line| line.starts_with(&format!("{command}\t")));
    assert!(offers("why") && !offers("run"), "{offered}");
}

#[test]
fn man_writes_a_page_for_each_command() {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("man");
    let _ = std::fs::remove_dir_all(&folder);
    let args = ["man", folder.to_str().unwrap()];
    let output = program(&args);
    assert_eq!(output.status.code(), Some(1));
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.starts_with("error: cannot write the manual pages to ") && stderr.contains("man: "), "{stderr}");
    std::fs::create_dir(&folder).unwrap();
    assert_eq!(program(&args).status.code(), Some(0));
    let files = std::fs::read_dir(&folder).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
    let mut files: Vec<_> = files.collect();
    files.sort();
    let pages = commands().into_iter().map(|name| format!("node-resource-advertiser-{name}.1"));
    let mut expected: Vec<_> = pages.chain(["node-resource-advertiser.1".to_owned()]).collect();
    expected.sort();
    assert_eq!(files, expected);
    let page = std::fs::read_to_string(folder.join("node-resource-advertiser-plan.1")).unwrap();
    assert!(page.contains(".SH NAME"), "{page}");
}

#[test]
fn error_that_cannot_be_printed_keeps_the_exit_code() {
    for (arguments, code) in [
        ("plan", 2),
        ("why dongle", 2),
        ("doctor", 2),
        ("autoscaler -f /dev/null --for karpenter", 2),
        ("top", 1),
        ("adopt", 1),
        ("run", 1),
    ] {
        let mut command = Command::new("/bin/sh");
        let script = format!(r#""$0" {arguments} --kubeconfig /missing 2>/dev/full"#);
        let output = command.args(["-c", &script, env!("CARGO_BIN_EXE_node-resource-advertiser")]).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{arguments}: {output:?}");
    }
}

#[test]
fn error_controls_no_terminal() {
    for arguments in [&["plan"][..], &["top"], &["why", "dongle"]] {
        let output = program(&[arguments, &["--kubeconfig", "/missing\u{1b}[2J"]].concat());
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(stderr.contains("/missing") && !stderr.contains('\u{1b}'), "{stderr:?}");
    }
}
