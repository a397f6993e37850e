use std::io::repeat;

use flate2::Compression;
use flate2::read::GzEncoder;

use super::*;

/// The names of the nodes in a text, or what is wrong with it.
fn names(text: impl AsRef<[u8]>) -> Result<Vec<String>, String> {
    let mut names = Vec::new();
    let result = read_from("f", text.as_ref(), &mut |node: ApiNode| {
        let name = kube::ResourceExt::name_any(&node);
        if name == "bad" {
            return Err("a bad one".to_owned());
        }
        names.push(name);
        Ok(())
    });
    result.map(|()| names).map_err(|error| error.to_string())
}

const LIST: &str = r#"{"apiVersion": "v1", "items": [
    {"kind": "Node", "metadata": {"name": "a", "labels": {"x": "ö"}}, "status": {"capacity": {"cpu": "1"}}},
    {"kind": "Pod", "metadata": {"name": "p"}},
    {"kind": "Node", "metadata": {"name": "b"}}
], "kind": "List", "metadata": {"resourceVersion": ""}}"#;

const NODE: &str = r#"{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "c"}}"#;

#[test]
fn node_files_accept_lists_and_objects_in_json_and_yaml() {
    let list = || Ok(vec!["a".to_owned(), "b".to_owned()]);
    assert_eq!(names(LIST), list());
    assert_eq!(names(format!("\u{feff}\n {LIST}\n")), list());
    assert_eq!(names(format!("{NODE}\n{LIST}{NODE}")), Ok(["c", "a", "b", "c"].map(String::from).into()));
    let yaml =
        "apiVersion: v1\nkind: Node\nmetadata: {name: a}\n---\napiVersion: v1\nkind: Node\nmetadata: {name: b}\n";
    assert_eq!(names(yaml), list());
    let nodes = r#"{"kind": "NodeList", "items": [{"metadata": {"name": "a"}}, {"metadata": {"name": "b"}}]}"#;
    assert_eq!(names(nodes), list());
}

/// As tools write them that are not kubectl.
#[test]
fn node_files_of_other_shapes_are_read() {
    let kindless = r#"{"metadata": {"name": "c"}, "status": {"capacity": {"cpu": "8"}}}"#;
    let dump = r#"{"kind": "NodeList", "items": [{"metadata": {"name": "c"}}]}
        {"kind": "EventList", "items": [{"involvedObject": {}}]} {"kind": "PodList", "items": []}"#;
    let numbers = r#"{"kind": "Node", "metadata": {"name": "c"}, "status": {
        "capacity": {"cpu": 32, "memory": 1.5, "example.com/a": null}, "allocatable": {"example.com/a": 4}}}"#;
    let yaml = "apiVersion: v1\nkind: Node\nmetadata: {name: c}\nstatus: {capacity: {pods: 110, example.com/a: 4}}\n";
    let item = "- metadata: {name: c}\n  status: {capacity: {cpu: 8}}\n";
    let yaml_items = format!("items:\n{item}");
    let yaml_pod = format!("{item}- {{kind: Pod, metadata: {{name: a}}}}\n");
    for text in [kindless, &format!("[{kindless}]"), &format!(" [{NODE}]"), dump, numbers, yaml].into_iter().chain([
        "metadata: {name: c}\n",
        item,
        &yaml_items,
        &yaml_pod,
        "items: []\n---\nmetadata: {name: c}\n",
    ]) {
        assert_eq!(names(text), Ok(vec!["c".to_owned()]), "{text}");
    }
}

/// As `kubectl cluster-info dump` prints it, which goes on with the next namespace after the logs.
#[test]
fn node_file_of_a_dump_is_read_without_its_logs() {
    let list = |name: &str| {
        format!("{{\n \"kind\": \"NodeList\", \"items\": [{{\"metadata\": {{\"name\": \"{name}\"}}}}]\n}}\n")
    };
    let log = |text: &str| {
        format!(
            "==== START logs for container c of pod default/p ====\n{text}==== END logs for container c of pod default/p ====\n"
        )
    };
    let long = format!("{}\n", "x".repeat(2 * 4096 - 9));
    for text in ["", "{\"a\": 1}\n]\n", "no line break at the end", "==== a\n\n=\n", &long, long.trim_end()] {
        let logs = log(text) + &log("") + &log(text);
        let dump = format!("{}{logs}{}{logs}", list("a"), list("b"));
        assert_eq!(names(&dump), Ok(vec!["a".to_owned(), "b".to_owned()]), "{}", &text[..text.len().min(50)]);
        let lines = dump.lines().count();
        let error = names(dump + &list("bad")).unwrap_err();
        assert!(error.starts_with(&format!("f:{}:", lines + 2)), "{error} {lines}");
    }
    let cut = format!("{}==== START logs for container c of pod default/p ====\nabc\n", list("a"));
    assert_eq!(names(cut).unwrap_err(), "cannot read f: it ends within the logs of a container");
    assert!(names(format!("{}==== a ====\n", list("a"))).unwrap_err().starts_with("f:4:1: expected value"));
}

