//! The output formats.

use serde::Serialize;
use serde_json::json;

use super::error::AutoscalerError;

/// An output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// Lines of KEY=VALUE
    Text,
    /// YAML
    Yaml,
    /// JSON
    Json,
}

/// Renders one value.
pub(super) fn value(value: &impl Serialize, format: Format) -> Result<String, AutoscalerError> {
    match format {
        Format::Json => {
            let text =
                serde_json::to_string_pretty(value).map_err(|error| AutoscalerError::Render(error.to_string()))?;
            Ok(text + "\n")
        }
        Format::Yaml | Format::Text => {
            serde_saphyr::to_string(value).map_err(|error| AutoscalerError::Render(error.to_string()))
        }
    }
}

/// Renders Kubernetes objects, as `kubectl apply -f -` reads them.
pub(super) fn objects(objects: &[impl Serialize], format: Format) -> Result<String, AutoscalerError> {
    if format == Format::Json {
        return value(&json!({"apiVersion": "v1", "kind": "List", "items": to_json(objects)?}), format);
    }
    let documents = objects.iter().map(|object| value(object, format)).collect::<Result<Vec<_>, _>>()?;
    Ok(documents.join("---\n"))
}

fn to_json(value: &(impl Serialize + ?Sized)) -> Result<serde_json::Value, AutoscalerError> {
    serde_json::to_value(value).map_err(|error| AutoscalerError::Render(error.to_string()))
}
