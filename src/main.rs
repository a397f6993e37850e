//! The program `node-resource-advertiser`.

use std::process::ExitCode;

use node_resource_advertiser::cli::{Cli, print_message};

fn main() -> ExitCode {
    let cli = Cli::from_process();
    match cli.runtime().enable_all().build() {
        Ok(runtime) => {
            let code = runtime.block_on(cli.run());
            // A slow DNS lookup must not delay the exit.
            runtime.shutdown_background();
            code
        }
        Err(error) => {
            print_message(format_args!("error: cannot start the runtime: {error}"));
            ExitCode::FAILURE
        }
    }
}
