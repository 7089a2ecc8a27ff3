//! Listening socket: accepting connections within limits, and the orderly shutdown.

use crate::app::App;
use crate::batch_runner;
use crate::body::{Reply, Watched};
use crate::connection::{Deadlines, Socket};
use crate::connection_limit::{self, ConnectionLimit, ConnectionPermit, PendingConnection};
use crate::failure::{Error, ErrorKind};
use crate::fair_semaphore;
use crate::log::Log;
use crate::model::Model;
use crate::options::{ServerOptions, TellEnd, Waits};
use crate::request_head::{ConnectionContext, ContentionSignal};
use crate::routes;
use crate::signals::{self, Signal, Signals};
use crate::tls_session::TlsSession;
use crate::tls_stream::TlsStream;
use crate::traffic::{Busy, Traffic};
use hyper::body::Incoming;
use hyper::header::{CONNECTION, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use leyden_kernels::heap;
use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::num::NonZero;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::available_parallelism;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, Interest};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until, timeout};

/// Number of threads that flush files to the disk.
const FILE_THREADS: usize = 2;
/// Number of threads for sockets: few, because the processors are for the models.
const THREADS: usize = 2;
/// Pause when the system has no descriptor or memory for another connection.
const OUT_OF_DESCRIPTORS: Duration = Duration::from_millis(100);
/// Idle time after which a connection is closed if others wait for a permit. It is long enough for a request under way.
const YIELD_AFTER: Duration = Duration::from_secs(1);
/// Interval of two checks: that the client of a waiting connection is still connected, and that a server which is about
/// to shut down still has requests.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Interval at which freed memory is returned to the system.
const TIDY_INTERVAL: Duration = Duration::from_secs(5);
/// Time to send errors for the requests that the shutdown ends.
const CUT_TIME: Duration = Duration::from_secs(2);
/// Time for batches to end their rows.
const BATCHES_TIME: Duration = Duration::from_secs(2);
/// Time to send these errors after a second signal.
const SECOND_SIGNAL_CUT_TIME: Duration = Duration::from_millis(300);

/// Serves the models until SIGTERM, SIGINT or SIGQUIT (without TLS also SIGHUP), then ends the requests in progress, and returns. `ready`
/// is called with the address.
///
/// # Errors
/// The address cannot be listened on, or others can reach it although there are no keys; a model's engine cannot be
/// made; two models have the same name.
pub fn serve(
    models: Vec<Model>,
    options: ServerOptions,
    ready: impl FnOnce(SocketAddr),
) -> Result<(), Error> {
    let log = Log::new(options.log, Box::new(io::stderr())).map_err(ErrorKind::System)?;
    let addresses = addresses(&options)?;
    let times = Ending { lame_duck: options.lame_duck, drain: options.drain, tell: options.tell_end.clone() };
    let processors = available_parallelism().map_or(1, NonZero::get);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(THREADS)
        .max_blocking_threads(fair_semaphore::threads(processors) + FILE_THREADS)
        .thread_name("http")
        .enable_all()
        .build()
        .map_err(ErrorKind::System)?;
    let result = runtime.block_on(async {
        // Signal handlers come first: a signal while engines are made also shuts the server down in order.
        let hangup = if options.tls.is_some() { Signal::Reload } else { Signal::End };
        let signals = signals::catch(hangup).map_err(ErrorKind::System)?;
        let address = format!("{}:{}", options.host, options.port);
        let listen = |source| ErrorKind::Listen { address, source };
        let listener = bind(&addresses).map_err(listen)?;
        let local = listener.local_addr().map_err(ErrorKind::System)?;
        let app = App::start(models, options, log)?;
        let batches = batch_runner::start(&app, &Handle::current());
        ready(local);
        if app.audit.is_some() {
            // The first record of each model needs the digest of its files.
            for served in app.models.served() {
                tokio::spawn(async move { served.info.digest.known_or_computed().await });
            }
        }
        let tidy = tokio::spawn(tidy(Arc::clone(&app)));
        let tend = tokio::spawn(Arc::clone(&app.models).tend());
        run(app, listener, signals, times).await;
        if let Some(batches) = batches {
            // Finished rows are in the journals; the others are computed after the next start.
            let _ = timeout(BATCHES_TIME, tokio::task::spawn_blocking(move || batches.join())).await;
        }
        tidy.abort();
        tend.abort();
        Ok(())
    });
    // Nothing needs the requests that blocking threads still prepare.
    runtime.shutdown_background();
    result
}

