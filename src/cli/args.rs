//! Arguments that several commands share.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use super::duration::parse_duration;
use super::message::print_message;
use crate::cluster::client::{self, ConnectError, Connection};
use crate::cluster::config::{self, ClusterOptions, Timeout};
use crate::inspect::hint;

/// Selects the cluster, with kubectl's flags.
#[derive(Debug, Default, clap::Args)]
pub(super) struct ClusterArgs {
    /// Kubeconfig file [default: KUBECONFIG, or ~/.kube/config; in a pod, its service account]
    #[arg(long, value_name = "FILE", help_heading = "Cluster")]
    kubeconfig: Option<PathBuf>,
    /// Context in the kubeconfig [default: the current context]
    #[arg(long, value_name = "NAME", help_heading = "Cluster")]
    context: Option<String>,
    /// Cluster in the kubeconfig [default: the context's]
    #[arg(long, value_name = "NAME", help_heading = "Cluster")]
    cluster: Option<String>,
    /// User in the kubeconfig [default: the context's]
    #[arg(long, value_name = "NAME", help_heading = "Cluster")]
    user: Option<String>,
    /// Address of the API server [default: the cluster's]
    #[arg(short, long, value_name = "URL", help_heading = "Cluster")]
    server: Option<String>,
    /// Bearer token [default: the user's credentials]
    #[arg(long, value_name = "TOKEN", help_heading = "Cluster")]
    token: Option<String>,
    /// User to impersonate
    #[arg(long = "as", value_name = "USER", help_heading = "Cluster")]
    impersonate: Option<String>,
    /// UID to impersonate
    #[arg(long, value_name = "UID", help_heading = "Cluster", requires = "impersonate")]
    as_uid: Option<String>,
    /// Group to impersonate; can be repeated
    #[arg(long, value_name = "GROUP", help_heading = "Cluster", requires = "impersonate")]
    as_group: Vec<String>,
}

/// Selects the cluster for a command that only reads.
#[derive(Debug, Default, clap::Args)]
pub(super) struct ReadArgs {
    #[command(flatten)]
    pub(super) cluster: ClusterArgs,
    /// How long to wait for a credential plugin, or an API server that does not respond, at least 1s; 0 for no limit
    ///
    /// It is one limit for the whole command, however many requests it sends. A server that responds may take longer.
    #[arg(long, value_name = "DURATION", help_heading = "Cluster", default_value = "60s", value_parser = request_timeout)]
    request_timeout: Duration,
}

/// Parses a limit for requests. As in kubectl, 0 means none.
pub(super) fn request_timeout(text: &str) -> Result<Duration, String> {
    match parse_duration(text) {
        Some(Duration::ZERO) => Ok(Duration::MAX),
        Some(timeout) if timeout >= Duration::from_secs(1) => Ok(timeout),
        _ => Err("must be a duration of at least 1s, such as 15s, or 0 for no limit".to_owned()),
    }
}

impl ReadArgs {
    /// Connects to the cluster, without sending a request yet.
    pub(super) async fn connect(&self) -> Result<Connection, ConnectError> {
        self.cluster.connect_within(self.timeout()).await
    }

    /// Connects to the cluster, and prints which cluster it is.
    pub(super) async fn connect_and_print(&self) -> Result<Connection, ConnectError> {
        self.cluster.connect_and_print(self.timeout()).await
    }

    fn timeout(&self) -> Timeout {
        Timeout::AllRequests(self.request_timeout)
    }
}

impl ClusterArgs {
    /// Connects to the cluster, without sending a request yet.
    pub(super) async fn connect(&self) -> Result<Connection, ConnectError> {
        self.connect_within(Timeout::default()).await
    }

    async fn connect_within(&self, timeout: Timeout) -> Result<Connection, ConnectError> {
        hint::set_cluster_flags(self.kubectl_flags());
        client::connect(&self.options(timeout)).await
    }

    /// Returns the contexts of the kubeconfig.
    pub(super) fn contexts(&self) -> Option<BTreeSet<String>> {
        config::contexts(&self.options(Timeout::default()))
    }

