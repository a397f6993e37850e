//! Manifests as files hold them: YAML and JSON, read as kubectl reads them, every value with the
//! place that it was read from.
//!
//! ```text
//! paths ─▶ files ─▶ split ─▶ yaml ─▶ Document: a JSON value, and where each part of it stands
//!          bytes    texts    events  Unreadable: what cannot be read, where, and why
//! ```
//!
//! What is read may be anybody's, so all of it is bounded: see [`Limits`].

mod document;
mod exclude;
mod files;
mod inputs;
mod kustomize;
mod locations;
mod path;
mod scalar;
mod source;
mod split;
mod yaml;

pub use document::{Document, Limits, ReadError};
pub use exclude::{Exclude, Glob};
pub use files::{read, read_text};
pub use inputs::{Files, Inputs};
pub use path::{Path, Step};
pub use source::{Source, SourceLocation, Span};
