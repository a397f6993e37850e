//! A TCP proxy on loopback in front of the API server, whose network a test can break.
//!
//! ```text
//! client ──TLS──▶ proxy ──the same bytes──▶ API server
//!        ◀─ fault ┘                         requests always arrive; responses meet the fault
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

/// What is wrong with the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// New connections are closed at once; those that are open go on.
    Refuse,
    /// What the server sends arrives so much later, piece by piece.
    Delay(Duration),
    /// A connection ends after so many more bytes from the server.
    Truncate(usize),
    /// Nothing from the server arrives, until another fault or none takes over.
    Stall,
    /// A connection on which the server sends something is reset (RST).
    Reset,
}

/// The proxy. It ends with this value.
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
    /// How many faults there have been, this one included.
    faults: u64,
    /// How often a connection has met the present fault.
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
    /// Starts one in front of a server.
    ///
    /// # Errors
    /// Where it cannot listen.
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
                // The client meets one that cannot be set up as a closed connection.
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

    /// Breaks the network in this way, or mends it.
    pub fn set(&self, fault: Option<Fault>) {
        let mut state = self.shared.lock();
        (state.fault, state.hits) = (fault, 0);
        state.faults += 1;
        self.shared.changed.notify_all();
    }

    /// Closes all connections that are open.
    pub fn cut(&self) {
        self.shared.lock().open.values().for_each(|connection| connection.end(false));
    }

    /// Waits until connections have met the present fault so often.
    ///
    /// # Errors
    /// Where they do not.
    pub fn wait_hits(&self, count: u64) -> Result<()> {
        let what = format!("connections to meet {:?} {count} times", self.shared.lock().fault);
        wait_until(&what, || Ok((self.shared.lock().hits >= count).then_some(())))
    }

    /// Writes a copy of a kubeconfig that leads through the proxy, beside it, and returns its path.
    ///
    /// # Errors
    /// Where a file cannot be read or written.
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
        // Whoever accepts connections sees the end with the next one.
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
            requests.forward_requests();
            shared.lock().open.remove(&requests.id);
        });
        let shared = Arc::clone(self);
        thread::spawn(move || {
            connection.forward_responses(&shared);
            shared.lock().open.remove(&connection.id);
        });
        Ok(())
    }

    /// Waits as the present fault asks for, and returns what becomes of so many bytes from the server.
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
                let stalls =
                    |state: &mut State| state.fault == Some(Fault::Stall) && !state.is_over;
                drop(self.changed.wait_while(state, stalls));
                Verdict::Send
            }
            Some(Fault::Reset) => {
                state.hits += 1;
                Verdict::Reset
            }
            Some(Fault::Truncate(_) | Fault::Refuse) | None => Verdict::Send,
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

/// What becomes of some bytes from the server.
enum Verdict {
    Send,
    /// The first of them are sent, and the connection is closed.
    SendAndClose(usize),
    Reset,
}

impl Connection {
    fn forward_requests(&self) {
        // An error is an end like any other. It shows in the other direction, which ends the client's side.
        let _ = std::io::copy(&mut &self.client, &mut &self.server);
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

    /// Ends both sides, which both threads notice: the client's by a reset, once they have let go of it, or in peace.
    fn end(&self, resets: bool) {
        // Where one side has ended already, so has the other by now, or will.
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

    /// What comes back, until the connection ends or all of it is there.
    fn exchange(mut stream: &TcpStream, text: &str) -> std::io::Result<String> {
        stream.write_all(text.as_bytes())?;
        let mut back = vec![0; text.len()];
        let mut size = 0;
        while size < back.len() {
            match stream.read(&mut back[size..])? {
                0 => break,
                more => size += more,
            }
        }
        Ok(String::from_utf8_lossy(&back[..size]).into_owned())
    }

    #[test]
    fn connection_meets_each_fault_and_no_other() {
        let proxy = echo();
        let open = connect(&proxy);
        assert_eq!(exchange(&open, "hello").unwrap(), "hello");

        proxy.set(Some(Fault::Refuse));
        assert_eq!(exchange(&open, "hello").unwrap(), "hello", "what is open goes on");
        let refused = connect(&proxy);
        proxy.wait_hits(1).unwrap();
        assert!(
            exchange(&refused, "hello").is_ok_and(|back| back.is_empty())
                || exchange(&refused, "x").is_err()
        );

        proxy.set(Some(Fault::Delay(Duration::from_millis(1))));
        assert_eq!(exchange(&open, "hello").unwrap(), "hello");
        proxy.wait_hits(1).unwrap();

        proxy.set(Some(Fault::Truncate(3)));
        assert_eq!(exchange(&open, "hello").unwrap(), "hel");

        proxy.set(Some(Fault::Reset));
        let error = exchange(&connect(&proxy), "hello").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);

        proxy.set(None);
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
        assert_eq!(exchange(&open, " world").unwrap(), "hello ", "what was held back comes first");
        proxy.cut();
        assert!(
            exchange(&open, "hello").is_ok_and(|back| back.is_empty())
                || exchange(&open, "x").is_err()
        );
    }
}