    fn options(&self, timeout: Timeout) -> ClusterOptions {
        ClusterOptions {
            kubeconfig: self.kubeconfig.clone(),
            context: self.context.clone(),
            cluster: self.cluster.clone(),
            user: self.user.clone(),
            server: self.server.clone(),
            token: self.token.clone(),
            as_user: self.impersonate.clone(),
            as_uid: self.as_uid.clone(),
            as_groups: self.as_group.clone(),
            timeout,
        }
    }

    /// Connects to the cluster, and prints which cluster it is.
    pub(super) async fn connect_and_print(&self, timeout: Timeout) -> Result<Connection, ConnectError> {
        let connection = self.connect_within(timeout).await?;
        self.print(&connection);
        Ok(connection)
    }

    fn print(&self, Connection { server, .. }: &Connection) {
        let user = self.impersonate.as_ref().map(|user| format!(", as {user}"));
        let user = user.unwrap_or_default();
        match &server.context {
            Some(context) => print_message(format_args!("cluster: context {context}, {}{user}", server.url)),
            None => print_message(format_args!("cluster: this pod's, {}{user}", server.url)),
        }
    }

    /// Returns the flags with which kubectl acts on the same cluster as the same user, quoted for a shell, each
    /// after a space. A token is a secret, and no part of them.
    pub(super) fn kubectl_flags(&self) -> String {
        let Self { kubeconfig, context, cluster, user, server, token: _, impersonate, as_uid, as_group } = self;
        let kubeconfig = kubeconfig.as_ref().map(|path| path.display().to_string());
        let flags = [
            ("kubeconfig", &kubeconfig),
            ("context", context),
            ("cluster", cluster),
            ("user", user),
            ("server", server),
            ("as", impersonate),
            ("as-uid", as_uid),
        ];
        let given = flags.into_iter().filter_map(|(flag, value)| Some((flag, value.as_ref()?)));
        let groups = as_group.iter().map(|group| ("as-group", group));
        given.chain(groups).map(|(flag, value)| format!(" --{flag}={}", hint::quoted(value))).collect()
    }
}

/// Selects the Lease of the controllers.
#[derive(Debug, clap::Args)]
pub(super) struct LeaseArgs {
    /// Namespace of the leader election Lease [default: the pod's, or the kubeconfig's]
    #[arg(long, env = "NRA_LEADER_ELECT_RESOURCE_NAMESPACE")]
    pub(super) leader_elect_resource_namespace: Option<String>,
    /// Name of the leader election Lease
    #[arg(long, env = "NRA_LEADER_ELECT_RESOURCE_NAME", default_value = "node-resource-advertiser")]
    pub(super) leader_elect_resource_name: String,
}

impl LeaseArgs {
    pub(super) fn namespace(&self, client: &kube::Client) -> String {
        let default = || client.default_namespace().to_owned();
        self.leader_elect_resource_namespace.clone().unwrap_or_else(default)
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn request_timeout_is_read_as_kubectl_reads_it() {
        for (text, seconds) in [
            ("0", Some(u64::MAX)),
            ("0s", Some(u64::MAX)),
            ("2", Some(2)),
            ("5m", Some(300)),
            ("1ms", None),
            ("x", None),
        ] {
            assert_eq!(request_timeout(text).ok().map(|timeout| timeout.as_secs()), seconds, "{text}");
        }
    }

    #[test]
    fn kubectl_flags_name_the_same_cluster_and_user_to_a_shell() {
        let args = ClusterArgs {
            kubeconfig: Some("/home/a b/it's".into()),
            context: Some("admin@$HOME;`id`".to_owned()),
            impersonate: Some("system:serviceaccount:a:b".to_owned()),
            as_uid: Some("7".to_owned()),
            as_group: vec!["-x".to_owned(), String::new()],
            server: Some("https://a.example".to_owned()),
            token: Some("S3CRET".to_owned()),
            ..ClusterArgs::default()
        };
        let script = format!("printf '%s\\n'{}", args.kubectl_flags());
        let output = Command::new("sh").args(["-c", &script]).output().unwrap();
        let expected = "--kubeconfig=/home/a b/it's\n--context=admin@$HOME;`id`\n\
                        --server=https://a.example\n--as=system:serviceaccount:a:b\n--as-uid=7\n--as-group=-x\n--as-group=\n";
        assert_eq!(String::from_utf8(output.stdout).unwrap(), expected, "{script}");
        assert_eq!(ClusterArgs::default().kubectl_flags(), "");
    }
}
