use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Writes a kubeconfig with the context `prod` of this server, for a user with these credentials.
pub(crate) fn kubeconfig(name: &str, server: &str, user: &str) -> PathBuf {
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

/// Runs `plan` or `prune --all --yes`, which has to fail, and returns what it prints on standard error.
fn fail(command: &str, kubeconfig: &Path, args: &[&str]) -> String {
    let all: &[&str] = if command == "prune" { &["--all", "--yes"] } else { &[] };
    let output = Command::new(env!("CARGO_BIN_EXE_node-resource-advertiser"))
        .arg(command)
        .args(all)
        .args(args)
        .env_clear()
        .env("HOME", env!("CARGO_TARGET_TMPDIR"))
        .env("KUBECONFIG", kubeconfig)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(if command == "plan" { 2 } else { 1 }));
    String::from_utf8(output.stderr).unwrap()
}

/// A user whose credentials come from this shell script, with secrets in its arguments and
/// environment.
fn script_user(script: &str, interactive_mode: &str) -> String {
    format!(
        "{{exec: {{apiVersion: client.authentication.k8s.io/v1, command: /bin/sh, \
         args: [-c, {script:?}, S3CRET-arg], env: [{{name: PASSWORD, value: S3CRET-env}}], \
         interactiveMode: {interactive_mode}}}}}"
    )
}

#[test]
fn unreachable_server_is_named_with_its_context() {
    let refusing = kubeconfig("refusing", "https://127.0.0.1:1", "{}");
    let nowhere = kubeconfig("nowhere", "https://no-such-host.invalid:6443", "{}");
    for (kubeconfig, url) in [(&refusing, "https://127.0.0.1:1/"), (&nowhere, "https://no-such-host.invalid:6443/")] {
        for (command, hint) in [("plan", "\nTo plan without a cluster, use -f and --nodes.\n"), ("prune", "\n")] {
            let stderr = fail(command, kubeconfig, &[]);
            let cluster = format!("cluster: context prod, {url}\n");
            assert!(stderr.starts_with(&cluster), "{stderr}");
            let error = format!("cannot reach the API server: {url} (context prod): ");
            assert!(stderr.contains(&error), "{stderr}");
            assert!(stderr.ends_with(hint), "{stderr}");
            assert!(!stderr.contains("--force"), "a server without an answer is advised around: {stderr}");
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
    assert!(stderr.contains(&format!("{url}/ (context prod): the server expects HTTPS")), "{stderr}");
}

/// Returns the URL of a server that gives each connection to `serve`.
fn serving(serve: fn(std::net::TcpStream)) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let stream = stream.unwrap();
            std::thread::spawn(move || serve(stream));
        }
    });
    url
}

/// Responds as an API server that fails.
fn fail_with(stream: &mut std::net::TcpStream, code: u16, reason: &str, message: &str) {
    let status = format!(
        r#"{{"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": {code}, "reason": "{reason}",
            "message": "{message}"}}"#
    );
    let head = format!("HTTP/1.1 {code} {reason}\r\nContent-Type: application/json\r\nConnection: close");
    let _ = write!(stream, "{head}\r\nContent-Length: {}\r\n\r\n{status}", status.len());
}

