//! Whether the controller has been able to start its work, and if not, why.
//!
//! The controller stays ready when the API server becomes unreachable later: it continues where it was. If the API server
//! responds, but the watch of nodes or of rules stays broken for five minutes, the controller is not ready.

use std::fmt;

use super::effect::Watched;
use super::happening::Happening;
use crate::election::participant::Leadership;

/// Why the controller is not ready; all `None` once rules and nodes are listed, patches succeed, and the Lease is
/// available.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Readiness {
    /// Why the rules are not known: not yet, or their changes not anymore.
    pub rules: Option<String>,
    /// Why the nodes are not known: not yet, or their changes not anymore.
    pub nodes: Option<String>,
    /// Why nodes cannot be patched.
    pub patches: Option<String>,
    /// Why this process can never lead.
    pub lease: Option<String>,
    /// The current leader, if it is another process. A standby is ready too: its cache is complete.
    pub standby: Option<String>,
    /// Whether a policy keeps recorded values when a kubelet resets them, as text; it does not affect readiness.
    pub protection: String,
    /// Whether the API server confines this account, as text; it does not affect readiness.
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
    /// Returns whether the controller is ready.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.reasons().next().is_none()
    }

    /// Returns the reasons, with the state of protection and confinement.
    #[must_use]
    pub fn verbose(&self) -> String {
        format!("{self}protection: {}\nconfinement: {}\n", self.protection, self.confinement)
    }

    /// Follows what has happened. Returns whether that has changed anything.
    pub(crate) fn follow(&mut self, happening: &Happening) -> bool {
        match happening {
            Happening::Leadership(leadership) => {
                let (lease, standby) = match leadership {
                    Leadership::Leader { .. } => (None, None),
                    Leadership::Standby(None) => (None, Some("no leader is elected yet".to_owned())),
                    Leadership::Standby(Some(holder)) => (None, Some(format!("{holder} is the leader"))),
                    Leadership::Unavailable(why) => (Some(why.clone()), None),
                };
                set(&mut self.lease, lease) | set(&mut self.standby, standby)
            }
            Happening::NotReady { watched: Watched::Nodes, why } => set(&mut self.nodes, why.clone()),
            Happening::NotReady { watched: Watched::Rules, why } => set(&mut self.rules, why.clone()),
            Happening::Patches { forbidden } => set(&mut self.patches, forbidden.as_deref().map(str::to_owned)),
            Happening::Protection(state) => set(&mut self.protection, state.to_string()),
            Happening::Confinement(state) => set(&mut self.confinement, state.to_string()),
            _ => false,
        }
    }

    fn reasons(&self) -> impl Iterator<Item = &str> {
        [&self.rules, &self.nodes, &self.patches, &self.lease].into_iter().flatten().map(String::as_str)
    }
}

/// Sets a field. Returns whether that changes it.
fn set<T: PartialEq>(field: &mut T, value: T) -> bool {
    let changes = *field != value;
    *field = value;
    changes
}

/// `ready`, with the leader if it is another process; or one reason per line.
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
