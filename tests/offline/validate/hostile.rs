use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use harness::reports;
use node_resource_advertiser::manifest::{self, Files, Inputs, Limits};
use node_resource_advertiser::validate::{Format, Report, Severity, Validator};

use super::{folder, validate};

/// Inputs that are large, many or endless.
mod size;

const RULE: &str = "apiVersion: noderesource.dev/v1alpha1\nkind: NodeExtendedResource\nmetadata: {name: dongle}\nspec:\n  resourceName: example.com/dongle\n  quantity: 0\n  allNodes: true\n";

/// A folder for one test.
fn scratch(test: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("validate-{test}"));
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).unwrap();
    path
}

/// What it says of a file with these bytes, by line, and its exit code. A second file, of which
/// there is something to say, has to be checked all the same.
fn said(test: &str, bytes: &[u8]) -> (Vec<String>, i32) {
    let scratch = scratch(test);
    fs::write(scratch.join("file.yaml"), bytes).unwrap();
    fs::write(scratch.join("other.yaml"), RULE.replace("dongle", "other")).unwrap();
    let mut command = limited(&["file.yaml", "other.yaml"]);
    let output = command.current_dir(&scratch).output().unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stdout.contains("--> other.yaml:6:13"), "{stdout}{stderr}");
    let lines = stdout.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect();
    (lines, output.status.code().unwrap())
}

