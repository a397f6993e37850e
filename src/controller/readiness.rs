//! Whether the controller has been able to take up its work, and if not, why.
//!
//! An API server that goes away later makes it no less ready: it goes on where it was.

use std::fmt;

/// What keeps the controller from its work; all `None` once rules and nodes are listed, patches
/// go through, and the Lease can be had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Readiness {
    /// Why the rules are not known yet.
    pub rules: Option<String>,
    /// Why the nodes are not known yet.
    pub nodes: Option<String>,
    /// Why nodes cannot be patched.
    pub patches: Option<String>,
    /// Why it can never lead.
    pub lease: Option<String>,
    /// That another leads, which is no less ready: this one knows all that it has to.
    pub standby: Option<String>,
    /// Whether kubelets' resets are kept from nodes, in words; this one is ready either way.
    pub protection: String,
    /// Whether the API server confines this account, in words; this one is ready either way.
    pub confinement: String,
}

impl Default for Readiness {
    fn default() -> Self {
        Self {
            rules: Some("rules: not listed yet".to_owned()),
            nodes: Some("nodes: not listed yet".to_owned()),
            patches: None,
            lease: None,
            standby: None,
            protection: "unknown: not read yet".to_owned(),
            confinement: String::new(),
        }
    }
}

impl Readiness {
    /// Whether nothing stands in the way.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.reasons().next().is_none()
    }

    /// The same, and what else is to be known.
    #[must_use]
    pub fn verbose(&self) -> String {
        format!("{self}protection: {}\nconfinement: {}\n", self.protection, self.confinement)
    }

    fn reasons(&self) -> impl Iterator<Item = &str> {
        [&self.rules, &self.nodes, &self.patches, &self.lease]
            .into_iter()
            .flatten()
            .map(String::as_str)
    }
}

/// `ready`, with who leads where that is another; or a reason a line.
impl fmt::Display for Readiness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_ready() {
            return match &self.standby {
                Some(standby) => writeln!(f, "ready: {standby}"),
                None => writeln!(f, "ready"),
            };
        }
        self.reasons().try_for_each(|reason| writeln!(f, "{reason}"))
    }
}
