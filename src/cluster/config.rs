//! Which cluster: the kubeconfig and its context, or the pod's service account.

use std::fmt;
use std::io::ErrorKind;
use std::path::PathBuf;

use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use thiserror::Error;

use super::credentials::without_userinfo;
use super::error::chain;

/// How to reach a cluster, as kubectl's flags say.
#[derive(Clone, Debug, Default)]
pub struct ClusterOptions {
    /// The kubeconfig, in place of KUBECONFIG or the one in the home directory.
    pub kubeconfig: Option<PathBuf>,
    /// A context of it, in place of its current one.
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

/// Why there is no configuration to reach a cluster by.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// The kubeconfig cannot be used.
    #[error("{place} cannot be used: {reason}")]
    Kubeconfig {
        /// Which kubeconfig.
        place: String,
        /// Why; kube's own error would quote credentials.
        reason: String,
    },
    /// The kubeconfig has no such context.
    #[error("{place} has no context {name:?}; give one of these by --context: {known}")]
    NoContext {
        /// Which kubeconfig.
        place: String,
        /// The context that was asked for, or that it calls its current one.
        name: String,
        /// Those that it has.
        known: String,
    },
    /// There is neither a kubeconfig nor a service account.
    #[error(
        "no way to reach a cluster: {place} does not exist, and this is not a pod with a service \
         account; set KUBECONFIG, or give --kubeconfig"
    )]
    Nothing {
        /// Where a kubeconfig was expected.
        place: String,
    },
}

fn reason(error: &KubeconfigError) -> String {
    match error {
        KubeconfigError::ReadConfig(error, path) => format!("{}: {error}", path.display()),
        other => chain(other),
    }
}

/// Finds the configuration: the kubeconfig, else the pod's service account.
pub(super) async fn load(options: &ClusterOptions) -> Result<(Config, Server), ConfigError> {
    let (place, kubeconfig, is_asked_for) = read(options);
    let from_kubeconfig = match kubeconfig {
        Ok(kubeconfig) => use_context(&place, kubeconfig, options).await,
        Err(source) if is_absent(&source) && !is_asked_for => Err(ConfigError::Nothing { place }),
        Err(source) => Err(ConfigError::Kubeconfig { place, reason: reason(&source) }),
    };
    let (mut config, context) = match from_kubeconfig {
        Ok((config, context)) => (config, Some(context)),
        // Somebody asked for a kubeconfig: another cluster is not what they want.
        Err(error) if is_asked_for => return Err(error),
        // In a pod, its own cluster. Why that one cannot be used is of no interest elsewhere.
        Err(error) => (Config::incluster().map_err(|_| error)?, None),
    };
    config.apply_debug_overrides();
    if options.user.is_some() {
        config.auth_info.impersonate.clone_from(&options.user);
    }
    if !options.groups.is_empty() {
        config.auth_info.impersonate_groups = Some(options.groups.clone());
    }
    let server = Server::new(&config, context);
    Ok((config, server))
}

/// Reads the kubeconfig: where it is, its content, and whether somebody asked for it.
fn read(options: &ClusterOptions) -> (String, Result<Kubeconfig, KubeconfigError>, bool) {
    if let Some(path) = &options.kubeconfig {
        let place = format!("the kubeconfig {}", path.display());
        return (place, Kubeconfig::read_from(path), true);
    }
    match Kubeconfig::from_env() {
        Ok(None) => {
            let (place, kubeconfig) = read_home(std::env::home_dir());
            (place, kubeconfig, options.context.is_some())
        }
        from_env => {
            let files = std::env::var("KUBECONFIG").unwrap_or_default();
            let kubeconfig = from_env.map(Option::unwrap_or_default);
            (format!("the kubeconfig {files} (KUBECONFIG)"), kubeconfig, true)
        }
    }
}

/// Reads the kubeconfig in the home directory. Without one it would be that of the current folder,
/// which may be somebody else's, and name programs to run.
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

async fn use_context(
    place: &str,
    kubeconfig: Kubeconfig,
    options: &ClusterOptions,
) -> Result<(Config, String), ConfigError> {
    let name = options.context.clone().or_else(|| kubeconfig.current_context.clone());
    let name = name.unwrap_or_default();
    let known: Vec<_> = kubeconfig.contexts.iter().map(|context| context.name.clone()).collect();
    let place = place.to_owned();
    if !known.contains(&name) {
        let known = if known.is_empty() { "it has none".to_owned() } else { known.join(", ") };
        return Err(ConfigError::NoContext { place, name, known });
    }
    let options = KubeConfigOptions { context: Some(name.clone()), ..KubeConfigOptions::default() };
    match Config::from_custom_kubeconfig(kubeconfig, &options).await {
        Ok(config) => Ok((config, name)),
        Err(source) => Err(ConfigError::Kubeconfig { place, reason: reason(&source) }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_kubeconfig_is_read_without_a_home() {
        for home in [None, Some(""), Some(".")] {
            let (_, kubeconfig) = read_home(home.map(PathBuf::from));
            assert!(matches!(kubeconfig, Err(KubeconfigError::FindPath)));
        }
    }
}
