//! `matches` of CEL's standard library, with each pattern compiled once: the crate compiles it at every call, which
//! takes longer than the rest of a check.

use std::cell::RefCell;
use std::collections::HashMap;

use cel::common::types::{CelBool, CelString};
use cel::{DeclarationError, Env, ExecutionError};
use regex::Regex;

thread_local! {
    /// The few patterns of the CRD.
    static COMPILED: RefCell<HashMap<String, Regex>> = RefCell::default();
}

/// Registers the function.
pub(super) fn extension(env: &mut Env) -> Result<(), DeclarationError> {
    cel::add_member_overload!(env, fn matches: (CelString, CelString) -> Result<CelBool>)
}

fn matches(text: &CelString<'_>, pattern: &CelString<'_>) -> Result<CelBool, ExecutionError> {
    let (text, pattern) = (text.inner(), pattern.inner());
    COMPILED.with_borrow_mut(|compiled| {
        if let Some(regex) = compiled.get(pattern) {
            return Ok(regex.is_match(text).into());
        }
        let regex = Regex::new(pattern).map_err(|error| ExecutionError::function_error("matches", error))?;
        let matched = regex.is_match(text);
        compiled.insert(pattern.to_owned(), regex);
        Ok(matched.into())
    })
}
