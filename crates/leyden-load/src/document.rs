//! Requests for JSON documents: a list of models, tokens of a prompt.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::error::{Error, ErrorKind, Result};
use crate::http::{Client, Gate, Head, Sink};
use crate::record::{Class, Fail};
use crate::server::Server;

/// Maximum size in bytes of a document that is not a stream of events: a list of models, tokens of a prompt, a
/// refusal.
const MAX_DOCUMENT_BYTES: usize = 16 << 20;

impl Server {
    /// Requests a JSON document by `GET`, or by `POST` with a body; returns the status and the document, null if it
    /// is not JSON.
    ///
    /// # Errors
    /// The server cannot be reached, or does not answer within `time`.
    pub fn ask(self: &Arc<Self>, path: &str, body: Option<&Value>, time: Duration) -> Result<(u16, Value)> {
        let failed = |fail: Fail| Error::new(self.base().to_string(), ErrorKind::Server(fail.message));
        self.document(&Arc::default(), path, body, time).map_err(failed)
    }

    /// Requests a JSON document; returns the status and the document, null if it is not JSON.
    pub(crate) fn document(
        self: &Arc<Self>,
        gate: &Arc<Gate>,
        path: &str,
        body: Option<&Value>,
        time: Duration,
    ) -> std::result::Result<(u16, Value), Fail> {
        let body = body.map(Value::to_string);
        let request = self.request(path, body.as_deref().map(str::as_bytes));
        let mut document = Document::default();
        Client::new(Arc::clone(self), Arc::clone(gate)).exchange(
            &request,
            Instant::now() + time,
            &mut document,
        )?;
        Ok((document.status, serde_json::from_slice(&document.bytes).unwrap_or(Value::Null)))
    }
}

/// Sink that collects a document in memory.
#[derive(Debug, Default)]
struct Document {
    status: u16,
    bytes: Vec<u8>,
}

impl Sink for Document {
    fn head(&mut self, head: &Head) -> std::result::Result<(), Fail> {
        self.status = head.status;
        Ok(())
    }

    fn data(&mut self, _: Instant, bytes: &[u8]) -> std::result::Result<(), Fail> {
        if self.bytes.len() + bytes.len() > MAX_DOCUMENT_BYTES {
            return Err(Fail::new(Class::Protocol, "a document is longer than 16 MiB"));
        }
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }
}
