//! The domain: the custom resource, quantities, names, labels, the ledger, nodes and pods, and the formatting of
//! counts.
//!
//! No I/O and no clock.

pub mod api;
pub mod compute;
pub mod count;
pub mod label;
pub mod ledger;
pub mod node;
pub mod pod;
pub(crate) mod pool;
pub mod quantity;
pub mod resource_name;
pub mod resource_version;
pub mod spelling;
