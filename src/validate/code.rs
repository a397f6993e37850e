//! The identifiers of all checks. They are an API: scripts filter by them, so they do not change.

use std::fmt;

use Code::{
    AllNodesTrue, LabelKey, LabelValue, LabelWithoutValue, NodeChoice, NodeName, QuantityBounds, QuantityChoice,
    QuantityMissing, QuantityPositive, QuantityRange, QuantitySource, QuantitySyntax, QuantityTable, QuantityWhole,
    ResourceNameDomain, ResourceNamePart, ResourceNamePrefix, ResourceNameRequests, ResourceNameReserved,
    ResourceNameSlashes, SelectorEmpty, SelectorValuesGiven, SelectorValuesMissing,
};

macro_rules! codes {
    ($($name:ident $text:literal $meaning:literal,)*) => {
        /// The kind of a diagnostic.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Code {
            $(#[doc = $meaning] $name,)*
        }

        impl Code {
            /// All codes.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// Returns the identifier, such as `quantity-whole`.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }

            /// Returns what the check finds, in one line of Markdown.
            #[must_use]
            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$name => $meaning,)* }
            }
        }
    };
}

codes! {
    Unreadable "unreadable" "A file cannot be read, is not YAML or JSON, or holds no Kubernetes object",
    NoRules "no-rules" "No rule is found at all",
    Omitted "omitted" "Problems that are counted and not listed: 10,000 are listed, errors first",
    UnknownGroup "unknown-group" "A `NodeExtendedResource` in a group that no cluster has",
    UnknownVersion "unknown-version" "A version that the group does not have",
    UnknownKind "unknown-kind" "A kind that the group does not have",
    UnknownField "unknown-field" "A field that the CRD does not have: kubectl rejects it",
    Required "required" "A field is missing, or null",
    Type "type" "A value of another type, such as a number in place of text",
    Enum "enum" "A value other than the few that are supported",
    Format "format" "A number that does not fit its integer type",
    Minimum "minimum" "A number that is too small",
    Maximum "maximum" "A number that is too large",
    MinLength "min-length" "A text that is too short",
    MaxLength "max-length" "A text that is too long",
    Pattern "pattern" "A text of the wrong form",
    MinItems "min-items" "A list that is too short",
    MaxItems "max-items" "A list that is too long",
    MaxProperties "max-properties" "A map with too many keys",
    DuplicateItem "duplicate-item" "An item that is in a list twice",
    MetadataName "metadata-name" "No name, or one that no object can have",
    MetadataLabel "metadata-label" "A label of the object that is not valid",
    MetadataAnnotation "metadata-annotation" "An annotation of the object whose key is not valid",
    NodeChoice "node-choice" "The nodes are not selected in exactly one way",
    ResourceNamePrefix "resource-name-prefix" "A resource name without a domain",
    ResourceNameSlashes "resource-name-slashes" "A resource name with more than one slash",
    ResourceNameReserved "resource-name-reserved" "A resource name in a domain of Kubernetes",
    ResourceNameRequests "resource-name-requests" "A resource name with the prefix of quotas, `requests.`",
    ResourceNameDomain "resource-name-domain" "The part before the slash is not a DNS name",
    ResourceNamePart "resource-name-part" "The part after the slash is not valid",
    QuantitySyntax "quantity-syntax" "A text that is not a quantity",
    QuantityWhole "quantity-whole" "A quantity with a fraction",
    QuantityPositive "quantity-positive" "A quantity below 1",
    QuantityRange "quantity-range" "A quantity above 9223372036854775",
    QuantityChoice "quantity-choice" "Not exactly one of `quantity` and `quantityFrom`",
    QuantitySource "quantity-source" "`quantityFrom` does not name exactly one thing that can be read from a node",
    QuantityMissing "quantity-missing" "`default` and `whenMissing` together",
    QuantityBounds "quantity-bounds" "`min` or `default` above `max`, or not exactly one of `max` and a table",
    QuantityTable "quantity-table" "A table of quantities without an entry, or an entry without a quantity",
    LabelKey "label-key" "A key of a label or annotation that cannot exist",
    LabelValue "label-value" "A value in a selector or a table that no label can have",
    AllNodesTrue "all-nodes-true" "`allNodes` with another value than `true`",
    SelectorEmpty "selector-empty" "A selector without a requirement, which would select every node",
    LabelWithoutValue "label-without-value" "A label in a selector without its value",
    NullInSelector "null-in-selector" "A null in a selector: the API server drops it, and the rule selects more nodes",
    SelectorValuesMissing "selector-values-missing" "`In` or `NotIn` without values",
    SelectorValuesGiven "selector-values-given" "`Exists` or `DoesNotExist` with values",
    NodeName "node-name" "A name that no node can have",
    CrdRule "crd-rule" "Any other rule of the CRD",
    NumberNotation "number-notation" "A number that is not decimal, such as `010`, which is 8 (a warning)",
    NumberPrecision "number-precision" "A number that loses digits where programs read it as a float (a warning)",
    NoNodeSelectable "no-node-selectable" "A selector whose requirements contradict each other (a warning)",
    Controller "controller" "The controller rejects a rule that the API server accepts",
    GenerateName "generate-name" "`plan`: a rule that the API server is to name, which cannot be applied",
    DuplicateName "duplicate-name" "Two rules have the same name: one replaces the other",
    EqualPriority "equal-priority" "Rules of equal priority declare different quantities for the same nodes (an error), or may (a warning)",
    UnsatisfiableRequest "unsatisfiable-request" "A pod requests more of a resource than any rule declares (a warning)",
    QuantityNegative "quantity-negative" "A quantity below 0 in a pod or a quota",
    PodRequestsLimits "pod-requests-limits" "A container whose request and limit of an extended resource differ",
    PodLimitMissing "pod-limit-missing" "A container that requests an extended resource without a limit",
    PodFraction "pod-fraction" "A container that requests a fraction of an extended resource, or a quota with one",
    PodResourcePlace "pod-resource-place" "An extended resource in a field of a pod that takes only native ones, such as `spec.resources`",
    LimitRange "limit-range" "Values of a LimitRange for an extended resource that contradict each other",
    DeviceClass "device-class" "A rule declares what a DeviceClass in the same files maps",
    NodeFeatureRule "node-feature-rule" "A rule declares what a NodeFeatureRule in the same files writes (a warning)",
    QuotaKey "quota-key" "A quota names an extended resource without `requests.`: the line is ignored (a warning)",
    UndeclaredResource "undeclared-resource" "A pod template or quota names a resource that no rule declares (a warning)",
}

