//! Arguments that several commands share.

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
