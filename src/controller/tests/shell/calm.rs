//! The end: nothing goes wrong any more, and the cluster becomes as it is declared, and silent.

use simulator::invariants::{Calm, conditions, due_status};
use simulator::{ApiServer, Kind};
use tokio::time::sleep;

use super::actors::{all, name};
use super::world::World;
use super::*;
use crate::model::api::NodeExtendedResource;
use crate::model::node::{Interner, Node};
use crate::model::pod::{NodeRequests, PodList, Requests};
use crate::planner::input::{NewValues, PlanningInput, PodUsage};
use crate::planner::rules::{Rule, RuleSet};
use crate::planner::{self, NodePlan, Outcome as NodeOutcome};

/// Within so long everything is as declared: pauses after failures grow to two minutes, those of a contest to five, and
/// what a cluster does not serve is looked for every five.
const MAX_SETTLING: Duration = Duration::from_secs(25 * 60);
/// For so long it is quiet then.
const QUIET: Duration = Duration::from_secs(10 * 60);

impl World {
    pub(super) async fn calm(&mut self) -> Result<(), String> {
        self.heal();
        let end = Instant::now() + MAX_SETTLING;
        let keeps_condition = self.options.node_condition;
        let unconverged = |api: &ApiServer| unconverged(api).and_then(|()| wrong_condition(api, keeps_condition));
        while let Err(why) = self.network.read(unconverged) {
            self.monitor.check()?;
            if end < Instant::now() {
                return Err(format!("after {MAX_SETTLING:?} {why}"));
            }
            self.tick_kubelets();
            sleep(Duration::from_secs(10)).await;
        }
        self.network.note("all is as declared");
        // Until every pause of what has failed before is over.
        sleep(Duration::from_secs(6 * 60)).await;
        let (before, version) = (self.network.log().len(), self.network.read(ApiServer::version));
        self.network.note("from now on it is quiet");
        for _ in 0..QUIET.as_secs() / 10 {
            sleep(Duration::from_secs(10)).await;
            self.network.read(unconverged)?;
        }
        self.monitor.check()?;
        let log = self.network.log();
        let renewals = log[before..].iter().filter(|line| line.contains(": replace leases/lease "));
        let renewals = renewals.count();
        let is_held = self.network.read(|api| {
            plans(api)
                .iter()
                .flat_map(|(_, plan)| plan.outcomes.clone())
                .any(|(_, outcome)| matches!(outcome, NodeOutcome::Held { .. }))
        });
        let is_test = |line: &str| line.contains(" (dry run)");
        let tests = log[before..].iter().filter(|line| is_test(line)).count() as u64;
        let is_tested = self.options.confinement_test && !self.network.read(|api| all(api, Kind::Node)).is_empty();
        let due = if is_tested { QUIET.as_secs() / 60 } else { 0 };
        if tests.abs_diff(due) > 1 || due == 0 && tests > 0 {
            return Err(format!("{tests} tests of the confinement in {QUIET:?}"));
        }
        let is_quiet = |line: &&String| {
            let is_held_list = is_held && line.contains(": list pods");
            line.contains(": replace leases/lease ") || line.contains(": watch ") || is_test(line) || is_held_list
        };
        if let Some(noise) = log[before + 1..].iter().find(|line| !is_quiet(line)) {
            return Err(format!("it is not quiet: {noise}"));
        }
        let written = self.network.read(ApiServer::version) - version;
        if written != renewals as u64 || renewals as u64 > QUIET.as_secs() / 4 || renewals < 100 {
            return Err(format!("{written} writes, {renewals} of them renewals of the lease"));
        }
        Ok(())
    }
}

/// What is to be done on each node by the rules and the pods that there are.
fn plans(api: &ApiServer) -> Vec<(String, NodePlan)> {
    let rules = all(api, Kind::Rule);
    let rules = rules.iter().map(|rule| {
        let rule: NodeExtendedResource = serde_json::from_value((**rule).clone()).unwrap();
        Arc::new(Rule::new(&rule).unwrap())
    });
    let rules = RuleSet::new(rules, []);
    let plan = |node: &Arc<Value>| {
        let pods = all(api, Kind::Pod).into_iter();
        let here = pods.filter(|pod| pod["spec"]["nodeName"] == node["metadata"]["name"]);
        let items: Vec<_> = here.map(|pod| (*pod).clone()).collect();
        let pods: PodList = serde_json::from_value(json!({ "items": items })).unwrap();
        // What a lost leader has lowered is raised for started pods only once they are watched.
        let pods = NodeRequests { started: Requests::default(), ..NodeRequests::from_pods(&pods) };
        let input =
            PlanningInput { pods: PodUsage::Known(pods), new_values: NewValues::Check, ..PlanningInput::default() };
        let name = name(node);
        let node = serde_json::from_value((**node).clone()).unwrap();
        (name, planner::plan(&Node::new(node, &mut Interner::default()), &rules, &input))
    };
    all(api, Kind::Node).iter().map(plan).collect()
}

/// How the condition of a node is not what the rules and its values ask for.
fn wrong_condition(api: &ApiServer, is_kept: bool) -> Result<(), String> {
    let rules = all(api, Kind::Rule);
    for node in all(api, Kind::Node) {
        let due = due_status(&rules, &node, &node["metadata"]["labels"]).filter(|_| is_kept);
        let own: Vec<_> = conditions(&node).into_iter().map(|own| own["status"].as_str().unwrap_or_default()).collect();
        if own != Vec::from_iter(due) {
            return Err(format!("the condition of {} is {own:?}, not {due:?}", name(&node)));
        }
    }
    Ok(())
}

/// Why not everything is as declared.
fn unconverged(api: &ApiServer) -> Result<(), String> {
    let plans = plans(api);
    for (node, plan) in &plans {
        if !plan.changes().is_empty() {
            return Err(format!("{node} is not as declared: {:?}", plan.changes()));
        }
    }
    // And apart from what plans.
    let [rules, nodes, pods] = [Kind::Rule, Kind::Node, Kind::Pod].map(|kind| all(api, kind));
    Calm { rules, nodes, pods }.check(|_, _| false)?;
    for rule in all(api, Kind::Rule) {
        let name = name(&rule);
        let of_rule = |plan: &NodePlan| {
            let outcome = plan.outcomes.iter().find(|(rule, _)| **rule == *name);
            outcome.map(|(_, outcome)| outcome.clone())
        };
        let outcomes: Vec<_> = plans.iter().filter_map(|(_, plan)| of_rule(plan)).collect();
        let advertised = outcomes.iter().filter(|outcome| **outcome == NodeOutcome::Advertised);
        let summary = format!("{}/{}", advertised.count(), outcomes.len());
        let status = &rule["status"];
        if status["observedGeneration"] != rule["metadata"]["generation"]
            || status["nodes"]["summary"] != summary.as_str()
        {
            return Err(format!("the status of {name} is not {summary}: {status}"));
        }
        // Nobody reverts anything any more.
        let conditions = status["conditions"].as_array().into_iter().flatten();
        let mut contested = conditions.filter(|condition| condition["type"] == "Contested");
        if contested.any(|contested| contested["status"] == "True") {
            return Err(format!("{name} is contested: {status}"));
        }
    }
    Ok(())
}
