use std::collections::BTreeSet;

use clap::Parser as _;
use serde_json::json;

use super::*;
use crate::model::api::NodeExtendedResource;

#[derive(clap::Parser)]
struct Command {
    #[command(flatten)]
    args: Args,
}

fn rule(name: &str, resource: &str, quantity: u64) -> Rule {
    let spec = json!({"resourceName": resource, "quantity": quantity, "allNodes": true});
    Rule::new(&NodeExtendedResource::new(name, serde_json::from_value(spec).unwrap())).unwrap()
}

/// What is printed beside the policies, or the error, for rules of two resources.
fn outcome(args: &[&str]) -> Result<Vec<String>, String> {
    let rules = [rule("one", "example.com/slot", 2), rule("two", "example.com/slot", 3), rule("key", "a.b/key", 1)];
    let args = Command::try_parse_from([&["guard", "-f", "-"], args].concat()).map_err(|error| error.to_string())?.args;
    let guard = args.guard(&rules).map_err(|error| error.to_string())?;
    Ok(guard.notes(&rules))
}

#[test]
fn guard_that_cannot_work_is_an_error_that_names_what_to_write() {
    let slot = ["--resource", "example.com/slot"];
    let pods = ["--pods", "app=x"];
    for (args, says) in [
        (&["--pods", "app=x"][..], "the rules declare a.b/key, example.com/slot: name one with --resource"),
        (&["--pods", "app=x", "--resource", "example.com/slots"], "no rule declares example.com/slots"),
        (&[&pods[..], &slot, &["--quantity", "0"]].concat(), "--quantity 0: a pod requests a whole number"),
        (&[&pods[..], &slot, &["--quantity=-1"]].concat(), "--quantity -1"),
        (&[&pods[..], &slot, &["--quantity", "500m"]].concat(), "--quantity 500m"),
        (&[&pods[..], &slot, &["--quantity", "x"]].concat(), "invalid value 'x'"),
        (&[&pods[..], &slot, &["--name", "A_b"]].concat(), "--name A_b: use at most 253 lower-case letters"),
        (&[&pods[..], &slot, &["--kyverno", "--reject-only"]].concat(), "cannot be used with"),
        (&[&slot[..], &["--pods", ""]].concat(), "--pods has to name a label that the pods have"),
        (&[&slot[..], &["--pods", "app!=x,!y,z notin (a)"]].concat(), "--pods has to name a label"),
        (
            &[&slot[..], &["--pods", "app=x,pod-template-hash=1"]].concat(),
            "pods get the label pod-template-hash from a controller",
        ),
        (&[&slot[..], &["--pods", "job-name"]].concat(), "pods get the label job-name from a controller"),
        (&[&slot[..], &["--pods", "app=x,topology.kubernetes.io/zone=a"]].concat(), "or when they are bound"),
        (&[&pods[..], &slot, &["--quantity", "9223372036854776"]].concat(), "from 1 to 9223372036854775"),
        (&[&slot[..], &["--pods", "a=="]].concat()[..0], "required"),
        (
            &[&pods[..], &slot, &["--namespaces", "kubernetes.io/metadata.name in (a, kube-system)"]].concat(),
            "a guard leaves kube-system alone",
        ),
    ] {
        let error = outcome(args).unwrap_err();
        assert!(error.contains(says), "{args:?}: {error}");
    }
}

#[test]
fn pod_that_counts_more_than_any_node_has_is_noted() {
    let notes =
        |quantity| outcome(&["--pods", "app=x", "--resource", "example.com/slot", "--quantity", quantity]).unwrap();
    assert_eq!(notes("3"), [""; 0]);
    let note = "no pod will fit: each counts 4, and the rules declare at most 3 on a node (one, two)";
    assert_eq!(notes("4"), [note]);
}

#[test]
fn name_of_any_guard_is_one_of_an_object_and_differs_by_pods() {
    let name_in = |resource: &str, pods: &str, namespaces: &str| {
        policies::default_name(resource, &pods.parse().unwrap(), &namespaces.parse().unwrap())
    };
    let name = |resource: &str, pods: &str| name_in(resource, pods, "");
    for resource in ["example.com/slot", "example.com/storage_pool", "Example.com/GPU.shared", "a.b/x"] {
        for pods in ["app=x", "a.b/C_d in (E,f), !g", "app=", "app"] {
            let name = name(resource, pods);
            assert!(crate::model::label::is_dns_subdomain(&name), "{name}");
        }
    }
    assert_eq!(name("example.com/slot", "app=x"), "guard-example.com-slot-app-x");
    assert_ne!(name("a.b/usb_slot", "app=x"), name("a.b/usb-slot", "app=x"));
    assert_ne!(name("a.b/GPU", "app=x"), name("a.b/gpu", "app=x"));
    let selectors = [
        ("app=x", ""),
        ("app=x", "team=media"),
        ("app=x,team=media", ""),
        ("app=x,team!=media", ""),
        ("app=x,team,media", ""),
        ("app=x,!team,media", ""),
        ("app=x,team,!media", ""),
        ("app=X", ""),
        ("app=x.y", ""),
        ("app=x-y", ""),
        ("app in (x,y)", ""),
        ("app=in,x,y", ""),
    ];
    let names: BTreeSet<_> = selectors.map(|(pods, namespaces)| name_in("a.b/x", pods, namespaces)).into();
    assert_eq!(names.len(), selectors.len(), "{names:?}");
    assert!(names.iter().any(|name| name.starts_with("guard-a.b-x-app-x-team-not-media-")), "{names:?}");
}