/// Resolves the host's name. Without keys and required client certificates the addresses must be local, unless `no_auth`
/// is set.
fn addresses(options: &ServerOptions) -> Result<Vec<SocketAddr>, Error> {
    let address = format!("{}:{}", options.host, options.port);
    let host = options.host.trim_start_matches('[').trim_end_matches(']');
    let found: io::Result<Vec<SocketAddr>> = (host, options.port).to_socket_addrs().map(Iterator::collect);
    let found = match found {
        Ok(found) if !found.is_empty() => found,
        Ok(_) => return Err(ErrorKind::Listen { address, source: io::ErrorKind::NotFound.into() }.into()),
        Err(source) => return Err(ErrorKind::Listen { address, source }.into()),
    };
    let reachable = |a: &SocketAddr| match a.ip() {
        IpAddr::V4(ip) => !ip.is_loopback(),
        IpAddr::V6(ip) => !ip.is_loopback(),
    };
    let certificates = options.tls.as_ref().is_some_and(|tls| tls.requires_client_certificates());
    if options.keys.is_none() && !certificates && !options.no_auth && found.iter().any(reachable) {
        return Err(ErrorKind::Unprotected { address }.into());
    }
    Ok(found)
}

/// Connections that the system queues until they are accepted: a burst should wait, not be refused.
const BACKLOG: u32 = 4096;

