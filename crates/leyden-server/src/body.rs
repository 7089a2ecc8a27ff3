//! Bodies, in and out.

use crate::connection::Busy;
use crate::error::ApiError;
use crate::limits::Limits;
use crate::log::Entry;
use hyper::StatusCode;
use hyper::body::{Body, Bytes, Frame, SizeHint};
use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::sync::mpsc::Receiver;

/// The body of a response.
#[derive(Debug)]
pub(crate) struct Reply {
    content: Content,
    /// The request's line in the log is written when this goes.
    pub(crate) entry: Option<Arc<Entry>>,
    /// The connection is not idle until this goes.
    pub(crate) busy: Option<Busy>,
}

#[derive(Debug)]
enum Content {
    Whole(Bytes),
    Stream(Receiver<Bytes>),
}

impl Reply {
    /// All of it.
    pub(crate) fn whole(bytes: impl Into<Bytes>) -> Reply {
        Reply { content: Content::Whole(bytes.into()), entry: None, busy: None }
    }

    /// Pieces as they come.
    pub(crate) fn stream(pieces: Receiver<Bytes>) -> Reply {
        Reply { content: Content::Stream(pieces), entry: None, busy: None }
    }
}

impl Body for Reply {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut self.content {
            Content::Whole(bytes) if bytes.is_empty() => Poll::Ready(None),
            Content::Whole(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            Content::Stream(pieces) => pieces.poll_recv(cx).map(|piece| piece.map(|p| Ok(Frame::data(p)))),
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

/// Reads a whole body.
///
/// # Errors
/// 413 beyond the limit, 408 if it stalls, 400 if it breaks off.
pub(crate) async fn read<B>(body: B, limits: &Limits) -> Result<Vec<u8>, ApiError>
where
    B: Body<Data = Bytes>,
{
    let too_large = || {
        let message = format!("the body is larger than {} bytes", limits.body_bytes);
        ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", message)
    };
    // What is announced is refused before a byte of it is read.
    if body.size_hint().lower() > limits.body_bytes as u64 {
        return Err(too_large());
    }
    let mut body = std::pin::pin!(body);
    let mut bytes = Vec::new();
    loop {
        let frame = tokio::time::timeout(limits.body_stall, poll_fn(|cx| body.as_mut().poll_frame(cx)));
        match frame.await {
            Err(_) => {
                let message = "the body does not arrive";
                return Err(ApiError::new(StatusCode::REQUEST_TIMEOUT, "body_timeout", message));
            }
            Ok(None) => return Ok(bytes),
            Ok(Some(Err(_))) => return Err(ApiError::body("the body breaks off")),
            Ok(Some(Ok(frame))) => {
                let Ok(data) = frame.into_data() else { continue };
                if data.len() > limits.body_bytes - bytes.len() {
                    return Err(too_large());
                }
                bytes.extend_from_slice(&data);
            }
        }
    }
}
