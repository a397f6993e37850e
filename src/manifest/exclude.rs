//! Globs of excluded paths.

use std::path::Path;
use std::str::FromStr;

use regex::Regex;

/// Excluded paths. A glob without a slash matches files and folders of that name, anywhere; a glob with a slash matches
/// the path as printed. `*` and `?` do not match a slash; `**` does.
#[derive(Clone, Debug, Default)]
pub struct Exclude(Vec<Glob>);

/// One glob.
#[derive(Clone, Debug)]
pub struct Glob {
    pattern: Regex,
    /// Whether it matches whole paths.
    path: bool,
}

impl From<Vec<Glob>> for Exclude {
    fn from(globs: Vec<Glob>) -> Self {
        Self(globs)
    }
}

impl Exclude {
    /// Returns whether a path is excluded, whatever the folders that it is in.
    #[must_use]
    pub fn matches(&self, path: &Path) -> bool {
        let name = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
        let path = path.to_string_lossy();
        let path = path.strip_prefix("./").unwrap_or(&path).trim_end_matches('/');
        self.0.iter().any(|glob| glob.pattern.is_match(if glob.path { path } else { &name }))
    }
}

impl FromStr for Glob {
    type Err = String;

    fn from_str(glob: &str) -> Result<Self, String> {
        let text = glob.strip_prefix("./").unwrap_or(glob).trim_end_matches('/');
        if text.is_empty() {
            return Err(format!("{glob:?} is no glob: write a name or a path, such as overlays"));
        }
        let mut pattern = String::new();
        let mut rest = text;
        while let Some(next) = rest.chars().next() {
            let (part, length) = match next {
                _ if rest.starts_with("**/") => ("(.*/)?".to_owned(), 3),
                _ if rest.starts_with("**") => (".*".to_owned(), 2),
                '*' => ("[^/]*".to_owned(), 1),
                '?' => ("[^/]".to_owned(), 1),
                other => (regex::escape(&other.to_string()), other.len_utf8()),
            };
            pattern.push_str(&part);
            rest = rest.get(length..).unwrap_or_default();
        }
        let pattern = Regex::new(&format!("(?s)^{pattern}$")).map_err(|error| error.to_string())?;
        Ok(Self { pattern, path: text.contains('/') })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exclude_glob_matches_names_and_paths() {
        for (glob, path, matches) in [
            ("overlays", "a/overlays", true),
            ("overlays/", "./a/overlays", true),
            ("overlays", "a/overlays-2", false),
            ("*.gen.yaml", "a/b/x.gen.yaml", true),
            ("?.yaml", "a/xy.yaml", false),
            ("a/*/c.yaml", "a/b/c.yaml", true),
            ("a/*/c.yaml", "a/b/b/c.yaml", false),
            ("./a/**/c.yaml", "./a/b/b/c.yaml", true),
            ("**/c.yaml", "c.yaml", true),
            ("a/**", "a/b/c", true),
            ("a/**", "ab/c", false),
            ("(a|b)+.yaml", "a.yaml", false),
            ("\u{e4}*", "x/\u{e4}b", true),
        ] {
            let exclude = Exclude(vec![glob.parse().unwrap()]);
            assert_eq!(exclude.matches(Path::new(path)), matches, "{glob} {path}");
        }
        assert!("./".parse::<Glob>().is_err());
        assert!(!Exclude::default().matches(Path::new("a")));
    }
}
