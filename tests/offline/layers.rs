//! The layers of `src/lib.rs`: imports point downwards, and no files import each other in a circle.
//!
//! Imports are read as text: `use` declarations, and paths that begin with `crate`, `super`, `self` or
//! a module below. Unit tests may import from anywhere.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// From the bottom up, as the table in `src/lib.rs` lists them.
const LAYERS: [&str; 11] = [
    "model",
    "response",
    "planner",
    "election",
    "manifest",
    "validate",
    "reconciler",
    "cluster",
    "controller",
    "inspect",
    "cli",
];

/// The path of a module: `[]` for the root, `["model", "node"]`.
type Module = Vec<String>;

/// Which modules each module imports from.
type Imports = BTreeMap<Module, BTreeSet<Module>>;

#[test]
fn src_layers_import_downwards_only() {
    let imports = imports(&sources("src", "lib"));
    assert!(imports.values().map(BTreeSet::len).sum::<usize>() > 200, "the imports were not found");
    assert_eq!(upward(&imports), [""; 0]);
    assert_eq!(circles(&imports), [""; 0]);
    let outside = imports.keys().filter(|module| match module.as_slice() {
        [] => false,
        [first, ..] => first != "main" && !LAYERS.contains(&first.as_str()),
    });
    assert_eq!(outside.count(), 0, "a module is in no layer");
    let root = imports.values().filter(|to| to.contains(&Module::new()));
    assert_eq!(root.count(), 0, "an import by way of the root, which re-exports nothing");
}

/// The layers that decide. They get time and seeds as arguments, and return what is to be sent and reported.
const PURE: [&str; 5] = ["model", "response", "planner", "election", "reconciler"];

#[test]
fn pure_layers_have_no_client_and_no_clock_and_neither_log_nor_count() {
    let sources = sources("src", "lib");
    for layer in PURE {
        assert!(sources.contains_key([layer.to_owned()].as_slice()), "{layer} is no layer");
    }
    assert_eq!(impure(&sources), [""; 0]);
}

/// The clients, clocks, logs and metrics in pure layers.
fn impure(sources: &BTreeMap<Module, String>) -> Vec<String> {
    let is_pure = |module: &Module| module.first().is_some_and(|layer| PURE.contains(&layer.as_str()));
    let mut impure = Vec::new();
    for (module, text) in sources.iter().filter(|(module, _)| is_pure(module)) {
        for path in paths(text) {
            let is_log = ["tracing", "log", "prometheus_client"].contains(&path.split("::").next().unwrap_or_default());
            let is_other = path.rsplit("::").next().is_some_and(|name| ["Client", "NodeClient", "now"].contains(&name));
            if is_log || is_other {
                impure.push(format!("{} has {path}", module.join("::")));
            }
        }
    }
    impure
}

#[test]
fn purity_check_finds_a_planted_line_of_the_log_a_client_and_a_clock() {
    let text = "use tracing::{info, warn};\nuse kube::{Api, Client};\nuse prometheus_client::registry::Registry;\n\
                fn f() { (Instant::now(), SystemTime::now(), jiff::Timestamp::now()) }\n";
    let module = |path: &str| path.split("::").map(str::to_owned).collect::<Module>();
    let planted = |path: &str| impure(&[(module(path), text.to_owned())].into());
    let found = [
        "tracing::info",
        "tracing::warn",
        "kube::Client",
        "prometheus_client::registry::Registry",
        "Instant::now",
        "SystemTime::now",
        "jiff::Timestamp::now",
    ];
    for path in ["model::node", "response", "planner", "election::participant", "reconciler::leader"] {
        assert_eq!(planted(path), found.map(|found| format!("{path} has {found}")));
    }
    for path in ["controller::log", "cluster", "cli::run"] {
        assert_eq!(planted(path), [""; 0], "{path} is the shell");
    }
    let inline =
        [("reconciler::leader", "fn f() { tracing::warn!(\"a\"); }\nfn g(now: Now) { now.instant }"), ("planner", "")];
    let inline = inline.map(|(path, text)| (module(path), text.to_owned()));
    assert_eq!(impure(&inline.into()), ["reconciler::leader has tracing::warn"]);
}

#[test]
fn bench_modules_import_without_circles() {
    for bench in ["benches/rollout", "benches/soak"] {
        let imports = imports(&sources(bench, "main"));
        let count = imports.values().map(BTreeSet::len).sum::<usize>();
        assert!(count > 10, "the imports of {bench} were not found");
        assert_eq!(circles(&imports), [""; 0]);
    }
}