fn gzip(text: impl Read) -> Vec<u8> {
    let mut compressed = Vec::new();
    GzEncoder::new(text, Compression::fast()).read_to_end(&mut compressed).unwrap();
    compressed
}

#[test]
fn compressed_node_files_are_read() {
    let yaml = "kind: Node\napiVersion: v1\nmetadata: {name: c}\n";
    for text in [NODE, yaml] {
        assert_eq!(names(gzip(text.as_bytes())), Ok(vec!["c".to_owned()]));
    }
    // As `cat a.gz b.gz` puts them together.
    let joined = [gzip(NODE.as_bytes()), gzip(NODE.as_bytes())].concat();
    assert_eq!(names(joined), Ok(vec!["c".to_owned(); 2]));
    // Cut off, or changed on its way.
    let list = format!("{{\"items\": [{}]}}", [NODE; 1000].join(","));
    let whole = gzip(list.as_bytes());
    assert_eq!(names(&whole).unwrap().len(), 1000);
    for length in 2..whole.len() {
        assert!(names(&whole[..length]).unwrap_err().starts_with("cannot read f: "), "{length}");
    }
    let mut changed = whole;
    *changed.last_mut().unwrap() ^= 1;
    assert!(names(changed).is_err());
}

/// A few kilobytes can become terabytes.
#[test]
fn compressed_file_of_any_size_ends() {
    let read = |length| {
        let mut ignore = |_: ApiNode| Ok(());
        let bomb = gzip(NODE.as_bytes().chain(repeat(b' ')).take(length));
        read_compressed("f", bomb.as_slice(), 1 << 20, &mut ignore).map_err(|error| error.to_string())
    };
    assert_eq!(read(1 << 20), Ok(()));
    assert_eq!(read((1 << 20) + 1), Err("f: more than 1 MiB when decompressed".to_owned()));
    assert_eq!(read(20 << 20), Err("f: more than 1 MiB when decompressed".to_owned()));
}

