//! Errors about credentials, without quoting them: kube's own errors quote lines of the kubeconfig, and the arguments,
//! environment and output of a credential plugin.

use http::Uri;
use kube::Config;
use kube::client::AuthError;
use serde_saphyr::Error as YamlError;

/// How much of a credential plugin's standard error is quoted.
const STDERR_CHARS: usize = 2000;

/// Returns the credential plugin, as the kubeconfig names it.
pub(crate) fn plugin(config: &Config) -> Option<&str> {
    let auth = &config.auth_info;
    // In the same order as kube.
    let provider = auth.auth_provider.as_ref().and_then(|provider| provider.config.get("cmd-path"));
    let exec = || auth.exec.as_ref()?.command.as_deref();
    provider.map(String::as_str).or_else(exec)
}

/// Describes why there are no credentials. Of the plugin's output it quotes only standard error.
pub(crate) fn auth_reason(error: &AuthError, plugin: Option<&str>) -> String {
    let name = || match plugin {
        Some(command) => format!("the credential plugin {command:?}"),
        None => "the credential plugin".to_owned(),
    };
    match error {
        AuthError::AuthExec(what) => format!("{}: {what}", name()),
        AuthError::AuthExecStart(error) => format!("cannot start {}: {error}", name()),
        AuthError::AuthExecRun { out, .. } => {
            let stderr = String::from_utf8_lossy(&out.stderr);
            let mut words: String = stderr.trim().chars().take(STDERR_CHARS).collect();
            if !words.is_empty() {
                words.insert_str(0, ": ");
            }
            format!("{} failed ({}){words}", name(), out.status)
        }
        AuthError::AuthExecParse(error) => {
            let place = place(error).map(|place| format!(" ({place})")).unwrap_or_default();
            format!("the output of {} is not an ExecCredential{place}", name())
        }
        AuthError::ExecPluginFailed => {
            format!("the output of {} is an ExecCredential without a status", name())
        }
        AuthError::ParseTokenKey(error) => {
            let (line, column) = (error.line(), error.column());
            format!("the output of {} is not JSON (line {line} column {column})", name())
        }
        // The causes quote the value, or are already in the text.
        AuthError::MalformedTokenExpirationDate(_) => {
            "the expiration time of the token is not in RFC 3339 format".to_owned()
        }
        other => other.to_string(),
    }
}

/// Describes what is wrong in a kubeconfig, and where, without quoting a line or a value.
pub(crate) fn yaml_reason(error: &YamlError) -> String {
    let place = place(error).map(|place| format!("{place}: ")).unwrap_or_default();
    let what = match error.without_snippet() {
        // The parser's own message, which quotes at most one character.
        YamlError::ExternalMessage { msg, .. } => msg.clone(),
        YamlError::SerdeInvalidType { expected, .. }
        | YamlError::SerdeInvalidValue { expected, .. }
        | YamlError::SerdeInvalidLength { expected, .. } => format!("expected {expected}"),
        YamlError::SerdeUnknownVariant { expected, .. } => {
            format!("expected one of {}", expected.join(", "))
        }
        YamlError::SerdeMissingField { field, .. } => format!("the field {field} is missing"),
        YamlError::Unexpected { expected, .. } => format!("expected {expected}"),
        YamlError::DuplicateMappingKey { .. } => "a key is given twice".to_owned(),
        YamlError::UnknownAnchor { .. } => "an alias has no anchor".to_owned(),
        YamlError::Eof { .. } => "the document ends too early".to_owned(),
        YamlError::ContainerEndMismatch { .. } => "a list or mapping is not closed".to_owned(),
        YamlError::NullIntoString { .. } => "expected a string, found null".to_owned(),
        YamlError::IndentationError { .. } => "the indentation is wrong".to_owned(),
        // Other errors may quote a value.
        _ => "it is not valid".to_owned(),
    };
    format!("{place}{what}")
}

fn place(error: &YamlError) -> Option<String> {
    let location = error.location()?;
    Some(format!("line {} column {}", location.line(), location.column()))
}

/// Returns the URL without the user and password.
pub(crate) fn without_userinfo(url: &Uri) -> Uri {
    let mut parts = url.clone().into_parts();
    let host = parts.authority.as_ref().and_then(|authority| authority.as_str().rsplit_once('@'));
    let Some((_, host)) = host else {
        return url.clone();
    };
    parts.authority = host.parse().ok();
    Uri::from_parts(parts).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn url_is_named_without_its_user_and_password() {
        for (url, named) in [
            ("https://a.example", "https://a.example/"),
            ("https://user@a.example:6443/path?query", "https://a.example:6443/path?query"),
            ("https://user:S3CRET@[::1]:6443", "https://[::1]:6443/"),
            ("https://user:S3C%40RET@10.0.0.1", "https://10.0.0.1/"),
            ("user:S3CRET@a.example:80", "a.example:80"),
            ("/path@place", "/path@place"),
        ] {
            assert_eq!(without_userinfo(&url.parse().unwrap()).to_string(), named);
        }
    }

    #[test]
    fn what_a_plugin_prints_without_end_is_cut() {
        use std::os::unix::process::ExitStatusExt as _;
        let status = std::process::ExitStatus::from_raw(256);
        let out = std::process::Output { status, stdout: b"S3CRET".into(), stderr: [b'x'; 9999].into() };
        let error = AuthError::AuthExecRun { cmd: "fetch S3CRET".to_owned(), out: Box::new(out) };
        let reason = auth_reason(&error, None);
        let expected = format!("the credential plugin failed (exit status: 1): {}", "x".repeat(2000));
        assert_eq!(reason, expected);
    }
}