#[test]
fn layer_table_lists_every_layer_in_order() {
    let text = std::fs::read_to_string("src/lib.rs").unwrap();
    let rows = text.lines().filter_map(|line| line.strip_prefix("//! | [`"));
    let rows: Vec<_> = rows.filter_map(|row| row.split('`').next()).collect();
    assert_eq!(rows, LAYERS.iter().rev().copied().collect::<Vec<_>>());
}

/// A function is read in one sitting. A file is as long as what it defines.
const MAX_LINES: usize = 70;

#[test]
fn functions_have_at_most_70_lines() {
    let roots = [("src", "lib"), ("benches/rollout", "main"), ("benches/soak", "main"), ("xtask/src", "main")];
    let sources = roots.into_iter().flat_map(|(folder, root)| sources(folder, root));
    let functions = sources.flat_map(|(module, text)| {
        functions(&text).into_iter().map(move |(name, lines)| (format!("{}::{name}", module.join("::")), lines))
    });
    let functions: Vec<_> = functions.collect();
    assert!(functions.len() > 1500, "the functions were not found");
    let long = functions.into_iter().filter(|(_, lines)| *lines > MAX_LINES);
    assert_eq!(long.collect::<Vec<_>>(), []);
}

/// The state of an object is changed in one file: whoever reads that file has seen all that may happen to it.
#[test]
fn methods_of_the_controller_stand_with_their_types() {
    let mut sources = sources("src", "lib");
    sources.retain(|module, _| {
        module.first().is_some_and(|layer| ["controller", "election", "reconciler"].contains(&layer.as_str()))
    });
    assert!(sources.len() > 50, "the files were not found");
    let strays = sources.iter().flat_map(|(module, text)| strays(text).map(move |name| (module.join("::"), name)));
    assert_eq!(strays.collect::<Vec<_>>(), []);
}

/// A command that is pasted acts on the cluster that a message is about, not on the current context.
#[test]
fn advised_commands_of_kubectl_name_the_cluster() {
    let mut sources = sources("src", "lib");
    assert!(sources.remove(&["inspect", "hint"].map(str::to_owned)[..]).is_some(), "hint.rs was not found");
    // The controller has no flags of that kind.
    sources.retain(|module, _| module.first().is_some_and(|layer| ["cli", "inspect"].contains(&layer.as_str())));
    let is_bare = |line: &&str| {
        let is_comment = line.trim_start().starts_with("//");
        !is_comment && line.split('`').skip(1).step_by(2).any(|command| command.contains("kubectl "))
    };
    let bare = sources.iter().flat_map(|(module, text)| {
        code(text).lines().filter(is_bare).map(|line| format!("{}: {}", module.join("::"), line.trim()))
    });
    assert_eq!(bare.collect::<Vec<_>>(), [""; 0], "use inspect::hint::kubectl");
}

#[test]
fn form_check_finds_a_planted_long_function_and_a_stray_method() {
    let text = "pub(in crate::a) async fn f(\n    a: u8,\n) -> u8 {\n    a\n}\n\
                trait T {\n    fn g(\n        &self,\n    );\n    fn h(&self) {}\n}\nconst fn i() {\n    1;\n}\n";
    let expected = [("f", 5), ("g", 3), ("h", 1), ("i", 3)];
    assert_eq!(functions(text), expected.map(|(name, lines)| (name.to_owned(), lines)));
    let text = "pub(super) struct A<T>(T);\nimpl<T> A<T> {}\nimpl B {}\nimpl Clone for C {}\n#[cfg(test)]\nimpl D {}\n";
    assert_eq!(strays(text).collect::<Vec<_>>(), ["B"]);
}

/// Each function of a text, with the number of its lines.
fn functions(text: &str) -> Vec<(String, usize)> {
    let lines: Vec<_> = code(text).lines().collect();
    let functions = lines.iter().enumerate().filter_map(|(start, line)| {
        let indent = &line[..line.len() - line.trim_start().len()];
        let (before, rest) = line.trim_start().split_once("fn ")?;
        let is_modifier = |word: &str| ["async", "const", "unsafe"].contains(&word) || word.starts_with("pub");
        if !before.split_whitespace().all(|word| is_modifier(word) || word.ends_with(')')) {
            return None;
        }
        let is_end = |line: &&str| {
            let is_outer = line.strip_prefix(indent).is_some_and(|rest| !rest.starts_with(' '));
            is_outer && (line.trim() == "}" || line.ends_with([';', '}']))
        };
        let end = lines[start..].iter().position(is_end)?;
        Some((rest.split(['(', '<']).next()?.to_owned(), end + 1))
    });
    functions.collect()
}

