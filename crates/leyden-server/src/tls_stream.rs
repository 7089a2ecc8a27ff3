//! [`TlsStream`]: the socket of a client on a server with TLS.
//!
//! The handshake is a part of the first read, so the limits of a connection that has sent nothing yet are those of the
//! handshake, too: the permit before it, and the deadline of the first request's head.

use crate::app::App;
use crate::tls::Tls;
use crate::tls_session::TlsSession;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::{Accept, TlsAcceptor, server};

enum State {
    /// Nothing has arrived.
    New(TcpStream),
    Handshake(Box<Accept<TcpStream>>),
    Encrypted(Box<server::TlsStream<TcpStream>>),
    /// HTTP without TLS, which gets an error.
    Plain(TcpStream),
    Failed,
}

/// Socket of a client that should speak TLS.
pub(crate) struct TlsStream {
    state: State,
    app: Arc<App>,
    session: Arc<TlsSession>,
}

impl TlsStream {
    /// Wraps a socket; the result of the handshake goes to `session`.
    pub(crate) fn new(socket: TcpStream, app: Arc<App>, session: Arc<TlsSession>) -> TlsStream {
        TlsStream { state: State::New(socket), app, session }
    }

    fn tls(&self) -> io::Result<&Tls> {
        self.app.tls.as_ref().ok_or_else(|| io::ErrorKind::Unsupported.into())
    }

    /// Takes the step from the first byte: a record of TLS, or a method of HTTP, which begins with a letter.
    fn begin(&mut self, first: u8) -> io::Result<()> {
        let config = self.tls()?.files.config();
        let State::New(socket) = std::mem::replace(&mut self.state, State::Failed) else { return Ok(()) };
        self.state = if first.is_ascii_alphabetic() {
            self.session.set_plain();
            State::Plain(socket)
        } else {
            State::Handshake(Box::new(TlsAcceptor::from(config).accept(socket)))
        };
        Ok(())
    }

    /// Takes the step from a handshake.
    fn accepted(&mut self, stream: server::TlsStream<TcpStream>) -> io::Result<()> {
        self.tls()?.handshakes.add(1);
        let certificate = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
        self.session.set_identities(certificate.map(leyden_tls::identities).unwrap_or_default());
        self.state = State::Encrypted(Box::new(stream));
        Ok(())
    }
}

impl AsyncRead for TlsStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            match &mut self.state {
                State::New(socket) => {
                    let mut first = [0];
                    let mut peeked = ReadBuf::new(&mut first);
                    if ready!(socket.poll_peek(cx, &mut peeked))? == 0 {
                        return Poll::Ready(Ok(()));
                    }
                    self.begin(first[0])?;
                }
                State::Handshake(accept) => match ready!(Pin::new(accept.as_mut()).poll(cx)) {
                    Ok(stream) => self.accepted(stream)?,
                    Err(error) => {
                        self.state = State::Failed;
                        self.tls()?.failed_handshakes.add(1);
                        let why = error.to_string();
                        self.app
                            .log()
                            .event(&[("event", "tls_handshake_failed".into()), ("why", why.into())]);
                        return Poll::Ready(Err(error));
                    }
                },
                State::Encrypted(stream) => return Pin::new(stream.as_mut()).poll_read(cx, buffer),
                State::Plain(socket) => return Pin::new(socket).poll_read(cx, buffer),
                State::Failed => return Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
            }
        }
    }
}

impl AsyncWrite for TlsStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match &mut self.state {
            State::Encrypted(stream) => Pin::new(stream.as_mut()).poll_write(cx, bytes),
            State::Plain(socket) => Pin::new(socket).poll_write(cx, bytes),
            State::New(_) | State::Handshake(_) | State::Failed => {
                Poll::Ready(Err(io::ErrorKind::NotConnected.into()))
            }
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.state {
            State::Encrypted(stream) => Pin::new(stream.as_mut()).poll_flush(cx),
            State::Plain(socket) => Pin::new(socket).poll_flush(cx),
            // The handshake flushes its own bytes.
            State::New(_) | State::Handshake(_) | State::Failed => Poll::Ready(Ok(())),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.state {
            State::Encrypted(stream) => Pin::new(stream.as_mut()).poll_shutdown(cx),
            State::New(socket) | State::Plain(socket) => Pin::new(socket).poll_shutdown(cx),
            State::Handshake(_) | State::Failed => Poll::Ready(Ok(())),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match &mut self.state {
            State::Encrypted(stream) => Pin::new(stream.as_mut()).poll_write_vectored(cx, parts),
            State::Plain(socket) => Pin::new(socket).poll_write_vectored(cx, parts),
            State::New(_) | State::Handshake(_) | State::Failed => {
                Poll::Ready(Err(io::ErrorKind::NotConnected.into()))
            }
        }
    }
}

impl Drop for TlsStream {
    fn drop(&mut self) {
        // The handshake was not in time.
        if let (State::Handshake(_), Some(tls)) = (&self.state, &self.app.tls) {
            tls.failed_handshakes.add(1);
        }
    }
}
