//! Selects the cluster: the kubeconfig and its context, or the pod's service account.

use std::collections::BTreeSet;
use std::fmt;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::time::Duration;

use http::Uri;
use kube::Config;
use kube::config::{Kubeconfig, KubeconfigError};
use thiserror::Error;

use crate::response::credentials::without_userinfo;
use crate::response::error::chain;

/// The cluster to use, from kubectl's flags.
#[derive(Clone, Debug, Default)]
pub struct ClusterOptions {
    /// The kubeconfig, instead of KUBECONFIG or the file in the home directory.
    pub kubeconfig: Option<PathBuf>,
    /// The context, instead of the current one.
    pub context: Option<String>,
    /// The cluster of the kubeconfig, instead of the context's.
    pub cluster: Option<String>,
    /// The user of the kubeconfig, instead of the context's.
    pub user: Option<String>,
    /// The address of the API server, instead of the cluster's.
    pub server: Option<String>,
    /// The bearer token, instead of the user's credentials.
    pub token: Option<String>,
    /// The user to impersonate.
    pub as_user: Option<String>,
    /// The UID to impersonate.
    pub as_uid: Option<String>,
    /// The groups to impersonate.
    pub as_groups: Vec<String>,
    /// How long to wait for the API server.
    pub timeout: Timeout,
}

/// How long to wait for an API server that does not respond, or a credential plugin that does not end.
#[derive(Clone, Copy, Debug)]
pub enum Timeout {
    /// As long for each request.
    EachRequest(Duration),
    /// Once for all requests of a command.
    AllRequests(Duration),
}

impl Default for Timeout {
    fn default() -> Self {
        // It includes the TLS handshake, but not the events of a watch.
        Self::EachRequest(Duration::from_secs(60))
    }
}

/// An API server, as messages name it.
#[derive(Clone, Debug)]
pub struct Server {
    /// Its address, without a user or a password.
    pub url: String,
    /// The context of the kubeconfig that names it.
    pub context: Option<String>,
}

impl Server {
    pub(super) fn new(config: &Config, context: Option<String>) -> Self {
        Self { url: without_userinfo(&config.cluster_url).to_string(), context }
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { url, context } = self;
        match context {
            Some(context) => write!(f, "{url} (context {context})"),
            None => write!(f, "{url}"),
        }
    }
}

/// The source of a configuration, from which its certificates are read again.
#[derive(Debug)]
pub(super) enum Source {
    /// The configuration cannot be read again, but the files that it names can.
    Given(Box<Config>),
    /// The pod's service account.
    Pod,
    /// A context of a kubeconfig, which named this server.
    Kubeconfig { place: String, options: Box<ClusterOptions>, url: Uri },
}

impl Source {
    /// Reads the configuration again.
    pub(super) fn read(&self) -> Result<Config, String> {
        let (place, options, url) = match self {
            Self::Given(config) => return Ok(Config::clone(config)),
            Self::Pod => return Config::incluster().map_err(|error| chain(&error)),
            Self::Kubeconfig { place, options, url } => (place, options, url),
        };
        let kubeconfig = read(options).kubeconfig.map_err(|source| reason(&source))?;
        let (config, context) = use_context(place, kubeconfig, options).map_err(|error| error.to_string())?;
        if config.cluster_url != *url {
            return Err(format!("the context {context} now names another server; restart to use it"));
        }
        Ok(config)
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Given(_) => "the configuration",
            Self::Pod => "the service account",
            Self::Kubeconfig { place, .. } => place,
        })
    }
}

