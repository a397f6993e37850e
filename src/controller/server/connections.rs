//! The connections to the port, which any pod of the cluster may open: limited in number, time and memory.
//!
//! Each connection serves one request. If there are too many, the newest is not rejected: the oldest connection of the
//! address with the most connections is closed, so that a probe of the kubelet succeeds however many connections a pod
//! opens.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{sleep, timeout};
use tracing::warn;

/// The limits of clients.
#[derive(Clone, Copy)]
pub(super) struct Limits {
    /// The maximum number of open connections.
    connections: usize,
    /// The timeout of a request.
    request_timeout: Duration,
    /// The timeout of a connection, including the response.
    connection_timeout: Duration,
    /// The maximum size of a request: the response to a larger one is 431.
    request_bytes: usize,
}

pub(super) const LIMITS: Limits = Limits {
    connections: 64,
    request_timeout: Duration::from_secs(5),
    connection_timeout: Duration::from_secs(30),
    request_bytes: 16 * 1024,
};

/// The pause if no connection can be accepted, for example because there are no free file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_secs(1);

/// Serves requests until the future is dropped.
pub(super) async fn serve(listener: TcpListener, router: Router, limits: Limits) {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(limits.request_timeout)
        .max_buf_size(limits.request_bytes)
        .keep_alive(false);
    // The connections are dropped together with this future.
    let mut connections = JoinSet::new();
    let mut by_age = Vec::<(IpAddr, AbortHandle)>::new();
    loop {
        let (stream, peer) = tokio::select! {
            accepted = accept(&listener) => accepted,
            Some(_) = connections.join_next() => continue,
        };
        by_age.retain(|(_, connection)| !connection.is_finished());
        if by_age.len() >= limits.connections
            && let Some(surplus) = surplus(by_age.iter().map(|(peer, _)| *peer))
        {
            by_age.remove(surplus).1.abort();
        }
        let service = TowerToHyperService::new(router.clone());
        let connection = http.serve_connection(TokioIo::new(stream), service);
        let connection = connections.spawn(async move {
            // Errors are the client's.
            let _ = timeout(limits.connection_timeout, connection).await;
        });
        by_age.push((peer, connection));
        // There may always be another connection to accept: open ones must progress too.
        tokio::task::yield_now().await;
    }
}

/// Returns the connection to close, by age: the oldest of the address with the most connections.
fn surplus(peers: impl Iterator<Item = IpAddr>) -> Option<usize> {
    let mut by_peer = HashMap::<_, Vec<_>>::new();
    for (index, peer) in peers.enumerate() {
        by_peer.entry(peer).or_default().push(index);
    }
    // Among equals, the address whose oldest connection is the oldest.
    let most = by_peer.into_values().max_by_key(|open| (open.len(), Reverse(open.first().copied())));
    most?.first().copied()
}

