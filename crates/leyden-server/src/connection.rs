//! Socket with deadlines: for the head of a request, between requests, and for a client that does not read.

use crate::request_head::Framing;
use crate::traffic::Traffic;
use hyper::rt::{Read, ReadBuf, ReadBufCursor, Write};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::{Instant, Sleep};

/// Bytes per read.
const READ_BYTES: usize = 8 << 10;
/// Time for which a client that was answered early may go on sending. Closing at once would reset the connection, and
/// the answer could be lost.
const LINGER: Duration = Duration::from_secs(2);

/// Deadlines of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadlines {
    pub(crate) head: Duration,
    pub(crate) idle: Duration,
    pub(crate) write: Duration,
}

/// Phase of a connection: the input for which it waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Rest of a head.
    Head,
    /// Next request.
    Idle,
    /// Answer, or the rest of a body, which has a deadline of its own.
    Answer,
}

/// Socket of a connection, with its deadlines.
#[derive(Debug)]
pub(crate) struct Socket<S> {
    inner: S,
    deadlines: Deadlines,
    traffic: Arc<Traffic>,
    framing: Framing,
    phase: Phase,
    /// Deadline of the phase.
    reading: Pin<Box<Sleep>>,
    /// Deadline by which the client must have read something, while a write is blocked.
    writing: Option<Pin<Box<Sleep>>>,
    /// Deadline until which further input is discarded; set when everything has been written.
    lingering: Option<Pin<Box<Sleep>>>,
}

impl<S> Socket<S> {
    /// Wraps a socket. The request that is being answered holds a [`Busy`] of `traffic`.
    pub(crate) fn new(inner: S, deadlines: Deadlines, traffic: Arc<Traffic>) -> Socket<S> {
        let reading = Box::pin(tokio::time::sleep(deadlines.head));
        Socket {
            inner,
            deadlines,
            traffic,
            framing: Framing::default(),
            phase: Phase::Head,
            reading,
            writing: None,
            lingering: None,
        }
    }

    fn enter(&mut self, phase: Phase, time: Duration) {
        self.phase = phase;
        self.reading.as_mut().reset(Instant::now() + time);
    }

    /// Updates the phase before a read; fails if its deadline has passed.
    fn before_read(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        match (self.traffic.is_answering(), self.phase) {
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

    /// Updates the phase after bytes have arrived.
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

impl<S: Read + Unpin> Socket<S> {
    /// Discards input until the client has read the answer and closes the connection, or its time is over.
    fn poll_linger(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let timer = self.lingering.get_or_insert_with(|| Box::pin(tokio::time::sleep(LINGER)));
        if timer.as_mut().poll(cx).is_ready() {
            return Poll::Ready(());
        }
        let mut bytes = [0; READ_BYTES];
        // A single poll reads a bounded number of times, and is then scheduled again.
        for _ in 0..64 {
            let mut read = ReadBuf::new(&mut bytes);
            if ready!(Pin::new(&mut self.inner).poll_read(cx, read.unfilled())).is_err()
                || read.filled().is_empty()
            {
                return Poll::Ready(());
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

impl<S: Read + Unpin> Read for Socket<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        self.before_read(cx)?;
        let mut bytes = [0; READ_BYTES];
        let room = buffer.remaining().min(READ_BYTES);
        let mut read = ReadBuf::new(&mut bytes[..room]);
        ready!(Pin::new(&mut self.inner).poll_read(cx, read.unfilled()))?;
        self.after_read();
        if self.framing.push(read.filled()) {
            self.traffic.set_ambiguous();
        }
        buffer.put_slice(read.filled());
        Poll::Ready(Ok(()))
    }
}

impl<S: Read + Write + Unpin> Write for Socket<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.inner).poll_write(cx, bytes);
        self.written(cx, result)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let result = Pin::new(&mut self.inner).poll_flush(cx);
        self.written(cx, result)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.lingering.is_none() {
            let result = Pin::new(&mut self.inner).poll_shutdown(cx);
            ready!(self.written(cx, result))?;
        }
        if self.traffic.is_unread() {
            ready!(self.poll_linger(cx));
        }
        Poll::Ready(Ok(()))
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