/// The code of each CEL rule of the CRD: by the path of its schema and a part of its message, since a CEL rule has no
/// identifier. A test fails for a missing rule.
const CRD_RULES: [(&str, &str, Code); 51] = [
    ("spec", "exactly one of nodeSelector", NodeChoice),
    ("spec", "exactly one of quantity and", QuantityChoice),
    ("spec.quantityFrom", "exactly one of nodeLabel", QuantitySource),
    ("spec.quantityFrom", "default or whenMissing", QuantityMissing),
    ("spec.quantityFrom", "min is more than max", QuantityBounds),
    ("spec.quantityFrom", "default is more than max", QuantityBounds),
    ("spec.quantityFrom", "exactly one of max", QuantityBounds),
    ("spec.quantityFrom", "min has no meaning", QuantityBounds),
    ("spec.quantityFrom.nodeLabel.values", "table is empty", QuantityTable),
    ("spec.quantityFrom.nodeLabel.values", "entry without a quantity", QuantityTable),
    ("spec.quantityFrom.nodeLabel.values", "not a label value", LabelValue),
    ("spec.quantityFrom.nodeLabel.values", "not a quantity", QuantitySyntax),
    ("spec.quantityFrom.nodeLabel.values", "a whole number is needed", QuantityWhole),
    ("spec.quantityFrom.nodeLabel.values", "at least 1", QuantityPositive),
    ("spec.quantityFrom.nodeLabel.values", "out of range", QuantityRange),
    ("spec.quantityFrom.nodeLabel.key", "not a label key", LabelKey),
    ("spec.quantityFrom.nodeLabel.key", "controller's own", QuantitySource),
    ("spec.quantityFrom.nodeAnnotation.key", "not a label key", LabelKey),
    ("spec.quantityFrom.nodeAnnotation.key", "controller's own", QuantitySource),
    ("spec.quantityFrom.resource.name", "not a native resource", QuantitySource),
    ("spec.quantityFrom.resource.divisor", "not a quantity", QuantitySyntax),
    ("spec.quantityFrom.resource.divisor", "more than 0", QuantityPositive),
    ("spec.resourceName", "no prefix", ResourceNamePrefix),
    ("spec.resourceName", "more than one slash", ResourceNameSlashes),
    ("spec.resourceName", "kubernetes.io is reserved", ResourceNameReserved),
    ("spec.resourceName", "requests. is reserved", ResourceNameRequests),
    ("spec.resourceName", "before the slash", ResourceNameDomain),
    ("spec.resourceName", "after the slash", ResourceNamePart),
    ("spec.quantityFrom.max", "whole number from 1", QuantityWhole),
    ("spec.quantityFrom.max", "out of range", QuantityRange),
    ("spec.quantityFrom.min", "whole number from 1", QuantityWhole),
    ("spec.quantityFrom.min", "out of range", QuantityRange),
    ("spec.quantityFrom.default", "whole number from 1", QuantityWhole),
    ("spec.quantityFrom.default", "out of range", QuantityRange),
    ("spec.quantity", "not a quantity", QuantitySyntax),
    ("spec.quantity", "a whole number is needed", QuantityWhole),
    ("spec.quantity", "at least 1", QuantityPositive),
    ("spec.quantity", "out of range", QuantityRange),
    ("spec.nodeSelector.matchLabels", "not a label key", LabelKey),
    ("spec.nodeSelector.matchLabels.*", "not a label value", LabelValue),
    ("spec.nodeSelector.matchExpressions[]", "need values", SelectorValuesMissing),
    ("spec.nodeSelector.matchExpressions[]", "take no values", SelectorValuesGiven),
    ("spec.nodeSelector.matchExpressions[].key", "not a label key", LabelKey),
    ("spec.nodeSelector.matchExpressions[].values[]", "not a label value", LabelValue),
    ("spec.nodeSelector", "no requirement is left", SelectorEmpty),
    ("spec.nodeSelector.matchLabels", "a label without a value", LabelWithoutValue),
    ("spec.allNodes", "can only be true", AllNodesTrue),
    ("spec.nodeNames[]", "not a node name", NodeName),
    ("spec.nodeNames", "too long", Code::MaxLength),
    ("spec.nodeSelector.matchExpressions", "too long", Code::MaxLength),
    ("spec.quantityFrom.nodeLabel.values", "too long", Code::MaxLength),
];

