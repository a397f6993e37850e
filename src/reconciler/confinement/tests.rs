use http::StatusCode;
use kube::core::Status;

use super::*;

fn rejected(code: u16, message: &str) -> Result<(), RequestError> {
    let status = Box::new(Status::failure(message, "").with_code(code));
    let code = StatusCode::from_u16(code).unwrap();
    Err(RequestError::Api { code, status, retry_after: None })
}

#[test]
fn only_the_policy_s_own_words_show_confinement() {
    let denied = "nodes \"node-1\" is forbidden: ValidatingAdmissionPolicy 'prod-node-resource-advertiser' with \
                  binding 'prod-node-resource-advertiser' denied request: node-resource-advertiser may not change \
                  metadata.labels";
    assert_eq!(State::of(rejected(422, denied)), State::Confined);
    assert_eq!(State::of(Ok(())), State::Unconfined);
    for (code, message) in [
        (422, "the server rejected our request due to an error in our request"),
        (422, "Node \"node-1\" is invalid: metadata.labels: Invalid value"),
        (422, "ValidatingAdmissionPolicy 'other' with binding 'other' denied request: no labels"),
        (403, "nodes \"node-1\" is forbidden: User \"u\" cannot patch resource \"nodes/status\""),
        (403, "admission webhook \"x\" denied the request: node-resource-advertiser may not change metadata"),
        (400, "admission webhook \"x\" does not support dry run"),
        (404, "nodes \"node-1\" not found"),
        (409, "Operation cannot be fulfilled on nodes \"node-1\""),
        (429, "too many requests"),
        (500, "etcdserver: request timed out"),
    ] {
        let State::Unknown(why) = State::of(rejected(code, message)) else { panic!("{code} {message}") };
        assert!(why.contains(message), "{why}");
    }
    let silent = RequestError::Transport("no answer within 15s".to_owned());
    assert_eq!(State::of(Err(silent)), State::Unknown("no answer within 15s".to_owned()));
}
