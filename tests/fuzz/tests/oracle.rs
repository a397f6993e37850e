//! The targets that compare with Kubernetes' own parsers.

#[test]
fn names_match_kubernetes_parsers() {
    fuzz::check_inputs("names-oracle", 20_000);
}

#[test]
fn quantities_match_kubernetes_parsers() {
    fuzz::check_inputs("quantity-oracle", 100_000);
}
