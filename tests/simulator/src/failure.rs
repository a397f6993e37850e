//! The errors that an API server returns.

use serde_json::{Value, json};

use crate::kind::{Key, Kind};

/// An error: a `Status` object with its code and header.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    /// The HTTP status code.
    pub code: u16,
    /// The body, of kind `Status`.
    pub status: Value,
    /// The header `Retry-After`, in seconds.
    pub retry_after: Option<u32>,
}

/// A value that validation rejects: the reason, the field and why.
pub(crate) type Cause = (&'static str, String, String);

/// An invalid value.
pub(crate) fn invalid_value(field: impl Into<String>, value: &Value, why: &str) -> Cause {
    ("FieldValueInvalid", field.into(), format!("Invalid value: {value}: {why}"))
}

impl Failure {
    fn new(code: u16, reason: &str, message: String, details: Value) -> Self {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": message, "reason": reason, "code": code,
        });
        if !details.is_null() {
            status["details"] = details;
        }
        Self { code, status, retry_after: None }
    }

    fn details(kind: Kind, key: &Key) -> Value {
        let mut details = json!({"name": key.name, "kind": kind.plural()});
        if !kind.group().is_empty() {
            details["group"] = json!(kind.group());
        }
        details
    }

    /// The object does not exist.
    #[must_use]
    pub fn not_found(kind: Kind, key: &Key) -> Self {
        let message = format!("{} \"{}\" not found", kind.qualified(), key.name);
        Self::new(404, "NotFound", message, Self::details(kind, key))
    }

    /// The object already exists.
    #[must_use]
    pub fn already_exists(kind: Kind, key: &Key) -> Self {
        let message = format!("{} \"{}\" already exists", kind.qualified(), key.name);
        Self::new(409, "AlreadyExists", message, Self::details(kind, key))
    }

    /// The object has another uid or version than the request names.
    #[must_use]
    pub fn conflict(kind: Kind, key: &Key, why: &str) -> Self {
        let (resource, name) = (kind.qualified(), &key.name);
        let message = format!("Operation cannot be fulfilled on {resource} \"{name}\": {why}");
        Self::new(409, "Conflict", message, Self::details(kind, key))
    }

    /// The pod is bound already.
    #[must_use]
    pub fn bound(key: &Key, node: &str) -> Self {
        let (resource, name) = ("pods/binding", &key.name);
        let why = format!("pod {name} is already assigned to node \"{node}\"");
        let message = format!("Operation cannot be fulfilled on {resource} \"{name}\": {why}");
        Self::new(409, "Conflict", message, json!({"name": name, "kind": resource}))
    }

    /// The object has another uid than the request names.
    #[must_use]
    pub fn precondition(kind: Kind, key: &Key, uid: &str, found: &str) -> Self {
        let why = format!(
            "StorageError: invalid object, Code: 4, Key: {}, ResourceVersion: 0, AdditionalErrorMsg: Precondition \
             failed: UID in precondition: {uid}, UID in object meta: {found}",
            kind.storage_key(key)
        );
        Self::conflict(kind, key, &why)
    }

    /// The object to be deleted has another uid.
    #[must_use]
    pub fn deleted_other(kind: Kind, key: &Key, uid: &str, found: &str) -> Self {
        let why = format!(
            "the UID in the precondition ({uid}) does not match the UID in record ({found}). The object might have \
             been deleted and then recreated"
        );
        let mut details = Self::details(kind, key);
        details["kind"] = json!(kind.name());
        let group = kind.group();
        let resource = if group.is_empty() { kind.name().to_owned() } else { format!("{}.{group}", kind.name()) };
        let message = format!("Operation cannot be fulfilled on {resource} \"{}\": {why}", key.name);
        Self::new(409, "Conflict", message, details)
    }

    /// A JSON Patch that cannot be applied: a failed `test`, a missing parent. The server names neither.
    #[must_use]
    pub fn unprocessable_patch() -> Self {
        let message = "the server rejected our request due to an error in our request".to_owned();
        Self::new(422, "Invalid", message, json!({}))
    }

    /// Values that validation rejects, each with reason, field and explanation.
    #[must_use]
    pub fn invalid(kind: Kind, key: &Key, causes: &[(&str, String, String)]) -> Self {
        Self::invalid_named((kind.name(), kind.group()), &key.name, causes)
    }

    /// The same, where the server names the resource instead of the kind.
    #[must_use]
    pub(crate) fn invalid_resource(kind: Kind, key: &Key, causes: &[Cause]) -> Self {
        Self::invalid_named((kind.plural(), kind.group()), &key.name, causes)
    }

    /// A patch whose result is not an object of the kind.
    #[must_use]
    pub fn unreadable(object: &Value, why: &str) -> Self {
        let cause = invalid_value("patch", &json!(object.to_string()), why);
        Self::invalid_named(("", ""), "", &[cause])
    }

    fn invalid_named((kind, group): (&str, &str), name: &str, causes: &[(&str, String, String)]) -> Self {
        // A duplicate is listed twice in the causes, and once in the message.
        let mut texts: Vec<_> = causes.iter().map(|(_, field, why)| format!("{field}: {why}")).collect();
        texts.sort();
        texts.dedup();
        let text = match texts.as_slice() {
            [one] => one.clone(),
            texts => format!("[{}]", texts.join(", ")),
        };
        let qualified = if group.is_empty() { kind.to_owned() } else { format!("{kind}.{group}") };
        let message = format!("{qualified} \"{name}\" is invalid: {text}");
        let mut details = json!({});
        for (field, value) in [("name", name), ("group", group), ("kind", kind)] {
            if !value.is_empty() {
                details[field] = json!(value);
            }
        }
        let causes =
            causes.iter().map(|(reason, field, why)| json!({"reason": reason, "message": why, "field": field}));
        details["causes"] = causes.collect();
        Self::new(422, "Invalid", message, details)
    }

    /// A `resourceVersion` in a write that is not a number, for which the server has a separate error.
    #[must_use]
    pub fn unreadable_version(version: &str) -> Self {
        let message = format!("strconv.ParseUint: parsing \"{version}\": invalid syntax");
        let mut failure = Self::new(500, "", message, Value::Null);
        failure.status.as_object_mut().map(|status| status.remove("reason"));
        failure
    }

    /// A malformed request.
    #[must_use]
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message.into(), Value::Null)
    }

    /// A patch with too many operations.
    #[must_use]
    pub fn too_large(operations: usize, limit: usize) -> Self {
        let message = format!(
            "Request entity too large: The allowed maximum operations in a JSON patch is {limit}, got {operations}"
        );
        Self::new(413, "RequestEntityTooLarge", message, Value::Null)
    }

    /// A compacted version, or a list token that is too old.
    #[must_use]
    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message.into(), Value::Null)
    }

    /// A compacted list token, with a new token for the rest of the current list.
    #[must_use]
    pub fn expired_token(token: &str) -> Self {
        let mut failure = Self::expired(
            "The provided continue parameter is too old to display a consistent list result. You can start a new list \
             without the continue parameter, or use the continue token in this response to retrieve the remainder of \
             the results. Continuing with the provided token results in an inconsistent list - objects that were \
             created, modified, or deleted between the time the first chunk was returned and now may show up in the \
             list.",
        );
        failure.status["metadata"]["continue"] = json!(token);
        failure
    }

    /// A permission is missing.
    #[must_use]
    pub fn forbidden(user: &str, verb: &str, resource: &str, kind: Kind, key: &Key) -> Self {
        let scope = match key.namespace.as_str() {
            "" => "at the cluster scope".to_owned(),
            namespace => format!("in the namespace \"{namespace}\""),
        };
        let message = format!(
            "{} \"{}\" is forbidden: User \"{user}\" cannot {verb} resource \"{resource}\" in API group \"{}\" \
             {scope}",
            kind.qualified(),
            key.name,
            kind.group(),
        );
        Self::new(403, "Forbidden", message, Self::details(kind, key))
    }

    /// Too many requests at once: to be retried after this number of seconds.
    #[must_use]
    pub fn too_many_requests(seconds: u32) -> Self {
        let message = "the server has received too many requests and has asked us to try again later";
        let details = json!({"retryAfterSeconds": seconds});
        let failure = Self::new(429, "TooManyRequests", message.to_owned(), details);
        Self { retry_after: Some(seconds), ..failure }
    }

    /// The server or its backend has failed.
    #[must_use]
    pub fn internal(why: &str) -> Self {
        let message = format!("Internal error occurred: {why}");
        let details = json!({"causes": [{"message": why}]});
        Self::new(500, "InternalError", message, details)
    }

    /// The message.
    #[must_use]
    pub fn message(&self) -> &str {
        self.status["message"].as_str().unwrap_or_default()
    }
}
