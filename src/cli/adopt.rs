//! `adopt`: rules for the values that nodes have already.

mod render;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use thiserror::Error;

use super::args::ReadArgs;
use super::end::{Failure, Verdict};
use super::message::print_notes;
use super::output::print;
use crate::cluster::client::ConnectError;
use crate::inspect::adopt::proposal::{self, Proposal};
use crate::inspect::adopt::read;
use crate::inspect::adopt::snapshot::{Feature, Snapshot};
use crate::inspect::adopt::survey::{Cause, Filter, Survey};
use crate::inspect::diff::label_filter::LabelFilter;
use crate::model::count::plural;
use crate::model::resource_name::{self, ResourceName};

/// Write rules for the extended resources that nodes have already
///
/// adopt looks for values on nodes that no rule declares: patched by hand or by a script, written by Node Feature
/// Discovery, or by Gardener for virtualCapacity. It prints rules that take them over as they are, selects the nodes by
/// the labels that explain them, and says what it leaves out, such as the values of device plugins. It only reads.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Exits with 0, even if there is nothing to adopt (a note reports it); 1 if nodes cannot be listed; 2 for wrong arguments.

Examples:
  # Write rules, see what they change, and apply them
  node-resource-advertiser adopt > adopted.yaml
  node-resource-advertiser plan -f adopted.yaml
  kubectl apply -f adopted.yaml

  # Only one resource, and only what was patched by hand
  node-resource-advertiser adopt --resource example.com/dongle --from-manager kubectl-patch")]
pub(super) struct Args {
    /// Field manager whose values are adopted, such as kubectl-patch; can be repeated [default: all but kubelets]
    #[arg(long = "from-manager", value_name = "NAME")]
    managers: Vec<String>,
    /// Resource to adopt; can be repeated [default: all]
    #[arg(long = "resource", value_name = "NAME")]
    resources: Vec<ResourceName>,
    /// Label selector of the nodes whose values are adopted, as in kubectl; no rule selects other nodes
    #[arg(short = 'l', long, value_name = "SELECTOR", default_value = "", hide_default_value = true)]
    selector: LabelFilter,
    #[command(flatten)]
    cluster: ReadArgs,
}

/// Why there is no output.
#[derive(Debug, Error)]
enum AdoptError {
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error(transparent)]
    Read(#[from] read::ReadError),
    #[error("cannot print the rules: {0}")]
    Output(#[from] super::error::Error),
}

/// Runs the command.
pub(super) async fn run(args: Args) -> Result<Verdict, Failure> {
    adopt(args).await?;
    Ok(Verdict::Fine)
}

async fn adopt(args: Args) -> Result<(), AdoptError> {
    let Args { managers, resources, selector, cluster } = args;
    let client = cluster.connect().await?.client;
    let snapshot = read::snapshot(&client).await?;
    let filter = Filter { labels: selector, resources, managers };
    let output = Output::new(&snapshot, &filter);
    print_notes(&output.notes);
    Ok(print(&output.yaml)?)
}

/// What is printed.
struct Output {
    yaml: String,
    /// Sentences for standard error, without a period.
    notes: Vec<String>,
}

impl Output {
    fn new(snapshot: &Snapshot, filter: &Filter) -> Self {
        let survey = Survey::new(snapshot, filter);
        let proposals = proposal::proposals(snapshot, &survey);
        let left_out = left_out(snapshot, &survey, filter);
        let yaml = render::yaml(snapshot, &proposals, &left_out);
        let mut notes = snapshot.gaps.clone();
        notes.extend(left_out);
        notes.push(summary(&survey, &proposals, filter));
        Self { yaml, notes }
    }
}

/// Returns what is not adopted and why, by resource.
fn left_out(snapshot: &Snapshot, survey: &Survey, filter: &Filter) -> Vec<String> {
    let values = survey.left_out.iter().map(|((resource, cause), nodes)| {
        let resource = if let Cause::Name(_) = cause { format!("{resource:?}") } else { resource.clone() };
        format!("{resource} on {}: {cause}", render::list(snapshot, nodes))
    });
    let mut sentences: Vec<_> = values.collect();
    for (rule, why) in &snapshot.rules.invalid {
        sentences.push(format!(
            "rule {rule} is invalid, so that it declares nothing ({why}): correct it before you adopt values that it is \
             meant for"
        ));
    }
    let present: BTreeSet<_> = snapshot.nodes.iter().flat_map(|entry| entry.node.resources().into_keys()).collect();
    let is_selected =
        |resource: &str| filter.resources.is_empty() || filter.resources.iter().any(|name| name.as_str() == resource);
    for feature in snapshot.features.iter().filter(|feature| is_selected(&feature.resource)) {
        let Feature { object, resource, value } = feature;
        if !resource_name::is_extended(resource) {
            sentences.push(format!(
                "{resource}, which NodeFeatureRule {object} declares as {value}: no rule can declare the name"
            ));
        } else if !present.contains(resource.as_str()) {
            sentences
                .push(format!("{resource}, which NodeFeatureRule {object} declares as {value}: no node has it now"));
        }
    }
    let others: Vec<_> = survey.other_managers.iter().map(|manager| &**manager).collect();
    if !others.is_empty() {
        sentences
            .push(format!("values of the field managers {}, which --from-manager does not name", others.join(", ")));
    }
    sentences
}

fn summary(survey: &Survey, proposals: &[Proposal<'_>], filter: &Filter) -> String {
    if !proposals.is_empty() {
        let nodes: BTreeSet<_> = survey.groups.values().flat_map(|group| &group.nodes).collect();
        return format!(
            "{} for {} on {}",
            plural(proposals.len(), "rule", "rules"),
            plural(survey.len(), "value", "values"),
            plural(nodes.len(), "node", "nodes"),
        );
    }
    let Filter { labels, resources, managers } = filter;
    match labels.is_empty() && resources.is_empty() && managers.is_empty() {
        true => "nothing to adopt: no node has a value that only waits for a rule".to_owned(),
        false => "nothing to adopt among what --from-manager, --resource and -l select".to_owned(),
    }
}
