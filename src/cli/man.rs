//! `man`: writes the manual pages.

use std::path::PathBuf;

use super::error::Error;

/// Write the manual pages, one for each command
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Folder that exists
    folder: PathBuf,
}

pub(super) fn run(args: &Args, command: clap::Command) -> Result<(), Error> {
    let result = clap_mangen::generate_to(command, &args.folder);
    result.map_err(|source| Error::ManualPages { folder: args.folder.clone(), source })
}
