//! The program `node-resource-advertiser`: arguments, and out.

use std::process::ExitCode;

use clap::Parser;
use node_resource_advertiser::cli::Cli;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match Cli::parse().run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