/// Listens on the first address that can be bound.
pub(crate) fn bind(addresses: &[SocketAddr]) -> io::Result<TcpListener> {
    let bind = |address: &SocketAddr| {
        let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        // A restarted server need not wait for the connections of the previous one.
        socket.set_reuseaddr(true)?;
        socket.bind(*address)?;
        socket.listen(BACKLOG)
    };
    let mut last = io::ErrorKind::AddrNotAvailable.into();
    for address in addresses {
        match bind(address) {
            Ok(listener) => return Ok(listener),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Returns freed memory to the system when the server is idle after requests.
async fn tidy(app: Arc<App>) {
    let mut answered = 0;
    loop {
        sleep(TIDY_INTERVAL).await;
        let now = app.http.answers();
        if now != answered && app.is_idle() {
            answered = now;
            let _ = tokio::task::spawn_blocking(heap::give_back).await;
        }
    }
}

/// Phase of a graceful shutdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Serving,
    /// Not ready, but answering as before, so that load balancers send requests elsewhere. After SIGINT or SIGQUIT this
    /// phase ends as soon as no request is in progress.
    LameDuck(Instant, Signal),
    /// Finishing the requests in progress, and refusing new ones with an error.
    Draining(Instant),
}

/// Accepts connections until a signal arrives, then drains.
pub(crate) async fn run(app: Arc<App>, listener: TcpListener, mut signals: Signals, times: Ending) {
    let limits = connection_limit::Limits {
        total: app.limits.connections,
        per_address: app.limits.connections_per_peer,
        trusted: app.trusted_proxies.clone(),
    };
    let limit = ConnectionLimit::new(limits);
    let answering = Arc::new(AtomicUsize::new(0));
    let (closing, _) = watch::channel(false);
    let mut phase = Phase::Serving;
    let drain = |app: &App| {
        app.close();
        app.log().event(&[("event", "closing".into())]);
        // Idle connections close now, the others after their response.
        let _ = closing.send(true);
        Phase::Draining(Instant::now() + times.drain)
    };
    let watch = app.tls.is_some().then(|| tokio::spawn(watch_tls(Arc::clone(&app))));
    let cut = loop {
        let until = match phase {
            Phase::Serving => None,
            Phase::LameDuck(until, _) | Phase::Draining(until) => Some(until),
        };
        let leaves_when_idle = matches!(phase, Phase::LameDuck(_, Signal::Interrupt));
        let accepted = tokio::select! {
            biased;
            Some(signal) = signals.recv() => {
                if signal == Signal::Reload {
                    app.tls.iter().for_each(|tls| tls.look.notify_one());
                    continue;
                }
                if phase != Phase::Serving {
                    app.log().event(&[("event", "second_signal".into())]);
                    break Some(SECOND_SIGNAL_CUT_TIME);
                }
                app.retire();
                let requests = answering.load(Ordering::Relaxed);
                app.log().event(&[("event", "not_ready".into()), ("requests", requests.into())]);
                let lame_duck = match signal {
                    Signal::Interrupt if requests == 0 => Duration::ZERO,
                    _ => times.lame_duck,
                };
                if let Some(tell) = &times.tell {
                    tell(Waits { requests, lame_duck, drain: times.drain });
                }
                phase = if lame_duck.is_zero() {
                    drain(&app)
                } else {
                    Phase::LameDuck(Instant::now() + lame_duck, signal)
                };
                continue;
            }
            () = sleep(POLL_INTERVAL), if leaves_when_idle && answering.load(Ordering::Relaxed) == 0 => {
                phase = drain(&app);
                continue;
            }
            () = sleep(POLL_INTERVAL), if leaves_when_idle => continue,
            () = limit.wait_until_unused(), if matches!(phase, Phase::Draining(_)) => break None,
            () = sleep_until(until.unwrap_or_else(Instant::now)), if until.is_some() => {
                if matches!(phase, Phase::Draining(_)) {
                    app.log().event(&[("event", "drain_time_over".into())]);
                    break Some(CUT_TIME);
                }
                phase = drain(&app);
                continue;
            }
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, address)) => {
                let address = address.ip();
                // While the server drains, new connections get no permit, so that the number of permits reaches zero.
                let permit = if app.is_closing() { None } else { limit.try_acquire(address) };
                let admission = match permit {
                    Some(permit) => Admission::admitted(permit, &app),
                    None => Admission::pending(limit.add_pending().await, &stream),
                };
                let answering = Arc::clone(&answering);
                let connection = Connection {
                    app: Arc::clone(&app),
                    limit: Arc::clone(&limit),
                    address,
                    answering,
                    half_close: false,
                    session: Arc::default(),
                };
                app.http.connections_total.add(1);
                // Tokens are small, and should be sent at once.
                let _ = stream.set_nodelay(true);
                let closes = closing.subscribe();
                if app.tls.is_some() {
                    let stream = TlsStream::new(stream, Arc::clone(&app), Arc::clone(&connection.session));
                    tokio::spawn(connection.serve(stream, admission, closes));
                } else {
                    tokio::spawn(connection.serve(stream, admission, closes));
                }
            }
            // The client has disconnected already.
            Err(e)
                if matches!(e.kind(), io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset) => {}
            // Out of descriptors or memory: retrying at once would only use processor time.
            Err(_) => sleep(OUT_OF_DESCRIPTORS).await,
        }
    };
    drop(listener);
    watch.iter().for_each(JoinHandle::abort);
    if let Some(words) = cut {
        app.close();
        app.end_requests();
        let _ = closing.send(true);
        let _ = timeout(words, limit.wait_until_unused()).await;
    }
    app.log().flush();
}

/// Watches the files of TLS.
async fn watch_tls(app: Arc<App>) {
    if let Some(tls) = &app.tls {
        tls.watch(app.log()).await;
    }
}