/// Why no cluster can be selected.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// The kubeconfig cannot be used.
    #[error("cannot use {place}: {reason}")]
    Kubeconfig {
        /// The kubeconfig.
        place: String,
        /// Why; kube's own error would quote credentials.
        reason: String,
    },
    /// The kubeconfig has no such context.
    #[error("{place} has no context {name:?}; use --context with one of: {known}")]
    NoContext {
        /// The kubeconfig.
        place: String,
        /// The given context, or the current one of the kubeconfig.
        name: String,
        /// The contexts of the kubeconfig.
        known: String,
    },
    /// The kubeconfig has no current context.
    #[error("{place} has no current context: use --context, or kubectl config use-context; contexts: {known}")]
    NoCurrentContext {
        /// The kubeconfig.
        place: String,
        /// The contexts of the kubeconfig.
        known: String,
    },
    /// The kubeconfig has no such cluster or user.
    #[error("{place} has no {kind} {name:?}; use --{kind} with one of: {known}")]
    NoEntry {
        /// The kubeconfig.
        place: String,
        /// `cluster` or `user`.
        kind: &'static str,
        /// The given name.
        name: String,
        /// Those of the kubeconfig.
        known: String,
    },
    /// The given address is none.
    #[error("--server {0:?} is not an address of an API server, such as https://10.0.0.1:6443")]
    Server(String),
    /// The context names a user that does not exist: requests would be anonymous.
    #[error("{place} has no user {user:?}, which the context {name} names")]
    NoUser {
        /// The kubeconfig.
        place: String,
        /// The context.
        name: String,
        /// The user.
        user: String,
    },
    /// There is neither a kubeconfig nor a service account.
    #[error(
        "cannot find a cluster: {place} does not exist, and this is not a pod with a service \
         account; set KUBECONFIG, or use --kubeconfig"
    )]
    Nothing {
        /// The expected location of the kubeconfig.
        place: String,
    },
}

fn reason(error: &KubeconfigError) -> String {
    match error {
        KubeconfigError::ReadConfig(error, path) => format!("{}: {error}", path.display()),
        other => chain(other),
    }
}

/// Finds the configuration: the kubeconfig, or else the pod's service account.
pub(super) fn load(options: &ClusterOptions) -> Result<(Config, Server, Source), ConfigError> {
    let Found { place, paths, kubeconfig, is_asked_for } = read(options);
    let has_none = kubeconfig.as_ref().is_err_and(is_absent);
    // As in kubectl, an empty one does not count.
    let selects_pod =
        (has_none || kubeconfig.as_ref().is_ok_and(is_empty)) && !is_asked_for && options.server.is_none();
    let from_kubeconfig = match kubeconfig {
        Ok(kubeconfig) => use_context(&place, kubeconfig, options),
        Err(_) if has_none && options.needs_no_kubeconfig() => {
            let mut config = Config::new(Uri::default());
            options.replace(&mut config).map(|()| (config, "none".to_owned()))
        }
        Err(_) if has_none && !is_asked_for => Err(ConfigError::Nothing { place: place.clone() }),
        Err(source) => Err(ConfigError::Kubeconfig { place: place.clone(), reason: reason(&source) }),
    };
    let (mut config, context) = match from_kubeconfig {
        Ok((config, context)) => (config, Some(context)),
        // In a pod, use its own cluster. Outside a pod, the reason why that fails is irrelevant.
        Err(error) if selects_pod => {
            let mut config = Config::incluster().map_err(|_| error)?;
            options.replace(&mut config)?;
            (config, None)
        }
        // The kubeconfig or the user selects another cluster, so that of the pod would be wrong.
        Err(error) => return Err(error),
    };
    // kube would reread the CA bundle, but no other certificate.
    config.root_cert_file = None;
    let source = match &context {
        None if options.token.is_some() => Source::Given(Box::new(config.clone())),
        None => Source::Pod,
        // A pipe is empty after the first read, and reading it again might block.
        Some(_) if has_none || paths.iter().any(|path| path.metadata().is_ok_and(|file| !file.is_file())) => {
            Source::Given(Box::new(config.clone()))
        }
        // The current context may change in the meantime.
        Some(_) => Source::Kubeconfig {
            place,
            options: Box::new(ClusterOptions { context: context.clone(), ..options.clone() }),
            url: config.cluster_url.clone(),
        },
    };
    config.apply_debug_overrides();
    options.impersonate(&mut config);
    let server = Server::new(&config, context);
    Ok((config, server, source))
}

