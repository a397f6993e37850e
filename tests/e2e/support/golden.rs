//! Files of what the program prints, in tests/e2e/golden/, which can be read as documentation. `UPDATE_GOLDEN=1` writes
//! them anew.

use std::fs;
use std::sync::LazyLock;

use harness::{Output, project_file};
use regex::Regex;

/// What differs from run to run, and what stands for it.
static VARIABLE: LazyLock<[(Regex, &str); 7]> = LazyLock::new(|| {
    [
        // The ends of generated names.
        (r"\b([a-z]+(?:-[a-z]+)*)-(?:[a-z0-9]{6,10}-)?[bcdfghjklmnpqrstvwxz2456789]{5}\b", "$1-#"),
        (r"\b\d{4}-\d\d-\d\dT[\d:]+Z", "#"),
        (r"\b\d+(?:\.\d+)?(?:ms|s|m)\b", "#s"),
        (r"127\.0\.0\.1:\d+", "127.0.0.1:#"),
        (r"/\S+/admin\.kubeconfig", "#/admin.kubeconfig"),
        // The scheduler may know an older state of the nodes.
        (r"(?s)The scheduler says: .*?\.\n([A-Z]|note: |\z)", "The scheduler says: #\n$1"),
        (r"the API server v[\d.]+", "the API server v#"),
    ]
    .map(|(pattern, sign)| (Regex::new(pattern).unwrap(), sign))
});

/// Returns a command and what it prints, without what differs from run to run.
pub fn console(command: &str, output: &Output) -> String {
    let printed = format!("{}{}", output.stdout, output.stderr);
    let without = |text: String, (pattern, sign): &(Regex, &str)| pattern.replace_all(&text, *sign).into_owned();
    let printed = VARIABLE.iter().fold(printed, without);
    format!("$ kubectl ner {command}\n{printed}[exit {}]\n", output.code)
}

/// Compares a text with a file. Older versions of Kubernetes say the same in other words.
pub fn check(name: &str, text: &str) {
    if std::env::var_os("CONTROLPLANE_BIN").is_some() {
        return;
    }
    let path = project_file("tests/e2e/golden").join(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
    } else {
        let golden = fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(text, golden, "UPDATE_GOLDEN=1 takes it as it is: {}", path.display());
    }
}
