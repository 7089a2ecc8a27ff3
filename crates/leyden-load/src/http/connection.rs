//! [`Client`]: requests of one user, on a connection that is kept.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::{ClientConnection, StreamOwned};

use super::body::Body;
use super::gate::{Gate, Socket};
use super::head::{self, Head, MAX_HEAD_BYTES};
use crate::record::{Class, Fail};
use crate::server::Server;

/// Maximum bytes of a read: more than any event of one token, and more than a kernel buffers of a stream of them.
const READ_BYTES: usize = 16 << 10;
/// Maximum time to make a connection.
const CONNECT_TIME: Duration = Duration::from_secs(10);
/// Maximum number of interim answers (status 100 to 199) before the real one.
const MAX_INTERIM: usize = 8;

/// A receiver of an answer as it arrives. `at` is the time at which the system returned the bytes.
pub(crate) trait Sink {
    /// Takes the head.
    fn head(&mut self, head: &Head) -> Result<(), Fail>;
    /// Takes a part of the body.
    fn data(&mut self, at: Instant, bytes: &[u8]) -> Result<(), Fail>;
}

/// The client of one user.
#[derive(Debug)]
pub(crate) struct Client {
    server: Arc<Server>,
    gate: Arc<Gate>,
    connection: Option<Connection>,
}

#[derive(Debug)]
struct Connection {
    transport: Transport,
    buffer: Vec<u8>,
    /// Range of the buffer that has arrived and is not parsed yet.
    held: std::ops::Range<usize>,
    /// Current timeout of the socket.
    timeout: Duration,
    used: bool,
}

#[derive(Debug)]
enum Transport {
    Plain(Socket),
    Tls(Box<StreamOwned<ClientConnection, Socket>>),
}

impl Client {
    pub(crate) fn new(server: Arc<Server>, gate: Arc<Gate>) -> Self {
        Self { server, gate, connection: None }
    }

    /// Connects in advance, so that the request itself need not wait for a connection.
    pub(crate) fn connect(&mut self, deadline: Instant) -> Result<(), Fail> {
        if self.connection.as_ref().is_some_and(Connection::is_open) {
            return Ok(());
        }
        self.connection = None;
        let connection = self.open(deadline).map_err(|fail| self.explain(fail))?;
        self.connection = Some(connection);
        Ok(())
    }

    /// Sends a request and reads its answer.
    pub(crate) fn exchange(
        &mut self,
        request: &[u8],
        deadline: Instant,
        sink: &mut dyn Sink,
    ) -> Result<(), Fail> {
        let mut result = self.attempt(request, deadline, sink);
        if matches!(result, Err(Broken::Stale)) {
            // The server may close a kept connection at any time, also before it reads the request.
            result = self.attempt(request, deadline, sink);
        }
        result.map_err(|broken| {
            self.connection = None;
            self.explain(match broken {
                Broken::Stale => Fail::new(Class::Connection, "the connection was closed without an answer"),
                Broken::Fail(fail) => fail,
            })
        })
    }

    fn attempt(&mut self, request: &[u8], deadline: Instant, sink: &mut dyn Sink) -> Result<(), Broken> {
        self.connect(deadline)?;
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => return Err(Fail::new(Class::Connect, "no connection").into()),
        };
        let reused = std::mem::replace(&mut connection.used, true);
        let keep = connection.exchange(request, deadline, sink).map_err(|broken| match broken {
            Broken::Stale if !reused => {
                Fail::new(Class::Connection, "the connection was closed without an answer").into()
            }
            other => other,
        })?;
        if keep {
            self.connection = Some(connection);
        }
        Ok(())
    }

    fn open(&self, deadline: Instant) -> Result<Connection, Fail> {
        let failed = |error: &io::Error| {
            let class = if is_timeout(error) { Class::Timeout } else { Class::Connect };
            Fail::new(class, format!("cannot connect: {error}"))
        };
        let mut last = Fail::new(Class::Connect, "the server has no address");
        for address in self.server.addresses() {
            let left = deadline.saturating_duration_since(Instant::now()).min(CONNECT_TIME);
            if left.is_zero() {
                return Err(Fail::new(Class::Timeout, "cannot connect in time"));
            }
            match TcpStream::connect_timeout(address, left) {
                Ok(stream) => {
                    stream.set_nodelay(true).map_err(|error| failed(&error))?;
                    let socket = self.gate.hold(stream);
                    let transport = match self.server.tls() {
                        None => Transport::Plain(socket),
                        Some(tls) => {
                            let session = tls.connection();
                            let session =
                                session.map_err(|error| Fail::new(Class::Connect, error.to_string()))?;
                            Transport::Tls(Box::new(StreamOwned::new(session, socket)))
                        }
                    };
                    let mut connection = Connection {
                        transport,
                        buffer: vec![0; READ_BYTES],
                        held: 0..0,
                        timeout: Duration::MAX,
                        used: false,
                    };
                    connection.handshake(deadline).map_err(|error| failed(&error))?;
                    return Ok(connection);
                }
                Err(error) => last = failed(&error),
            }
        }
        Err(last)
    }

    /// Replaces the failure of a request that was cut off by the end of the run.
    fn explain(&self, fail: Fail) -> Fail {
        if self.gate.is_cut() { Fail::new(Class::Unfinished, "the run ended first") } else { fail }
    }
}

/// Reason for which an exchange was not completed.
#[derive(Debug)]
enum Broken {
    /// The connection was closed before any byte of an answer came.
    Stale,
    Fail(Fail),
}

impl From<Fail> for Broken {
    fn from(fail: Fail) -> Self {
        Self::Fail(fail)
    }
}

