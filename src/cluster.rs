//! Requests to the API server.

pub(crate) mod bounded_pages;
mod certificates;
pub mod client;
pub(crate) mod clock;
pub mod config;
mod connector;
mod exec;
pub mod lease;
pub(crate) mod node_client;
pub(crate) mod optional_watch;
pub(crate) mod paging;
mod patience;
pub mod protobuf;
pub(crate) mod requests;
pub(crate) mod stored;
mod transport;
pub(crate) mod watch;
pub(crate) mod watch_body;
