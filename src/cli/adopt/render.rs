//! The rules as YAML, with comments that explain them. Pure.

use std::fmt::Write as _;

use crate::inspect::adopt::choice::{Choice, Why};
use crate::inspect::adopt::few::Few;
use crate::inspect::adopt::labels::Rank;
use crate::inspect::adopt::proposal::Proposal;
use crate::inspect::adopt::snapshot::{Entry, Feature, Snapshot};
use crate::inspect::diff::order::NodeName;
use crate::model::api::{ConflictPolicy, FIELD_MANAGER, GROUP, VERSION};
use crate::model::count::{have, plural};
use crate::model::label::printable;

/// The width of comments.
const WIDTH: usize = 100;

/// The largest integer that every reader of YAML and JSON keeps exactly.
const LARGEST_INTEGER: i128 = 1 << 53;

const INTRODUCTION: [&str; 2] = [
    "Rules for values that nodes have already, written by node-resource-advertiser adopt. Applying them changes no \
     value: the controller only lists the values in its annotation on the nodes. To compare: node-resource-advertiser \
     plan -f FILE",
    "conflictPolicy: Overwrite lets a rule take over what another field manager has written; with Keep, the default, \
     that is a conflict, even if it is the same quantity. Once a rule is Ready, remove the line: otherwise it also \
     takes over other values on nodes that it selects later.",
];

