//! Selects the cluster: the kubeconfig and its context, or the pod's service account.

use std::fmt;
use std::io::ErrorKind;
use std::path::PathBuf;

use http::Uri;
use kube::Config;
use kube::config::{Kubeconfig, KubeconfigError};
use thiserror::Error;

use super::credentials::without_userinfo;
use super::error::chain;

/// The cluster to use, from kubectl's flags.
#[derive(Clone, Debug, Default)]
pub struct ClusterOptions {
    /// The kubeconfig, instead of KUBECONFIG or the file in the home directory.
    pub kubeconfig: Option<PathBuf>,
    /// The context, instead of the current one.
    pub context: Option<String>,
    /// The user to impersonate.
    pub user: Option<String>,
    /// The groups to impersonate.
    pub groups: Vec<String>,
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
    Kubeconfig { place: String, options: ClusterOptions, url: Uri },
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
    let from_kubeconfig = match kubeconfig {
        Ok(kubeconfig) => use_context(&place, kubeconfig, options),
        Err(source) if is_absent(&source) && !is_asked_for => Err(ConfigError::Nothing { place: place.clone() }),
        Err(source) => Err(ConfigError::Kubeconfig { place: place.clone(), reason: reason(&source) }),
    };
    let (mut config, context) = match from_kubeconfig {
        Ok((config, context)) => (config, Some(context)),
        // The user requested this kubeconfig, so another cluster would be wrong.
        Err(error) if is_asked_for => return Err(error),
        // In a pod, use its own cluster. Outside a pod, the reason why that fails is irrelevant.
        Err(error) => (Config::incluster().map_err(|_| error)?, None),
    };
    // kube would reread the CA bundle, but no other certificate.
    config.root_cert_file = None;
    let source = match &context {
        None => Source::Pod,
        // A pipe is empty after the first read, and reading it again might block.
        Some(_) if paths.iter().any(|path| path.metadata().is_ok_and(|file| !file.is_file())) => {
            Source::Given(Box::new(config.clone()))
        }
        // The current context may change in the meantime.
        Some(_) => Source::Kubeconfig {
            place,
            options: ClusterOptions { context: context.clone(), ..options.clone() },
            url: config.cluster_url.clone(),
        },
    };
    config.apply_debug_overrides();
    if options.user.is_some() {
        config.auth_info.impersonate.clone_from(&options.user);
    }
    if !options.groups.is_empty() {
        config.auth_info.impersonate_groups = Some(options.groups.clone());
    }
    let server = Server::new(&config, context);
    Ok((config, server, source))
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
        return Found { place, paths, kubeconfig, is_asked_for: options.context.is_some() };
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

fn use_context(
    place: &str,
    mut kubeconfig: Kubeconfig,
    options: &ClusterOptions,
) -> Result<(Config, String), ConfigError> {
    let name = options.context.clone().or_else(|| kubeconfig.current_context.clone());
    let name = name.unwrap_or_default();
    let known: Vec<_> = kubeconfig.contexts.iter().map(|context| context.name.clone()).collect();
    let place = place.to_owned();
    if name.is_empty() {
        let known = if known.is_empty() { "it has no context".to_owned() } else { known.join(", ") };
        return Err(ConfigError::NoCurrentContext { place, known });
    }
    if !known.contains(&name) {
        let known = if known.is_empty() { "(it has none)".to_owned() } else { known.join(", ") };
        return Err(ConfigError::NoContext { place, name, known });
    }
    let of_context = kubeconfig.contexts.iter().find(|context| context.name == name);
    let user = of_context.and_then(|context| context.context.as_ref()?.user.clone()).unwrap_or_default();
    if !user.is_empty() && kubeconfig.auth_infos.iter().all(|info| info.name != user) {
        return Err(ConfigError::NoUser { place, name, user });
    }
    kubeconfig.current_context = Some(name.clone());
    match Config::try_from(kubeconfig) {
        Ok(config) => Ok((config, name)),
        Err(source) => Err(ConfigError::Kubeconfig { place, reason: reason(&source) }),
    }
}

#[cfg(test)]
mod tests {
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
            use_context("it", kubeconfig(current), &ClusterOptions::default())
                .map(drop)
                .map_err(|error| error.to_string())
        };
        let none = "it has no current context: use --context, or kubectl config use-context; contexts: x, y";
        assert_eq!(used(""), Err(none.to_owned()));
        assert_eq!(used("current-context: x"), Err("it has no user \"gone\", which the context x names".to_owned()));
        assert_eq!(used("current-context: y"), Ok(()), "anonymous, as it says");
    }

    #[test]
    fn no_kubeconfig_is_read_without_a_home() {
        for home in [None, Some(""), Some(".")] {
            let (_, kubeconfig) = read_home(home.map(PathBuf::from));
            assert!(matches!(kubeconfig, Err(KubeconfigError::FindPath)));
        }
    }
}
