//! How Cluster Autoscaler reads the resources of a group at zero: from tags of the group, or labels of its nodes.
//!
//! The formats are those of its cloud providers `aws` (`extractAllocatableResourcesFromAsg`), `azure`
//! (`extractAllocatableResourcesFromScaleSet`) and `gce`. A value that is no quantity is skipped without a message.

use crate::model::label::is_qualified_name;

/// Where the values of a group are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tags {
    /// Tags of an Auto Scaling group.
    Aws,
    /// Tags of a virtual machine scale set.
    Azure,
    /// Labels of the nodes in a node pool.
    Gke,
}

/// The most characters of a tag's key on AWS.
const MAX_AWS_KEY: usize = 128;

impl Tags {
    fn prefix(self) -> &'static str {
        match self {
            Self::Aws => "k8s.io/cluster-autoscaler/node-template/resources/",
            Self::Azure => "k8s.io_cluster-autoscaler_node-template_resources_",
            Self::Gke => "clusterautoscaler-nodetemplate-resources-",
        }
    }

    /// Returns the key for a resource, or why there is none.
    pub(super) fn key(self, resource: &str) -> Result<String, String> {
        let prefix = self.prefix();
        let key = match self {
            // Cluster Autoscaler reads every `_` as a slash; `~2`, which is `_` in tags for labels and taints, too.
            Self::Azure => prefix.to_owned() + &resource.replace('/', "_"),
            Self::Aws | Self::Gke => prefix.to_owned() + resource,
        };
        let length = key.len();
        match self {
            Self::Aws if length > MAX_AWS_KEY => Err(format!(
                "the key of its tag would have {length} characters, and AWS allows {MAX_AWS_KEY}; a name of at most {} \
                 characters fits",
                MAX_AWS_KEY - prefix.len()
            )),
            Self::Azure if resource.contains('_') => {
                Err("it contains _, which Cluster Autoscaler reads as a slash in \
                                                          tags of Azure, also in its escaped form; choose another name"
                    .to_owned())
            }
            Self::Gke if !is_qualified_name(&key) => {
                Err(format!("{key} is no label key: the part before the slash is too long"))
            }
            _ => Ok(key),
        }
    }

    /// Returns the resource of a key, as Cluster Autoscaler reads it.
    pub(super) fn resource(self, key: &str) -> Option<String> {
        // It looks for the prefix anywhere in the key of a tag.
        let (_, name) = key.split_once(self.prefix())?;
        Some(match self {
            Self::Azure => name.replace('_', "/").replace("~2", "/"),
            Self::Aws | Self::Gke => name.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_is_what_cluster_autoscaler_reads() {
        for (tags, resource, key) in [
            (Tags::Aws, "example.com/dongle", "k8s.io/cluster-autoscaler/node-template/resources/example.com/dongle"),
            (Tags::Aws, "example.com/A_b.c", "k8s.io/cluster-autoscaler/node-template/resources/example.com/A_b.c"),
            (Tags::Azure, "example.com/dongle", "k8s.io_cluster-autoscaler_node-template_resources_example.com_dongle"),
            (Tags::Gke, "example.com/dongle", "clusterautoscaler-nodetemplate-resources-example.com/dongle"),
            (Tags::Gke, "example.com/A_b.c", "clusterautoscaler-nodetemplate-resources-example.com/A_b.c"),
        ] {
            assert_eq!(tags.key(resource).unwrap(), key);
            assert_eq!(tags.resource(key).as_deref(), Some(resource));
        }
        assert_eq!(Tags::Aws.resource("Name"), None);
        assert_eq!(Tags::Azure.resource("k8s.io_cluster-autoscaler_node-template_label_a_b"), None);
    }

    #[test]
    fn name_without_a_key_is_rejected_with_why() {
        let long = |domain: usize| format!("{}/dongle", "a".repeat(domain));
        assert!(Tags::Aws.key(&long(71)).is_ok());
        let why = "would have 129 characters, and AWS allows 128; a name of at most 78 characters fits";
        assert!(Tags::Aws.key(&long(72)).unwrap_err().contains(why));
        assert!(Tags::Azure.key("example.com/usb_dongle").unwrap_err().contains("contains _"));
        assert!(Tags::Azure.key(&long(244)).is_ok());
        assert!(Tags::Gke.key(&long(212)).is_ok());
        assert!(Tags::Gke.key(&long(213)).unwrap_err().contains("is no label key"));
    }
}
