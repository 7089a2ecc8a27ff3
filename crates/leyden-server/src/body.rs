//! Bodies of requests and responses.

use crate::error::ApiError;
use crate::limits::Limits;
use crate::log::Entry;
use crate::request_head::ContentionSignal;
use crate::traffic::{Busy, Traffic};
use hyper::StatusCode;
use hyper::body::{Body, Bytes, Frame, SizeHint};
use std::future::{Future as _, poll_fn};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::sync::mpsc::{Receiver, Sender};
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

/// Body of a response.
#[derive(Debug)]
pub(crate) struct Reply {
    content: Content,
    /// Log entry of the request, which writes its line when it is dropped.
    pub(crate) entry: Option<Arc<Entry>>,
    /// Guard that marks the connection as busy until it is dropped.
    pub(crate) busy: Option<Busy>,
    /// State of a stream whose end is recorded in the audit log.
    audit: Option<StreamAudit>,
}

#[derive(Debug)]
enum Content {
    Whole(Bytes),
    Stream(Receiver<Piece>),
}

/// Piece of a streamed body.
#[derive(Debug)]
pub(crate) enum Piece {
    /// Piece that others follow.
    More(Bytes),
    /// The last piece of a complete body.
    Last(Bytes),
}

/// State of a stream whose end is recorded in the audit log.
#[derive(Debug, Default)]
enum StreamAudit {
    /// Pieces are sent.
    #[default]
    Sending,
    /// The record of the end is being written; these bytes are sent when it is on the disk.
    Ending(oneshot::Receiver<bool>, Bytes),
    /// The record is on the disk, or could not be written.
    Ended,
}

impl Reply {
    /// Returns the body with these bytes.
    pub(crate) fn whole(bytes: impl Into<Bytes>) -> Reply {
        Reply { content: Content::Whole(bytes.into()), entry: None, busy: None, audit: None }
    }

    /// Returns a streamed body of pieces.
    pub(crate) fn stream(pieces: Receiver<Piece>) -> Reply {
        Reply { content: Content::Stream(pieces), entry: None, busy: None, audit: None }
    }

    /// Returns the bytes of a whole body; `None` for a stream.
    pub(crate) fn bytes(&self) -> Option<&[u8]> {
        match &self.content {
            Content::Whole(bytes) => Some(bytes),
            Content::Stream(_) => None,
        }
    }

    /// Has the end of this stream recorded in the audit log before its last piece is sent.
    pub(crate) fn audit_end(&mut self) {
        self.audit = Some(StreamAudit::Sending);
    }

    /// Polls a stream whose end is recorded.
    fn poll_audited(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let (Content::Stream(pieces), Some(audit), Some(entry)) =
            (&mut self.content, &mut self.audit, &self.entry)
        else {
            return Poll::Ready(None);
        };
        loop {
            match audit {
                StreamAudit::Sending => {
                    let (bytes, is_complete) = match ready!(pieces.poll_recv(cx)) {
                        Some(Piece::More(bytes)) => {
                            entry.audit_sent(&bytes);
                            return Poll::Ready(Some(Ok(Frame::data(bytes))));
                        }
                        Some(Piece::Last(bytes)) => (bytes, true),
                        None => (Bytes::new(), false),
                    };
                    entry.audit_sent(&bytes);
                    *audit = StreamAudit::Ending(entry.audit_end(is_complete), bytes);
                }
                StreamAudit::Ending(written, bytes) => {
                    let is_written = ready!(std::pin::pin!(written).poll(cx)).unwrap_or(false);
                    let bytes = std::mem::take(bytes);
                    *audit = StreamAudit::Ended;
                    if !is_written {
                        // Breaks the connection, so that the client does not take the answer for complete.
                        return Poll::Ready(Some(Err(io::Error::other("the audit log cannot be written"))));
                    }
                    if !bytes.is_empty() {
                        return Poll::Ready(Some(Ok(Frame::data(bytes))));
                    }
                }
                StreamAudit::Ended => return Poll::Ready(None),
            }
        }
    }

    /// Returns all bytes.
    pub(crate) async fn into_bytes(mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        while let Some(Ok(frame)) = poll_fn(|context| Pin::new(&mut self).poll_frame(context)).await {
            bytes.extend(frame.into_data().unwrap_or_default());
        }
        bytes
    }
}

impl Body for Reply {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        if self.audit.is_some() {
            return self.poll_audited(cx);
        }
        match &mut self.content {
            Content::Whole(bytes) if bytes.is_empty() => Poll::Ready(None),
            Content::Whole(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            Content::Stream(pieces) => pieces.poll_recv(cx).map(|piece| {
                let (Piece::More(bytes) | Piece::Last(bytes)) = piece?;
                Some(Ok(Frame::data(bytes)))
            }),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(&self.content, Content::Whole(bytes) if bytes.is_empty())
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Content::Stream(_) => SizeHint::default(),
        }
    }
}

/// Time after which a body must have a minimum rate if other connections wait.
const MIN_RATE_AFTER: Duration = Duration::from_secs(1);
/// Minimum rate of such a body, in bytes per second.
const MIN_RATE: usize = 16 << 10;

