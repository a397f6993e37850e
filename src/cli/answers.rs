//! The commands that answer questions about a cluster: `top`, `node`, `resource`, `pod`, `why` and `history`.

pub(super) mod answer;
mod history;
mod namespaces;
mod node;
mod pod;
mod resource;
mod screen;
mod top;
mod view;
mod why;

pub(super) use history::{Args as HistoryArgs, run as history};
pub(super) use node::{Args as NodeArgs, run as node};
pub(super) use pod::{Args as PodArgs, run as pod};
pub(super) use resource::{Args as ResourceArgs, run as resource};
pub(super) use top::{Args as TopArgs, run as top};
pub use why::why_filters;
pub(super) use why::{Args as WhyArgs, run as why};
