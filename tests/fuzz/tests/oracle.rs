//! The targets that compare with Kubernetes' own parsers.

#[test]
fn manifests_are_read_as_kubectl_reads_them() {
    fuzz::check_same_inputs("manifest-oracle", 10_000);
}

#[test]
fn names_match_kubernetes_parsers() {
    fuzz::check_inputs("names-oracle", 20_000);
}

#[test]
fn quantities_match_kubernetes_parsers() {
    fuzz::check_inputs("quantity-oracle", 100_000);
}
