//! `autoscaler`: what an autoscaler must know of the nodes that it has not created yet.
//!
//! ```text
//! rules of files ─┬▶ overlays: one NodeOverlay per rule, for Karpenter ───────────────┬▶ render ─▶ output
//!                 └▶ group: the planner's result for a node with these labels ─▶ forms ┴▶ check ─▶ differences
//! ```
//!
//! What an autoscaler has no way to express is reported, and never left out without a word.

mod check;
mod error;
mod forms;
mod group;
mod render;
mod tags;

use std::path::PathBuf;
use std::sync::Arc;

use super::args::ReadArgs;
use super::end::{Failure, Verdict};
use super::message::{print_message, print_notes};
use super::output::print;
use super::rule_files::{self, RuleFiles};
use crate::inspect::overlays::difference::Comparison;
use crate::inspect::overlays::label_keys::TemplateLabels;
use crate::inspect::overlays::{Overlays, compare};
use crate::model::label::printable;
use crate::planner::rules::RuleSet;
use check::{groups, sources};
use error::AutoscalerError;
use forms::Form;
use group::{Group, NodeLabels};
use render::Format;
use tags::Tags;

/// Print what an autoscaler must know of nodes that do not exist yet
///
/// An autoscaler that has no node of a group to look at does not know the resources that the controller will advertise
/// there. This command reads rules from files, and prints the resources in the form that the autoscaler reads: for
/// Karpenter one NodeOverlay per rule, or per quantity of its table, and for the others what belongs to one node group,
/// whose nodes have the labels in --labels. It changes nothing, and needs no cluster except for --check-cluster.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Args {
    #[command(flatten)]
    files: RuleFiles,
    /// The autoscaler, and for Cluster Autoscaler its cloud provider
    #[arg(long = "for", value_name = "AUTOSCALER", value_enum)]
    target: Target,
    /// Labels of every node in the group: KEY=VALUE, separated by commas; not for karpenter
    #[arg(long, value_name = "LABELS")]
    labels: Option<NodeLabels>,
    /// Name of the group: an Auto Scaling group, scale set, node pool, worker pool, or MachineDeployment
    /// ([NAMESPACE/]NAME); not for karpenter
    #[arg(long, value_name = "NAME")]
    group: Option<String>,
    /// Compare with what is in this file instead, or - for standard input
    ///
    /// karpenter: NodeOverlays. cluster-api: MachineDeployments, MachinePools or MachineSets. gardener: a Shoot. aws:
    /// what `aws autoscaling describe-tags` or `describe-auto-scaling-groups` prints, or `aws eks describe-nodegroup`.
    /// azure: what `az vmss show` or `list` prints, or only its tags. gke: what `gcloud container node-pools describe
    /// --format=json` or `clusters describe` prints, or only its labels. For karpenter, cluster-api and gardener, it can
    /// be a folder too, for which -R and --exclude count as for those in -f.
    #[arg(long, value_name = "FILE")]
    check: Option<PathBuf>,
    /// Compare with what is in the cluster instead: for karpenter and cluster-api
    #[arg(long, conflicts_with = "check")]
    check_cluster: bool,
    /// Output format [default: yaml for karpenter and gardener, otherwise text; for a comparison text]
    #[arg(short, long, value_enum)]
    output: Option<Format>,
    #[command(flatten)]
    cluster: ReadArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Target {
    /// Karpenter: NodeOverlays
    Karpenter,
    /// Cluster Autoscaler on AWS: tags of an Auto Scaling group
    Aws,
    /// Cluster Autoscaler on Azure: tags of a virtual machine scale set
    Azure,
    /// Cluster Autoscaler on GKE: labels of a node pool
    Gke,
    /// Cluster Autoscaler with Cluster API: annotations of a MachineDeployment, MachinePool or MachineSet
    ClusterApi,
    /// Gardener: virtualCapacity of a worker pool
    Gardener,
}

const AFTER_HELP: &str = "\
Exits with 0 if everything is expressed, and with --check or --check-cluster if there is no difference; 1 if something
cannot be expressed, which standard error names, or if there are differences; and 2 on an error.

Examples:
  # Apply the NodeOverlays of all rules
  node-resource-advertiser autoscaler -f rules/ --for karpenter | kubectl apply -f -

  # The same for the rules of the cluster
  kubectl get ner -o yaml | node-resource-advertiser autoscaler -f - --for karpenter

  # Fail a pipeline if the NodeOverlays of the cluster differ from the rules
  node-resource-advertiser autoscaler -f rules/ --for karpenter --check-cluster

  # Tag an Auto Scaling group
  node-resource-advertiser autoscaler -f rules/ --for aws --group workers --labels pool=big -o json > tags.json
  aws autoscaling create-or-update-tags --tags file://tags.json";

/// Runs the command.
pub(super) async fn run(args: Args) -> Result<Verdict, Failure> {
    Ok(if answer(&args).await? { Verdict::Fine } else { Verdict::Found })
}