/// The program with an address space of 512 MiB.
fn limited(args: &[&str]) -> Command {
    let program = validate(&[]).get_program().to_owned();
    let mut command = Command::new("/bin/sh");
    command.args(["-c", r#"ulimit -v 524288; exec "$0" validate "$@""#]).arg(program).args(args);
    command.env_clear().stdin(Stdio::null());
    command
}

#[test]
fn validate_accepts_byte_order_mark_and_crlf() {
    let text = format!("\u{feff}{}", RULE.replace('\n', "\r\n"));
    let (lines, code) = said("crlf", text.as_bytes());
    assert_eq!(lines[1], " --> file.yaml:6:13");
    assert_eq!(lines[3], "6 |   quantity: 0");
    assert_eq!(code, 1);
}

#[test]
fn validate_reports_unreadable_files_and_checks_the_rest() {
    let repeated = (1..12).fold("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned(), |text, n| {
        let aliases = vec![format!("*a{}", n - 1); 10].join(", ");
        format!("{text}a{n}: &a{n} [{aliases}]\n")
    });
    let long = format!("a: &a {}\nb: [{}*a]\n", "x".repeat(1 << 20), "*a, ".repeat(10_000));
    for (test, bytes, says, place) in [
        ("latin-1", b"a: 1\nb: \xe4\n".to_vec(), "the byte 0xe4 here is not UTF-8", ":2:4"),
        ("utf-32", b"\xff\xfe\0\0a\0\0\0".to_vec(), "the file is UTF-32: save it as UTF-8", ":1:1"),
        ("utf-16", b"\xff\xfea\0:\0".to_vec(), "the file is UTF-16: save it as UTF-8", ":1:1"),
        ("binary", vec![0; 1000], "not YAML", ":1:1"),
        ("huge", vec![b' '; 50 << 20], "larger than 16 MiB, the most that is read", ""),
        ("bomb", repeated.into_bytes(), "more than 500000 values, its aliases followed", ":6:"),
        ("long-bomb", long.into_bytes(), "more than 500000 values", ":2:"),
        ("many", b"- a\n".repeat(600_000), "more than 500000 values", ":500000:3"),
        (
            "deep",
            [b"a: ".to_vec(), vec![b'['; 100_000]].concat(),
            "maps and lists are nested more than 100 deep",
            ":1:",
        ),
        (
            "nested",
            (0..3000).flat_map(|n| format!("{}a:\n", " ".repeat(n)).into_bytes()).collect(),
            "maps and lists are nested more than 100 deep",
            ":101:101",
        ),
        ("own-anchor", b"a: &a [*a]\n".to_vec(), "within its own anchor", ":1:8"),
        ("separator", b"a: 1\n--- b\n".to_vec(), "separates documents", ":2:1"),
        ("infinity", b"a: .inf\n".to_vec(), ".inf cannot be sent as JSON", ":1:4"),
        ("key", b"a: 1\n? [b]\n: 1\n".to_vec(), "a key must be text, a number or a truth value", ":2:3"),
        ("merge", b"a:\n  <<: 5\n".to_vec(), "<< merges a map", ":2:7"),
    ] {
        let (lines, code) = said(test, &bytes);
        let title = lines.iter().find(|line| line.contains(says));
        assert!(title.is_some_and(|line| line.starts_with("error[unreadable]: ")), "{test}: {lines:#?}");
        let place = format!("--> file.yaml{place}");
        assert!(lines.iter().any(|line| line.contains(&place)), "{test}: {place}: {lines:#?}");
        assert_eq!(code, 2, "{test}");
    }
}

/// The most values that are taken, each of a kind that takes much room.
#[test]
fn validate_handles_a_document_at_the_value_limit() {
    let items: String = (0..160_000).map(|n| format!("- {{k{n}: v{n}}}\n")).collect();
    let (lines, code) = said("most", format!("apiVersion: v1\nkind: Most\nitems:\n{items}").as_bytes());
    assert_eq!(lines.last().unwrap(), "2 files, 1 rule: 1 error");
    assert_eq!(code, 1);
}

#[test]
fn validate_folder_skips_hidden_and_other_files() {
    let scratch = scratch("folder");
    for (path, text) in [
        ("b/c/rule.yml", RULE),
        ("b/rule.JSON", r#"{"apiVersion": "v1", "kind": "Pod"}"#),
        ("b/.git/x.yaml", "\t"),
        ("b/.x.yaml", "\t"),
        ("b/notes.txt", "\t"),
        ("b/yaml", "\t"),
    ] {
        let path = scratch.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    std::os::unix::fs::symlink("..", scratch.join("b/loop")).unwrap();
    std::os::unix::fs::symlink("..", scratch.join("b/loop.yaml")).unwrap();
    std::os::unix::fs::symlink("c/rule.yml", scratch.join("b/again.yaml")).unwrap();
    let made = Command::new("mkfifo").arg(scratch.join("b/pipe.yaml")).status().unwrap();
    assert!(made.success());
    let output = validate(&["-R", "b", "b/c/../c/rule.yml"]).current_dir(&scratch).output().unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert!(stdout.contains("--> b/again.yaml:6:13"), "{stdout}");
    assert_eq!(stdout.lines().last(), Some("2 files, 1 rule: 1 error"), "{stdout}");
}

/// The text of an unreadable file in a folder decides whether it counts as Kubernetes objects. Any
/// file that is named is meant.
#[test]
fn validate_folder_skips_unreadable_files_without_objects() {
    let utf_16 = |text: &str| text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<_>>();
    let huge = |text: &str| [text.as_bytes(), &vec![b' '; 17 << 20]].concat();
    for (test, bytes, skipped) in [
        ("huge-other", huge("{\"kind\": \"x\"}"), true),
        ("huge-object", huge("{\"apiVersion\": \"v1\"}"), false),
        ("utf-16-other", utf_16("\u{feff}kind: x\n"), true),
        ("utf-16-rule", utf_16(&format!("\u{feff}{RULE}")), false),
        ("comments", b"{\"a\": 1, // b\n\"kind\": 1, // c\n\"d\": 1}\n".to_vec(), true),
        ("rule-with-a-tab", b"kind: NodeExtendedResource\n\tspec: {}\n".to_vec(), false),
        ("lines", b"--- a\n".repeat(1_000), true),
    ] {
        let scratch = scratch(test);
        fs::create_dir(scratch.join("folder")).unwrap();
        fs::write(scratch.join("folder/file.json"), bytes).unwrap();
        fs::write(scratch.join("folder/rule.yaml"), RULE.replace(": 0\n", ": 4\n")).unwrap();
        for (args, skipped) in [(&["folder"][..], skipped), (&["folder", "folder/file.json"], false)] {
            let output = validate(args).current_dir(&scratch).output().unwrap();
            let stdout = String::from_utf8(output.stdout).unwrap();
            let code = if skipped { 0 } else { 2 };
            assert_eq!(output.status.code(), Some(code), "{test} {args:?}: {stdout}");
            let note = "note: 1 skipped that holds no Kubernetes object: folder/file.json\n";
            assert_eq!(stdout.contains(note), skipped, "{test} {args:?}: {stdout}");
        }
    }
}

/// A command that needs the rules only goes on without them.
#[test]
fn unread_file_of_others_holds_no_rules() {
    let scratch = scratch("others");
    let others = |head: &str| format!("{head}{}", "# comment\n".repeat(80));
    for (name, text) in [
        ("comments-1.yaml", others("")),
        ("comments-2.yaml", others("")),
        ("comments-3.yaml", others("")),
        ("object-1.yaml", others("apiVersion: v1\nkind: ConfigMap\n")),
        ("object-2.yaml", others("apiVersion: v1\nkind: ConfigMap\n")),
        ("object-3.yaml", others("apiVersion: v1\nkind: ConfigMap\n")),
        ("object-4.yaml", others("---\n") + "apiVersion: v1\nkind: ConfigMap\n"),
        ("other.yaml", others("")),
        ("rule.yaml", RULE.to_owned()),
        ("z.yaml", others("---\n") + RULE),
    ] {
        fs::write(scratch.join(name), text).unwrap();
    }
    for (target, link) in [("nowhere.yaml", "dangling.yaml"), ("itself.yaml", "itself.yaml")] {
        std::os::unix::fs::symlink(target, scratch.join(link)).unwrap();
    }
    let limits = Limits { file: 1100, total: 2000, ..Limits::default() };
    let inputs = Inputs { paths: vec![scratch.clone()], ..Inputs::default() };
    let (mut read, mut unread) = (0, Vec::new());
    let files = manifest::read(&inputs, &limits, &mut |document| match document {
        Ok(_) => read += 1,
        Err(error) => {
            let name = error.location.file().rsplit('/').next().unwrap_or_default().to_owned();
            unread.push(format!("{name} {}", error.may_hold_rules));
        }
    });
    let expected =
        ["dangling.yaml false", "itself.yaml false", "object-3.yaml false", "object-4.yaml false", "z.yaml true"];
    assert_eq!((unread.as_slice(), read), (&expected.map(str::to_owned)[..], 3));
    assert_eq!(files.skipped.len(), 1, "{:?}", files.skipped);
}

/// Root may read anything, so that it steps down to nobody.
#[test]
fn validate_reports_forbidden_folder_and_checks_the_rest() {
    let scratch = std::env::temp_dir().join(format!("validate-rights-{}", std::process::id()));
    fs::create_dir_all(scratch.join("secret")).unwrap();
    fs::write(scratch.join("rule.yaml"), RULE).unwrap();
    // Where the program was built, nobody may not even look.
    let program = scratch.join("program");
    // By another process: what this one has open for writing, a test that forks at that moment keeps open, and
    // the program could not be executed.
    let copied = Command::new("cp").arg(validate(&[]).get_program()).arg(&program).status();
    assert!(copied.unwrap().success());
    fs::set_permissions(scratch.join("secret"), fs::Permissions::from_mode(0o000)).unwrap();
    let mut command = Command::new(&program);
    command.args(["validate", "secret", "rule.yaml"]).current_dir(&scratch);
    if fs::read_dir(scratch.join("secret")).is_ok() {
        command.uid(65534).gid(65534);
    }
    let output = command.output();
    fs::remove_dir_all(&scratch).unwrap();
    let output = output.unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert!(stdout.contains("cannot list it: Permission denied"), "{stdout}");
    assert!(stdout.contains("--> rule.yaml:6:13"), "{stdout}");
    assert_eq!(output.status.code(), Some(2), "{stdout}");
}

#[test]
fn validate_into_a_closed_pipe_is_no_error() {
    let program = validate(&[]).get_program().to_owned();
    let script = r#""$0" validate all-at-once.yaml; echo "exit $?" >&2"#;
    let mut command = Command::new("/bin/sh");
    command.args(["-c", &format!("({script}) | true")]).arg(program).current_dir(folder());
    let stderr = command.output().unwrap().stderr;
    let stderr = String::from_utf8_lossy(&stderr).into_owned();
    assert!(!stderr.contains("error"), "{stderr}");
}

#[test]
fn validate_of_closed_or_empty_input_fails() {
    for script in [r#""$0" validate - <&-"#, r#"false | "$0" validate -"#, r#""$0" validate -f - </dev/null"#] {
        let mut command = Command::new("/bin/sh");
        let output = command.args(["-c", script]).arg(validate(&[]).get_program()).output();
        let output = output.unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{script}: {output:?}");
        assert!(stderr.contains("no NodeExtendedResource found"), "{script}: {stderr}");
    }
}

/// More warnings than are kept do not hide the errors among them and after them, and what is kept stays in
/// the order of the files.
#[test]
fn validate_with_too_many_warnings_keeps_the_errors() {
    let rule = |number: usize| {
        let quantity = if number % 9_000 == 8_999 { "0" } else { "017" };
        RULE.replace("dongle", &format!("d{number}")).replace(": 0\n", &format!(": {quantity}\n"))
    };
    let mut validator = Validator::new().unwrap();
    for number in 0..27_000 {
        let (name, mut take) = (format!("{number:05}"), |read| validator.take(read));
        manifest::read_text(&name, rule(number), &Limits::default(), &mut take);
    }
    let report = validator.finish(Files::default());
    let counts = [Severity::Error, Severity::Warning].map(|severity| report.count(severity));
    assert_eq!((counts, report.diagnostics.len(), report.omitted()), ([3, 26_997], 10_000, 17_000));
    let files: Vec<_> = report.diagnostics.iter().map(|it| it.location.file()).collect();
    assert!(files.is_sorted());
    assert_eq!(files[9_997..], ["09997", "17999", "26999"]);
    assert!(report.summary().ends_with(": 3 errors, 26,997 warnings (17,000 not shown)"));
    let omitted = "17,000 more problems are not listed";
    for format in [Format::Github, Format::Gitlab, Format::Junit] {
        assert!(report.render(format).contains(omitted), "{format:?}");
    }
}

/// A manifest with parts changed, lost, repeated and put in.
fn garbage(random: &mut fastrand::Rng, seeds: &[String]) -> String {
    let scraps = [
        "&a ", "*a", "- ", ": ", "\n", "\t", "---\n", "<<: ", "!!int ", "{", "]", "'", "\"", "|\n", "? ", "\u{feff}",
        "ß", "\r", "0x", "~", "%", "#", "...",
    ];
    let mut text: Vec<char> = random.choice(seeds).unwrap().chars().collect();
    for _ in 0..random.usize(1..12) {
        let at = random.usize(..text.len());
        let end = random.usize(at..text.len().min(at + 40) + 1);
        match random.u8(..4) {
            0 => drop(text.drain(at..end)),
            1 => text.splice(at..at, random.choice(scraps).unwrap().chars()).for_each(drop),
            2 => {
                let copied: Vec<char> = text[at..end].to_vec();
                let to = random.usize(..=text.len());
                text.splice(to..to, copied).for_each(drop);
            }
            _ => text[at] = random.char(..),
        }
        if text.is_empty() {
            text.push('a');
        }
    }
    text.into_iter().collect()
}

/// JUnit XML and annotations can be read, and have so many problems.
fn check_reports(report: &Report, problems: usize) {
    let xml = report.render(Format::Junit);
    let cases = reports::junit(&xml).unwrap_or_else(|error| panic!("{error}: {xml}"));
    assert_eq!(cases.iter().filter(|case| !case.text.is_empty()).count(), problems, "{xml}");
    let output = report.render(Format::Github);
    let (annotations, others) = reports::annotations(&output).unwrap();
    assert_eq!((annotations.len(), others), (problems, vec![report.summary().as_str()]), "{output}");
}

/// What ends an element, an attribute, a line or a property, in the name of a file and in its text.
#[test]
fn validate_reports_of_hostile_names_and_texts_can_be_read() {
    let hostile = "]]>&<a b='c'>\"%0A,x=y::error::z%25";
    // XML cannot have the last character.
    let (name, in_xml) = (format!("{hostile}\u{fffe}"), format!("{hostile}\u{fffd}"));
    let mut validator = Validator::new().unwrap();
    let rule = format!("{RULE}  ? {hostile:?}\n  : 1\n").replace("quantity: 0", &format!("quantity: {hostile:?}"));
    manifest::read_text(&name, rule, &Limits::default(), &mut |read| validator.take(read));
    let report = validator.finish(Files::default());
    assert_eq!(report.diagnostics.len(), 2, "{report:#?}");
    check_reports(&report, 2);
    for (case, diagnostic) in reports::junit(&report.render(Format::Junit)).unwrap().iter().zip(&report.diagnostics) {
        assert_eq!((&case.file, &case.message), (&in_xml, &Some(diagnostic.title())));
        assert!(case.text.contains(&format!("{in_xml}:")) && case.text.contains(&diagnostic.title()), "{case:?}");
    }
    let output = report.render(Format::Github);
    for (annotation, diagnostic) in reports::annotations(&output).unwrap().0.iter().zip(&report.diagnostics) {
        assert_eq!(annotation.properties["file"], name, "{output}");
        let hint = diagnostic.hint.as_ref().map(|hint| format!("\n{hint}")).unwrap_or_default();
        assert_eq!(annotation.message, format!("{}{hint}", diagnostic.title()), "{output}");
    }
}

/// Each problem is reported, with locations that exist.
#[test]
fn validate_never_panics_on_random_bytes() {
    let names = ["yaml.yaml", "all-at-once.yaml", "selectors.yaml", "rules.json", "requests.yaml"];
    let seeds = names.map(|name| fs::read_to_string(folder().join(name)).unwrap());
    let mut random = fastrand::Rng::with_seed(7);
    for _ in 0..15 {
        let texts: Vec<_> = (0..100).map(|_| garbage(&mut random, &seeds)).collect();
        let mut validator = Validator::new().unwrap();
        for (index, text) in texts.iter().enumerate() {
            let mut take = |read| validator.take(read);
            manifest::read_text(&index.to_string(), text.clone(), &Limits::default(), &mut take);
        }
        let report = validator.finish(Files::default());
        assert!(report.diagnostics.len() > texts.len() / 2, "{}", report.diagnostics.len());
        for diagnostic in &report.diagnostics {
            let text = &texts[diagnostic.location.file().parse::<usize>().unwrap()];
            let (line, column) = diagnostic.location.start().expect("a place");
            let line = text.split('\n').nth(line - 1).expect("a line that is there");
            assert!(column <= line.chars().count() + 1, "{column} in {line:?}");
            assert!(!diagnostic.title().contains('\n'), "{:?}", diagnostic.title());
        }
        for format in [Format::Text { colour: true }, Format::Json, Format::Gitlab] {
            assert!(!report.render(format).is_empty());
        }
        check_reports(&report, report.diagnostics.len());
        let counts = [Severity::Unreadable, Severity::Error, Severity::Warning];
        let sum: usize = counts.iter().map(|severity| report.count(*severity)).sum();
        assert_eq!(sum, report.diagnostics.len() + report.omitted());
    }
}