#[test]
fn node_file_errors_have_a_source_location() {
    for (text, says) in [
        ("", "f: no Node found"),
        ("{}", "f: no Node found"),
        (r#"{"items": null}"#, "f: no Node found"),
        (r#"{"kind": "Pod", "metadata": {"name": "a"}}"#, "f: no Node found"),
        (r#"{"items": [{"metadata": {"name": "bad"}}]}"#, "f:1:41: a bad one"),
        (r#"{"items": [{"metadata": {}}, {}]}"#, "f:1:31: missing field `metadata`"),
        (r#"{"items": 5}"#, "f:1:12: invalid type: integer `5`, expected a list of objects"),
        (r#"{"items": [], "kind": "PodList"}"#, ": a PodList, but Nodes are expected"),
        (r#"{"items": [], "kind": "EventList"}"#, ": an EventList, but Nodes are expected"),
        (r#"{"kind": "Node", "metadata": 5}"#, "invalid type: integer `5`, expected struct"),
        ("{\"kind\":\n \"Node\", \"metadata\": {}} x", "f:2:26: expected value"),
        ("[]", "f: no Node found"),
        (r#"[{"kind": "Node"}]"#, "f:1:17: missing field `metadata`"),
        (r#"{"kind": "EventList", "items": [5]}"#, "f: no Node found, but an EventList"),
        ("{\"kind\": \"Node\", \"metadata\": {}, \"status\": {\"capacity\": {\"cpu\": true}}}", "true is no quantity"),
        ("apiVersion: v1\nkind: Node\nmetadata: {name: bad}", "f:1:1: a bad one"),
        ("a: [", "f:1:"),
        ("\u{0}", "f:1:"),
    ] {
        let error = names(text).expect_err(text);
        assert!(error.contains(says), "{text:?}: {error}");
    }
    for bytes in [&b"\xff\xfe{\0"[..], b"a: \xff", b"{\"a\": \"\xff\"}", b"\x1f\x8b\x08"] {
        let error = names(bytes).unwrap_err();
        assert!(!error.contains("no Node"), "{bytes:?}: {error}");
    }
}

/// A dump has such a file for each namespace.
#[test]
fn pod_file_with_an_empty_list_is_read() {
    let read = |text: &str| {
        let mut files = PodFiles::default();
        let read = read_from("f", text.as_bytes(), &mut |pod: PodObject| {
            files.add(&pod);
            Ok(())
        });
        read.map_err(|error| error.to_string())
    };
    for text in [
        r#"{"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": []}"#,
        r#"{"kind": "PodList", "apiVersion": "v1", "items": null}"#,
        r#"{"apiVersion": "v1", "items": [], "kind": "List"}"#,
        r#"{"kind": "NodeList", "items": [5]} {"kind": "PodList", "items": []}"#,
        "apiVersion: v1\nitems: []\nkind: List\n",
        "[]",
    ] {
        assert_eq!(read(text), Ok(()), "{text}");
    }
    for (text, says) in [
        ("{}", "f: no Pod found"),
        (r#"{"kind": "NodeList", "items": []}"#, "f: no Pod found, but a NodeList"),
        (r#"{"items": [], "kind": "NodeList"}"#, ": a NodeList, but Pods are expected"),
        (r#"{"items": [{"kind": "Node"}], "kind": "List"}"#, "f: no Pod found"),
    ] {
        let error = read(text).expect_err(text);
        assert!(error.contains(says), "{text}: {error}");
    }
}

#[test]
fn described_object_is_named_with_the_command_to_use() {
    let node = "Name:               worker-1\nRoles:              <none>\nLabels:             a=b\n";
    let pod = "Name:             build\nNamespace:        default\nPriority:         0\n";
    for text in [node, pod, &format!("\n{node}")] {
        let error = names(text).unwrap_err();
        let says = "f: this is what kubectl describe prints for people: use kubectl get nodes -o json";
        assert!(error.starts_with(says), "{error}");
    }
    for text in ["Name:  a\n", "Name:  a\nkind: Node\n", "Name: a\nRoles: b\n", "a: b\nName:  a\nRoles:  b\n"] {
        assert!(names(text).is_err_and(|error| !error.contains("describe")), "{text:?}");
    }
}

/// PowerShell's `>` writes UTF-16.
#[test]
fn node_file_in_utf16_is_named_as_such() {
    let wide = |text: &str, size: usize, big: bool| -> Vec<u8> {
        let encode = |char: char| {
            let mut bytes = u32::from(char).to_be_bytes()[4 - size..].to_vec();
            if !big {
                bytes.reverse();
            }
            bytes
        };
        text.chars().flat_map(encode).collect()
    };
    for (size, name) in [(2, "UTF-16"), (4, "UTF-32")] {
        for big in [false, true] {
            for text in [LIST, &format!("\u{feff}{LIST}"), "kind: Node\nmetadata: {}"] {
                let error = names(wide(text, size, big)).unwrap_err();
                let message = format!("f: the file is {name}: save it as UTF-8 (in PowerShell: ");
                assert!(error.starts_with(&message), "{size} {big} {text}: {error}");
            }
        }
    }
}

/// A download that was cut off must not pass for a smaller cluster.
#[test]
fn truncated_node_file_is_an_error() {
    for text in [LIST, NODE] {
        for end in 0..text.len() {
            assert!(names(&text.as_bytes()[..end]).is_err(), "{end}");
        }
    }
}

#[test]
fn node_files_beyond_limits_are_rejected() {
    let deep = "[".repeat(100_000);
    for text in [format!("{{\"a\": {deep}"), format!("{{\"items\": [{{\"a\": {deep}")] {
        assert!(names(text).is_err());
    }
    let endless = repeat(b'#');
    let error = read_from("f", endless, &mut |_: ApiNode| Ok(())).unwrap_err().to_string();
    assert!(error.contains("16 MiB of YAML: use JSON, which can have any size (kubectl get nodes"), "{error}");
}

#[test]
fn pod_file_requests_are_summed_by_node() {
    let pod = |node: &str, phase: &str| {
        format!(
            r#"{{"kind": "Pod", "spec": {{"nodeName": {node}, "containers": [{{"resources":
                {{"requests": {{"example.com/a": "2"}}}}}}]}}, "status": {{"phase": "{phase}"}}}}"#
        )
    };
    let pods = [
        pod(r#""a""#, "Running"),
        pod(r#""a""#, "Pending"),
        pod(r#""a""#, "Failed"),
        pod(r#""b""#, "Running"),
        pod("null", "Pending"),
    ];
    let list = format!(r#"{{"items": [{}], "kind": "List"}}"#, pods.join(","));
    let mut files = PodFiles::default();
    let take = &mut |pod: PodObject| {
        files.add(&pod);
        Ok(())
    };
    read_from("f", list.as_bytes(), take).unwrap();
    let requested = |node: &str| files.on(node).requests.bound.get("example.com/a").to_string();
    assert_eq!([requested("a"), requested("b"), requested("c")], ["4", "2", "0"]);
}

/// A file may hold pods as people write them, which no API server has completed.
#[test]
fn pod_file_limits_and_numbers_count_as_requests() {
    let pod = |resources: &str| {
        format!(r#"{{"kind": "Pod", "spec": {{"nodeName": "a", "containers": [{{"resources": {resources}}}]}}}}"#)
    };
    for (resources, requested) in [
        (r#"{"limits": {"example.com/a": "6"}}"#, "6"),
        (r#"{"limits": {"example.com/a": 6}}"#, "6"),
        (r#"{"limits": {"example.com/a": 6}, "requests": {"example.com/a": 6}}"#, "6"),
        (r#"{"limits": {"example.com/a": 6}, "requests": {"example.com/b": 1}}"#, "6"),
        (r#"{"limits": null, "requests": {"example.com/a": 2}}"#, "2"),
        ("null", "0"),
    ] {
        let mut files = PodFiles::default();
        read_from("f", pod(resources).as_bytes(), &mut |pod: PodObject| {
            files.add(&pod);
            Ok(())
        })
        .unwrap();
        assert_eq!(files.on("a").requests.bound.get("example.com/a").to_string(), requested, "{resources}");
    }
}
