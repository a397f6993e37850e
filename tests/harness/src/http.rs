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

fn whole((code, mut stream): (u16, BufReader<TcpStream>), path: &str) -> Result<(u16, String)> {
    let mut body = String::new();
    stream.read_to_string(&mut body).with_context(|| format!("no whole body of {path}"))?;
    Ok((code, body))
}

/// Sends a request without a body; returns the status code, and the body to be read.
pub(crate) fn open(address: SocketAddr, method: &str, path: &str) -> Result<(u16, BufReader<TcpStream>)> {
    send(address, method, path, ("", ""))
}

fn send(
    address: SocketAddr,
    method: &str,
    path: &str,
    (content_type, body): (&str, &str),
) -> Result<(u16, BufReader<TcpStream>)> {
    let mut stream =
        TcpStream::connect_timeout(&address, DEADLINE).with_context(|| format!("nothing listens on {address}"))?;
    stream.set_read_timeout(Some(DEADLINE))?;
    // In HTTP/1.0 the end of the connection ends the body, without a length or chunks.
    write!(stream, "{method} {path} HTTP/1.0\r\nHost: localhost\r\n")?;
    if !body.is_empty() {
        let length = body.len();
        write!(stream, "Content-Type: {content_type}\r\nContent-Length: {length}\r\n")?;
    }
    write!(stream, "\r\n{body}")?;
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    stream.read_line(&mut line)?;
    let code = line.split_whitespace().nth(1).and_then(|code| code.parse().ok());
    let code = code.with_context(|| format!("no HTTP from {address}: {line:?}"))?;
    while !line.trim_end().is_empty() {
        line.clear();
        stream.read_line(&mut line)?;
    }
    Ok((code, stream))
}
