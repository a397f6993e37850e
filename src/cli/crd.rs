//! `crd`: prints the CustomResourceDefinition.

use std::io::{ErrorKind, Write as _};

use crate::api;
use crate::error::Error;

pub(super) fn run() -> Result<(), Error> {
    let yaml =
        serde_saphyr::to_string(&api::crd()).map_err(|error| Error::Yaml(error.to_string()))?;
    match std::io::stdout().write_all(yaml.as_bytes()) {
        // A reader that has seen enough (`| head`) is no error.
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(Error::Output(error)),
        _ => Ok(()),
    }
}
