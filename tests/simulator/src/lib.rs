//! A model of the Kubernetes API server, as far as this project uses it: objects with versions, lists, watches,
//! JSON Patch and merge patch, the status subresource, and errors.
//!
//! ```text
//!  actors, reconciler ─▶ ApiServer ─▶ strategy (per kind) ─▶ Store (every version of every object)
//!                            │                                 ▲
//!                            └─ list, Watch ───────────────────┘
//! ```
//!
//! The model does not depend on the code under test, has no clock except [`ApiServer::set_time`], and no randomness.
//! The sender decides the fate of a request: it does not make a lost request, and makes a late one later. [`Network`]
//! does this for HTTP clients, on tokio's clock. `tests/conformance` sends the same operations to the model and to a
//! real server, and compares the results.

mod change;
mod chaos;
mod checks;
mod condition;
mod failure;
mod fate;
mod fields;
mod http;
pub mod invariants;
pub mod json_patch;
mod kind;
mod ledger;
mod list;
mod node;
pub mod pods;
pub mod protobuf;
mod quantity;
mod rules;
pub mod seeds;
mod selector;
mod server;
mod service;
mod store;
mod strategy;
mod stream;
mod watch;

pub use chaos::Chaos;
pub use failure::Failure;
pub use fate::{Fate, Fates, Flaw, WatchEnd};
pub use http::{Answer, Call, Verb, not_served, plain_text};
pub use kind::{Key, Kind};
pub use list::{List, ListOptions};
pub use seeds::{Outcome, Seeds};
pub use selector::Selector;
pub use server::{ApiServer, PatchBody, Subresource, Writer};
pub use service::{Connection, Network, ResponseBody, Write};
pub use watch::{Watch, WatchEvent};