/// Durations of the phases of a shutdown, and the callback at its beginning.
#[derive(Clone)]
pub(crate) struct Ending {
    pub(crate) lame_duck: Duration,
    pub(crate) drain: Duration,
    pub(crate) tell: Option<TellEnd>,
}

/// Connection of a client.
#[derive(Debug)]
struct Connection {
    app: Arc<App>,
    limit: Arc<ConnectionLimit>,
    address: IpAddr,
    /// Number of requests in progress on all connections.
    answering: Arc<AtomicUsize>,
    /// True if requests are answered after the client has closed its side; else that cancels them.
    half_close: bool,
    session: Arc<TlsSession>,
}

/// Permit of a connection, or its wait for one.
#[derive(Debug)]
enum Admission {
    Admitted {
        _permit: ConnectionPermit,
        _open: Open,
    },
    Pending {
        pending: PendingConnection,
        /// Duplicate of the socket, to detect that the client closes it; it is never read from.
        socket: Option<OwnedFd>,
    },
}

impl Admission {
    fn admitted(permit: ConnectionPermit, app: &Arc<App>) -> Admission {
        app.http.connections.add(1);
        Admission::Admitted { _permit: permit, _open: Open(Arc::clone(app)) }
    }

    fn pending(pending: PendingConnection, stream: &TcpStream) -> Admission {
        // Without a free descriptor for the duplicate, a disconnect is detected later.
        Admission::Pending { pending, socket: stream.as_fd().try_clone_to_owned().ok() }
    }
}

/// Waits until a client closes its side of a socket, whatever it has sent before.
async fn closed(socket: Option<OwnedFd>) {
    let stream = socket.and_then(|socket| TcpStream::from_std(socket.into()).ok());
    let Some(stream) = stream else { return std::future::pending().await };
    while !stream.ready(Interest::READABLE).await.is_ok_and(|ready| ready.is_read_closed()) {
        // The socket stays readable, as the body is not read yet.
        sleep(POLL_INTERVAL).await;
    }
}

/// Guard that counts an open connection.
#[derive(Debug)]
struct Open(Arc<App>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.http.connections.sub(1);
    }
}

/// Answers the requests of a connection within the limits, without a listening socket, also after the client has closed
/// its side.
pub(crate) async fn serve_stream<S: AsyncRead + AsyncWrite + Unpin>(app: Arc<App>, stream: S) {
    let (total, address) = (1, IpAddr::from([127, 0, 0, 1]));
    let limits = connection_limit::Limits { total, per_address: total, trusted: Vec::new() };
    let limit = ConnectionLimit::new(limits);
    let Some(permit) = limit.try_acquire(address) else { return };
    let admission = Admission::admitted(permit, &app);
    let (_closing, closes) = watch::channel(false);
    let connection = Connection {
        app,
        limit,
        address,
        answering: Arc::default(),
        half_close: true,
        session: Arc::default(),
    };
    connection.serve(stream, admission, closes).await;
}

