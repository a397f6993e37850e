use std::collections::BTreeMap;

use super::*;

const PAGE: &str = "\
Text.

<!-- runs: quick-start -->
```console
$ kubectl get ner
NAME   AGE
a      3s
$ kubectl apply -f - <<EOF
> a: 1
> EOF
```

<!-- not run: there is no release -->

```sh
helm install \\
  chart
NS=here
kubectl apply -f - <<EOF
a: 1

b: 2
EOF
```

```yaml
a: 1
```

```sh
forgotten
```
";

fn shell() -> Shell {
    Shell {
        folder: PathBuf::from("/"),
        environment: Vec::new(),
        words: vec![("NODE", "node-1".to_owned())],
        variables: BTreeMap::from([("NS", "there".to_owned())]),
    }
}

fn block(text: &str, is_console: bool) -> Block {
    let marker = Marker::Runs("test".to_owned());
    Block { page: "page".to_owned(), line: 1, marker, text: text.to_owned(), is_console }
}

#[test]
fn blocks_have_their_markers_and_commands() {
    let blocks = blocks_of("page", PAGE);
    let markers: Vec<_> = blocks.iter().map(|block| block.marker.clone()).collect();
    assert_eq!(
        markers,
        [Marker::Runs("quick-start".to_owned()), Marker::NotRun("there is no release".to_owned()), Marker::Missing]
    );
    let commands = |number: usize| -> Vec<_> {
        blocks[number].steps().into_iter().map(|step| (step.command, step.output)).collect()
    };
    assert_eq!(
        commands(0),
        [
            ("kubectl get ner".to_owned(), Some("NAME   AGE\na      3s\n".to_owned())),
            ("kubectl apply -f - <<EOF\na: 1\nEOF".to_owned(), None),
        ]
    );
    let commands: Vec<_> = commands(1).into_iter().map(|(command, _)| command).collect();
    assert_eq!(commands, ["helm install \\\n  chart\n", "NS=here\n", "kubectl apply -f - <<EOF\na: 1\n\nb: 2\nEOF\n"]);
}

#[test]
fn notes_are_run_except_for_the_uninstallation() {
    let notes = "It runs.\n\nSee:\n\n  kubectl get a\n  kubectl get b\n\nEnd:\n\n  helm uninstall a\n";
    let blocks = notes_blocks(notes);
    let texts: Vec<_> = blocks.iter().map(|block| block.text.as_str()).collect();
    assert_eq!(texts, ["kubectl get a\nkubectl get b\n"]);
}

#[test]
fn command_that_fails_or_prints_something_else_is_an_error() {
    let run = |text: &str, is_console| shell().run(&[block(text, is_console)]).map_err(|error| format!("{error:#}"));
    assert_eq!(run("true\necho a\n", false), Ok(2));
    assert_eq!(run("NS=here\ntest $NS = there\ntest NODE = node-1\ntest xNODE = xNODE\n", false), Ok(3));
    assert_eq!(run("echo a | grep b\n", false), Ok(1));
    assert!(run("no-such-command | grep b\n", false).is_err(), "grep hides no failure");
    assert_eq!(run("cat <<'EOF' | grep b\nb\nEOF\ntrue\n", false), Ok(2));
    assert!(run("true \\\n", false).is_ok() && run("cat <<EOF\n", false).is_ok());
    assert!(run("true\nfalse\n", false).unwrap_err().contains("page:1: false: ended with 1"));
    assert!(run("$ echo a  b\na b\n$ false\n", true).unwrap_err().contains("false"));
    assert_eq!(run("$ echo one two three\none … three\n", true), Ok(1));
    assert!(run("$ echo one two\none … three\n", true).is_err());
    assert!(run("$ echo a; echo b\na\n", true).is_err(), "a line that the page lacks");
}

