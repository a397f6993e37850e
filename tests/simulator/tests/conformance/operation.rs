//! Operations, which are sent to both servers.

use std::fmt;

use serde_json::Value;
use simulator::{Key, Kind, PatchBody, Subresource};

/// One operation. Strings that begin with `@` stand for values that each server has assigned: see
/// [`History::resolve`](crate::history::History::resolve).
#[derive(Clone, Debug)]
pub(crate) enum Operation {
    Get {
        kind: Kind,
        key: Key,
    },
    Create {
        kind: Kind,
        object: Value,
        manager: &'static str,
    },
    Replace {
        kind: Kind,
        subresource: Subresource,
        object: Value,
        manager: &'static str,
    },
    Patch {
        target: (Kind, Subresource, Key),
        patch: PatchBody,
        manager: &'static str,
        dry_run: bool,
    },
    /// Binds a pod to a node, as the scheduler does.
    Bind {
        key: Key,
        node: &'static str,
    },
    /// A patch by a user without permissions.
    Denied {
        kind: Kind,
        subresource: Subresource,
        key: Key,
    },
    Delete {
        kind: Kind,
        key: Key,
        uid: Option<Value>,
    },
    List {
        kind: Kind,
        query: Query,
        limit: usize,
        at: Option<usize>,
    },
    /// The next page of the last list.
    NextPage,
    /// A watch from the write this number of writes ago.
    Watch {
        slot: usize,
        kind: Kind,
        query: Query,
        after: usize,
    },
    /// Compares the events of a watch since the last comparison.
    ReadWatch {
        slot: usize,
    },
    /// Compacts at the write this number of writes ago.
    Compact {
        at: usize,
    },
}

/// The user without permissions.
pub(crate) const NOBODY: &str = "nobody";

/// The objects to list or watch.
#[derive(Clone, Debug, Default)]
pub(crate) struct Query {
    pub(crate) namespace: Option<&'static str>,
    pub(crate) fields: String,
    pub(crate) labels: String,
}

impl Operation {
    /// The operations of a JSON Patch.
    pub(crate) fn patch(&self) -> Option<&Vec<Value>> {
        match self {
            Self::Patch { patch: PatchBody::Json(Value::Array(patch)), .. } => Some(patch),
            _ => None,
        }
    }

    pub(crate) fn patch_mut(&mut self) -> Option<&mut Vec<Value>> {
        match self {
            Self::Patch { patch: PatchBody::Json(Value::Array(patch)), .. } => Some(patch),
            _ => None,
        }
    }

    /// The name under which operations are counted.
    pub(crate) fn name(&self) -> String {
        let part = |kind: &Kind, subresource: &Subresource| match subresource {
            Subresource::None => kind.plural().to_owned(),
            Subresource::Status => format!("{}/status", kind.plural()),
            Subresource::Binding => format!("{}/binding", kind.plural()),
        };
        match self {
            Self::Get { kind, .. } => format!("get {}", kind.plural()),
            Self::Create { kind, .. } => format!("create {}", kind.plural()),
            Self::Replace { kind, subresource, .. } => {
                format!("replace {}", part(kind, subresource))
            }
            Self::Patch { target: (kind, subresource, _), patch, dry_run, .. } => {
                let how = if matches!(patch, PatchBody::Json(_)) { "json patch" } else { "merge patch" };
                let dry = if *dry_run { " (dry run)" } else { "" };
                format!("{how} {}{dry}", part(kind, subresource))
            }
            Self::Bind { .. } => "bind pods".to_owned(),
            Self::Denied { kind, subresource, .. } => {
                format!("patch {} without rights", part(kind, subresource))
            }
            Self::Delete { kind, .. } => format!("delete {}", kind.plural()),
            Self::List { kind, at, .. } => {
                format!("list {}{}", kind.plural(), if at.is_some() { " at a version" } else { "" })
            }
            Self::NextPage => "list the next page".to_owned(),
            Self::Watch { kind, .. } => format!("watch {}", kind.plural()),
            Self::ReadWatch { .. } => "read a watch".to_owned(),
            Self::Compact { .. } => "compact".to_owned(),
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())?;
        match self {
            Self::Get { key, .. } | Self::Denied { key, .. } => write!(f, " {key}"),
            Self::Bind { key, node } => write!(f, " {key} to {node}"),
            Self::Create { object, manager, .. } | Self::Replace { object, manager, .. } => {
                write!(f, " by {manager}: {object}")
            }
            Self::Patch { target: (.., key), patch, manager, .. } => {
                let (PatchBody::Json(patch) | PatchBody::Merge(patch)) = patch;
                write!(f, " {key} by {manager}: {patch}")
            }
            Self::Delete { key, uid, .. } => {
                write!(f, " {key}")?;
                uid.as_ref().map_or(Ok(()), |uid| write!(f, " with the uid {uid}"))
            }
            Self::List { query, limit, at, .. } => {
                write!(f, " {query} limit={limit}")?;
                at.map_or(Ok(()), |at| write!(f, " {at} writes ago"))
            }
            Self::NextPage => Ok(()),
            Self::Watch { slot, query, after, .. } => {
                write!(f, " #{slot} {query} from {after} writes ago")
            }
            Self::ReadWatch { slot } => write!(f, " #{slot}"),
            Self::Compact { at } => write!(f, " at {at} writes ago"),
        }
    }
}

impl fmt::Display for Query {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { namespace, fields, labels } = self;
        write!(f, "in {} [{fields}] [{labels}]", namespace.unwrap_or("all"))
    }
}