/// Returns the contexts of the kubeconfig, if it can be read.
pub(crate) fn contexts(options: &ClusterOptions) -> Option<BTreeSet<String>> {
    let contexts = read(options).kubeconfig.ok()?.contexts.into_iter();
    Some(contexts.map(|context| context.name).collect())
}

/// The result of searching for a kubeconfig.
struct Found {
    /// Its location, for messages.
    place: String,
    paths: Vec<PathBuf>,
    kubeconfig: Result<Kubeconfig, KubeconfigError>,
    /// Whether the user requested it.
    is_asked_for: bool,
}

fn read(options: &ClusterOptions) -> Found {
    if let Some(path) = &options.kubeconfig {
        let place = format!("the kubeconfig {}", path.display());
        let kubeconfig = Kubeconfig::read_from(path);
        return Found { place, paths: vec![path.clone()], kubeconfig, is_asked_for: true };
    }
    let files = std::env::var_os("KUBECONFIG").unwrap_or_default();
    let paths: Vec<_> = std::env::split_paths(&files).filter(|path| !path.as_os_str().is_empty()).collect();
    if paths.is_empty() {
        let (place, kubeconfig) = read_home(std::env::home_dir());
        return Found { place, paths, kubeconfig, is_asked_for: options.names_an_entry() };
    }
    let place = format!("the kubeconfig {} (KUBECONFIG)", files.display());
    Found { place, kubeconfig: read_list(&paths), paths, is_asked_for: true }
}

/// Reads a list of kubeconfigs, the first of which has precedence. Those that do not exist do not count, as in kubectl,
/// unless none exists.
fn read_list(paths: &[PathBuf]) -> Result<Kubeconfig, KubeconfigError> {
    let (mut merged, mut absent) = (None, None);
    for path in paths {
        match Kubeconfig::read_from(path) {
            Ok(next) => merged = Some(Kubeconfig::merge(merged.unwrap_or_default(), next)?),
            Err(error) if is_absent(&error) => absent = absent.or(Some(error)),
            Err(error) => return Err(error),
        }
    }
    merged.ok_or_else(|| absent.unwrap_or(KubeconfigError::FindPath))
}

/// Reads the kubeconfig in the home directory. Without a home directory, the path would be relative to the current
/// folder, whose kubeconfig may belong to another user and name programs to run.
fn read_home(home: Option<PathBuf>) -> (String, Result<Kubeconfig, KubeconfigError>) {
    let Some(home) = home.filter(|home| home.is_absolute()) else {
        let place = "the kubeconfig ~/.kube/config (HOME is unknown or relative)".to_owned();
        return (place, Err(KubeconfigError::FindPath));
    };
    let path = home.join(".kube/config");
    (format!("the kubeconfig {}", path.display()), Kubeconfig::read_from(path))
}

fn is_absent(error: &KubeconfigError) -> bool {
    match error {
        KubeconfigError::FindPath => true,
        KubeconfigError::ReadConfig(error, _) => error.kind() == ErrorKind::NotFound,
        _ => false,
    }
}

fn is_empty(kubeconfig: &Kubeconfig) -> bool {
    kubeconfig.contexts.is_empty() && kubeconfig.clusters.is_empty() && kubeconfig.auth_infos.is_empty()
}

