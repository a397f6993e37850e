//! `crd`: prints the CustomResourceDefinition, or its JSON Schema.

use super::error::Error;
use super::output::print;
use crate::model::api;

/// Print the CustomResourceDefinition, or the JSON Schema of its objects
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Output format
    #[arg(short, long, value_enum, default_value = "yaml")]
    output: Output,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Output {
    /// The CustomResourceDefinition
    Yaml,
    /// The JSON Schema of its objects, for tools that do not read CRDs
    JsonSchema,
}

const EXAMPLES: &str = "\
Examples:
  # Install the CustomResourceDefinition
  node-resource-advertiser crd | kubectl apply -f -

  # Save the JSON Schema for an editor
  node-resource-advertiser crd -o json-schema > nodeextendedresource_v1alpha1.json";

pub(super) fn run(args: &Args) -> Result<(), Error> {
    let crd = api::crd();
    print(&match args.output {
        Output::Yaml => serde_saphyr::to_string(&crd).map_err(|error| Error::Yaml(error.to_string()))?,
        Output::JsonSchema => {
            let schema = api::json_schema(&crd, api::VERSION).unwrap_or_default();
            format!("{schema:#}\n")
        }
    })
}