/// The types that have methods in a text that does not define them.
fn strays(text: &str) -> impl Iterator<Item = String> {
    let code = code(text);
    let is_defined = move |name: &str| {
        let defines =
            |(_, rest): (usize, &str)| rest.split(|c: char| !c.is_alphanumeric() && c != '_').nth(1) == Some(name);
        ["struct ", "enum "].iter().any(|word| code.match_indices(word).any(|(at, _)| defines((at, &code[at..]))))
    };
    let lines: Vec<_> = code.lines().collect();
    let impls = lines.windows(2).filter_map(|pair| pair[1].strip_prefix("impl").filter(|_| pair[0] != "#[cfg(test)]"));
    let inherent = impls.filter(|rest| !rest.contains(" for "));
    let names = inherent.filter_map(|rest| {
        let rest = rest.strip_prefix('<').map_or(rest, |rest| rest.split_once('>').map_or(rest, |(_, rest)| rest));
        Some(rest.trim_start().split(['<', ' ']).next()?.to_owned())
    });
    let strays: Vec<_> = names.filter(|name| !is_defined(name)).collect();
    strays.into_iter()
}

/// A text without its unit tests.
fn code(text: &str) -> &str {
    text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default()
}

#[test]
fn layer_check_finds_a_planted_upward_import_and_circle() {
    let planted = |files: &[(&str, &str)]| {
        let module = |path: &str| path.split("::").map(str::to_owned).collect::<Module>();
        let files = files.iter().map(|(path, text)| (module(path), (*text).to_owned()));
        imports(&files.collect())
    };
    let up = planted(&[
        ("model::node", "use std::fmt;\nuse crate::{planner::{plan, rules::Rule}, model};\n"),
        ("planner", ""),
        ("planner::rules", ""),
    ]);
    assert_eq!(upward(&up), ["model::node -> planner", "model::node -> planner::rules"]);
    let inline = planted(&[("model", "fn f() -> crate::cli::Error { todo!() }"), ("cli", "")]);
    assert_eq!(upward(&inline), ["model -> cli"]);

    let circle = planted(&[
        ("cli", "mod run;\nuse run::Args;\n"),
        ("cli::run", "use super::{error::Error, output};\nfn f() { output::g() }\n"),
        ("cli::error", ""),
        ("cli::output", "fn g() { super::run::h() }\n"),
    ]);
    assert_eq!(circles(&circle), ["cli::output, cli::run"]);
    let tests_only = planted(&[
        ("cli", "use run::Args;\n"),
        (
            "cli::run",
            "pub(in crate::cli) fn f() {} // super::Cli\n#[cfg(test)]\nmod tests {\nuse super::super::Cli;\n}\n",
        ),
    ]);
    assert_eq!(circles(&tests_only), [""; 0]);
}

/// The text of every module below a folder. The root is the file `root`.
fn sources(folder: &str, root: &str) -> BTreeMap<Module, String> {
    fn visit(folder: &Path, module: &Module, root: &str, sources: &mut BTreeMap<Module, String>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            let mut module = module.clone();
            if !(module.is_empty() && name == root) {
                module.push(name.clone());
            }
            if path.is_dir() {
                visit(&path, &module, root, sources);
            } else if path.extension().is_some_and(|end| end == "rs") && name != "tests" {
                sources.insert(module, std::fs::read_to_string(&path).unwrap());
            }
        }
    }
    let mut sources = BTreeMap::new();
    visit(Path::new(folder), &Module::new(), root, &mut sources);
    sources.retain(|module, _| !module.contains(&"tests".to_owned()));
    sources
}

fn imports(sources: &BTreeMap<Module, String>) -> Imports {
    let mut imports = Imports::new();
    for (module, text) in sources {
        let of_module = imports.entry(module.clone()).or_default();
        for path in paths(text) {
            if let Some(target) = resolve(module, &path, sources).filter(|target| target != module) {
                of_module.insert(target);
            }
        }
    }
    imports
}

