//! `guard`: admission policies that make pods of a kind count.

mod error;
mod policies;
mod selector;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use super::end::{Failure, Verdict};
use super::message::print_notes;
use super::output::print;
use super::rule_files::{self, RuleFiles};
use crate::inspect::diff::label_filter::LabelFilter;
use crate::model::quantity::{MAX_QUANTITY, Quantity};
use crate::planner::rules::Rule;
use error::GuardError;
use policies::{Adding, Guard};

/// Print admission policies that make pods of a kind request a resource
///
/// The scheduler counts only pods that request the resource. The first policy adds the request to pods with the given
/// labels when they are created, unless they state their own; the second one rejects such pods if they request nothing
/// all the same, or name their node, past the scheduler. Templates of workloads stay as they are. This command reads
/// the rules from files, changes nothing, and needs no cluster: apply what it prints, or commit it.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Args {
    #[command(flatten)]
    files: RuleFiles,
    /// The pods: a label selector in kubectl's syntax
    #[arg(long, value_name = "SELECTOR")]
    pods: LabelFilter,
    /// Their namespaces: a label selector [default: all but kube-system]
    #[arg(long, value_name = "SELECTOR", default_value = "", hide_default_value = true)]
    namespaces: LabelFilter,
    /// The resource, if the rules declare several
    #[arg(long, value_name = "NAME")]
    resource: Option<String>,
    /// What one pod counts, unless it requests another amount itself
    #[arg(long, value_name = "QUANTITY", default_value = "1")]
    quantity: Quantity,
    /// Name of the policies [default: guard-, the resource, the labels, and a checksum of them]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Print a MutatingPolicy of Kyverno as the first policy, for Kubernetes 1.30 to 1.35 with Kyverno 1.17 or later
    #[arg(long)]
    kyverno: bool,
    /// Print only the policy that rejects pods, for Kubernetes 1.30 to 1.35: templates have to state the request
    #[arg(long, conflicts_with = "kyverno")]
    reject_only: bool,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Format::Yaml)]
    output: Format,
}

/// An output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// YAML
    Yaml,
    /// JSON
    Json,
}

const AFTER_HELP: &str = "\
Needs Kubernetes 1.36, or with --kyverno or --reject-only 1.30. Exits with 0 if the policies are printed, and 2 on an error.

Examples:
  # Count each pod of these workloads as one slot
  node-resource-advertiser guard -f rules/ --pods 'app=renderer,size!=large' | kubectl apply -f -

  # Two slots for each large one, which no other guard of the resource may select
  node-resource-advertiser guard -f rules/ --pods 'app=renderer,size=large' --quantity 2 | kubectl apply -f -

  # Only in the namespaces of one team
  node-resource-advertiser guard -f rules/ --pods app=encoder --namespaces team=media --name guard-media";

/// Runs the command.
pub(super) fn run(args: &Args) -> Result<Verdict, Failure> {
    answer(args)?;
    Ok(Verdict::Fine)
}

fn answer(args: &Args) -> Result<(), GuardError> {
    let rules = rule_files::read(&args.files.inputs())?;
    let guard = args.guard(&rules)?;
    let objects = guard.objects(args.adding());
    let rendered = match args.output {
        Format::Yaml => {
            let documents = objects.iter().map(serde_saphyr::to_string).collect::<Result<Vec<_>, _>>();
            documents.map(|documents| documents.join("---\n")).map_err(|error| error.to_string())
        }
        Format::Json => {
            let list = serde_json::json!({"apiVersion": "v1", "kind": "List", "items": objects});
            serde_json::to_string_pretty(&list).map(|text| text + "\n").map_err(|error| error.to_string())
        }
    };
    print(&rendered.map_err(GuardError::Render)?)?;
    print_notes(&guard.notes(&rules));
    Ok(())
}

impl Args {
    fn adding(&self) -> Adding {
        match (self.kyverno, self.reject_only) {
            (true, _) => Adding::Kyverno,
            (false, true) => Adding::Template,
            (false, false) => Adding::Kubernetes,
        }
    }

    /// Returns what is asked for, if it can work.
    fn guard(&self, rules: &[Rule]) -> Result<Guard, GuardError> {
        let resource = self.resource_of(rules)?;
        let quantity = self.quantity.whole().filter(|quantity| (1..=i128::from(MAX_QUANTITY)).contains(quantity));
        let quantity = quantity.ok_or_else(|| GuardError::Quantity(self.quantity.to_string()))?;
        selector::check_pods(&self.pods)?;
        selector::check_namespaces(&self.namespaces)?;
        let name = self.name.clone().unwrap_or_else(|| policies::default_name(&resource, &self.pods, &self.namespaces));
        if !crate::model::label::is_dns_subdomain(&name) {
            return Err(GuardError::Name(name));
        }
        let (pods, namespaces) = (self.pods.clone(), self.namespaces.clone());
        Ok(Guard { name, resource, quantity, pods, namespaces })
    }

    /// Returns the resource that is named, or the only one.
    fn resource_of(&self, rules: &[Rule]) -> Result<String, GuardError> {
        let declared: BTreeSet<&str> = rules.iter().map(|rule| rule.resource.as_str()).collect();
        match (&self.resource, declared.len()) {
            (Some(name), _) if declared.contains(&**name) => Ok(name.clone()),
            (None, 1) => Ok(declared.into_iter().collect()),
            (name, _) => {
                let declared = declared.into_iter().map(str::to_owned).collect();
                Err(name.clone().map_or(GuardError::Several { declared: Vec::clone(&declared) }, |name| {
                    GuardError::Undeclared { name, declared }
                }))
            }
        }
    }
}
