//! The part of the CRD's schema that types cannot express: bounds, and CEL rules whose messages name the correct
//! form. Facts about CEL on the API server: the worst case of a rule must be cheap (so every string, list and map is
//! bounded), and a rule runs even if `pattern` has failed, so each rule here accepts what an earlier rule rejects.

mod quantity;
mod rule;

use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

use crate::model::quantity::{MAX_QUANTITY, MAX_QUANTITY_LENGTH};
pub use quantity::{MAX_ENTRIES, MAX_ENTRIES_LENGTH};
pub(super) use quantity::{quantities_by_value, quantity};
use rule::{BAD_VALUE, LABEL_VALUE, QUANTITY, rule};

/// A whole number of at least 1.
const BOUND: &str = "^[1-9][0-9]*([kMGTP]|[KMGTP]i)?$";
const DNS_SUBDOMAIN: &str = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$";
const NAME_PART: &str = "^([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$";
const LABEL_KEY: &str = "^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]{0,61})?[A-Za-z0-9])$";

const BAD_KEY: &str =
    "not a label key: write <name> or <domain>/<name>, the name of 1 to 63 letters, digits, '-', '_' or '.'";
const NATIVE_RESOURCE: &str = "^(cpu|memory|ephemeral-storage|pods|hugepages-[1-9][0-9]*[KMGTPE]i)$";

/// The number of names in `nodeNames`. With the bounds of names, of `nodeSelector` and of a table, every spec has less than
/// 64 KiB.
pub const MAX_NAMES: usize = 1000;
/// The characters of all names together.
pub const MAX_NAMES_LENGTH: usize = 40 * 1024;
/// The number of `matchLabels`, and of `matchExpressions`.
pub const MAX_REQUIREMENTS: usize = 32;
/// The number of values of an expression.
pub const MAX_VALUES: usize = 64;
/// The characters of the values of all expressions together.
pub const MAX_VALUES_LENGTH: usize = 12 * 1024;

/// The rule of a boolean that cannot be false.
pub(super) const ONLY_TRUE: &str = "self";

/// Makes the spec require exactly one of `nodeSelector`, `nodeNames` and `allNodes`, and of `quantity` and
/// `quantityFrom`.
pub(super) fn exactly_one_choice(schema: &mut Schema) {
    schema.insert(
        "x-kubernetes-validations".to_owned(),
        json!([
            rule(
                "[has(self.nodeSelector), has(self.nodeNames), has(self.allNodes)].filter(given, given).size() == 1",
                "give exactly one of nodeSelector, nodeNames and allNodes: true",
            ),
            rule("has(self.quantity) != has(self.quantityFrom)", "give exactly one of quantity and quantityFrom",),
        ]),
    );
}

/// Makes `quantityFrom` require exactly one source, and bounds in their order.
pub(super) fn exactly_one_source(schema: &mut Schema) {
    let at_most_max = |field: &str| {
        let is_bound = |field: &str| format!("string(self.{field}).matches('{BOUND}')");
        format!(
            "!has(self.{field}) || !has(self.max) || !{} || !{} \
             || !quantity(string(self.{field})).isGreaterThan(quantity(string(self.max)))",
            is_bound(field),
            is_bound("max"),
        )
    };
    let has_table = "has(self.nodeLabel) && has(self.nodeLabel.values)";
    // Server-side apply replaces it as a whole: sources of two field managers would be two sources.
    schema.insert("x-kubernetes-map-type".to_owned(), "atomic".into());
    schema.insert(
        "x-kubernetes-validations".to_owned(),
        json!([
            rule(
                "[has(self.nodeLabel), has(self.nodeAnnotation), has(self.resource)].filter(given, given).size() == 1",
                "give exactly one of nodeLabel, nodeAnnotation and resource",
            ),
            rule(
                "!has(self.default) || !has(self.whenMissing)",
                "give default or whenMissing, not both: a node without a quantity gets the default",
            ),
            rule(
                format!("has(self.max) != ({has_table})"),
                "give exactly one of max and nodeLabel.values: max bounds what nodes state, and a table is its own bound",
            ),
            rule(
                format!("!has(self.min) || !({has_table})"),
                "min has no meaning with nodeLabel.values: leave out the entries that are too small",
            ),
            rule(at_most_max("min"), "min is more than max: no quantity would be accepted"),
            rule(at_most_max("default"), "default is more than max: raise max, or lower the default"),
        ]),
    );
}

