//! Models of the mailbox and of the leases of models: their sources compiled with primitives of shuttle, which runs each
//! test under many schedules of its threads and reports a schedule that deadlocks, does not end, or breaks an assertion.

#[path = "../leases.rs"]
#[allow(dead_code, unreachable_pub, clippy::duplicate_mod, reason = "the tests use a part of the leases")]
mod leases;
#[path = "../mailbox.rs"]
#[allow(dead_code, unreachable_pub, clippy::duplicate_mod, reason = "the tests use a part of the mailbox")]
mod mailbox;
mod sync;

mod leases_tests;
mod mailbox_tests;

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

/// Runs a test under schedules drawn at random, and under those of the PCT algorithm (Burckhardt et al., 2010), which
/// finds bugs that need few switches between threads.
fn check(test: fn()) {
    shuttle::check_random(test, 500);
    shuttle::check_pct(test, 500, 3);
}

/// Polls a future once, and drops it.
async fn once<T>(future: impl Future<Output = T>) -> Option<T> {
    let mut future = pin!(future);
    poll_fn(|context| {
        Poll::Ready(match future.as_mut().poll(context) {
            Poll::Ready(value) => Some(value),
            Poll::Pending => None,
        })
    })
    .await
}
