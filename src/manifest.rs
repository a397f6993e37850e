//! Manifests in files: YAML and JSON, read as kubectl reads them, with the source location of every value.
//!
//! ```text
//! paths ─▶ files ─▶ split ─▶ yaml, json ─▶ Document: a JSON value, and where each part of it stands
//!          bytes    texts                 Unreadable: what cannot be read, where, and why
//! ```
//!
//! The input is untrusted, so everything is bounded: see [`Limits`].

mod document;
mod exclude;
mod files;
mod inputs;
mod json;
mod kustomize;
mod locations;
mod path;
mod scalar;
mod source;
mod split;
mod yaml;

pub use document::{Document, Limits, ReadError};
pub use exclude::{Exclude, Glob};
pub use files::{read, read_text, read_values};
pub use inputs::{Files, Inputs};
pub use path::{Path, Step};
pub use source::{Source, SourceLocation, Span};