impl Code {
    /// Returns the code of a CEL rule of the CRD.
    pub(super) fn of_crd_rule(path: &str, message: &str) -> Self {
        let rule = CRD_RULES.iter().find(|(at, words, _)| *at == path && message.contains(words));
        rule.map_or(Self::CrdRule, |(.., code)| *code)
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    use super::*;

    /// The CEL rules of a schema: path and message.
    fn crd_rules(schema: &Value, path: &str, found: &mut Vec<(String, String)>) {
        for rule in schema["x-kubernetes-validations"].as_array().into_iter().flatten() {
            found.push((path.to_owned(), rule["message"].as_str().unwrap().to_owned()));
        }
        for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
            crd_rules(schema, format!("{path}.{name}").trim_start_matches('.'), found);
        }
        for (key, suffix) in [("items", "[]"), ("additionalProperties", ".*")] {
            if schema[key].is_object() {
                crd_rules(&schema[key], &format!("{path}{suffix}"), found);
            }
        }
    }

    #[test]
    fn crd_rules_have_a_code_each() {
        let crd = serde_json::to_value(crate::model::api::crd()).unwrap();
        let mut rules = Vec::new();
        for version in crd["spec"]["versions"].as_array().unwrap() {
            crd_rules(&version["schema"]["openAPIV3Schema"], "", &mut rules);
        }
        assert!(rules.len() > 15, "{rules:?}");
        for (path, message) in &rules {
            let matching = CRD_RULES.iter().filter(|(at, words, _)| at == path && message.contains(words));
            assert_eq!(matching.count(), 1, "add it to CRD_RULES: {path}: {message}");
        }
        for (path, words, code) in CRD_RULES {
            let has = rules.iter().any(|(at, message)| at == path && message.contains(words));
            assert!(has, "{code}: the CRD has no such rule");
        }
    }

    #[test]
    fn codes_are_distinct_lower_case_words() {
        let texts: BTreeSet<_> = Code::ALL.iter().map(|code| code.as_str()).collect();
        assert_eq!(texts.len(), Code::ALL.len());
        for text in texts {
            let plain = |byte: u8| byte.is_ascii_lowercase() || byte == b'-';
            assert!(text.bytes().all(plain), "{text}");
        }
    }
}