#[test]
fn commands_are_found_in_every_notation() {
    let texts =
        |page: &str| -> Vec<_> { blocks_of("page", page).into_iter().map(|block| (block.line, block.text)).collect() };
    let found = |line: usize, text: &str| vec![(line, text.to_owned())];
    assert_eq!(texts("Text:\n\n    ls a\n    ls b\n\nText.\n"), found(3, "ls a\nls b\n"));
    assert_eq!(texts("- Item:\n\n  ```sh\n  ls\n  ```\n"), found(3, "ls\n"));
    assert_eq!(texts("1. Item:\n\n       ls\n"), found(3, "ls\n"));
    assert_eq!(texts("> ~~~ bash\n> ls\n> ~~~\n"), found(1, "ls\n"));
    assert_eq!(texts("```\nls\n```\n"), found(1, "ls\n"), "without a language");
    assert_eq!(texts("````sh\ncat <<A\n```\nA\n````\n"), found(1, "cat <<A\n```\nA\n"));
    assert_eq!(texts("```sh\nls\n"), found(1, "ls\n"), "a fence that nothing closes");
    let others = "```yaml\na: 1\n```\n\n```text\nls\n```\n\n- Item\n    that goes on\n\n| a |\n|---|\n";
    assert_eq!(texts(others), []);
    let marked = "- Item\n\n  <!-- runs: test -->\n  ```sh\n  ls\n  ```\n\n      ls\n";
    let markers: Vec<_> = blocks_of("page", marked).into_iter().map(|block| block.marker).collect();
    assert_eq!(markers, [Marker::Runs("test".to_owned()), Marker::Missing]);
    let apart = "<!-- runs: test -->\n\nText.\n\n    ls\n";
    assert_eq!(blocks_of("page", apart)[0].marker, Marker::Missing);
    let console = blocks_of("page", "Text:\n\n    $ ls\n    a\n");
    assert_eq!(console[0].steps()[0].output.as_deref(), Some("a\n"), "indented, with a prompt");
}

#[test]
fn exit_code_is_compared_with_the_documented_one() {
    let run = |text: &str, is_console| shell().run(&[block(text, is_console)]).map_err(|error| format!("{error:#}"));
    assert!(run("$ echo a; false\na\n", true).unwrap_err().contains("ended with 1"));
    assert_eq!(run("$ echo a; exit 3  # exit 3\na\n", true), Ok(1));
    assert!(run("$ echo a  # exit 3\na\n", true).unwrap_err().contains("ended with 0"));
    assert_eq!(run("exit 3  # exit 3\n", false), Ok(1));
    assert!(run("exit 4  # exit 3\n", false).is_err());
    assert!(run("exit 3  # exit three\n", false).is_err());
    assert!(run("$ kill -9 $$\n", true).is_err(), "a signal");
    assert!(run("echo a | false | grep a\n", false).is_err(), "grep hides no failure");
    assert!(run("echo a | grep --no-such-flag\n", false).is_err());
}

#[test]
fn ages_match_only_in_age_columns() {
    let run = |text: &str| shell().run(&[block(text, true)]);
    let table = |rows: &str| format!("$ printf '%s\\n' {rows}");
    let command = table("'NAME   CPU    AGE' 'a      100m   3m2s' 'b      7d     5d'");
    assert!(run(&format!("{command}\nNAME   CPU    AGE\na      100m   12s\nb      7d     4h\n")).is_ok());
    assert!(run(&format!("{command}\nNAME   CPU    AGE\na      200m   12s\nb      7d     4h\n")).is_err());
    assert!(run(&format!("{command}\nNAME   CPU    AGE\na      100m   12s\nb      8d     4h\n")).is_err());
    assert!(run(&format!("{command}\nNAME   CPU    AGE\na      100m   soon\nb      7d     4h\n")).is_err());
    let events = table("'LAST SEEN   TYPE' '3s          Normal'");
    assert!(run(&format!("{events}\nLAST SEEN   TYPE\n1y20d       Normal\n")).is_ok());
    assert!(run(&format!("{events}\nLAST SEEN   TYPE\n1m2y        Normal\n")).is_err());
    assert!(run("$ echo cpu 100m\ncpu 7d\n").is_err(), "no table");
    let after = table("'NAME   AGE' 'a      3s' '' 'quota  3s'");
    assert!(run(&format!("{after}\nNAME   AGE\na      5s\n\nquota  5s\n")).is_err(), "past the table");
}

#[test]
fn times_match_where_they_are_words() {
    let run = |text: &str| shell().run(&[block(text, true)]);
    assert!(run("$ echo a 2026-01-31T09:30:00Z b\na 2027-11-01T10:00:59Z b\n").is_ok());
    for other in ["a 2026-01-31T09:30:00Z c", "a 2026-01-31 b", "a 2026-01-31T09:30:00 b", "a (2026-01-31T09:30:01Z) b"]
    {
        assert!(run(&format!("$ echo a 2026-01-31T09:30:00Z b\n{other}\n")).is_err(), "{other}");
    }
}
