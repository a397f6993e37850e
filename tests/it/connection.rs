use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Writes a kubeconfig with the context `prod` of this server, for a user with these credentials.
fn kubeconfig(name: &str, server: &str, user: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.kubeconfig"));
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: prod\n\
         clusters: [{{name: c, cluster: {{server: {server:?}}}}}]\n\
         contexts: [{{name: prod, context: {{cluster: c, user: u}}}}]\n\
         users: [{{name: u, user: {user}}}]\n"
    );
    std::fs::write(&path, text).unwrap();
    path
}

/// Runs `plan` or `prune`, which has to fail, and returns what it prints on standard error.
fn fail(command: &str, kubeconfig: &Path, args: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_node-resource-advertiser"))
        .arg(command)
        .args(args)
        .env_clear()
        .env("HOME", env!("CARGO_TARGET_TMPDIR"))
        .env("KUBECONFIG", kubeconfig)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(if command == "plan" { 2 } else { 1 }));
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn unreachable_server_is_named_with_its_context() {
    let refusing = kubeconfig("refusing", "https://127.0.0.1:1", "{}");
    let nowhere = kubeconfig("nowhere", "https://no-such-host.invalid:6443", "{}");
    for (kubeconfig, url) in
        [(&refusing, "https://127.0.0.1:1/"), (&nowhere, "https://no-such-host.invalid:6443/")]
    {
        for (command, hint) in
            [("plan", "\nTo plan without a cluster, give -f and --nodes.\n"), ("prune", "\n")]
        {
            let stderr = fail(command, kubeconfig, &[]);
            let cluster = format!("cluster: context prod, {url}\n");
            assert!(stderr.starts_with(&cluster), "{stderr}");
            let error = format!("the API server cannot be reached: {url} (context prod): ");
            assert!(stderr.contains(&error), "{stderr}");
            assert!(stderr.ends_with(hint), "{stderr}");
        }
    }
}

#[test]
fn server_that_expects_https_is_named() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 4096]);
            let text = "Client sent an HTTP request to an HTTPS server.\n";
            let _ = write!(stream, "HTTP/1.0 400 Bad Request\r\n\r\n{text}");
        }
    });
    let stderr = fail("plan", &kubeconfig("plain", &url, "{}"), &[]);
    assert!(stderr.contains(&format!("{url}/ (context prod): it expects HTTPS")), "{stderr}");
}

#[test]
fn missing_credential_plugin_is_named() {
    let exec = "{exec: {apiVersion: client.authentication.k8s.io/v1, command: no-such-plugin, \
                interactiveMode: Never, installHint: Get it from example.com}}";
    let stderr = fail("prune", &kubeconfig("plugin", "https://127.0.0.1:1", exec), &[]);
    let error = "error: the credential plugin \"no-such-plugin\" for https://127.0.0.1:1/ (context prod) \
                 cannot be started: No such file or directory";
    assert!(stderr.starts_with(error), "{stderr}");
    assert!(stderr.ends_with("\nGet it from example.com\n"), "{stderr}");
}

#[test]
fn unusable_kubeconfig_is_named_without_a_word_on_pods() {
    let usable = kubeconfig("usable", "https://127.0.0.1:1", "{}");
    let nowhere = Path::new("/no/such/kubeconfig");
    let not_yaml = Path::new(env!("CARGO_TARGET_TMPDIR")).join("not-yaml.kubeconfig");
    std::fs::write(&not_yaml, "{").unwrap();
    for (kubeconfig, args, error) in [
        (nowhere, &[][..], "the kubeconfig /no/such/kubeconfig (KUBECONFIG) cannot be used: "),
        (&not_yaml, &[], "not-yaml.kubeconfig (KUBECONFIG) cannot be used: "),
        (&usable, &["--kubeconfig", "/none"], "the kubeconfig /none cannot be used: "),
        (
            &usable,
            &["--context", "test"],
            "has no context \"test\"; give one of these by --context: prod",
        ),
    ] {
        let stderr = fail("plan", kubeconfig, args);
        assert!(stderr.starts_with("error: ") && stderr.contains(error), "{stderr}");
        assert!(!stderr.contains("cluster environment") && !stderr.contains("pod"), "{stderr}");
    }
}

#[test]
fn group_to_impersonate_needs_a_user() {
    let output = crate::program(&["prune", "--as-group", "admins"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8(output.stderr).unwrap().contains("--as <USER>"));
}
