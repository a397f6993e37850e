//! The ledger, with arbitrary content.

use node_resource_advertiser::model::ledger::{InvalidLedger, Ledger, MAX_BYTES};
use serde_json::Value;

use crate::limits::limited;

/// A ledger that can be read is written with the same content, including fields of a later version.
pub fn check(bytes: &[u8]) {
    let text = &*String::from_utf8_lossy(bytes);
    let parsed = limited(text.len(), 1, || Ledger::parse(Some(text)));
    if text.len() > MAX_BYTES {
        assert_eq!(parsed, Err(InvalidLedger::TooLong(text.len())));
    }
    let Ok(ledger) = parsed else { return };
    let printed = ledger.to_annotation().unwrap_or_else(|| "{}".to_owned());
    assert_eq!(ledger.length(), if ledger.entries().count() == 0 { 1 } else { printed.len() });
    assert_eq!(shown(&printed), shown(text));
    // An escaped character, such as U+0001, may take more bytes than the input.
    if printed.len() <= MAX_BYTES {
        assert_eq!(Ledger::parse(Some(&printed)).as_ref(), Ok(&ledger), "{printed}");
    }

    // The maximum length, and one byte more.
    let padded = format!("{text}{}", " ".repeat(MAX_BYTES - text.len()));
    assert_eq!(Ledger::parse(Some(&padded)), Ok(ledger));
    assert_eq!(Ledger::parse(Some(&format!("{padded} "))), Err(InvalidLedger::TooLong(MAX_BYTES + 1)));
}

/// The content of the JSON text, without what is omitted: a policy that is the default, or that another precedes.
fn shown(text: &str) -> Value {
    let mut value: Value = serde_json::from_str(text).expect("it is JSON");
    for entry in value.as_object_mut().into_iter().flat_map(|entries| entries.values_mut()) {
        let entry = entry.as_object_mut().expect("an entry is an object");
        if entry.get("deletionPolicy").is_some_and(|policy| policy == "Withdraw") {
            entry.remove("deletionPolicy");
        }
        if entry.get("whenUnused") == Some(&Value::Bool(false)) || entry.contains_key("deletionPolicy") {
            entry.remove("whenUnused");
        }
        if entry.get("leaving") == Some(&Value::Bool(false)) || !entry.contains_key("whenUnused") {
            entry.remove("leaving");
        }
    }
    value
}
