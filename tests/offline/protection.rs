use node_resource_advertiser::model::ledger::Ledger;

/// `deploy/protect.yaml` reads the ledger without a parser of JSON, and would keep nothing of another form.
#[test]
fn ledger_keys_are_where_the_policy_reads_them() {
    let texts = [
        r#"{"example.com/a":{"quantity":"4","rule":"a"}}"#,
        r#"{"b.example.com/Key_1":{"quantity":"800Gi","rule":"a.b"},"example.com/a":{"quantity":"1k","rule":"a","deletionPolicy":"Retain"},"x/y":{"quantity":"1","rule":"z"}}"#,
        r#"{"example.com/a":{"quantity":"4","rule":"a","later":[1,["x"]],"z":"],"},"example.com/b":{"quantity":"4","rule":"b","later":[[]]}}"#,
    ];
    for text in texts {
        let ledger = Ledger::parse(Some(text)).unwrap();
        let annotation = ledger.to_annotation().unwrap();
        let entries = annotation.strip_prefix("{\"").unwrap().split("},\"");
        let read: Vec<_> = entries.map(|entry| entry.split("\":{").next().unwrap()).collect();
        let missing: Vec<_> = ledger.entries().filter(|(name, _)| !read.contains(name)).collect();
        assert!(missing.is_empty(), "{missing:?} not in {read:?}");
    }
    let policy = crate::read("deploy/protect.yaml");
    for expression in [r#".startsWith('{"')"#, r#".split('},"')"#, r#".split('":{')"#] {
        assert!(policy.contains(expression), "{expression} is what this test does too");
    }
}
