//! The schema of `spec.quantity`, and of a table of quantities.

use schemars::{Schema, SchemaGenerator, json_schema};

use super::rule::{BAD_VALUE, LABEL_VALUE, QUANTITY, rule, rule_of_each};
use crate::model::quantity::{MAX_QUANTITY, MAX_QUANTITY_LENGTH};

/// The number of quantities in `nodeLabel.values`.
pub const MAX_ENTRIES: usize = 256;
/// The characters of their labels' values together.
pub const MAX_ENTRIES_LENGTH: usize = 8 * 1024;

pub(crate) fn quantity(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "x-kubernetes-int-or-string": true,
        "maxLength": MAX_QUANTITY_LENGTH,
        "x-kubernetes-validations": quantity_rules("self", "delete the rule").map(|(holds, message)| rule(holds, &message)),
    })
}

/// Returns what must hold of a quantity in the CEL variable `it`, each with its message. `nothing` is how to advertise
/// nothing.
fn quantity_rules(it: &str, nothing: &str) -> [(String, String); 4] {
    // A test on the string form, for what is a quantity at all.
    let holds = |on_int: &str, on_quantity: &str| {
        format!("type({it}) == int ? {on_int} : (!{it}.matches('{QUANTITY}') || {on_quantity})")
    };
    let positive = format!("quantity({it}).isGreaterThan(quantity('0'))");
    let too_large = format!("quantity({it}).isGreaterThan(quantity('{MAX_QUANTITY}'))");
    // isInteger() is false for whole numbers such as 120Ti, 62.0Gi and 4000m: it returns how the
    // number is stored. The difference from the number's float is exact, and a float of up to
    // MAX_QUANTITY is off by less than 4: so it is one of these integers, or there is a fraction. The list of one
    // quantity is a variable: Kubernetes 1.30 takes no bound on the length of an int-or-string into account, and
    // rejects a rule that parses the text many times as too expensive.
    let whole = format!(
        "[quantity({it})].exists(all, !all.isGreaterThan(quantity('0')) || all.isGreaterThan(quantity('{MAX_QUANTITY}')) \
         || ['-4', '-3', '-2', '-1', '0', '1', '2', '3', '4'].exists(rest, \
         all.sub(int(all.asApproximateFloat())).compareTo(quantity(rest)) == 0))"
    );
    [
        (
            format!("type({it}) == int || {it}.matches('{QUANTITY}')"),
            "not a quantity: write a whole number such as 4, or one with a suffix such as 800Gi (suffixes: k M G T P E, Ki Mi Gi Ti Pi Ei)".to_owned(),
        ),
        (
            holds("true", &whole),
            "a whole number is needed: extended resources are counted, and cannot be split".to_owned(),
        ),
        (
            holds(&format!("{it} >= 1"), &positive),
            format!("at least 1 is needed: to advertise nothing, {nothing}"),
        ),
        (
            holds(&format!("{it} <= {MAX_QUANTITY}"), &format!("!{too_large}")),
            "out of range: at most 9223372036854775 can be advertised".to_owned(),
        ),
    ]
}

/// A table of quantities by the value of a label. Kubernetes 1.30 estimates each text of an int-or-string as long as a
/// request, so an entry is a variable of a list, which counts as long as the table has entries.
pub(crate) fn quantities_by_value(_: &mut SchemaGenerator) -> Schema {
    let mut rules = vec![
        rule("self.size() > 0", "the table is empty: write an entry for each value of the label, such as m5.large: 24"),
        rule_of_each(&format!("key.size() <= 63 && key.matches('{LABEL_VALUE}')"), BAD_VALUE),
        rule(
            format!("self.map(key, key.size()).sum() <= {MAX_ENTRIES_LENGTH}"),
            &format!(
                "too long: the values of the label may have {MAX_ENTRIES_LENGTH} characters together; write a rule for each group of nodes"
            ),
        ),
        rule_of_each("dyn(self[key]) != null", "an entry without a quantity: write it, such as m5.large: 24"),
    ];
    rules.extend(quantity_rules("amount", "leave the entry out, and set whenMissing: None").map(|(holds, message)| {
        rule_of_each(&format!("dyn(self[key]) == null || [self[key]].all(amount, {holds})"), &message)
    }));
    json_schema!({
        "type": "object",
        "maxProperties": MAX_ENTRIES,
        "additionalProperties": {
            "x-kubernetes-int-or-string": true,
            // So that a null reaches the rule above: the API server would drop it, and with it the entry.
            "nullable": true,
            "maxLength": MAX_QUANTITY_LENGTH,
        },
        "x-kubernetes-validations": rules,
    })
}