#[test]
fn server_that_hangs_or_rejects_credentials_ends_each_command_with_the_reason() {
    let hangs = serving(|stream| {
        // Until the client gives up.
        let _ = (&stream).read_to_end(&mut Vec::new());
    });
    let rejects = serving(|mut stream| {
        let _ = stream.read(&mut [0; 4096]);
        fail_with(&mut stream, 401, "Unauthorized", "Unauthorized");
    });
    for (name, server, says) in [
        ("hangs", hangs, "no response within 1s"),
        ("rejects", rejects, "does not accept your credentials (401 Unauthorized): log in again"),
    ] {
        let kubeconfig = kubeconfig(name, &server, "{}");
        for (command, code) in [
            (&["top"][..], 1),
            (&["why"], 2),
            (&["doctor"], 2),
            (&["plan"], 2),
            (&["adopt"], 1),
            (&["prune", "--all", "--dry-run"], 1),
            (&["prune", "--all", "--yes"], 1),
            (&["prune", "--zeros"], 1),
            (&["prune", "--resource", "example.com/old", "--dry-run"], 1),
        ] {
            let flags = ["--kubeconfig", kubeconfig.to_str().unwrap(), "--request-timeout", "1s"];
            let output = crate::program(&[&flags, command].concat());
            let stderr = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(code), "{name} {command:?}: {stderr}");
            assert!(stderr.contains(says), "{name} {command:?}: {stderr}");
            // No answer is no controller that is active.
            assert!(!stderr.contains("--force"), "{name} {command:?}: {stderr}");
        }
    }
}

#[test]
fn requests_carry_whom_they_impersonate() {
    let echoes = serving(|mut stream| {
        let mut request = [0; 4096];
        let read = stream.read(&mut request).unwrap_or_default();
        let request = String::from_utf8_lossy(&request[..read]).to_lowercase();
        let mut headers: Vec<_> = request.lines().filter(|line| line.starts_with("impersonate-")).collect();
        headers.sort_unstable();
        fail_with(&mut stream, 400, "BadRequest", &headers.join("; "));
    });
    let kubeconfig = kubeconfig("echoes", &echoes, "{}");
    let flags = ["--as", "jane", "--as-uid", "7", "--as-group", "dev", "--as-group", "ops"];
    let stderr = fail("adopt", &kubeconfig, &flags);
    let whom = "impersonate-group: dev; impersonate-group: ops; impersonate-uid: 7; impersonate-user: jane";
    assert!(stderr.contains(whom), "{stderr}");
}

#[test]
fn address_of_a_server_needs_no_kubeconfig_and_no_scheme() {
    let url = serving(|stream| {
        // Until the client gives up.
        let _ = (&stream).read_to_end(&mut Vec::new());
    });
    for (server, command) in [
        (url.as_str(), &["top"][..]),
        (url.trim_start_matches("http://"), &["top"]),
        (&url, &["prune", "--all", "--dry-run"]),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_node-resource-advertiser"))
            .args(command)
            .args(["--server", server, "--request-timeout", "1s"])
            .env_clear()
            .env("HOME", "/no/such/home")
            .output()
            .unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        let says = format!("{url}/ (context none): no response within 1s");
        assert!(stderr.contains(&says), "{command:?}: {stderr}");
    }
}

#[test]
fn credential_plugin_that_hangs_ends_each_command_with_its_name() {
    let pid = Path::new(env!("CARGO_TARGET_TMPDIR")).join("hanging-plugin.pid");
    let user = script_user(&format!("echo $$ > {}; exec sleep 60", pid.display()), "Never");
    let kubeconfig = kubeconfig("hanging-plugin", "https://127.0.0.1:1", &user);
    for (command, code) in [("top", 1), ("why", 2), ("doctor", 2), ("plan", 2), ("adopt", 1)] {
        let args = ["--kubeconfig", kubeconfig.to_str().unwrap(), "--request-timeout", "1s", command];
        let output = crate::program(&args);
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{command}: {stderr}");
        let says = "cannot set up the connection to https://127.0.0.1:1/ (context prod): \
                    the credential plugin \"/bin/sh\": no credentials within 1s";
        assert!(stderr.contains(says), "{command}: {stderr}");
        let pid = std::fs::read_to_string(&pid).unwrap();
        // A process that nobody waits for stays without a command line.
        let running = || std::fs::read(format!("/proc/{}/cmdline", pid.trim())).unwrap_or_default();
        harness::wait_until(&format!("the killed plugin of {command} to end"), || {
            Ok(running().is_empty().then_some(()))
        })
        .unwrap();
    }
}

