//! What responses of the API server mean, to the program and in words.

pub(crate) mod credentials;
pub mod error;
pub(crate) mod reply;
pub(crate) mod request_error;

use std::time::Duration;

/// The default timeout of a request.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(15);
