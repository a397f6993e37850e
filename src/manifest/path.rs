//! Paths to values in an object, in the notation of the API server.

use std::fmt;

/// The path from an object to a value in it: `spec.nodeNames[0]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Path(Vec<Step>);

/// One step of a [`Path`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// The key of a map.
    Key(String),
    /// The index of an item in a list.
    Item(usize),
}

impl Path {
    /// Returns the path to a value in nested maps.
    #[must_use]
    pub fn from_keys<'a>(keys: impl IntoIterator<Item = &'a str>) -> Self {
        Self(keys.into_iter().map(|key| Step::Key(key.to_owned())).collect())
    }

    /// Returns this path extended by a key.
    #[must_use]
    pub fn key(&self, key: &str) -> Self {
        self.then(Step::Key(key.to_owned()))
    }

    /// Returns this path extended by an item of a list.
    #[must_use]
    pub fn item(&self, index: usize) -> Self {
        self.then(Step::Item(index))
    }

    fn then(&self, step: Step) -> Self {
        Self(self.0.iter().cloned().chain([step]).collect())
    }

    /// Returns the steps, starting at the object.
    #[must_use]
    pub fn steps(&self) -> &[Step] {
        &self.0
    }

    /// Returns whether `other` is this path or below it.
    #[must_use]
    pub fn leads_to(&self, other: &Self) -> bool {
        other.0.starts_with(&self.0)
    }
}

impl fmt::Display for Path {
    /// `spec.nodeNames[0]`; other keys than plain words are in brackets: `metadata.labels[a/b]`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plain = |key: &str| !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        for (place, step) in self.0.iter().enumerate() {
            match step {
                Step::Key(key) if plain(key) && place == 0 => f.write_str(key)?,
                Step::Key(key) if plain(key) => write!(f, ".{key}")?,
                Step::Key(key) => write!(f, "[{}]", crate::model::label::excerpt(key))?,
                Step::Item(index) => write!(f, "[{index}]")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_display_matches_the_apiserver() {
        let path = Path::from_keys(["spec", "nodeNames"]).item(2);
        assert_eq!(path.to_string(), "spec.nodeNames[2]");
        let path = Path::from_keys(["metadata", "labels", "example.com/x\n"]);
        assert_eq!(path.to_string(), r"metadata.labels[example.com/x\n]");
        assert_eq!(Path::default().to_string(), "");
        assert!(Path::from_keys(["a"]).leads_to(&Path::from_keys(["a", "b"])));
        assert!(!Path::from_keys(["a", "b"]).leads_to(&Path::from_keys(["a"])));
    }
}
