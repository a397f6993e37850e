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
        [
            Marker::Runs("quick-start".to_owned()),
            Marker::NotRun("there is no release".to_owned()),
            Marker::Missing
        ]
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
    assert_eq!(
        commands,
        [
            "helm install \\\n  chart\n",
            "NS=here\n",
            "kubectl apply -f - <<EOF\na: 1\n\nb: 2\nEOF\n"
        ]
    );
}

#[test]
fn notes_are_run_but_for_the_uninstallation() {
    let notes =
        "It runs.\n\nSee:\n\n  kubectl get a\n  kubectl get b\n\nEnd:\n\n  helm uninstall a\n";
    let blocks = notes_blocks(notes);
    let texts: Vec<_> = blocks.iter().map(|block| block.text.as_str()).collect();
    assert_eq!(texts, ["kubectl get a\nkubectl get b\n"]);
}

#[test]
fn command_that_fails_or_prints_something_else_is_an_error() {
    let run = |text: &str, is_console| {
        shell().run(&[block(text, is_console)]).map_err(|error| format!("{error:#}"))
    };
    assert_eq!(run("true\necho a\n", false), Ok(2));
    assert_eq!(
        run("NS=here\ntest $NS = there\ntest NODE = node-1\ntest xNODE = xNODE\n", false),
        Ok(3)
    );
    assert_eq!(run("echo a | grep b\n", false), Ok(1));
    assert!(run("no-such-command | grep b\n", false).is_err(), "grep hides no failure");
    assert_eq!(run("cat <<'EOF' | grep b\nb\nEOF\ntrue\n", false), Ok(2));
    assert!(run("true \\\n", false).is_ok() && run("cat <<EOF\n", false).is_ok());
    assert!(run("true\nfalse\n", false).unwrap_err().contains("page:1: false: ended with 1"));
    assert!(run("$ echo a  b 3m2s\na b 5d\n$ false\n", true).unwrap_err().contains("false"));
    assert_eq!(run("$ echo one two three\none … three\n", true), Ok(1));
    assert!(run("$ echo one two\none … three\n", true).is_err());
    assert!(run("$ echo a; echo b\na\n", true).is_err(), "a line that the page lacks");
    assert_eq!(run("$ echo a; false\na\n", true), Ok(1), "its output is shown");
}
