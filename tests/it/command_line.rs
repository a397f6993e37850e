use crate::program;

#[test]
fn without_a_cluster_it_says_what_to_set() {
    let output = program(&["run", "--listen", "127.0.0.1:0"]);
    assert_eq!(output.status.code(), Some(1));
    let stderr = String::from_utf8(output.stderr).unwrap();
    let last = stderr.lines().last().unwrap();
    assert!(last.starts_with("error: no way to reach a cluster: "), "{stderr}");
    assert!(last.ends_with("set KUBECONFIG, or run in a pod"), "{stderr}");
}

#[test]
fn wrong_arguments_are_refused_with_advice() {
    for (args, says) in [
        (&["run", "--concurrency", "0"][..], "--concurrency"),
        (&["run", "--request-timeout", "61"], "61 is not in 1..=60"),
        (&["run", "--listen", "here"], "--listen"),
        (&["rum"], "run"),
    ] {
        let output = program(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(stderr.contains(says), "{args:?}: {stderr}");
    }
}

#[test]
fn every_flag_of_run_has_an_environment_variable() {
    let output = program(&["run", "--help"]);
    let help = String::from_utf8(output.stdout).unwrap();
    let flags = help.lines().filter(|line| line.trim_start().starts_with("--"));
    assert_eq!(flags.count(), help.matches("[env: NRA_").count(), "{help}");
}
