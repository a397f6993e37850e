//! Requests over plain HTTP on loopback.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

use anyhow::{Context as _, Result};

use crate::DEADLINE;

/// Sends a GET; returns the status code and the body of the response.
pub(crate) fn get(address: SocketAddr, path: &str) -> Result<(u16, String)> {
    request(address, "GET", path)
}

/// Sends a request without a body; returns the status code and the body of the response.
pub(crate) fn request(address: SocketAddr, method: &str, path: &str) -> Result<(u16, String)> {
    whole(open(address, method, path)?, path)
}

/// Sends a request with a body of a media type; returns the status code and the body of the response.
pub(crate) fn send_body(address: SocketAddr, method: &str, path: &str, body: (&str, &str)) -> Result<(u16, String)> {
    whole(send(address, method, path, body)?, path)
}

fn whole(mut response: Response, path: &str) -> Result<(u16, String)> {
    let mut body = String::new();
    let length = response.length.unwrap_or(u64::MAX);
    let read = response.stream.by_ref().take(length).read_to_string(&mut body);
    read.with_context(|| format!("no whole body of {path}"))?;
    Ok((response.code, body))
}

/// A response whose body is still to be read: so many bytes, or all until the connection ends.
pub(crate) struct Response {
    pub(crate) code: u16,
    length: Option<u64>,
    pub(crate) stream: BufReader<TcpStream>,
}

/// Sends a request without a body; returns the response with the body to be read.
pub(crate) fn open(address: SocketAddr, method: &str, path: &str) -> Result<Response> {
    send(address, method, path, ("", ""))
}

fn send(address: SocketAddr, method: &str, path: &str, (content_type, body): (&str, &str)) -> Result<Response> {
    let mut stream =
        TcpStream::connect_timeout(&address, DEADLINE).with_context(|| format!("nothing listens on {address}"))?;
    stream.set_read_timeout(Some(DEADLINE))?;
    // In HTTP/1.0, a body without a length ends with the connection, and there are no chunks.
    let mut request = format!("{method} {path} HTTP/1.0\r\nHost: localhost\r\n");
    if !body.is_empty() {
        let length = body.len();
        // A server that rejects a request before it has read the body would reset the connection that it closes, and with it
        // a response that is not read yet.
        request += "Connection: keep-alive\r\n";
        request += &format!("Content-Type: {content_type}\r\nContent-Length: {length}\r\n");
    }
    request += "\r\n";
    request += body;
    stream.write_all(request.as_bytes())?;
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    stream.read_line(&mut line)?;
    let code = line.split_whitespace().nth(1).and_then(|code| code.parse().ok());
    let code = code.with_context(|| format!("no HTTP from {address}: {line:?}"))?;
    let mut length = None;
    while !line.trim_end().is_empty() {
        line.clear();
        stream.read_line(&mut line)?;
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().ok();
        }
    }
    Ok(Response { code, length, stream })
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    /// As net/http of Go: it reads what is left of the body of a connection that it keeps, and resets one that it closes.
    #[test]
    fn response_that_precedes_the_end_of_the_request_is_read() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let body = "x".repeat(100_000);
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = BufReader::new(stream.try_clone().unwrap());
            let (mut keeps, mut length) = (false, 0);
            for line in request.by_ref().lines().map(|line| line.unwrap()).take_while(|line| !line.is_empty()) {
                keeps |= line == "Connection: keep-alive";
                length = line.strip_prefix("Content-Length: ").map_or(length, |length| length.parse().unwrap());
            }
            write!(stream, "HTTP/1.0 403 Forbidden\r\nContent-Length: 2\r\n\r\nno").unwrap();
            if keeps {
                let mut rest = vec![0; length];
                request.read_exact(&mut rest).unwrap();
            }
            keeps.then_some(stream)
        });
        assert_eq!(send_body(address, "PUT", "/a", ("text/plain", &body)).unwrap(), (403, "no".to_owned()));
        assert!(server.join().unwrap().is_some(), "the connection may be reset");
    }
}