/// A bound of quantities. It takes no fraction and no exponent, so that one expression shows that it is a whole number:
/// Kubernetes 1.30 rejects the CRD as too expensive if each bound has the rules of `quantity`.
pub(super) fn bound(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "x-kubernetes-int-or-string": true,
        "maxLength": MAX_QUANTITY_LENGTH,
        "x-kubernetes-validations": [
            rule(
                format!("string(self).matches('{BOUND}')"),
                "a whole number from 1 is needed: write digits, such as 4, and perhaps a suffix, such as 800Gi (suffixes: k M G T P, Ki Mi Gi Ti Pi)",
            ),
            rule(
                format!("!string(self).matches('{BOUND}') || !quantity(string(self)).isGreaterThan(quantity('{MAX_QUANTITY}'))"),
                "out of range: at most 9223372036854775 can be advertised",
            ),
        ],
    })
}

/// The key of a label or an annotation to read.
pub(super) fn source_key(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string",
        "maxLength": 317,
        "x-kubernetes-validations": [
            rule(format!("self.indexOf('/') <= 253 && self.matches('{LABEL_KEY}')"), BAD_KEY),
            rule(
                "!self.startsWith('noderesource.dev/')",
                "noderesource.dev is the controller's own: use a key of your own, such as example.com/slots",
            ),
        ],
    })
}

/// A resource that no rule can declare, so that rules cannot depend on each other.
pub(super) fn native_resource(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string",
        "maxLength": 63,
        "x-kubernetes-validations": [rule(
            format!("self.matches('{NATIVE_RESOURCE}')"),
            "not a native resource: write cpu, memory, ephemeral-storage, pods, or hugepages-<size> such as hugepages-2Mi",
        )],
    })
}

/// What a native resource is divided by.
pub(super) fn divisor(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "x-kubernetes-int-or-string": true,
        "maxLength": MAX_QUANTITY_LENGTH,
        "x-kubernetes-validations": [
            rule(
                format!("type(self) == int || self.matches('{QUANTITY}')"),
                "not a quantity: write the amount for a quantity of 1, such as 4Gi or 500m",
            ),
            rule(
                format!("type(self) == int ? self >= 1 : (!self.matches('{QUANTITY}') || quantity(self).isGreaterThan(quantity('0')))"),
                "more than 0 is needed to divide by",
            ),
        ],
    })
}

pub(super) fn resource_name(_: &mut SchemaGenerator) -> Schema {
    let one_slash = "self.split('/').size() == 2";
    json_schema!({
        "type": "string",
        // 244 for the prefix (Kubernetes puts `requests.` before it in quotas), 63 for the name.
        "maxLength": 308,
        "x-kubernetes-validations": [
            rule(
                "self.contains('/')",
                "no prefix, so a native resource or none: write <domain>/<name>, such as example.com/dongle",
            ),
            rule(
                "self.split('/').size() <= 2",
                "more than one slash: write <domain>/<name>, such as example.com/dongle",
            ),
            rule(
                "!self.contains('kubernetes.io/')",
                "kubernetes.io is reserved for Kubernetes: use a domain of your own, such as example.com/dongle",
            ),
            rule(
                "!self.startsWith('requests.')",
                "the prefix requests. is reserved for quotas: write the name without it, as pods request it",
            ),
            rule(
                format!("!({one_slash}) || (self.split('/')[0].size() <= 244 && self.split('/')[0].matches('{DNS_SUBDOMAIN}'))"),
                "the part before the slash must be a lowercase DNS name of at most 244 characters, such as example.com",
            ),
            rule(
                format!("!({one_slash}) || (self.split('/')[1].size() <= 63 && self.split('/')[1].matches('{NAME_PART}'))"),
                "the part after the slash must be 1 to 63 letters, digits, '-', '_' or '.', with a letter or digit at both ends",
            ),
        ],
    })
}

pub(super) fn node_selector(_: &mut SchemaGenerator) -> Schema {
    // An empty selector may be the rest of a selector whose label lost its value.
    let not_empty = |field| format!("(has(self.{field}) && self.{field}.size() > 0)");
    json_schema!({
        "type": "object",
        // Server-side apply replaces it as a whole, as selectors of built-in kinds: labels of two field managers would
        // be a selector that neither has declared.
        "x-kubernetes-map-type": "atomic",
        "x-kubernetes-validations": [rule(
            [not_empty("matchLabels"), not_empty("matchExpressions")].join(" || "),
            "no requirement is left: give a label and its value, or replace nodeSelector by allNodes: true to select every node",
        )],
        "properties": {
            "matchLabels": match_labels(),
            "matchExpressions": match_expressions(),
        },
    })
}

