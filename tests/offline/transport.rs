use std::io::{Read, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{Request, Uri};
use http_body_util::BodyExt as _;
use kube::client::Body;
use kube::{Client, Config};
use node_resource_advertiser::cluster::client::with_config;
use node_resource_advertiser::response::error::describe;
use tokio::time::{Instant, timeout};

/// A server on loopback that is its own proxy. It sends the head and half the body of each response,
/// and no more.
struct Server {
    port: u16,
    /// The heads of the requests, those to the proxy included.
    heads: Arc<Mutex<Vec<String>>>,
}

impl Server {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let heads = Arc::<Mutex<Vec<String>>>::default();
        let seen = Arc::clone(&heads);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let seen = Arc::clone(&seen);
                std::thread::spawn(move || serve(stream.unwrap(), &seen));
            }
        });
        Self { port, heads }
    }

    /// A client of it, through it as a proxy where that has a scheme.
    async fn client(&self, proxy: Option<&str>) -> Client {
        let url = |start: &str| -> Uri { format!("{start}127.0.0.1:{}", self.port).parse().unwrap() };
        let mut config = Config::new(url("http://"));
        config.proxy_url = proxy.map(url);
        with_config(config).await.unwrap()
    }
}

fn serve(mut stream: TcpStream, heads: &Mutex<Vec<String>>) {
    let mut first = [0];
    if stream.peek(&mut first).is_ok() && first == [5] {
        // SOCKS 5, without a password: a greeting, and a request with an IPv4 address.
        stream.read_exact(&mut [0; 3]).unwrap();
        stream.write_all(&[5, 0]).unwrap();
        stream.read_exact(&mut [0; 10]).unwrap();
        stream.write_all(&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0]).unwrap();
    }
    while let Some(head) = read_head(&mut stream) {
        let response = if head.starts_with("CONNECT ") {
            "HTTP/1.1 200 OK\r\n\r\n"
        } else if head.contains("/fails") {
            "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 100\r\n\r\n{"
        } else {
            "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"
        };
        heads.lock().unwrap().push(head);
        stream.write_all(response.as_bytes()).unwrap();
    }
}

fn read_head(stream: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).ok()?;
        head.extend(byte);
    }
    Some(String::from_utf8(head).unwrap())
}

/// How long the body of the response to this request lasts, and how it ends; none where that is
/// longer than ten minutes.
async fn body_end(client: &Client, path: &str) -> Option<(Duration, Result<(), kube::Error>)> {
    let request = Request::get(path).body(Body::empty()).unwrap();
    let response = client.send(request).await.unwrap();
    tokio::time::pause();
    let start = Instant::now();
    let end = timeout(Duration::from_secs(600), response.into_body().collect()).await;
    let elapsed = start.elapsed();
    tokio::time::resume();
    Some((elapsed, end.ok()?.map(|_| ())))
}

#[tokio::test]
async fn body_that_stalls_fails_and_one_of_a_watch_ends_later() {
    for proxy in [None, Some("http://"), Some("socks5://")] {
        let server = Server::start();
        let client = server.client(proxy).await;
        for path in ["/api/v1/nodes?limit=200", "/api/v1/nodes", "/fails?watch=true"] {
            let end = body_end(&client, path).await;
            let (elapsed, end) = end.unwrap_or_else(|| panic!("{proxy:?}: {path} never ends"));
            assert!(elapsed <= Duration::from_secs(61), "{proxy:?}: {path} ends after {elapsed:?}");
            let reason = describe(&end.unwrap_err());
            let says = format!("http://127.0.0.1:{}/: the response did not complete", server.port);
            assert!(reason.contains(&says), "{reason}");
        }
        for path in ["/api/v1/nodes?watch=true", "/api/v1/nodes?limit=1&watch=true&a=b"] {
            let end = body_end(&client, path).await;
            let (elapsed, end) = end.unwrap_or_else(|| panic!("{proxy:?}: {path} never ends"));
            assert!((89..=91).contains(&elapsed.as_secs()), "{proxy:?}: {path} ends after {elapsed:?}");
            let reason = describe(&end.unwrap_err());
            assert!(reason.contains("nothing for 90 s, not even a bookmark"), "{proxy:?}: {path}: {reason}");
        }
    }
}

#[tokio::test]
async fn dead_peer_is_noticed_also_behind_a_proxy() {
    for proxy in [None, Some("http://"), Some("socks5://")] {
        let server = Server::start();
        let client = server.client(proxy).await;
        let request = Request::get("/api/v1/nodes?watch=true").body(Body::empty()).unwrap();
        let response = client.send(request).await.unwrap();
        // As proc(5) has it: the remote address, the state (1: established), the queues, and the
        // timer (2: keepalive).
        let remote = format!("0100007F:{:04X} 01 ", server.port);
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            let connections = std::fs::read_to_string("/proc/net/tcp").unwrap();
            let connection = connections.lines().find(|line| line.contains(&remote)).unwrap();
            let timer = connection.split_whitespace().nth(5).unwrap();
            if timer.starts_with("02:") {
                break;
            }
            assert!(Instant::now() < deadline, "{proxy:?}: no keepalive: {connection}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        drop(response);
    }
}

#[tokio::test]
async fn proxy_receives_the_decoded_user_and_password_of_its_url() {
    let server = Server::start();
    let client = server.client(Some("http://user:pa%40ss@")).await;
    let request = Request::get("/api/v1/nodes").body(Body::empty()).unwrap();
    client.send(request).await.unwrap();
    let heads = server.heads.lock().unwrap();
    // The base64 of user:pa@ss.
    let header = "proxy-authorization: basic dXNlcjpwYUBzcw==\r\n".to_lowercase();
    assert!(heads[0].to_lowercase().contains(&header), "{heads:?}");
    assert!(!heads[1].to_lowercase().contains("proxy-authorization"), "{heads:?}");
}