#[test]
fn missing_credential_plugin_is_named() {
    let exec = "{exec: {apiVersion: client.authentication.k8s.io/v1, command: no-such-plugin, \
                interactiveMode: Never, installHint: Get it from example.com}}";
    let stderr = fail("prune", &kubeconfig("plugin", "https://127.0.0.1:1", exec), &[]);
    let error = "error: cannot start the credential plugin \"no-such-plugin\" for https://127.0.0.1:1/ \
                 (context prod): No such file or directory";
    assert!(stderr.starts_with(error), "{stderr}");
    assert!(stderr.ends_with("\nGet it from example.com\n"), "{stderr}");
}

#[test]
fn limit_of_requests_is_read_as_kubectl_reads_it() {
    let refusing = kubeconfig("limit", "http://127.0.0.1:1", "{}");
    for (limit, says) in [
        ("0", "cannot reach the API server"),
        ("5m", "cannot reach the API server"),
        ("1ms", "must be a duration of at least 1s, such as 15s, or 0 for no limit"),
    ] {
        let stderr = fail("plan", &refusing, &["--request-timeout", limit]);
        assert!(stderr.contains(says), "{limit}: {stderr}");
    }
}

#[test]
fn unusable_kubeconfig_is_named_without_a_word_on_pods() {
    let usable = kubeconfig("usable", "https://127.0.0.1:1", "{}");
    let nowhere = Path::new("/no/such/kubeconfig");
    let not_yaml = Path::new(env!("CARGO_TARGET_TMPDIR")).join("not-yaml.kubeconfig");
    std::fs::write(&not_yaml, "{").unwrap();
    for (kubeconfig, args, error) in [
        (nowhere, &[][..], "cannot use the kubeconfig /no/such/kubeconfig (KUBECONFIG): "),
        (&not_yaml, &[], "not-yaml.kubeconfig (KUBECONFIG): "),
        (&usable, &["--kubeconfig", "/none"], "cannot use the kubeconfig /none: "),
        (&usable, &["--context", "test"], "has no context \"test\"; use --context with one of: prod"),
    ] {
        let stderr = fail("plan", kubeconfig, args);
        assert!(stderr.starts_with("error: ") && stderr.contains(error), "{stderr}");
        assert!(!stderr.contains("cluster environment") && !stderr.contains("pod"), "{stderr}");
    }
}

