//! `crd`: prints the CustomResourceDefinition, or its JSON Schema.

use super::error::Error;
use super::output::print;
use crate::model::api;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// What is printed: the CRD, or the JSON Schema of its objects, for tools that know no CRDs.
    #[arg(short, long, value_enum, default_value = "yaml")]
    output: Output,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Output {
    Yaml,
    JsonSchema,
}

pub(super) fn run(args: &Args) -> Result<(), Error> {
    let crd = api::crd();
    print(&match args.output {
        Output::Yaml => {
            serde_saphyr::to_string(&crd).map_err(|error| Error::Yaml(error.to_string()))?
        }
        Output::JsonSchema => {
            let schema = api::json_schema(&crd, api::VERSION).unwrap_or_default();
            format!("{schema:#}\n")
        }
    })
}
