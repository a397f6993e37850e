//! The labels of a node in memory.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::model::pool::Pool;

/// The label with the host name, which is not always the name of the node.
const HOSTNAME: &str = "kubernetes.io/hostname";

/// A node's labels. Each is one text, `key=value`: a key has no `=`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Labels {
    /// Those that the nodes of a pool share, sorted by key.
    shared: Arc<[Arc<str>]>,
    /// Those that name the node, sorted by key.
    own: Box<[Arc<str>]>,
}

impl Labels {
    /// Returns the labels of the node of this name.
    pub(super) fn new(
        labels: &BTreeMap<String, String>,
        node: &str,
        texts: &mut Pool<str>,
        lists: &mut Pool<[Arc<str>]>,
    ) -> Self {
        let (mut shared, mut own, mut text) = (Vec::with_capacity(labels.len()), Vec::new(), String::new());
        for (key, value) in labels {
            text.clear();
            text.extend([key, "=", value]);
            if key == HOSTNAME || value == node {
                own.push(Arc::from(text.as_str()));
            } else {
                shared.push(texts.intern(text.as_str()));
            }
        }
        Self { shared: lists.intern(&*shared), own: own.into() }
    }

    /// Returns the value of a label.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&str> {
        [&*self.shared, &*self.own].into_iter().find_map(|labels| {
            let at = labels.binary_search_by(|label| parts(label).0.cmp(key)).ok()?;
            labels.get(at).map(|label| parts(label).1)
        })
    }

    /// Returns every label, by key.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        let [mut shared, mut own] =
            [&*self.shared, &*self.own].map(|labels| labels.iter().map(|label| parts(label)).peekable());
        std::iter::from_fn(move || match (shared.peek(), own.peek()) {
            (Some(first), Some(second)) if second < first => own.next(),
            (None, _) => own.next(),
            _ => shared.next(),
        })
    }

    /// Returns the number of labels.
    pub(crate) fn len(&self) -> usize {
        self.shared.len() + self.own.len()
    }
}

/// Returns the key and the value of a label.
fn parts(label: &str) -> (&str, &str) {
    label.split_once('=').unwrap_or((label, ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_of_a_pool_are_shared_but_for_the_name() {
        let (mut texts, mut lists) = (Pool::default(), Pool::default());
        let mut labels = |name: &str, host: &str| {
            let all = [("arch", "amd64"), (HOSTNAME, host), ("zone", "a"), ("a.example.com/node", name), ("role", "")];
            let all = all.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
            Labels::new(&all, name, &mut texts, &mut lists)
        };
        let (first, second) = (labels("node-1", "host-1"), labels("node-2", "host-2"));
        assert!(Arc::ptr_eq(&first.shared, &second.shared));
        assert_ne!(first, second);
        let all =
            [("a.example.com/node", "node-2"), ("arch", "amd64"), (HOSTNAME, "host-2"), ("role", ""), ("zone", "a")];
        assert_eq!(second.iter().collect::<Vec<_>>(), all);
        assert_eq!(second.len(), all.len());
        for (key, value) in all {
            assert_eq!(second.get(key), Some(value));
        }
        assert_eq!(second.get("none"), None);
        assert_eq!(labels("node-1", "host-1"), first);
    }
}
