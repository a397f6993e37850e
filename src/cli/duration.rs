//! Durations in the notation of Kubernetes.

use std::time::Duration;

use k8s_openapi::jiff::SignedDuration;

/// Parses a duration in the notation of Kubernetes (`15s`, `1m30s`); a number without a unit is seconds.
pub(super) fn parse_duration(text: &str) -> Option<Duration> {
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    // jiff accepts more notations than Kubernetes does.
    let is_known = text.chars().all(|c| c.is_ascii_digit() || matches!(c, '.' | 'h' | 'm' | 's'));
    let duration = text.parse::<SignedDuration>().ok().filter(|_| is_known)?;
    duration.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duration_in_kubernetes_notation_is_read() {
        for (text, seconds) in [
            ("15", Some(15.0)),
            ("15s", Some(15.0)),
            ("1m", Some(60.0)),
            ("1m30s", Some(90.0)),
            ("5m0s", Some(300.0)),
            ("1.5s", Some(1.5)),
            ("500ms", Some(0.5)),
            ("", None),
            ("s", None),
            ("-15s", None),
            ("15 s", None),
            ("15seconds", None),
            ("PT15S", None),
            ("99999999999999999999s", None),
        ] {
            let parsed = parse_duration(text).map(|duration| duration.as_secs_f64());
            assert_eq!(parsed, seconds, "{text:?}");
        }
    }
}
