//! The signals that end a server in order.

use std::fs;
use std::io;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// A signal to end: the first ends the server in order, the second at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    /// From a person at the terminal, who wants it to end as soon as nothing is cut off: SIGINT, SIGQUIT.
    Interrupt,
    /// From the system, where balancers are to notice first: SIGTERM; SIGHUP, as when the terminal is closed.
    End,
}

/// The signals that come.
pub(crate) type Signals = UnboundedReceiver<Signal>;

/// Catches the signals from now on. SIGHUP and SIGQUIT stay ignored where whoever started the program has them ignored, as
/// `nohup` has.
///
/// # Errors
/// The system refuses.
pub(crate) fn catch() -> io::Result<Signals> {
    let kinds = [
        (SignalKind::terminate(), Signal::End, false),
        (SignalKind::interrupt(), Signal::Interrupt, false),
        (SignalKind::hangup(), Signal::End, true),
        (SignalKind::quit(), Signal::Interrupt, true),
    ];
    let (tell, signals) = unbounded_channel();
    for (kind, meaning, may_be_ignored) in kinds {
        if may_be_ignored && is_ignored(kind.as_raw_value()) {
            continue;
        }
        let (mut caught, tell) = (signal(kind)?, tell.clone());
        tokio::spawn(async move {
            while caught.recv().await.is_some() {
                if tell.send(meaning).is_err() {
                    return;
                }
            }
        });
    }
    Ok(signals)
}

/// Whether a signal is ignored, as far as the system tells.
fn is_ignored(number: i32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    // Signals are counted from 1.
    u32::try_from(number - 1).ok().and_then(|bit| mask.checked_shr(bit)).is_some_and(|rest| rest & 1 == 1)
}
