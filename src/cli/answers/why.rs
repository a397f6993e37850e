//! `why`: why pods have no node, as far as extended resources decide it.

mod asked;
mod causes;
mod conclusion;
mod diagnosis;
mod filters;
mod question;
mod rows;

use kube::Client;

use super::answer::{Answer, AnswerError, Common, next_change};
use super::pod::Subject;
use crate::cli::end;
use crate::cli::table::Row;
use crate::inspect::inventory::why::Counted;
use crate::inspect::inventory::{Inventory, leader};
use asked::{AskedArgs, AskedPods};
use causes::Causes;
use diagnosis::{Outcome, Verdict, Why};
pub use filters::why_filters;
use question::Question;

/// Show why pods are Pending, as far as extended resources decide it
///
/// Without a name, why groups the pods of the namespace that wait for a node by what keeps them waiting, and names the
/// workloads whose pods cannot be created. With the name of a workload, it does so for its pods.
///
/// For each node that one pod may use, by its nodeSelector, node affinity and tolerations, why shows whether it has
/// enough of what the pod requests, and if not, which pods use it, or which rule would provide it and why it does not.
/// It looks at cpu and memory too. It ends with one conclusion and one thing to do, and prints the scheduler's own
/// message, which is about everything else as well: volumes, topology, other pods. why does not look at those.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Exits with 0 if extended resources do not keep pods Pending, 1 if they do, 2 on an error, and 3 if it is unknown. With \
-l, that is about the selected nodes only.

Examples:
  # Why do pods of the current namespace wait for a node?
  node-resource-advertiser why

  # Why has the pod train-1 no node? Node by node
  node-resource-advertiser why train-1

  # Wait until the pods of a Deployment fit
  node-resource-advertiser why deployment/web -w

  # The same for a pod that kubectl has printed
  kubectl get pods -n team-a -o name | xargs -n1 node-resource-advertiser why -n team-a")]
pub(crate) struct Args {
    #[command(flatten)]
    asked: AskedArgs,
    /// Answer again each time that the answer changes, at most once per second, until the pods fit
    ///
    /// A pod fits when a node that it may use has enough, or when it waits no longer.
    #[arg(short, long)]
    watch: bool,
    #[command(flatten)]
    common: Common,
}

/// Runs the command.
pub(crate) async fn run(args: Args) -> Result<end::Verdict, end::Failure> {
    Ok(print_why(&args).await?.verdict())
}

/// What was answered: about one pod, or about many.
enum Found {
    One(Box<Why>),
    Many(Causes),
}

async fn print_why(args: &Args) -> Result<Outcome, AnswerError> {
    let client = args.common.connect().await?;
    let asked = args.asked.asked(client.default_namespace())?;
    if !args.watch {
        let pods = asked.read(&client).await?;
        let inventory = args.common.read_around_pod(&client).await?;
        let (found, gaps) = answer(&client, pods, inventory).await?;
        match &found {
            Found::One(why) => args.common.print(&**why, &gaps)?,
            Found::Many(causes) => args.common.print(causes, &gaps)?,
        }
        return Ok(found.outcome());
    }
    let mut follower = args.common.follow(&client).await?;
    let mut printer = args.common.printer();
    loop {
        let pods = asked.read(&client).await?;
        let (found, gaps) = answer(&client, pods, follower.inventory()?).await?;
        let is_open = match &found {
            Found::One(why) => printer.show(&**why, &gaps)?,
            Found::Many(causes) => printer.show(causes, &gaps)?,
        };
        let outcome = found.outcome();
        if !is_open || outcome.fits {
            return Ok(outcome);
        }
        next_change(&mut follower).await?;
    }
}

/// Answers about the pods that were asked about.
async fn answer(
    client: &Client,
    pods: AskedPods,
    mut inventory: Inventory,
) -> Result<(Found, Vec<String>), AnswerError> {
    let group = match pods {
        AskedPods::One(pod) => {
            let subject = Subject::of(pod, inventory, client).await?;
            let mut why = explain(&subject, None);
            if why.awaits_controller() {
                why = explain(&subject, leader::leads(client).await);
            }
            return Ok((Found::One(Box::new(why)), subject.inventory.gaps));
        }
        AskedPods::Group(group) => group.listed_in(&inventory),
    };
    let gaps = std::mem::take(&mut inventory.gaps).into_iter().chain(group.gap.clone()).collect();
    let counted = Counted::new(&inventory);
    let mut causes = Causes::new(&counted, &group, None);
    if causes.awaits_controller {
        causes = Causes::new(&counted, &group, leader::leads(client).await);
    }
    Ok((Found::Many(causes), gaps))
}

impl Found {
    fn outcome(&self) -> Outcome {
        match self {
            Self::One(why) => {
                let mut outcome = Outcome::of([why.verdict]);
                outcome.fits &= !why.lacks_compute();
                outcome
            }
            Self::Many(causes) => {
                let mut outcome = Outcome::of(causes.verdicts());
                outcome.fits &= !causes.lack_compute && !causes.is_short();
                outcome.is_unknown |= causes.lack_workloads;
                outcome
            }
        }
    }
}

/// Answers for a pod. `leads` is whether a controller leads, if that is known.
fn explain(subject: &Subject, leads: Option<bool>) -> Why {
    let Subject { pod, placement, inventory } = subject;
    Question { counted: &Counted::new(inventory), pod, placement }.explain(leads)
}

impl Answer for Why {
    const KIND: &'static str = "PodDiagnosis";

    fn table(&self, is_wide: bool) -> (Vec<&'static str>, Vec<Row>) {
        (vec!["NODE", "ANSWER", "REASON"], rows::rows(&self.nodes, is_wide))
    }

    fn names(&self) -> Vec<String> {
        let enough = self.nodes.iter().filter(|node| node.takes());
        enough.map(|node| format!("node/{}", node.node)).collect()
    }

    fn remarks(&self) -> Vec<String> {
        let mut remarks = vec![self.explanation.clone()];
        remarks.extend(self.fix.iter().map(|fix| format!("Fix: {fix}")));
        if self.verdict != Verdict::NotWaiting {
            remarks.extend(self.requests.iter().filter_map(|request| request.sentence()));
        }
        remarks.extend(self.nominated_node.iter().map(|node| {
            format!("The scheduler has nominated the pod for node {node}, where it waits for other pods to end")
        }));
        remarks.extend(self.message.iter().map(|message| format!("The scheduler says: {message}")));
        if self.verdict == Verdict::NotEnough && self.message.is_some() && !self.scheduler_saw_less() {
            remarks.push(
                "The scheduler names none of these resources: it has rejected the nodes for another reason first, or \
                 ignores the resources (ignoredResources, an extender)"
                    .to_owned(),
            );
        }
        if self.verdict == Verdict::Enough {
            remarks.push(
                "Not looked at: ephemeral storage, huge pages, host ports, volumes, topology and affinity to other pods"
                    .to_owned(),
            );
        }
        if self.verdict != Verdict::NotWaiting {
            let classes = self.device_classes.iter();
            remarks.extend(classes.map(|class| format!("Not looked at: DeviceClass {class}, which DRA provides")));
        }
        remarks
    }
}

#[cfg(test)]
mod tests;
