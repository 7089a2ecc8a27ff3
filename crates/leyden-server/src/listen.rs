//! The socket: accepting within limits, and ending in order.

use crate::app::App;
use crate::connection::{Answering, Busy, Deadlines, Socket};
use crate::failure::{Error, ErrorKind};
use crate::log::Log;
use crate::model::Model;
use crate::options::ServerOptions;
use crate::peers::Peers;
use crate::turns;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::available_parallelism;
use std::time::Duration;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, sleep, timeout, timeout_at};

/// Threads for sockets. The processors are for the models.
const THREADS: usize = 2;
/// The fewest and the most threads that prepare requests; between these it is one for each processor. The allocator keeps
/// memory for each thread, so there are not more than are of use.
const PREPARING_THREADS: (usize, usize) = (4, 8);
/// How long to wait when the system has no descriptor or memory for another connection.
const OUT_OF_DESCRIPTORS: Duration = Duration::from_millis(100);
/// How often connections that do nothing are asked to make room while others wait.
const CROWDED: Duration = Duration::from_millis(50);
/// How long they must have done nothing: what is on its way to them shall arrive.
const MAKES_WAY: Duration = Duration::from_secs(1);
/// How long ended requests have to be told so.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// Serves the models until SIGTERM or SIGINT, then ends what runs, and returns. `ready` is told the address.
///
/// # Errors
/// The address cannot be listened on or others can reach it although there are no keys; a model's engine cannot be made;
/// two models have one name.
pub fn serve(
    models: Vec<Model>,
    options: ServerOptions,
    ready: impl FnOnce(SocketAddr),
) -> Result<(), Error> {
    let log = Log::new(options.log, Box::new(io::stderr())).map_err(ErrorKind::System)?;
    let addresses = addresses(&options)?;
    let drain = options.drain;
    let processors = available_parallelism().map_or(1, NonZero::get);
    let preparing = processors.clamp(PREPARING_THREADS.0, PREPARING_THREADS.1);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(THREADS)
        .max_blocking_threads(preparing + turns::places(processors))
        .thread_name("http")
        .enable_all()
        .build()
        .map_err(ErrorKind::System)?;
    runtime.block_on(async {
        // Signals first: one that comes while engines are made ends the server in order, too.
        let mut stop = Signals::install().map_err(ErrorKind::System)?;
        let address = format!("{}:{}", options.host, options.port);
        let listen = |source| ErrorKind::Listen { address, source };
        let listener = bind(&addresses).map_err(listen)?;
        let local = listener.local_addr().map_err(ErrorKind::System)?;
        let app = App::start(models, options, log)?;
        ready(local);
        run(Arc::clone(&app), listener, stop.wait(), drain).await;
        Ok(())
    })
}

/// What the host's name means; without keys only this machine may reach it, unless that is said to be meant.
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
    if options.keys.is_none() && !options.no_auth && found.iter().any(reachable) {
        return Err(ErrorKind::Unprotected { address }.into());
    }
    Ok(found)
}

/// Connections that the system keeps until they are accepted: a burst should wait, not be turned away.
const BACKLOG: u32 = 4096;

