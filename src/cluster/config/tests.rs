use super::*;

#[test]
fn kubeconfigs_of_a_list_that_do_not_exist_do_not_count() {
    let folder = std::env::temp_dir().join(format!("nra-kubeconfigs-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let [one, two, none] = ["one", "two", "none"].map(|name| folder.join(name));
    std::fs::write(&one, "current-context: first\ncontexts: [{name: first, context: {cluster: c}}]").unwrap();
    std::fs::write(&two, "current-context: second\ncontexts: [{name: second, context: {cluster: c}}]").unwrap();
    let current = |paths: &[&PathBuf]| {
        let paths: Vec<_> = paths.iter().copied().cloned().collect();
        read_list(&paths).map(|merged| (merged.current_context.unwrap(), merged.contexts.len()))
    };
    let first = ("first".to_owned(), 2);
    assert_eq!(current(&[&none, &one, &two]).unwrap(), first);
    assert_eq!(current(&[&one, &none, &two]).unwrap(), first);
    assert!(matches!(current(&[&none]), Err(error) if reason(&error).contains("none: No such file")));
    std::fs::write(&two, "contexts: [").unwrap();
    assert!(current(&[&one, &two]).is_err(), "one that exists is read");
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn context_without_its_user_is_an_error() {
    let kubeconfig = |current: &str| -> Kubeconfig {
        let text = format!(
            "{current}\nclusters: [{{name: c, cluster: {{server: 'http://127.0.0.1:1'}}}}]\n\
             contexts: [{{name: x, context: {{cluster: c, user: gone}}}}, {{name: y, context: {{cluster: c, user: ''}}}}]"
        );
        Kubeconfig::from_yaml(&text).unwrap()
    };
    let used = |current: &str| {
        use_context("it", kubeconfig(current), &ClusterOptions::default()).map(drop).map_err(|error| error.to_string())
    };
    let none = "it has no current context: use --context, or kubectl config use-context; contexts: x, y";
    assert_eq!(used(""), Err(none.to_owned()));
    assert_eq!(used("current-context: x"), Err("it has no user \"gone\", which the context x names".to_owned()));
    assert_eq!(used("current-context: y"), Ok(()), "anonymous, as it says");
}

#[test]
fn flags_replace_parts_of_the_context() {
    let text = "current-context: x\nclusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}, \
                {name: d, cluster: {server: 'http://127.0.0.1:2'}}]\n\
                contexts: [{name: x, context: {cluster: c, user: u}}]\n\
                users: [{name: u, user: {exec: {command: plugin}}}, {name: v, user: {username: v, password: w}}]";
    let used = |options: &ClusterOptions| {
        let used = use_context("it", Kubeconfig::from_yaml(text).unwrap(), options);
        used.map(|(config, _)| config).map_err(|error| error.to_string())
    };
    let with = |set: fn(&mut ClusterOptions, String), value: &str| {
        let mut options = ClusterOptions::default();
        set(&mut options, value.to_owned());
        options
    };
    let url = |options: &ClusterOptions| used(options).map(|config| config.cluster_url.to_string());
    assert_eq!(url(&ClusterOptions::default()).unwrap(), "http://127.0.0.1:1/");
    assert_eq!(url(&with(|options, name| options.cluster = Some(name), "d")).unwrap(), "http://127.0.0.1:2/");
    let server = |url: &str| with(|options, url| options.server = Some(url), url);
    assert_eq!(url(&server("https://a.example")).unwrap(), "https://a.example/");
    let none = "it has no cluster \"e\"; use --cluster with one of: c, d";
    assert_eq!(url(&with(|options, name| options.cluster = Some(name), "e")).unwrap_err(), none);
    let none = "it has no user \"w\"; use --user with one of: u, v";
    assert_eq!(url(&with(|options, name| options.user = Some(name), "w")).unwrap_err(), none);
    assert_eq!(url(&server("127.0.0.1:8001")).unwrap(), "http://127.0.0.1:8001/");
    let none = "--server \"ftp://a.example\" is not an address of an API server, such as https://10.0.0.1:6443";
    assert_eq!(url(&server("ftp://a.example")).unwrap_err(), none);
    let user = used(&with(|options, name| options.user = Some(name), "v")).unwrap().auth_info;
    assert!(user.exec.is_none() && user.username.as_deref() == Some("v"));
    let token = used(&with(|options, token| options.token = Some(token), "t")).unwrap().auth_info;
    assert!(token.exec.is_none() && token.token.is_some(), "no plugin runs");
}

#[test]
fn address_without_a_scheme_means_https_where_certificates_are_given() {
    let url = |set: fn(&mut Config)| {
        let mut config = Config::new(Uri::from_static("http://127.0.0.1:1"));
        set(&mut config);
        server_url("a.example:6443", &config).unwrap().to_string()
    };
    assert_eq!(url(|_| ()), "http://a.example:6443/");
    assert_eq!(url(|config| config.root_cert = Some(Vec::new())), "https://a.example:6443/");
    assert_eq!(url(|config| config.accept_invalid_certs = true), "https://a.example:6443/");
    assert_eq!(url(|config| config.auth_info.client_certificate = Some("a.pem".to_owned())), "https://a.example:6443/");
}

#[test]
fn no_kubeconfig_is_read_without_a_home() {
    for home in [None, Some(""), Some(".")] {
        let (_, kubeconfig) = read_home(home.map(PathBuf::from));
        assert!(matches!(kubeconfig, Err(KubeconfigError::FindPath)));
    }
}
