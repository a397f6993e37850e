//! Placeholders that something renders or replaces before a manifest is applied.

/// Returns what renders the placeholder in a text, which cannot be checked before.
pub(super) fn placeholder(text: &str) -> Option<&'static str> {
    let variable = text.split_once("${").is_some_and(|(_, rest)| rest.contains('}'));
    let substitute = "${...} is a variable that something else replaces first: check the result \
                      (flux envsubst < FILE | node-resource-advertiser validate -), or skip it with --exclude";
    // The two belong to patches.
    let is_name = |name: &str| {
        !["patch", "retainKeys"].contains(&name)
            && name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    let shell = "it is a variable that something else replaces first: check the result \
                 (envsubst < FILE | node-resource-advertiser validate -), or skip it with --exclude";
    let of_shell = text.strip_prefix('$').is_some_and(is_name).then_some(shell);
    template(text).or(variable.then_some(substitute)).or(of_shell)
}

/// Returns what renders a template.
pub(super) fn template(text: &str) -> Option<&'static str> {
    /// How actions of Helm begin, except fields and variables.
    const HELM: [&str; 12] =
        ["include", "template", "if", "else", "end", "range", "with", "define", "toYaml", "tpl", "required", "default"];
    let mut actions = text.split("{{").skip(1).map(|action| action.trim_start_matches('-').trim_start());
    let is_helm = |action: &str| {
        let word = action.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default();
        action.starts_with(['.', '$', '/']) || HELM.contains(&word)
    };
    let first = actions.clone().next();
    if !text.contains("{%") && actions.any(is_helm) {
        return Some(
            "this looks like a Helm template: check what it renders (helm template CHART | \
             node-resource-advertiser validate -), or skip it with --exclude",
        );
    }
    (text.contains("{%") || first.is_some_and(|action| action.contains("}}"))).then_some(
        "this looks like a template of Ansible or of another tool with Jinja: check what it renders, or skip it with \
         --exclude",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholder_hint_names_the_tool_that_renders_it() {
        for (text, tool) in [
            ("{{ .Values.n }}", Some("Helm")),
            ("{{- include \"x.labels\" . | nindent 4 }}", Some("Helm")),
            ("{{ $name }}-dongle", Some("Helm")),
            ("{{/* comment */}}", Some("Helm")),
            ("{{ dongle_count }}", Some("Jinja")),
            ("{{TOKEN}}", Some("Jinja")),
            ("{% if dongles %}", Some("Jinja")),
            ("{% if a %}{{ end }}{% endif %}", Some("Jinja")),
            ("${DONGLES:=4}", Some("flux envsubst")),
            ("a-${X}-b", Some("flux envsubst")),
            ("$DONGLES", Some("(envsubst")),
            ("$_n2", Some("(envsubst")),
            ("$2", None),
            ("$patch", None),
            ("$", None),
            ("$a-b", None),
            ("${X", None),
            ("$(X)", None),
            ("{{a: 1}: 2}", None),
            ("", None),
        ] {
            let hint = placeholder(text);
            assert_eq!(hint.is_some(), tool.is_some(), "{text}: {hint:?}");
            assert!(hint.unwrap_or_default().contains(tool.unwrap_or_default()), "{text}: {hint:?}");
        }
    }
}