fn match_labels() -> Value {
    json!({
        "description": "Labels that a node must have, with these values.",
        "type": "object",
        "maxProperties": MAX_REQUIREMENTS,
        "additionalProperties": {
            "type": "string",
            // So that a null reaches the rule below: the API server would drop it, and the rule would
            // select more nodes.
            "nullable": true,
            "maxLength": 63,
            "x-kubernetes-validations": [rule(format!("self.matches('{LABEL_VALUE}')"), BAD_VALUE)],
        },
        "x-kubernetes-validations": [
            rule(format!("self.all(key, key.indexOf('/') <= 253 && key.matches('{LABEL_KEY}'))"), BAD_KEY),
            rule(
                "self.all(key, dyn(self[key]) != null)",
                "a label without a value: write its value, or \"\" for an empty one",
            ),
        ],
    })
}

fn match_expressions() -> Value {
    json!({
        "description": "Requirements on a node's labels, all of which must hold.",
        "type": "array",
        "maxItems": MAX_REQUIREMENTS,
        "x-kubernetes-list-type": "atomic",
        "x-kubernetes-validations": [rule(
            format!(
                "self.map(expression, has(expression.values) ? expression.values.map(value, value.size()).sum() : 0)\
                 .sum() <= {MAX_VALUES_LENGTH}"
            ),
            &format!("too long: at most {MAX_VALUES_LENGTH} characters of values are allowed; give the nodes a label"),
        )],
        "items": expression(),
    })
}

fn expression() -> Value {
    json!({
        "type": "object",
        "required": ["key", "operator"],
        "properties": {
            "key": {
                "description": "The label's key.",
                "type": "string",
                "maxLength": 317,
                "x-kubernetes-validations": [rule(format!("self.indexOf('/') <= 253 && self.matches('{LABEL_KEY}')"), BAD_KEY)],
            },
            "operator": {
                "description": "In, NotIn, Exists or DoesNotExist.",
                "type": "string",
                "enum": ["In", "NotIn", "Exists", "DoesNotExist"],
            },
            "values": {
                "description": "The values for In and NotIn; none for Exists and DoesNotExist.",
                "type": "array",
                "maxItems": MAX_VALUES,
                "x-kubernetes-list-type": "atomic",
                "items": {
                    "type": "string",
                    "maxLength": 63,
                    "x-kubernetes-validations": [rule(format!("self.matches('{LABEL_VALUE}')"), BAD_VALUE)],
                },
            },
        },
        "x-kubernetes-validations": [
            rule(
                "!(self.operator in ['In', 'NotIn']) || (has(self.values) && self.values.size() > 0)",
                "In and NotIn need values: list at least one, or use Exists or DoesNotExist",
            ),
            rule(
                "!(self.operator in ['Exists', 'DoesNotExist']) || !has(self.values) || self.values.size() == 0",
                "Exists and DoesNotExist take no values: remove them, or use In or NotIn",
            ),
        ],
    })
}

/// A rule instead of an enum: if an enum fails, the API server does not evaluate the rule or return its message.
pub(super) fn all_nodes(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "boolean",
        "x-kubernetes-validations": [rule(
            ONLY_TRUE,
            "allNodes can only be true: remove it, and select nodes by nodeSelector or nodeNames",
        )],
    })
}

pub(super) fn node_names(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "minItems": 1,
        "maxItems": MAX_NAMES,
        // The names of two field managers are not merged. A repeated name counts once.
        "x-kubernetes-list-type": "atomic",
        "x-kubernetes-validations": [rule(
            format!("self.map(name, name.size()).sum() <= {MAX_NAMES_LENGTH}"),
            &format!("too long: at most {MAX_NAMES_LENGTH} characters of names are allowed; select the nodes by a label"),
        )],
        "items": {
            "type": "string",
            "maxLength": 253,
            "x-kubernetes-validations": [rule(
                format!("self.matches('{DNS_SUBDOMAIN}')"),
                "not a node name: write it as kubectl get nodes prints it, in lower case letters, digits, '-' and '.'",
            )],
        },
    })
}
