//! Synchronisation primitives of the mailbox and of the leases of models. Their models (`schedules`) compile the same
//! sources with primitives whose schedule a test controls.

pub(crate) use std::sync::atomic::{AtomicBool, Ordering};
pub(crate) use std::sync::{Arc, Mutex, MutexGuard};
pub(crate) use std::time::Instant;
pub(crate) use tokio::sync::{Notify, oneshot};
pub(crate) use tokio::time::timeout;

/// Returns the present time.
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Waits until a point in time.
pub(crate) async fn sleep_until(moment: Instant) {
    tokio::time::sleep_until(moment.into()).await;
}
