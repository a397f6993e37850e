//! The targets that compare with Kubernetes' own parsers.

#[test]
fn names_are_those_of_kubernetes() {
    fuzz::check_inputs("names-oracle", 20_000);
}

#[test]
fn quantities_are_those_of_kubernetes() {
    fuzz::check_inputs("quantity-oracle", 100_000);
}
