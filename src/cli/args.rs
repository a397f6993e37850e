//! Arguments that several commands share.

use std::path::PathBuf;

use crate::cluster::client::{self, ConnectError, Connection};
use crate::cluster::config::ClusterOptions;

/// Which cluster, by kubectl's flags.
#[derive(Debug, clap::Args)]
pub(super) struct ClusterArgs {
    /// The kubeconfig [default: KUBECONFIG, or ~/.kube/config; in a pod its service account]
    #[arg(long, value_name = "FILE", help_heading = "Cluster")]
    kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig [default: its current one]
    #[arg(long, value_name = "NAME", help_heading = "Cluster")]
    context: Option<String>,
    /// The user to impersonate.
    #[arg(long = "as", value_name = "USER", help_heading = "Cluster")]
    impersonate: Option<String>,
    /// A group to impersonate; may be given several times.
    #[arg(long, value_name = "GROUP", help_heading = "Cluster", requires = "impersonate")]
    as_group: Vec<String>,
}

impl ClusterArgs {
    /// Connects to the cluster. Nothing is sent yet.
    pub(super) async fn connect(&self) -> Result<Connection, ConnectError> {
        let Self { kubeconfig, context, impersonate, as_group } = self;
        let options = ClusterOptions {
            kubeconfig: kubeconfig.clone(),
            context: context.clone(),
            user: impersonate.clone(),
            groups: as_group.clone(),
        };
        client::connect(&options).await
    }

    /// Connects to the cluster, and prints which one it is.
    pub(super) async fn connect_and_print(&self) -> Result<Connection, ConnectError> {
        let connection = self.connect().await?;
        let server = &connection.server;
        let user = self.impersonate.as_ref().map(|user| format!(", as {user}"));
        let user = user.unwrap_or_default();
        match &server.context {
            Some(context) => eprintln!("cluster: context {context}, {}{user}", server.url),
            None => eprintln!("cluster: this pod's, {}{user}", server.url),
        }
        Ok(connection)
    }

    /// The flags by which kubectl acts on the same cluster, with a space before each.
    pub(super) fn kubectl_flags(&self) -> String {
        let kubeconfig = self.kubeconfig.as_ref().map(|path| path.display().to_string());
        let flags = [("kubeconfig", &kubeconfig), ("context", &self.context)];
        let given = flags.into_iter().filter_map(|(flag, value)| Some((flag, value.as_ref()?)));
        given.map(|(flag, value)| format!(" --{flag} {value}")).collect()
    }
}

/// Where the Lease of the controllers is.
#[derive(Debug, clap::Args)]
pub(super) struct LeaseArgs {
    /// The namespace of the Lease that says which controller leads [default: the pod's, or the
    /// kubeconfig's]
    #[arg(long, env = "NRA_LEADER_ELECT_RESOURCE_NAMESPACE")]
    pub(super) leader_elect_resource_namespace: Option<String>,
    /// The Lease's name.
    #[arg(
        long,
        env = "NRA_LEADER_ELECT_RESOURCE_NAME",
        default_value = "node-resource-advertiser"
    )]
    pub(super) leader_elect_resource_name: String,
}

impl LeaseArgs {
    pub(super) fn namespace(&self, client: &kube::Client) -> String {
        let default = || client.default_namespace().to_owned();
        self.leader_elect_resource_namespace.clone().unwrap_or_else(default)
    }
}
