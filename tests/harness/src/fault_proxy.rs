//! A TCP proxy on loopback in front of the API server, whose network a test can break.
//!
//! ```text
//! client ──TLS──▶ proxy ──the same bytes──▶ API server
//!        ◀─ fault ┘                         responses meet the fault; Hold is for requests
//! ```
//!
//! TLS ends at the API server, whose certificate holds for the proxy's address too. Each connection has two
//! threads, one for each direction.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result};
use rustix::net::sockopt::set_socket_linger;
use serde_json::Value;

use crate::wait_until;

/// A fault of the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// New connections are closed at once; open ones continue.
    Refuse,
    /// The server's data arrives with this delay, piece by piece.
    Delay(Duration),
    /// A connection ends after this number of further bytes from the server.
    Truncate(usize),
    /// Nothing from the server arrives until the fault changes.
    Stall,
    /// A connection on which the server sends something is reset (RST).
    Reset,
    /// Nothing from the client arrives until the fault changes.
    Hold,
}

/// The proxy, which ends when this value is dropped.
#[derive(Debug)]
pub struct FaultProxy {
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    server: SocketAddr,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    fault: Option<Fault>,
    /// The number of faults so far, including this one.
    faults: u64,
    /// How many times connections have met the current fault.
    hits: u64,
    open: BTreeMap<u64, Arc<Connection>>,
    opened: u64,
    is_over: bool,
}

#[derive(Debug)]
struct Connection {
    id: u64,
    client: TcpStream,
    server: TcpStream,
}

impl FaultProxy {
    /// Starts a proxy in front of a server.
    ///
    /// # Errors
    /// Returns an error if it cannot listen.
    pub fn start(server: SocketAddr) -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).context("the proxy cannot listen")?;
        let address = listener.local_addr()?;
        let state = Mutex::new(State::default());
        let shared = Arc::new(Shared { server, state, changed: Condvar::new() });
        let accepting = Arc::clone(&shared);
        thread::Builder::new().name("fault-proxy".to_owned()).spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if accepting.lock().is_over {
                    break;
                }
                // If a connection cannot be set up, the client sees it closed.
                let _ = accepting.connect(client);
            }
        })?;
        Ok(Self { address, shared })
    }

    /// Returns the address to connect to.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sets this fault, or none.
    pub fn set(&self, fault: Option<Fault>) {
        let mut state = self.shared.lock();
        (state.fault, state.hits) = (fault, 0);
        state.faults += 1;
        self.shared.changed.notify_all();
    }

    /// Closes all open connections.
    pub fn cut(&self) {
        self.shared.lock().open.values().for_each(|connection| connection.end(false));
    }

    /// Waits until connections have met the current fault this number of times.
    ///
    /// # Errors
    /// Returns an error if they do not.
    pub fn wait_hits(&self, count: u64) -> Result<()> {
        let what = format!("connections to meet {:?} {count} times", self.shared.lock().fault);
        wait_until(&what, || Ok((self.shared.lock().hits >= count).then_some(())))
    }

    /// Writes a copy of a kubeconfig that connects through the proxy, next to it, and returns its path.
    ///
    /// # Errors
    /// Returns an error if a file cannot be read or written.
    pub fn kubeconfig(&self, direct: &Path) -> Result<PathBuf> {
        let config = std::fs::read_to_string(direct).context("no kubeconfig to start from")?;
        let mut config: Value = serde_json::from_str(&config)?;
        config["clusters"][0]["cluster"]["server"] = format!("https://{}", self.address).into();
        let path = direct.with_extension(format!("by-{}.kubeconfig", self.address.port()));
        std::fs::write(&path, config.to_string()).context("cannot write a kubeconfig")?;
        Ok(path)
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        self.shared.lock().is_over = true;
        self.shared.changed.notify_all();
        self.cut();
        // The accepting thread checks for the end at the next connection.
        let _ = TcpStream::connect(self.address);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn connect(self: &Arc<Self>, client: TcpStream) -> Result<()> {
        let mut state = self.lock();
        if state.fault == Some(Fault::Refuse) {
            state.hits += 1;
            return Ok(());
        }
        drop(state);
        let server = TcpStream::connect(self.server)?;
        for stream in [&client, &server] {
            stream.set_nodelay(true)?;
        }
        let mut state = self.lock();
        state.opened += 1;
        let connection = Arc::new(Connection { id: state.opened, client, server });
        state.open.insert(connection.id, Arc::clone(&connection));
        drop(state);
        let (shared, requests) = (Arc::clone(self), Arc::clone(&connection));
        thread::spawn(move || {
            requests.forward_requests(&shared);
            shared.lock().open.remove(&requests.id);
        });
        let shared = Arc::clone(self);
        thread::spawn(move || {
            connection.forward_responses(&shared);
            shared.lock().open.remove(&connection.id);
        });
        Ok(())
    }

    /// Waits as the current fault requires, and returns what happens to this number of bytes from the server.
    fn admit(&self, size: usize, count: &mut Count) -> Verdict {
        let mut state = self.lock();
        if count.faults != state.faults {
            *count = Count { faults: state.faults, bytes: 0 };
        }
        count.bytes += size;
        match state.fault {
            Some(Fault::Delay(delay)) => {
                state.hits += 1;
                drop(state);
                thread::sleep(delay);
                Verdict::Send
            }
            Some(Fault::Truncate(limit)) if count.bytes >= limit => {
                state.hits += 1;
                Verdict::SendAndClose(size.saturating_sub(count.bytes - limit))
            }
            Some(Fault::Stall) => {
                state.hits += 1;
                let stalls = |state: &mut State| state.fault == Some(Fault::Stall) && !state.is_over;
                drop(self.changed.wait_while(state, stalls));
                Verdict::Send
            }
            Some(Fault::Reset) => {
                state.hits += 1;
                Verdict::Reset
            }
            Some(Fault::Truncate(_) | Fault::Refuse | Fault::Hold) | None => Verdict::Send,
        }
    }

    /// Waits while requests are held.
    fn hold(&self) {
        let mut state = self.lock();
        if state.fault == Some(Fault::Hold) {
            state.hits += 1;
            let holds = |state: &mut State| state.fault == Some(Fault::Hold) && !state.is_over;
            drop(self.changed.wait_while(state, holds));
        }
    }
}