#[test]
fn group_to_impersonate_needs_a_user() {
    let output = crate::program(&["prune", "--all", "--as-group", "admins"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8(output.stderr).unwrap().contains("--as <USER>"));
}

#[test]
fn kubeconfig_with_a_mistake_is_reported_without_its_secrets() {
    let head = "apiVersion: v1\nkind: Config\ncurrent-context: prod\nusers:\n- name: u\n  user:\n";
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    for (name, user, says) in [
        ("indent", "    token: S3CRET\n   password: S3CRET\n", "line 8"),
        ("colon", "    token: S3CRET\n    password: S3CRET: S3CRET\n", "line 8"),
        ("quote", "    token: \"S3CRET\n    password: S3CRET\n", "line "),
        ("string", "    S3CRET\n", "line 7 column 5: expected "),
        ("list", "    exec: S3CRET\n    password: S3CRET\n", "expected "),
        ("word", "    exec: {interactiveMode: S3CRET, args: [S3CRET]}\n", "expected one of Never"),
        ("twice", "    token: S3CRET\n    token: S3CRET\n", "line 8 column 5: a key is given twice"),
        ("float", "    token: S3CRET\n    other: .nan\n", "line "),
    ] {
        let path = folder.join(format!("mistake-{name}.kubeconfig"));
        std::fs::write(&path, format!("{head}{user}")).unwrap();
        let stderr = fail("plan", &path, &[]);
        assert!(!stderr.contains("S3CRET"), "{name}: {stderr}");
        let place = format!("mistake-{name}.kubeconfig (KUBECONFIG): ");
        assert!(
            stderr.contains("cannot use the kubeconfig ") && stderr.contains(&place) && stderr.contains(says),
            "{name}: {stderr}"
        );
    }
}

#[test]
fn failing_credential_plugin_is_reported_without_its_secrets() {
    let script = "echo S3CRET-token; echo log in again >&2; exit 3";
    for (mode, says) in [
        ("Never", "\"/bin/sh\" failed (exit status: 3): log in again\n"),
        ("IfAvailable", "\"/bin/sh\" failed (exit status: 3)\n"),
    ] {
        let user = script_user(script, mode);
        let kubeconfig = kubeconfig(&format!("failing-{mode}"), "https://127.0.0.1:1", &user);
        let stderr = fail("prune", &kubeconfig, &[]);
        assert!(stderr.contains(says) && stderr.contains("log in again"), "{stderr}");
        assert!(!stderr.contains("S3CRET"), "{stderr}");
    }
}

#[test]
fn unreadable_output_of_a_credential_plugin_is_not_printed() {
    for (name, output) in [
        ("syntax", "status:\\n  token: S3CRET\\n bad: S3CRET"),
        ("plain", "S3CRET"),
        ("type", "{kind: ExecCredential, status: {token: [S3CRET]}}"),
    ] {
        let user = script_user(&format!("printf '{output}'"), "Never");
        let kubeconfig = kubeconfig(&format!("output-{name}"), "https://127.0.0.1:1", &user);
        let stderr = fail("prune", &kubeconfig, &[]);
        assert!(!stderr.contains("S3CRET"), "{name}: {stderr}");
        let says = "the output of the credential plugin \"/bin/sh\" is not an ExecCredential (line ";
        assert!(stderr.contains(says), "{name}: {stderr}");
    }
}

#[test]
fn credentials_in_a_url_are_not_printed() {
    let server = kubeconfig("userinfo", "https://user:S3CRET@127.0.0.1:1/path", "{}");
    for command in ["plan", "prune"] {
        let stderr = fail(command, &server, &[]);
        assert!(!stderr.contains("S3CRET") && !stderr.contains("user:"), "{stderr}");
        assert!(stderr.starts_with("cluster: context prod, https://127.0.0.1:1/path\n"), "{stderr}");
        let error = "cannot reach the API server: https://127.0.0.1:1/path (context prod): ";
        assert!(stderr.contains(error), "{stderr}");
    }
    let proxy = Path::new(env!("CARGO_TARGET_TMPDIR")).join("proxy.kubeconfig");
    let text = std::fs::read_to_string(&server).unwrap();
    let text = text.replace("{server:", "{proxy-url: 'ftp://user:S3CRET@127.0.0.1:1', server:");
    std::fs::write(&proxy, text).unwrap();
    let stderr = fail("prune", &proxy, &[]);
    assert!(!stderr.contains("S3CRET"), "{stderr}");
    assert!(stderr.contains("the proxy ftp://127.0.0.1:1/"), "{stderr}");
}

#[test]
fn kubeconfig_of_the_current_folder_is_not_used_without_a_home() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("homeless");
    std::fs::create_dir_all(folder.join(".kube")).unwrap();
    let trap = script_user("touch started", "Never");
    let trap = kubeconfig("trap", "https://127.0.0.1:1", &trap);
    std::fs::copy(trap, folder.join(".kube/config")).unwrap();
    for (args, says) in [
        (
            &["prune", "--all", "--yes"][..],
            "cannot find a cluster: the kubeconfig ~/.kube/config (HOME is unknown or relative)",
        ),
        (
            &["prune", "--all", "--yes", "--context", "prod"],
            "cannot use the kubeconfig ~/.kube/config (HOME is unknown or relative)",
        ),
    ] {
        let mut program = Command::new(env!("CARGO_BIN_EXE_node-resource-advertiser"));
        let output = program.args(args).current_dir(&folder).env_clear().env("HOME", ".").output();
        let output = output.unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1));
        assert!(stderr.starts_with(&format!("error: {says}")), "{stderr}");
        assert!(!folder.join("started").exists());
    }
}