/// Listens on the first address on which that is possible.
pub(crate) fn bind(addresses: &[SocketAddr]) -> io::Result<TcpListener> {
    let bind = |address: &SocketAddr| {
        let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        // A restarted server does not wait for the connections of the one before.
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

/// The signals that end a server.
struct Signals {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
}

impl Signals {
    fn install() -> io::Result<Signals> {
        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    async fn wait(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// Accepts connections until `stop`, then drains.
pub(crate) async fn run(
    app: Arc<App>,
    listener: TcpListener,
    stop: impl Future<Output = ()>,
    drain: Duration,
) {
    let limit = Arc::new(Semaphore::new(app.limits.connections));
    let peers = Arc::new(Peers::default());
    let (closing, _) = watch::channel(false);
    let (crowded, _) = watch::channel(());
    let mut stop = std::pin::pin!(stop);
    loop {
        let accepted = async {
            let mut permit = Arc::clone(&limit).try_acquire_owned().ok();
            // Beyond the limit connections wait in the system's queue, but not for those that do nothing.
            while permit.is_none() {
                let _ = crowded.send(());
                permit = timeout(CROWDED, Arc::clone(&limit).acquire_owned()).await.ok().and_then(Result::ok);
            }
            Some((listener.accept().await, permit?))
        };
        let accepted = tokio::select! {
            () = &mut stop => break,
            accepted = accepted => accepted,
        };
        let Some((accepted, permit)) = accepted else { break };
        match accepted {
            Ok((stream, address)) => {
                let Some(guest) = peers.enter(address.ip(), app.limits.connections_per_peer) else {
                    app.http.connections_refused.add(1);
                    continue;
                };
                let (app, closing, crowded) = (Arc::clone(&app), closing.subscribe(), crowded.subscribe());
                tokio::spawn(async move {
                    app.http.connections.add(1);
                    app.http.connections_total.add(1);
                    converse(&app, stream, closing, crowded).await;
                    app.http.connections.sub(1);
                    drop((guest, permit));
                });
            }
            // The client has gone already.
            Err(e)
                if matches!(e.kind(), io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset) => {}
            // Out of descriptors or memory: trying again at once would only burn time.
            Err(_) => sleep(OUT_OF_DESCRIPTORS).await,
        }
    }
    app.close();
    drop(listener);
    app.log().event(&[("event", "closing".into())]);
    // Idle connections close now, others after their answer.
    let _ = closing.send(true);
    let all = u32::try_from(app.limits.connections).unwrap_or(u32::MAX);
    if timeout_at(Instant::now() + drain, limit.acquire_many(all)).await.is_err() {
        app.log().event(&[("event", "drain_time_over".into())]);
        app.end_requests();
        let _ = timeout_at(Instant::now() + LAST_WORDS, limit.acquire_many(all)).await;
    }
    app.log().flush();
}

/// Answers the requests of a connection.
async fn converse(
    app: &Arc<App>,
    stream: TcpStream,
    mut closing: watch::Receiver<bool>,
    mut crowded: watch::Receiver<()>,
) {
    // Tokens are small and should leave at once.
    let _ = stream.set_nodelay(true);
    let limits = &app.limits;
    let answering = Answering::default();
    let requests = AtomicUsize::new(0);
    let deadlines = Deadlines { head: limits.header_time, idle: limits.idle_time, write: limits.write_stall };
    let socket = Socket::new(TokioIo::new(stream), deadlines, Arc::clone(&answering));
    let service = service_fn(|request| {
        let busy = Busy::new(&answering);
        requests.fetch_add(1, Ordering::Relaxed);
        async move {
            let mut response = app.respond(request).await;
            response.body_mut().busy = Some(busy);
            Ok::<_, Infallible>(response)
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.idle_time.max(limits.header_time))
        .max_headers(limits.headers)
        .max_buf_size(limits.head_bytes)
        .serve_connection(socket, service);
    let mut connection = std::pin::pin!(connection);
    // Since when it has been seen doing nothing, and how many requests it had had then.
    let mut idle: Option<(Instant, usize)> = None;
    loop {
        tokio::select! {
            // Whatever went wrong, it went wrong with this connection alone.
            _ = connection.as_mut() => return,
            _ = closing.wait_for(|closing| *closing) => break,
            Ok(()) = crowded.changed() => {
                let had = requests.load(Ordering::Relaxed);
                let since = idle.filter(|(_, before)| *before == had).map_or_else(Instant::now, |i| i.0);
                idle = (answering.load(Ordering::Relaxed) == 0).then_some((since, had));
                if idle.is_some_and(|(since, _)| since.elapsed() >= MAKES_WAY) {
                    break;
                }
            }
        }
    }
    connection.as_mut().graceful_shutdown();
    let _ = connection.await;
}