impl Connection {
    fn socket(&self) -> &TcpStream {
        match &self.transport {
            Transport::Plain(socket) => socket.stream(),
            Transport::Tls(stream) => stream.get_ref().stream(),
        }
    }

    /// Returns true if a kept connection is usable: the server has neither closed it nor sent unexpected bytes.
    fn is_open(&self) -> bool {
        let socket = self.socket();
        if socket.set_nonblocking(true).is_err() {
            return false;
        }
        let peeked = socket.peek(&mut [0]);
        let blocking = socket.set_nonblocking(false).is_ok();
        // TLS session tickets may arrive at any time.
        let silent = match peeked {
            Err(error) => error.kind() == io::ErrorKind::WouldBlock,
            Ok(n) => n > 0 && matches!(self.transport, Transport::Tls(_)),
        };
        blocking && silent
    }

    fn handshake(&mut self, deadline: Instant) -> io::Result<()> {
        self.set_timeout(deadline, true)?;
        if let Transport::Tls(stream) = &mut self.transport {
            while stream.conn.is_handshaking() {
                stream.conn.complete_io(&mut stream.sock)?;
            }
        }
        Ok(())
    }

    /// Sets the timeout of reads and writes to the deadline or a little later: a system call is made only when the
    /// time left has halved, not for every event.
    fn set_timeout(&mut self, deadline: Instant, fresh: bool) -> io::Result<()> {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        if fresh || self.timeout / 2 > left {
            self.socket().set_read_timeout(Some(left))?;
            self.socket().set_write_timeout(Some(left))?;
            self.timeout = left;
        }
        Ok(())
    }

    /// Reads available bytes; returns 0 at the end.
    fn read(&mut self, deadline: Instant) -> Result<(Instant, usize), io::Error> {
        self.set_timeout(deadline, false)?;
        let room = &mut self.buffer[self.held.end..];
        loop {
            let result = match &mut self.transport {
                Transport::Plain(socket) => socket.read(room),
                Transport::Tls(stream) => stream.read(room),
            };
            let at = Instant::now();
            match result {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => {
                    let n = other?;
                    self.held.end += n;
                    return Ok((at, n));
                }
            }
        }
    }

    /// Exchanges one request and its answer; returns true if the connection can be used again.
    fn exchange(&mut self, request: &[u8], deadline: Instant, sink: &mut dyn Sink) -> Result<bool, Broken> {
        self.held = 0..0;
        self.set_timeout(deadline, true).map_err(|error| broken(&error))?;
        let written = match &mut self.transport {
            Transport::Plain(socket) => socket.write_all(request),
            Transport::Tls(stream) => stream.write_all(request).and_then(|()| stream.flush()),
        };
        // A server may refuse a request before it has read all of it; its reason is more useful than the write error.
        let head = self.head(deadline);
        let head = match (head, written) {
            (Err(Broken::Fail(fail)), Err(error)) if fail.class != Class::Protocol => {
                return Err(broken(&error).into());
            }
            (head, _) => head?,
        };
        sink.head(&head)?;
        let mut body = Body::new(head.framing);
        let mut at = Instant::now();
        loop {
            let arrived = &self.buffer[self.held.clone()];
            let used = body.push(arrived, &mut |bytes| sink.data(at, bytes))?;
            if body.is_done() {
                // Bytes after an answer belong to no request.
                return Ok(head.keep && used == arrived.len());
            }
            self.held = 0..0;
            match self.read(deadline).map_err(|error| broken(&error))? {
                (_, 0) => {
                    body.end()?;
                    return Ok(false);
                }
                (now, _) => at = now,
            }
        }
    }

    /// Reads the head of the answer; bytes after it stay in the buffer.
    fn head(&mut self, deadline: Instant) -> Result<Head, Broken> {
        let (mut looked, mut interim) = (0, 0);
        loop {
            if let Some(end) = head::end(&self.buffer[self.held.clone()], looked) {
                let head = head::parse(&self.buffer[self.held.start..self.held.start + end])?;
                self.held.start += end;
                if head.status >= 200 {
                    return Ok(head);
                }
                (looked, interim) = (0, interim + 1);
                if head.status == 101 || interim > MAX_INTERIM {
                    return Err(Fail::new(Class::Protocol, "interim answers instead of one").into());
                }
                continue;
            }
            looked = self.held.len();
            if looked >= MAX_HEAD_BYTES {
                return Err(Fail::new(Class::Protocol, "the head of the answer is longer than 64 KiB").into());
            }
            if self.held.end == self.buffer.len() {
                self.buffer.copy_within(self.held.clone(), 0);
                self.held = 0..looked;
                if self.held.end == self.buffer.len() {
                    self.buffer.resize(MAX_HEAD_BYTES.min(self.buffer.len() * 2), 0);
                }
            }
            match self.read(deadline) {
                Ok((_, 0)) if looked == 0 && interim == 0 => return Err(Broken::Stale),
                Ok((_, 0)) => {
                    let why = "the connection ended in the head of the answer";
                    return Err(Fail::new(Class::Connection, why).into());
                }
                Ok(_) => {}
                // Error of a kept connection that the server closed while the request was on its way.
                Err(error) if looked == 0 && interim == 0 && is_reset(&error) => return Err(Broken::Stale),
                Err(error) => return Err(broken(&error).into()),
            }
        }
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock)
}

fn is_reset(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe)
}

fn broken(error: &io::Error) -> Fail {
    if is_timeout(error) {
        return Fail::new(Class::Timeout, "no complete answer in time");
    }
    Fail::new(Class::Connection, format!("the connection broke: {error}"))
}