async fn accept(listener: &TcpListener) -> (TcpStream, IpAddr) {
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => return (stream, peer.ip()),
            Err(error) => {
                warn!("cannot accept connections: {error}");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{ErrorKind, Write};

    use axum::routing::get;
    use tokio::net::TcpSocket;

    use super::*;

    /// A server, and its address.
    async fn start(limits: Limits) -> (JoinSet<()>, std::net::SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        // Larger than any buffer on the way.
        let large = get(|| async { "a".repeat(32 * 1024 * 1024) });
        let router = Router::new().route("/", get(|| async { "here" })).route("/large", large);
        let mut server = JoinSet::new();
        server.spawn(serve(listener, router, limits));
        (server, address)
    }

    async fn connect(address: std::net::SocketAddr, request: &str) -> TcpStream {
        connect_from("127.0.0.1", address, request).await
    }

    async fn connect_from(local: &str, address: std::net::SocketAddr, request: &str) -> TcpStream {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(format!("{local}:0").parse().unwrap()).unwrap();
        let stream = socket.connect(address).await.unwrap();
        let mut rest = request.as_bytes();
        while !rest.is_empty() {
            stream.writable().await.unwrap();
            match stream.try_write(rest) {
                Ok(count) => rest = &rest[count..],
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                // A server that has closed the connection by now resets it.
                Err(_) => break,
            }
        }
        stream
    }

    /// What comes until the server closes the connection.
    async fn response(stream: TcpStream) -> String {
        let (mut response, mut buffer) = (Vec::new(), [0; 4096]);
        let read = async {
            loop {
                stream.readable().await.unwrap();
                match stream.try_read(&mut buffer) {
                    Ok(0) => break,
                    Ok(count) => response.extend_from_slice(&buffer[..count]),
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                    // It is reset where part of the request was not read.
                    Err(_) => break,
                }
            }
        };
        timeout(Duration::from_secs(120), read).await.expect("the server closes the connection");
        String::from_utf8(response).unwrap()
    }

    const REQUEST: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

    #[tokio::test]
    async fn probe_is_answered_among_hundreds_of_slow_connections() {
        // By time, none of them is closed.
        let long = Duration::from_secs(3600);
        let limits = Limits { request_timeout: long, connection_timeout: long, ..LIMITS };
        let (_server, address) = start(limits).await;
        let mut slow = Vec::new();
        for _ in 0..300 {
            slow.push(connect(address, "GET / HTTP/1.1\r\nHost: ").await);
        }
        assert!(response(connect(address, REQUEST).await).await.ends_with("here"));
        // Beside the slow ones that are left there was the probe.
        let newest = slow.split_off(slow.len() - LIMITS.connections);
        for stream in slow {
            assert_eq!(response(stream).await, "");
        }
        let open = newest.iter().filter(|stream| {
            let closed = stream.try_read(&mut [0]);
            closed.is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
        });
        assert!(open.count() >= LIMITS.connections - 1);
    }

    /// By age alone, the flood would push it out before its request is there.
    #[tokio::test]
    async fn address_with_many_connections_does_not_push_out_another() {
        let long = Duration::from_secs(3600);
        let limits = Limits { request_timeout: long, connection_timeout: long, ..LIMITS };
        let (_server, address) = start(limits).await;
        let probe = connect_from("127.0.0.2", address, "").await;
        let mut flood = Vec::new();
        for _ in 0..300 {
            flood.push(connect(address, "GET / HTTP/1.1\r\nHost: ").await);
        }
        // The flood has been accepted up to here.
        let oldest = flood.len() - LIMITS.connections;
        assert_eq!(response(flood.swap_remove(oldest)).await, "");
        probe.writable().await.unwrap();
        assert_eq!(probe.try_write(REQUEST.as_bytes()).unwrap(), REQUEST.len());
        assert!(response(probe).await.ends_with("here"));
    }

    /// Each of them has its turn before others push it out.
    #[tokio::test]
    async fn all_are_answered_that_come_at_once() {
        let (_server, address) = start(LIMITS).await;
        // Nothing here waits, so that the server has them all at once.
        let ask = || {
            let mut stream = std::net::TcpStream::connect(address).unwrap();
            stream.write_all(REQUEST.as_bytes()).unwrap();
            stream.set_nonblocking(true).unwrap();
            TcpStream::from_std(stream).unwrap()
        };
        let streams: Vec<_> = (0..LIMITS.connections * 3 / 2).map(|_| ask()).collect();
        for stream in streams {
            assert!(response(stream).await.ends_with("here"));
        }
    }

    #[test]
    fn oldest_connection_of_the_address_with_the_most_makes_room() {
        let peers = |last: &[u8]| -> Vec<IpAddr> { last.iter().map(|last| IpAddr::from([10, 0, 0, *last])).collect() };
        for (open, expected) in [
            (&[][..], None),
            (&[1], Some(0)),
            (&[1, 2, 2], Some(1)),
            (&[1, 2, 3, 2, 3, 3], Some(2)),
            (&[2, 1, 1, 2], Some(0)),
        ] {
            assert_eq!(surplus(peers(open).into_iter()), expected, "{open:?}");
        }
    }

    #[tokio::test]
    async fn connection_has_one_request() {
        let (_server, address) = start(LIMITS).await;
        let answer = response(connect(address, &REQUEST.repeat(2)).await).await;
        assert_eq!(answer.matches("200 OK").count(), 1, "{answer}");
    }

    #[tokio::test]
    async fn request_that_is_too_large_is_refused() {
        let (_server, address) = start(LIMITS).await;
        let header = "a".repeat(2 * LIMITS.request_bytes);
        let request = format!("GET / HTTP/1.1\r\nHost: a\r\nA: {header}\r\n\r\n");
        let answer = response(connect(address, &request).await).await;
        // What it has not read may have the response discarded.
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431 "), "{answer}");
    }

    /// The clock runs ahead where nothing else is to be done.
    #[tokio::test(start_paused = true)]
    async fn client_that_takes_too_long_is_cut_off() {
        let (_server, address) = start(LIMITS).await;
        let begun = tokio::time::Instant::now();
        assert_eq!(response(connect(address, "GET / HTTP/1.1\r\nHost: ").await).await, "");
        assert!(begun.elapsed() < LIMITS.connection_timeout, "{:?}", begun.elapsed());

        // One that reads nothing.
        let stream = connect(address, "GET /large HTTP/1.1\r\nHost: a\r\n\r\n").await;
        sleep(LIMITS.connection_timeout * 2).await;
        assert!(response(stream).await.len() < 32 * 1024 * 1024);
    }
}
