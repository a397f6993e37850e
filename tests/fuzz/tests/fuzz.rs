//! Runs each target with its corpus and random inputs, most of them the same in every run. `make fuzz` continues from there.

#[test]
fn ledgers_are_read_and_written_without_loss() {
    fuzz::check_inputs("ledger", 20_000);
}

#[test]
fn manifests_are_reported_or_accepted_within_limits() {
    fuzz::check_inputs("manifest", 1_000);
}

#[test]
fn plans_can_be_applied_and_keep_the_invariants() {
    fuzz::check_inputs("planner", 2_000);
}

#[test]
fn protobuf_becomes_json_or_is_rejected() {
    fuzz::check_inputs("protobuf", 20_000);
}

#[test]
fn quantities_are_exact() {
    fuzz::check_inputs("quantity", 50_000);
}

#[test]
fn responses_are_decoded_or_rejected_within_limits() {
    fuzz::check_inputs("response", 20_000);
}
