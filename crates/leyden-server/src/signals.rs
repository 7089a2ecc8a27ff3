//! Signals for a graceful shutdown.

use std::fs;
use std::io;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// A shutdown signal: the first shuts down gracefully, the second at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    /// SIGINT, SIGQUIT: from a person at the terminal; the server ends as soon as running requests have ended.
    Interrupt,
    /// SIGTERM, or without TLS SIGHUP, as when the terminal is closed: from the system; load balancers get time to notice first.
    End,
    /// SIGHUP on a server with TLS: look at the files of its certificate.
    Reload,
}

/// Receiver of shutdown signals.
pub(crate) type Signals = UnboundedReceiver<Signal>;

/// Catches the signals from now on; SIGHUP means `hangup`. Without TLS SIGHUP, and always SIGQUIT, stay ignored if they
/// were ignored when the program started, as with `nohup`.
///
/// # Errors
/// The system refuses.
pub(crate) fn catch(hangup: Signal) -> io::Result<Signals> {
    let kinds = [
        (SignalKind::terminate(), Signal::End, false),
        (SignalKind::interrupt(), Signal::Interrupt, false),
        (SignalKind::hangup(), hangup, hangup != Signal::Reload),
        (SignalKind::quit(), Signal::Interrupt, true),
    ];
    let (sender, signals) = unbounded_channel();
    for (kind, meaning, may_be_ignored) in kinds {
        if may_be_ignored && is_ignored(kind.as_raw_value()) {
            continue;
        }
        let (mut caught, sender) = (signal(kind)?, sender.clone());
        tokio::spawn(async move {
            while caught.recv().await.is_some() {
                if sender.send(meaning).is_err() {
                    return;
                }
            }
        });
    }
    Ok(signals)
}

/// Returns true if a signal is ignored, as far as the system reports it.
fn is_ignored(number: i32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    // Signal numbers begin at 1.
    u32::try_from(number - 1).ok().and_then(|bit| mask.checked_shr(bit)).is_some_and(|rest| rest & 1 == 1)
}