impl Connection {
    /// Answers the requests of a connection.
    async fn serve<S: AsyncRead + AsyncWrite + Unpin>(
        self,
        stream: S,
        admission: Admission,
        mut closing: watch::Receiver<bool>,
    ) {
        let limits = &self.app.limits;
        let traffic = Arc::new(Traffic::of(&self.answering));
        let deadlines =
            Deadlines { head: limits.header_time, idle: limits.idle_time, write: limits.write_stall };
        let socket = Socket::new(TokioIo::new(stream), deadlines, Arc::clone(&traffic));
        let mut contention = self.limit.contention();
        let contention_signal = ContentionSignal {
            limit: Arc::clone(&self.limit),
            address: self.address,
            contention: contention.clone(),
        };
        let session = Arc::clone(&self.session);
        let context = ConnectionContext { traffic: Arc::clone(&traffic), contention_signal, session };
        let close = match &admission {
            Admission::Pending { pending, .. } => pending.begin_reading(),
            Admission::Admitted { .. } => Arc::default(),
        };
        let admission = Mutex::new(admission);
        let service = service_fn(|request: Request<Incoming>| {
            let busy = Busy::new(&traffic);
            let (connection, admission, context) = (&self, &admission, context.clone());
            async move {
                let mut response = connection.answer(request, admission, context).await;
                response.body_mut().busy = Some(busy);
                Ok::<_, Infallible>(response)
            }
        });
        let connection = http1::Builder::new()
            .half_close(self.half_close)
            .timer(TokioTimer::new())
            .header_read_timeout(limits.idle_time.max(limits.header_time))
            .max_headers(limits.headers)
            .max_buf_size(limits.head_bytes)
            .serve_connection(socket, service);
        let mut connection = std::pin::pin!(connection);
        // A client that connects while the server drains gets an error, and not just a closed connection.
        let late = self.app.is_closing();
        // Time since which the connection has been idle, and the number of its requests until then.
        let mut idle: Option<(Instant, usize)> = None;
        loop {
            tokio::select! {
                // An error concerns this connection alone.
                _ = connection.as_mut() => return,
                () = close.notified() => return,
                _ = closing.wait_for(|closing| *closing), if !late => break,
                Ok(()) = contention.changed() => {
                    let had = traffic.requests();
                    let since = idle.filter(|(_, before)| *before == had).map_or_else(Instant::now, |i| i.0);
                    idle = (!traffic.is_answering()).then_some((since, had));
                    if idle.is_some_and(|(since, _)| since.elapsed() >= YIELD_AFTER)
                        && self.limit.is_contended(self.address)
                    {
                        break;
                    }
                }
            }
        }
        connection.as_mut().graceful_shutdown();
        let _ = connection.await;
    }

    async fn answer(
        &self,
        request: Request<Incoming>,
        admission: &Mutex<Admission>,
        context: ConnectionContext,
    ) -> Response<Reply> {
        let traffic = Arc::clone(&context.traffic);
        if self.session.is_plain() {
            traffic.leave_unread();
            return self.app.refuse_plain();
        }
        let Some(last) = self.admit(&request, admission).await else {
            traffic.leave_unread();
            return self.app.turn_away();
        };
        let mut request = request.map(|body| Watched::new(body, Arc::clone(&traffic)));
        request.extensions_mut().insert(context);
        let mut response = self.app.respond(request).await;
        // After a request that is ambiguous, or was not read to its end, the beginning of the next one is unknown.
        if last || self.app.is_retiring() || traffic.is_ambiguous() || traffic.is_unread() {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }

    /// Waits for a permit, if the request needs one. Returns whether the request is the connection's last; `None` if too
    /// many wait. If the client closes its connection meanwhile, the connection ends, and its place in the queue is
    /// free for others.
    async fn admit(&self, request: &Request<Incoming>, admission: &Mutex<Admission>) -> Option<bool> {
        let always = routes::answers_always(request.uri().path());
        let (socket, end) = {
            let mut admission = admission.lock().unwrap_or_else(PoisonError::into_inner);
            let Admission::Pending { pending, socket } = &mut *admission else { return Some(false) };
            if always || self.app.is_closing() {
                return Some(true);
            }
            pending.mark_active();
            (socket.take(), pending.begin_reading())
        };
        let permit = tokio::select! {
            permit = self.limit.acquire(self.address, || self.app.is_closing()) => permit,
            () = closed(socket) => {
                end.notify_one();
                return std::future::pending().await;
            }
        };
        match permit {
            Some(permit) => {
                *admission.lock().unwrap_or_else(PoisonError::into_inner) =
                    Admission::admitted(permit, &self.app);
                Some(false)
            }
            None => self.app.is_closing().then_some(true),
        }
    }
}
