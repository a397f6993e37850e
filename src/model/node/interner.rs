//! What many nodes share.

use std::sync::Arc;

use super::conditions::Conditions;
use super::facts::FactNames;
use super::field_managers::ResourceManagers;
use super::resources::Amount;
use crate::model::pool::Pool;

/// What many nodes share, each kept once: most labels, ledgers, quantities, and the names of field managers.
#[derive(Clone, Debug, Default)]
pub struct Interner {
    pub(super) strings: Pool<str>,
    pub(super) labels: Pool<[Arc<str>]>,
    pub(super) managers: Pool<[ResourceManagers]>,
    pub(super) resources: Pool<[Amount]>,
    /// What is kept of nodes besides.
    pub(super) facts: Arc<FactNames>,
    pub(super) conditions: Pool<Conditions>,
    pub(super) keeps_conditions: bool,
}

impl Interner {
    /// Returns one that keeps these facts of nodes.
    #[must_use]
    pub fn keeping(facts: FactNames) -> Self {
        Self { facts: Arc::new(facts), ..Self::default() }
    }

    /// Returns one that also keeps conditions, for a controller that writes one.
    #[must_use]
    pub(crate) fn keeping_conditions(keeps_conditions: bool) -> Self {
        Self { keeps_conditions, ..Self::default() }
    }

    /// Keeps these facts of nodes that are read from now on.
    pub fn keep(&mut self, facts: FactNames) {
        self.facts = Arc::new(facts);
    }

    /// Returns the facts that are kept.
    #[must_use]
    pub fn kept(&self) -> &FactNames {
        &self.facts
    }
}