/// Prints what was asked for, and returns whether everything is expressed and as declared.
async fn answer(args: &Args) -> Result<bool, AutoscalerError> {
    args.check_combination()?;
    let mut templates = TemplateLabels::default();
    let rules = rule_files::read_beside(&args.files.inputs(), &mut |document| templates.add(&document.value))?;
    let rules = RuleSet::new(rules.into_iter().map(Arc::new), []);
    match args.target.form() {
        None => args.of_karpenter(&rules, &templates).await,
        Some(form) => args.of_group(form, &rules).await,
    }
}

impl Target {
    /// Returns the form of the values of a group; `None` if the autoscaler knows no groups.
    fn form(self) -> Option<Form> {
        Some(match self {
            Self::Karpenter => return None,
            Self::Aws => Form::Tags(Tags::Aws),
            Self::Azure => Form::Tags(Tags::Azure),
            Self::Gke => Form::Tags(Tags::Gke),
            Self::ClusterApi => Form::ClusterApi,
            Self::Gardener => Form::Gardener,
        })
    }
}

impl Args {
    fn compares(&self) -> bool {
        self.check.is_some() || self.check_cluster
    }

    /// Rejects arguments that have no meaning together, which clap cannot know.
    fn check_combination(&self) -> Result<(), AutoscalerError> {
        let is_karpenter = self.target == Target::Karpenter;
        let problem = if is_karpenter && (self.labels.is_some() || self.group.is_some()) {
            "--labels and --group are not for karpenter: each rule has a NodeOverlay, whatever the nodes"
        } else if !is_karpenter && self.labels.is_none() {
            "give the labels that every node of the group has with --labels, or --labels= if they have none"
        } else if self.check_cluster && !matches!(self.target, Target::Karpenter | Target::ClusterApi) {
            "--check-cluster is for karpenter and cluster-api: give a file with --check"
        } else if is_karpenter && self.output == Some(Format::Text) && !self.compares() {
            "--for karpenter has no format text: use -o yaml or json"
        } else if self.files.paths.iter().chain(&self.check).filter(|path| path.as_os_str() == "-").count() > 1 {
            "standard input (-) can be given only once, for -f or --check"
        } else {
            return Ok(());
        };
        Err(AutoscalerError::Arguments(problem.to_owned()))
    }

    async fn of_karpenter(&self, rules: &RuleSet, templates: &TemplateLabels) -> Result<bool, AutoscalerError> {
        let Overlays { overlays, unexpressed, notes } = Overlays::new(rules, templates);
        let unexpressed: Vec<_> = unexpressed.into_values().collect();
        let found = match &self.check {
            Some(path) => sources::overlays(path, &self.files.inputs())?,
            None if self.check_cluster => {
                sources::cluster_overlays(&self.cluster.connect_and_print().await?.client).await?
            }
            None => {
                let text = render::objects(&overlays, self.output.unwrap_or(Format::Yaml))?;
                return finish(&text, &notes, &unexpressed, true);
            }
        };
        let comparison = compare::compare(&overlays, &found);
        self.finish_comparison(&comparison, &notes, &unexpressed)
    }

    async fn of_group(&self, form: Form, rules: &RuleSet) -> Result<bool, AutoscalerError> {
        let group = Group::new(rules, &self.labels.clone().unwrap_or_default());
        let name = self.group.as_deref();
        let unexpressed = [form.express(&group.values).unexpressed, group.problems.clone()].concat();
        let mut notes = group.notes.clone();
        let found = match &self.check {
            Some(path) => sources::pairs(form, path, &self.files.inputs(), name)?,
            None if self.check_cluster => {
                sources::cluster_machines(&self.cluster.connect_and_print().await?.client, name).await?
            }
            None => {
                let format = self.output.unwrap_or_else(|| form.default_format());
                let text = form.render(&group, name, format)?;
                if form == Form::Gardener && !group.values.is_empty() {
                    notes.push(TWO_WRITERS.to_owned());
                }
                return finish(&text, &notes, &unexpressed, true);
            }
        };
        let comparison = groups::compare(form, &group, &found);
        notes.extend(comparison.notes.iter().cloned());
        self.finish_comparison(&comparison, &notes, &unexpressed)
    }

    fn finish_comparison(
        &self,
        comparison: &Comparison,
        notes: &[String],
        unexpressed: &[String],
    ) -> Result<bool, AutoscalerError> {
        let text = check::text(comparison, unexpressed, self.output.unwrap_or(Format::Text))?;
        finish(&text, notes, unexpressed, comparison.differences.is_empty())
    }
}

const TWO_WRITERS: &str = "Gardener writes virtualCapacity to the nodes too: exclude them from the rule, or give the \
                           rule conflictPolicy: Overwrite and keep the two quantities equal";

/// Prints data to standard output and the rest to standard error, and returns whether nothing is wrong.
fn finish(text: &str, notes: &[String], unexpressed: &[String], is_same: bool) -> Result<bool, AutoscalerError> {
    print(text)?;
    print_notes(notes);
    unexpressed.iter().for_each(|why| print_message(format_args!("error: {}", printable(why))));
    Ok(is_same && unexpressed.is_empty())
}