/// Returns the rules; empty if there is none. `left_out` is what they do not cover, in sentences.
pub(super) fn yaml(snapshot: &Snapshot, proposals: &[Proposal<'_>], left_out: &[String]) -> String {
    if proposals.is_empty() {
        return String::new();
    }
    let [introduction, policy] = INTRODUCTION;
    let mut text = String::new();
    comment(&mut text, introduction);
    if proposals.iter().any(|proposal| proposal.conflict_policy == ConflictPolicy::Overwrite) {
        text.push_str("#\n");
        comment(&mut text, policy);
    }
    for (heading, sentences) in [("Left out:", left_out), ("Not known:", &snapshot.gaps)] {
        if !sentences.is_empty() {
            text.push_str("#\n");
            comment(&mut text, heading);
            sentences.iter().for_each(|sentence| item(&mut text, sentence));
        }
    }
    for (at, proposal) in proposals.iter().enumerate() {
        text.push_str(if at == 0 { "\n" } else { "---\n" });
        explain(snapshot, proposal).iter().for_each(|sentence| comment(&mut text, sentence));
        rule(&mut text, snapshot, proposal);
    }
    text
}

fn rule(text: &mut String, snapshot: &Snapshot, proposal: &Proposal<'_>) {
    let Proposal { name, resource, quantity, part, conflict_policy, priority, .. } = proposal;
    let quantity = match quantity.whole() {
        Some(whole) if whole <= LARGEST_INTEGER && quantity.to_string() == whole.to_string() => whole.to_string(),
        _ => scalar(&quantity.to_string()),
    };
    *text += &format!(
        "apiVersion: {GROUP}/{VERSION}\nkind: NodeExtendedResource\nmetadata:\n  name: {}\nspec:\n  resourceName: \
         {}\n  quantity: {quantity}\n",
        scalar(name),
        scalar(resource),
    );
    match &part.choice {
        Choice::Labels(labels) => {
            text.push_str("  nodeSelector:\n");
            let one = labels.iter().filter_map(|(key, values)| Some((key, <&[_; 1]>::try_from(&**values).ok()?)));
            let one: Vec<_> = one.map(|(key, [value])| format!("      {}: {}\n", scalar(key), scalar(value))).collect();
            if !one.is_empty() {
                *text += &format!("    matchLabels:\n{}", one.concat());
            }
            let many: Vec<_> = labels.iter().filter(|(_, values)| values.len() > 1).collect();
            if !many.is_empty() {
                text.push_str("    matchExpressions:\n");
            }
            for (key, values) in many {
                let values: Vec<_> = values.iter().map(|value| scalar(value)).collect();
                let key = scalar(key);
                *text += &format!("      - {{key: {key}, operator: In, values: [{}]}}\n", values.join(", "));
            }
        }
        Choice::Names(_) => {
            text.push_str("  nodeNames:\n");
            for name in names(snapshot, &part.nodes) {
                *text += &format!("    - {}\n", scalar(&name.0));
            }
        }
    }
    if *priority != 0 {
        *text += &format!("  priority: {priority}\n");
    }
    if *conflict_policy == ConflictPolicy::Overwrite {
        text.push_str("  conflictPolicy: Overwrite\n");
    }
}

/// Returns why there is this rule and why it selects the nodes so, in sentences.
fn explain(snapshot: &Snapshot, proposal: &Proposal<'_>) -> Vec<String> {
    let Proposal { resource, quantity, part, group, .. } = proposal;
    let managers: Vec<_> = group.managers.iter().map(|manager| &**manager).collect();
    let have = have(part.nodes.len());
    let mut sentences = vec![format!(
        "{} {have} {quantity} of {resource}, last written by {}.",
        plural(part.nodes.len(), "node", "nodes"),
        managers.join(", "),
    )];
    sentences.push(explain_choice(snapshot, proposal));
    if proposal.below.count > 0 {
        let below = &proposal.below;
        sentences.push(format!("Its priority is above {below}, which may select one of its nodes by a label later."));
    }
    let features: Vec<_> = snapshot.features.iter().filter(|feature| feature.resource == **resource).collect();
    if !features.is_empty() || group.is_of_nfd || managers.iter().any(|manager| manager.starts_with("nfd")) {
        sentences.push(explain_features(&features));
    } else if group.is_of_gardener || managers.iter().any(|manager| manager.starts_with("machine-controller")) {
        sentences.push(
            "Gardener's virtualCapacity declares it: remove it there once this rule is Ready. If the autoscaler needs \
             it to scale from zero, do not apply this rule: two writers undo each other's changes."
                .to_owned(),
        );
    } else if let Some(writer) = managers.iter().find(|manager| !is_by_hand(manager)) {
        sentences.push(format!(
            "If {writer} still runs and writes it, stop that, or do not apply this rule: two writers undo each other's \
             changes."
        ));
    }
    sentences
}

/// Returns whether people write with this field manager, or the controller does, so that no program writes on.
fn is_by_hand(manager: &str) -> bool {
    manager == FIELD_MANAGER || manager == "curl" || manager == "kubectl" || manager.starts_with("kubectl-")
}

fn explain_choice(snapshot: &Snapshot, Proposal { part, .. }: &Proposal<'_>) -> String {
    let (selector, rank) = match (&part.choice, &part.why) {
        (Choice::Labels(labels), Why::Exact { rank } | Why::Some { rank }) => {
            let labels = labels.iter().map(|(key, values)| match &values[..] {
                [value] => format!("{key}={value}"),
                values => format!("{key} in ({})", values.join(", ")),
            });
            (labels.collect::<Vec<_>>().join(" and "), *rank)
        }
        _ => return explain_names(snapshot, &part.why),
    };
    let mut text = match part.why {
        Why::Some { .. } => format!("Of the nodes with this value, {selector} selects these, and no other node."),
        _ => format!("{selector} selects exactly the nodes with this value."),
    };
    text += " Nodes that get such labels later get it too.";
    match rank {
        Rank::Weak => text += " The nodes may have these labels in common by coincidence: check them.",
        Rank::Feature => {
            text += " Node Feature Discovery sets the label: while it removes the label, the resource is withdrawn.";
        }
        _ => {}
    }
    text
}

fn explain_names(snapshot: &Snapshot, why: &Why) -> String {
    match why {
        Why::AllNodes => "All nodes have it. If future nodes are to have it too, write allNodes: true in place of \
                          nodeNames."
            .to_owned(),
        Why::Closest { label: (key, value), others } => format!(
            "By name, because no label selects exactly these nodes: {key}={value} also selects {}. New nodes do not get \
             it.",
            others.map(|place| list(snapshot, &[*place]))
        ),
        Why::Rest => "The other nodes with this value, which no label of a node pool selects. New nodes do not get it."
            .to_owned(),
        _ => {
            "By name, because no label that distinguishes nodes is common to these nodes only. New nodes do not get it."
                .to_owned()
        }
    }
}

fn explain_features(features: &[&Feature]) -> String {
    let mut text = String::new();
    for Feature { object, value, .. } in features {
        let dynamic = if value.starts_with('@') {
            ", a number that differs between nodes: if a label has it, use quantityFrom"
        } else {
            ""
        };
        let _ = write!(text, "NodeFeatureRule {object} declares it as {value}{dynamic}. ");
    }
    let there = if features.is_empty() { "Node Feature Discovery has written it: remove it" } else { "Remove it" };
    text + there
        + " from extendedResources there once this rule is Ready. Until then, Node Feature Discovery writes on, and \
           undoes changes of the rule."
}

/// Returns the first few nodes, and how many more there are.
pub(super) fn list(snapshot: &Snapshot, nodes: &[usize]) -> String {
    names(snapshot, nodes).collect::<Few<_>>().to_string()
}

fn names(snapshot: &Snapshot, nodes: &[usize]) -> impl Iterator<Item = NodeName> {
    nodes.iter().filter_map(|place| snapshot.nodes.get(*place)).map(Entry::name)
}

fn comment(text: &mut String, sentence: &str) {
    wrap(text, "# ", "# ", sentence);
}

fn item(text: &mut String, sentence: &str) {
    wrap(text, "# - ", "#   ", sentence);
}

/// Adds a comment, which may hold text from the cluster, in lines of limited width.
fn wrap(text: &mut String, first: &str, next: &str, sentence: &str) {
    let mut start = first;
    let mut line = String::new();
    for word in printable(sentence).split(' ') {
        if !line.is_empty() && line.chars().count() + word.chars().count() >= WIDTH {
            *text += &format!("{start}{line}\n");
            (start, line) = (next, String::new());
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line += word;
    }
    *text += &format!("{start}{line}\n");
}

/// Returns a string as a YAML scalar. YAML 1.1, which kubectl reads, takes more words for other types than YAML 1.2.
fn scalar(text: &str) -> String {
    const WORDS: [&str; 10] = ["y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan"];
    let is_plain = text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_./".contains(c))
        && !WORDS.contains(&text.to_ascii_lowercase().as_str());
    // A quantity such as 800Gi, which nothing else ends like; 1E is no number without an exponent.
    let is_amount = text.starts_with(|first: char| first.is_ascii_digit())
        && text.trim_start_matches(|c: char| c.is_ascii_digit()).chars().all(|c| "kKMGTPEi".contains(c))
        && text.ends_with(|last: char| last.is_ascii_alphabetic());
    if is_plain || is_amount { text.to_owned() } else { serde_json::Value::from(text).to_string() }
}