fn use_context(
    place: &str,
    mut kubeconfig: Kubeconfig,
    options: &ClusterOptions,
) -> Result<(Config, String), ConfigError> {
    let name = options.context.clone().or_else(|| kubeconfig.current_context.clone());
    let name = name.unwrap_or_default();
    let known = names(kubeconfig.contexts.iter().map(|context| &context.name));
    let place = place.to_owned();
    if name.is_empty() {
        return Err(ConfigError::NoCurrentContext { place, known });
    }
    let Some(context) = kubeconfig.contexts.iter_mut().find(|context| context.name == name) else {
        return Err(ConfigError::NoContext { place, name, known });
    };
    let context = context.context.get_or_insert_default();
    let clusters = || kubeconfig.clusters.iter().map(|cluster| &cluster.name);
    let users = || kubeconfig.auth_infos.iter().map(|user| &user.name);
    if let Some(cluster) = &options.cluster {
        if !clusters().any(|known| known == cluster) {
            let known = names(clusters());
            return Err(ConfigError::NoEntry { place, kind: "cluster", name: cluster.clone(), known });
        }
        context.cluster.clone_from(cluster);
    }
    if let Some(user) = &options.user {
        if !users().any(|known| known == user) {
            return Err(ConfigError::NoEntry { place, kind: "user", name: user.clone(), known: names(users()) });
        }
        context.user = Some(user.clone());
    }
    let user = context.user.clone().unwrap_or_default();
    if !user.is_empty() && !users().any(|known| *known == user) {
        return Err(ConfigError::NoUser { place, name, user });
    }
    kubeconfig.current_context = Some(name.clone());
    let mut config =
        Config::try_from(kubeconfig).map_err(|source| ConfigError::Kubeconfig { place, reason: reason(&source) })?;
    options.replace(&mut config)?;
    Ok((config, name))
}

/// Lists the names in a kubeconfig.
fn names<'n>(names: impl Iterator<Item = &'n String>) -> String {
    let names: Vec<_> = names.map(String::as_str).collect();
    if names.is_empty() { "(it has none)".to_owned() } else { names.join(", ") }
}

impl ClusterOptions {
    /// Replaces the address and the credentials of the context by those that are given.
    fn replace(&self, config: &mut Config) -> Result<(), ConfigError> {
        if let Some(server) = &self.server {
            config.cluster_url = server_url(server, config).ok_or_else(|| ConfigError::Server(server.clone()))?;
        }
        if let Some(token) = &self.token {
            let auth = &mut config.auth_info;
            // As in kubectl, which then runs no plugin.
            (auth.exec, auth.auth_provider, auth.token_file) = (None, None, None);
            (auth.username, auth.password) = (None, None);
            auth.token = Some(token.clone().into());
        }
        Ok(())
    }

    /// Returns whether something is given that only a kubeconfig has.
    fn names_an_entry(&self) -> bool {
        self.context.is_some() || self.cluster.is_some() || self.user.is_some()
    }

    /// Returns whether the address of the API server is given, and nothing that only a kubeconfig has.
    fn needs_no_kubeconfig(&self) -> bool {
        self.server.is_some() && self.kubeconfig.is_none() && !self.names_an_entry()
    }

    fn impersonate(&self, config: &mut Config) {
        let auth = &mut config.auth_info;
        if self.as_user.is_some() {
            auth.impersonate.clone_from(&self.as_user);
        }
        if self.as_uid.is_some() {
            auth.impersonate_uid.clone_from(&self.as_uid);
        }
        if !self.as_groups.is_empty() {
            auth.impersonate_groups = Some(self.as_groups.clone());
        }
    }
}

/// Returns the URL of an API server. As in kubectl, an address without a scheme means HTTPS only if certificates are given.
fn server_url(server: &str, config: &Config) -> Option<Uri> {
    let auth = &config.auth_info;
    let has_certificate = auth.client_certificate.is_some() || auth.client_certificate_data.is_some();
    let is_secure = config.root_cert.is_some() || config.accept_invalid_certs || has_certificate;
    let url = match server.contains("://") {
        true => server.to_owned(),
        false => format!("{}://{server}", if is_secure { "https" } else { "http" }),
    };
    url.parse::<Uri>().ok().filter(|url| matches!(url.scheme_str(), Some("http" | "https")))
}

#[cfg(test)]
mod tests;