/// Every path in the code: those of `use` declarations one by one, and the others as they stand.
fn paths(text: &str) -> Vec<String> {
    let code: String = code(text)
        .lines()
        .map(|line| line.split("//").next().unwrap_or_default())
        .flat_map(|line| [line, "\n"])
        .collect();
    // The scope of a visibility is no import.
    let code = code.replace("pub(in ", "pub (");
    let code = code.split("pub (").enumerate().map(|(number, part)| match number {
        0 => part,
        _ => part.split_once(')').map_or(part, |(_, rest)| rest),
    });
    let code: String = code.collect();

    let mut paths = Vec::new();
    for part in code.split(';') {
        match part.rfind("use ").filter(|at| part[..*at].ends_with(['\n', ' ']) || *at == 0) {
            Some(at) if !part[at..].contains('(') => {
                expand("", part[at + 4..].trim(), &mut paths);
                paths.extend(words(&part[..at]));
            }
            _ => paths.extend(words(part)),
        }
    }
    paths
}

/// Words with `::` in them.
fn words(code: &str) -> impl Iterator<Item = String> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    let words = code.split(move |c| !is_word(c)).filter(|word| word.contains("::"));
    words.map(str::to_owned)
}

/// `a::{b, c::{d, e}}` as `a::b`, `a::c::d` and `a::c::e`.
fn expand(prefix: &str, tree: &str, paths: &mut Vec<String>) {
    let tree = tree.trim();
    let Some((head, rest)) = tree.split_once('{') else {
        let path = tree.split(" as ").next().unwrap_or_default().trim();
        paths.push(format!("{prefix}{path}"));
        return;
    };
    let prefix = format!("{prefix}{}", head.trim());
    let inner = rest.trim_end().strip_suffix('}').unwrap_or(rest);
    let (mut depth, mut start) = (0_usize, 0);
    for (at, c) in inner.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                expand(&prefix, &inner[start..at], paths);
                start = at + 1;
            }
            _ => {}
        }
    }
    if !inner[start..].trim().is_empty() {
        expand(&prefix, &inner[start..], paths);
    }
}

/// The module of this source tree that a path leads into, as far as it names modules.
fn resolve(module: &Module, path: &str, sources: &BTreeMap<Module, String>) -> Option<Module> {
    let mut segments = path.split("::").map(str::trim).peekable();
    let mut target = match *segments.peek()? {
        "crate" => Module::new(),
        "self" => module.clone(),
        "super" => {
            let mut target = module.clone();
            while segments.peek() == Some(&"super") {
                segments.next();
                target.pop();
            }
            target
        }
        first => {
            let below = [module.as_slice(), &[first.to_owned()]].concat();
            return sources.contains_key(&below).then(|| descend(below, segments.skip(1), sources));
        }
    };
    if matches!(segments.peek(), Some(&"crate" | &"self")) {
        segments.next();
    }
    target = descend(target, segments, sources);
    sources.contains_key(&target).then_some(target)
}

fn descend<'t>(
    mut target: Module,
    segments: impl Iterator<Item = &'t str>,
    sources: &BTreeMap<Module, String>,
) -> Module {
    for segment in segments {
        target.push(segment.to_owned());
        if !sources.contains_key(&target) {
            target.pop();
            break;
        }
    }
    target
}

fn upward(imports: &Imports) -> Vec<String> {
    let rank = |module: &Module| {
        let layer = module.first()?;
        LAYERS.iter().position(|name| name == layer)
    };
    let all = imports.iter().flat_map(|(from, to)| to.iter().map(move |to| (from, to)));
    let up = all.filter(|(from, to)| rank(from).zip(rank(to)).is_some_and(|(from, to)| to > from));
    up.map(|(from, to)| format!("{} -> {}", from.join("::"), to.join("::"))).collect()
}

/// Modules that reach each other, a line for each circle.
fn circles(imports: &Imports) -> Vec<String> {
    let reach = |start: &Module| {
        let mut seen = BTreeSet::new();
        let mut open = vec![start];
        while let Some(module) = open.pop() {
            for next in imports.get(module).into_iter().flatten() {
                if seen.insert(next) {
                    open.push(next);
                }
            }
        }
        seen
    };
    let reached: BTreeMap<_, _> = imports.keys().map(|module| (module, reach(module))).collect();
    let circles = reached.iter().filter(|(module, reached)| reached.contains(*module)).map(|(module, reaches)| {
        let back = reaches.iter().filter(|other| reached[**other].contains(*module));
        back.map(|module| module.join("::")).collect::<Vec<_>>().join(", ")
    });
    circles.collect::<BTreeSet<_>>().into_iter().collect()
}
