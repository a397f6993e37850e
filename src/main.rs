//! The program `node-resource-advertiser`.

use std::process::ExitCode;

use node_resource_advertiser::cli::{Cli, Error, print_message};

fn main() -> ExitCode {
    match run(Cli::from_process()) {
        Ok(code) => code,
        Err(error) => {
            print_message(format_args!("error: {error}"));
            ExitCode::FAILURE
        }
    }
}

fn run(cli: Cli) -> Result<ExitCode, Error> {
    let runtime = cli.runtime().enable_all().build().map_err(Error::Runtime)?;
    let result = runtime.block_on(cli.run());
    // A slow DNS lookup must not delay the exit.
    runtime.shutdown_background();
    result
}
