//! The program `node-resource-advertiser`: arguments, and out.

use std::process::ExitCode;

use node_resource_advertiser::cli::Cli;
use node_resource_advertiser::cli::Error;

fn main() -> ExitCode {
    match run(Cli::from_process()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: Cli) -> Result<ExitCode, Error> {
    let runtime = cli.runtime().enable_all().build().map_err(Error::Runtime)?;
    let result = runtime.block_on(cli.run());
    // A name that DNS takes its time over must not hold up the end.
    runtime.shutdown_background();
    result
}
