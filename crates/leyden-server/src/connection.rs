//! A socket with deadlines: on the head of a request, between requests, and on a client that does not read.

use hyper::rt::{Read, ReadBufCursor, Write};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, Sleep};

/// Requests of a connection that are being answered.
pub(crate) type Answering = Arc<AtomicUsize>;

/// Holds a connection busy.
#[derive(Debug)]
pub(crate) struct Busy(Answering);

impl Busy {
    pub(crate) fn new(answering: &Answering) -> Busy {
        answering.fetch_add(1, Ordering::Relaxed);
        Busy(Arc::clone(answering))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The deadlines.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadlines {
    pub(crate) head: Duration,
    pub(crate) idle: Duration,
    pub(crate) write: Duration,
}

/// What is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The rest of a head.
    Head,
    /// The next request.
    Idle,
    /// An answer, or the rest of a body, which has a deadline of its own.
    Answer,
}

/// A socket.
#[derive(Debug)]
pub(crate) struct Socket<S> {
    inner: S,
    deadlines: Deadlines,
    answering: Answering,
    phase: Phase,
    /// When the phase is over.
    reading: Pin<Box<Sleep>>,
    /// When the client must have taken something, while it does not.
    writing: Option<Pin<Box<Sleep>>>,
}

impl<S> Socket<S> {
    /// `answering` counts the requests under way; whoever answers holds a [`Busy`] of it.
    pub(crate) fn new(inner: S, deadlines: Deadlines, answering: Answering) -> Socket<S> {
        let reading = Box::pin(tokio::time::sleep(deadlines.head));
        Socket { inner, deadlines, answering, phase: Phase::Head, reading, writing: None }
    }

    fn enter(&mut self, phase: Phase, time: Duration) {
        self.phase = phase;
        self.reading.as_mut().reset(Instant::now() + time);
    }

    /// Keeps the phase up to date before a read; fails when its time is over.
    fn before_read(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        match (self.answering.load(Ordering::Relaxed) > 0, self.phase) {
            (true, _) => {
                self.phase = Phase::Answer;
                return Ok(());
            }
            (false, Phase::Answer) => self.enter(Phase::Idle, self.deadlines.idle),
            (false, _) => {}
        }
        match self.reading.as_mut().poll(cx) {
            Poll::Ready(()) => Err(io::ErrorKind::TimedOut.into()),
            Poll::Pending => Ok(()),
        }
    }

    /// After bytes came.
    fn after_read(&mut self) {
        if self.phase == Phase::Idle {
            self.enter(Phase::Head, self.deadlines.head);
        }
    }

    fn written<T>(&mut self, cx: &mut Context<'_>, result: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if result.is_ready() {
            self.writing = None;
            return result;
        }
        let time = self.deadlines.write;
        let timer = self.writing.get_or_insert_with(|| Box::pin(tokio::time::sleep(time)));
        match timer.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<S: Read + Unpin> Read for Socket<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        self.before_read(cx)?;
        let result = Pin::new(&mut self.inner).poll_read(cx, buffer);
        if matches!(result, Poll::Ready(Ok(()))) {
            self.after_read();
        }
        result
    }
}

impl<S: Write + Unpin> Write for Socket<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.inner).poll_write(cx, bytes);
        self.written(cx, result)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let result = Pin::new(&mut self.inner).poll_flush(cx);
        self.written(cx, result)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let result = Pin::new(&mut self.inner).poll_shutdown(cx);
        self.written(cx, result)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.inner).poll_write_vectored(cx, parts);
        self.written(cx, result)
    }
}
