//! Starts and controls a real Kubernetes control plane on loopback, for the tests, the demo and the benches.
//!
//! | module | what it starts or does |
//! |---|---|
//! | [`ControlPlane`], [`Builder`] | etcd, kube-apiserver and, on request, the controller manager, the scheduler and kubelets of kubemark |
//! | [`Kubelet`] | a real kubelet over a fake container runtime |
//! | [`Node`], [`isolated`] | a node with real containers, in namespaces of its own |
//! | [`Registry`] | a registry of images and charts |
//! | [`Karpenter`], [`Kwok`] | Karpenter with its provider without a cloud; kwok as the kubelets of nodes without a machine |
//! | [`FaultProxy`] | network faults between the program and the API server |
//! | [`Process`] | any program, which cannot outlive its owner |
//! | [`Cgroup`] | a memory limit for the program |
//! | [`Cluster`], [`SharedCluster`], [`Controller`] | drive the CRD and the program in a test: a failure is a panic. At the end, each patch of the program is judged by the invariants |
//! | [`objects`], [`helm`] | Kubernetes objects as JSON; helm and the chart |
//! | [`protection`] | the policy against a kubelet's reset; writes with a kubelet's credentials |
//! | [`documents`] | the commands in the documentation, which tests run |
//! | [`oracle`], [`quantities`] | what Kubernetes' own parsers return; texts of quantities to compare by |
//! | [`reports`] | reads JUnit XML and GitHub's annotations |
//! | [`wait_until`] | waits with a deadline, and names what it waited for |
//!
//! ```text
//! ControlPlane ──holds──▶ Process ──pipe──▶ sh ──▶ etcd, kube-apiserver, …
//!                                           └ kills it when the pipe closes: nothing outlives
//!                                             its owner, however that ends
//! ```
//!
//! `make controlplane` builds the programs. Each control plane uses free ports and its own folder below
//! `target/controlplane/run/`, so that many can run at once, in other checkouts too. The folder is deleted with the control plane,
//! unless the test panics: then it is kept, and the path of the logs is printed.

mod api;
mod audit;
mod authority;
mod builder;
mod canary;
mod cgroup;
mod cluster;
mod control_plane;
mod controller;
mod costs;
mod credentials;
pub mod documents;
mod etcd;
mod fault_proxy;
pub mod helm;
mod http;
mod isolation;
mod judge;
mod karpenter;
mod kubectl;
mod kubelet;
mod node;
pub mod objects;
pub mod oracle;
mod part;
mod process;
mod programs;
pub mod protection;
pub mod quantities;
mod registry;
pub mod reports;
mod reset;
mod shared;
mod wait;

pub use api::Proxy;
pub use builder::{Builder, free_port};
pub use cgroup::Cgroup;
pub use cluster::Cluster;
pub use control_plane::ControlPlane;
pub use controller::Controller;
pub use fault_proxy::{Fault, FaultProxy};
pub use isolation::isolated;
pub use karpenter::{Karpenter, Kwok};
pub use kubectl::Output;
pub use kubelet::{DevicePlugin, Kubelet};
pub use node::Node;
pub use process::Process;
pub use programs::{control_plane_program, program, project_file, tool};
pub use registry::{PLATFORM, Registry};
pub use rustix::process::Signal;
pub use shared::SharedCluster;
pub use wait::{DEADLINE, wait_next_second, wait_until, wait_within};