/// Reads a whole body. `contention` reports when other connections wait for this connection's permit.
///
/// # Errors
/// 413 beyond the limit, 408 if it stalls or is too slow, 400 if it breaks off.
pub(crate) async fn read<B>(
    body: B,
    limits: &Limits,
    contention: Option<ContentionSignal>,
) -> Result<Vec<u8>, ApiError>
where
    B: Body<Data = Bytes>,
{
    let body = std::pin::pin!(body);
    let mut pieces = Pieces::new(body, limits, limits.body_bytes, contention)?;
    let mut bytes = Vec::new();
    while let Some(data) = pieces.next().await? {
        bytes.extend_from_slice(&data);
    }
    Ok(bytes)
}

/// Sends the pieces of a body of at most `most` bytes to an endpoint, and an error behind them if the body fails as in [`read`].
pub(crate) async fn forward<B>(
    body: B,
    limits: &Limits,
    most: usize,
    contention: Option<ContentionSignal>,
    to: Sender<Result<Bytes, ApiError>>,
) where
    B: Body<Data = Bytes>,
{
    let body = std::pin::pin!(body);
    let mut pieces = match Pieces::new(body, limits, most, contention) {
        Ok(pieces) => pieces,
        Err(error) => return drop(to.send(Err(error)).await),
    };
    while let Some(piece) = pieces.next().await.transpose() {
        let failed = piece.is_err();
        // The endpoint may need no more.
        if to.send(piece).await.is_err() || failed {
            return;
        }
    }
}

/// Reader of a body, with its limits of size and time.
struct Pieces<'a, B> {
    body: Pin<&'a mut B>,
    limits: &'a Limits,
    most: usize,
    contention: Option<ContentionSignal>,
    taken: usize,
    started: Instant,
}

impl<'a, B: Body<Data = Bytes>> Pieces<'a, B> {
    fn new(
        body: Pin<&'a mut B>,
        limits: &'a Limits,
        most: usize,
        contention: Option<ContentionSignal>,
    ) -> Result<Pieces<'a, B>, ApiError> {
        let pieces = Pieces { body, limits, most, contention, taken: 0, started: Instant::now() };
        // A body whose announced length is too large is refused before any of it is read.
        if pieces.body.size_hint().lower() > most as u64 {
            return Err(pieces.too_large());
        }
        Ok(pieces)
    }

    fn too_large(&self) -> ApiError {
        let message = format!("the body is larger than {} bytes", self.most);
        ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", message)
    }

    /// Returns the next bytes; `None` at the end.
    async fn next(&mut self) -> Result<Option<Bytes>, ApiError> {
        let Limits { body_stall, body_rate, body_time, .. } = *self.limits;
        let late = |message: String| ApiError::new(StatusCode::REQUEST_TIMEOUT, "body_timeout", message);
        loop {
            // Bytes that have arrived extend the deadline, up to `body_time`.
            let bought = Duration::from_secs((self.taken / body_rate) as u64);
            let due = self.started + (body_stall + bought).min(body_time);
            let stalls = Instant::now() + body_stall;
            let contention = &mut self.contention;
            let asked = async {
                match contention {
                    Some(contention) => contention.wait().await,
                    None => std::future::pending().await,
                }
            };
            let body = &mut self.body;
            let frame = tokio::select! {
                biased;
                frame = timeout_at(due.min(stalls), poll_fn(|cx| body.as_mut().poll_frame(cx))) => frame,
                () = asked => {
                    let time = self.started.elapsed();
                    if time > MIN_RATE_AFTER && (self.taken as f64) < time.as_secs_f64() * MIN_RATE as f64 {
                        return Err(late("the body is too slow while other connections wait".to_owned()));
                    }
                    continue;
                }
            };
            match frame {
                Err(_) => {
                    return Err(late(format!(
                        "the body does not arrive: a pause of {body_stall:?}, fewer than {body_rate} bytes a second, or \
                         more than {body_time:?} in all"
                    )));
                }
                Ok(None) => return Ok(None),
                Ok(Some(Err(_))) => return Err(ApiError::body("the body is incomplete")),
                Ok(Some(Ok(frame))) => {
                    let Ok(data) = frame.into_data() else { continue };
                    if data.len() > self.most - self.taken {
                        return Err(self.too_large());
                    }
                    self.taken += data.len();
                    return Ok(Some(data));
                }
            }
        }
    }
}

/// Body of a request that records if it is dropped before its end.
#[derive(Debug)]
pub(crate) struct Watched<B: Body> {
    body: B,
    traffic: Arc<Traffic>,
    ended: bool,
}

impl<B: Body> Watched<B> {
    pub(crate) fn new(body: B, traffic: Arc<Traffic>) -> Watched<B> {
        let ended = body.is_end_stream();
        Watched { body, traffic, ended }
    }
}

impl<B: Body + Unpin> Body for Watched<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        // An error ends the body, too.
        self.ended = matches!(frame, Poll::Ready(None | Some(Err(_)))) || self.body.is_end_stream();
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl<B: Body> Drop for Watched<B> {
    fn drop(&mut self) {
        if !self.ended {
            self.traffic.leave_unread();
        }
    }
}
