use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::thread;

use crate::{program, read};

/// Answers one request for each of these, each on a connection of its own as a Service's replicas do.
fn serve(answers: Vec<String>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for answer in answers {
            let (mut client, _) = listener.accept().unwrap();
            let mut request = [0; 4096];
            let length = client.read(&mut request).unwrap();
            let request = String::from_utf8_lossy(&request[..length]).into_owned();
            assert!(request.starts_with("GET /metrics HTTP/1.1\r\n"), "{request}");
            client.write_all(answer.as_bytes()).unwrap();
        }
    });
    address
}

fn answer(status: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len())
}

fn health(address: &str, args: &[&str]) -> (String, String, Option<i32>) {
    let output = program(&[&["health", address], args].concat());
    let [stdout, stderr] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    (stdout, stderr, output.status.code())
}

/// The recorded metrics of a leader, with this state of the protection.
fn leader(protection: &str) -> String {
    let series = format!("node_resource_advertiser_protection{{state=\"{protection}\"}} ");
    let metrics = read("tests/testdata/metrics.txt").replace(&format!("{series}0"), &format!("{series}1"));
    assert!(metrics.contains("node_resource_advertiser_leader 1\n") && metrics.contains(&format!("{series}1\n")));
    metrics
}

#[test]
fn health_asks_until_the_leader_answers() {
    let standby = leader("present").replace("_leader 1", "_leader 0");
    let address = serve(vec![
        answer("503 Service Unavailable", ""),
        answer("200 OK", &standby),
        answer("200 OK", &leader("unknown")),
        answer("200 OK", &leader("present")),
    ]);
    let args = ["--confinement=confined", "--protection=present,static", "--timeout=5m"];
    let printed = "confinement: confined\nprotection: present\n".to_owned();
    assert_eq!(health(&format!("http://{address}"), &args), (printed, String::new(), Some(0)));
}

#[test]
fn health_fails_for_another_state_and_without_a_leader() {
    let address = format!("http://{}", serve(vec![answer("200 OK", &leader("absent"))]));
    let (_, stderr, code) = health(&address, &["--protection=present", "--timeout=1s"]);
    let reason = "error: the protection is absent, not present: /readyz?verbose of the leader has the reason\n";
    assert_eq!((&*stderr, code), (reason, Some(1)));
    // Nothing listens there anymore.
    let (_, stderr, code) = health(&address, &["--timeout=0s"]);
    assert!(code == Some(1) && stderr.starts_with("error: no leader has answered at http://127.0.0.1:"), "{stderr}");
    let (_, stderr, code) = health("nra:8080", &["--timeout=0s"]);
    assert!(code == Some(1) && stderr.contains("no leader has answered at nra:8080 within 0ns"), "{stderr}");
}
