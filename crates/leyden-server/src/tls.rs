//! [`Tls`]: the certificate and key of the server while it runs, and how often handshakes and reloads succeed.

use crate::log::Log;
use crate::metrics::{Counter, TlsFigures};
use crate::timestamp::unix_time;
use leyden_tls::{Reload, ServerTls};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::timeout;

/// TLS of a running server.
#[derive(Debug)]
pub(crate) struct Tls {
    pub(crate) files: Arc<ServerTls>,
    /// Interval of the looks at the files.
    interval: Duration,
    /// Wakes the look at the files before the interval is over.
    pub(crate) look: Notify,
    pub(crate) handshakes: Counter,
    pub(crate) failed_handshakes: Counter,
    reloads: Counter,
    failed_reloads: Counter,
}

impl Tls {
    pub(crate) fn new(files: Arc<ServerTls>, interval: Duration) -> Tls {
        Tls {
            files,
            interval,
            look: Notify::new(),
            handshakes: Counter::default(),
            failed_handshakes: Counter::default(),
            reloads: Counter::default(),
            failed_reloads: Counter::default(),
        }
    }

    /// Returns the figures for `/metrics`.
    pub(crate) fn figures(&self) -> TlsFigures {
        let ends = self.files.validity().map(|validity| validity.ends);
        TlsFigures {
            seconds_left: ends.map(|ends| ends as f64 - unix_time() as f64),
            handshakes: [self.handshakes.get(), self.failed_handshakes.get()],
            reloads: [self.reloads.get(), self.failed_reloads.get()],
        }
    }

    /// Looks at the files again and again, and uses those that have changed; reports it in the log.
    pub(crate) async fn watch(&self, log: &Log) {
        let warn = || {
            if let Some(what) = self.files.warning(unix_time()) {
                log.event(&[("event", "tls_certificate".into()), ("warning", what.into())]);
            }
        };
        warn();
        loop {
            let _ = timeout(self.interval, self.look.notified()).await;
            let files = Arc::clone(&self.files);
            match tokio::task::spawn_blocking(move || files.reload()).await {
                Ok(Reload::Unchanged) | Err(_) => {}
                Ok(Reload::Loaded) => {
                    self.reloads.add(1);
                    log.event(&[("event", "tls_reloaded".into())]);
                    warn();
                }
                Ok(Reload::Failed(error)) => {
                    self.failed_reloads.add(1);
                    let fields = [("event", "tls_reload_failed".into()), ("error", error.to_string().into())];
                    log.event(&fields);
                }
            }
        }
    }
}