/// How many bytes a server has sent on one connection since a fault.
#[derive(Default)]
struct Count {
    /// The number of the fault.
    faults: u64,
    bytes: usize,
}

/// What happens to bytes from the server.
enum Verdict {
    Send,
    /// The first bytes are sent, and the connection is closed.
    SendAndClose(usize),
    Reset,
}

impl Connection {
    fn forward_requests(&self, shared: &Shared) {
        // An error ends the connection too. The other direction detects it, and ends the client's side.
        let mut buffer = [0; 16 << 10];
        while let Ok(size @ 1..) = (&self.client).read(&mut buffer) {
            shared.hold();
            if (&self.server).write_all(buffer.get(..size).unwrap_or_default()).is_err() {
                break;
            }
        }
        let _ = self.server.shutdown(Shutdown::Both);
    }

    fn forward_responses(&self, shared: &Shared) {
        let (mut buffer, mut count) = ([0; 16 << 10], Count::default());
        while let Ok(size @ 1..) = (&self.server).read(&mut buffer) {
            let (size, goes_on) = match shared.admit(size, &mut count) {
                Verdict::Send => (size, true),
                Verdict::SendAndClose(size) => (size, false),
                Verdict::Reset => return self.end(true),
            };
            let sent = (&self.client).write_all(buffer.get(..size).unwrap_or_default());
            if sent.is_err() || !goes_on {
                break;
            }
        }
        self.end(false);
    }

    /// Ends both sides, which both threads detect. The client's side ends with a reset, once both threads have
    /// dropped it, or normally.
    fn end(&self, resets: bool) {
        // If one side has already ended, the other has ended too, or will.
        if resets {
            let _ = set_socket_linger(&self.client, Some(Duration::ZERO));
        }
        let _ = self.client.shutdown(if resets { Shutdown::Read } else { Shutdown::Both });
        let _ = self.server.shutdown(Shutdown::Both);
    }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;

    use super::*;
    use crate::wait::DEADLINE;

    /// A proxy in front of a server that returns what it receives.
    fn echo() -> FaultProxy {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                thread::spawn(move || std::io::copy(&mut &stream, &mut &stream));
            }
        });
        FaultProxy::start(address).unwrap()
    }

    fn connect(proxy: &FaultProxy) -> TcpStream {
        let stream = TcpStream::connect(proxy.address()).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        stream
    }

    /// Returns the response, until the connection ends or the response is complete.
    fn exchange(mut stream: &TcpStream, text: &str) -> std::io::Result<String> {
        stream.write_all(text.as_bytes())?;
        let mut back = Vec::new();
        // Whatever signals interrupt it.
        stream.take(text.len() as u64).read_to_end(&mut back)?;
        Ok(String::from_utf8_lossy(&back).into_owned())
    }

    #[test]
    fn connection_meets_each_fault_and_no_other() {
        let proxy = echo();
        let open = connect(&proxy);
        assert_eq!(exchange(&open, "hello").unwrap(), "hello");

        proxy.set(Some(Fault::Refuse));
        assert_eq!(exchange(&open, "hello").unwrap(), "hello", "an open connection continues");
        let refused = connect(&proxy);
        proxy.wait_hits(1).unwrap();
        assert!(exchange(&refused, "hello").is_ok_and(|back| back.is_empty()) || exchange(&refused, "x").is_err());

        proxy.set(Some(Fault::Delay(Duration::from_millis(1))));
        assert_eq!(exchange(&open, "hello").unwrap(), "hello");
        proxy.wait_hits(1).unwrap();

        proxy.set(Some(Fault::Truncate(3)));
        assert_eq!(exchange(&open, "abcde").unwrap(), "abc");

        proxy.set(Some(Fault::Reset));
        let error = exchange(&connect(&proxy), "hello").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);

        proxy.set(Some(Fault::Hold));
        let held = thread::spawn({
            let stream = connect(&proxy);
            move || exchange(&stream, "hello").unwrap()
        });
        proxy.wait_hits(1).unwrap();
        assert!(!held.is_finished());

        proxy.set(None);
        assert_eq!(held.join().unwrap(), "hello");
        assert_eq!(exchange(&connect(&proxy), "hello").unwrap(), "hello");
    }

    #[test]
    fn stalled_connection_resumes_after_the_fault() {
        let proxy = echo();
        let open = connect(&proxy);
        proxy.set(Some(Fault::Stall));
        open.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
        let error = exchange(&open, "hello").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
        proxy.wait_hits(1).unwrap();
        proxy.set(None);
        open.set_read_timeout(Some(DEADLINE)).unwrap();
        assert_eq!(exchange(&open, " world").unwrap(), "hello ", "delayed data arrives first");
        proxy.cut();
        assert!(exchange(&open, "hello").is_ok_and(|back| back.is_empty()) || exchange(&open, "x").is_err());
    }
}
