//! Primitives of the models: those of shuttle, and on them the few of tokio that the sources use, as tokio documents
//! them. Time stands still.

pub(crate) use shuttle::sync::atomic::{AtomicBool, Ordering};
pub(crate) use shuttle::sync::{Arc, Mutex, MutexGuard};
pub(crate) use std::time::Instant;

use std::future::{pending, poll_fn};
use std::sync::OnceLock;
use std::task::{Poll, Waker};
use std::time::Duration;

/// Returns the only time.
pub(crate) fn now() -> Instant {
    static NOW: OnceLock<Instant> = OnceLock::new();
    *NOW.get_or_init(Instant::now)
}

/// Waits forever.
pub(crate) async fn sleep_until(_: Instant) {
    pending().await
}

/// Waits for a future without a limit.
pub(crate) async fn timeout<T>(_: Duration, future: impl Future<Output = T>) -> Result<T, ()> {
    Ok(future.await)
}

/// Notification of one task: a call of [`notify_one`](Self::notify_one) while no task waits is kept for the next one
/// that does, and several such calls are kept as one.
#[derive(Debug)]
pub(crate) struct Notify(Mutex<(bool, Option<Waker>)>);

impl Notify {
    pub(crate) fn new() -> Notify {
        Notify(Mutex::new((false, None)))
    }

    pub(crate) fn notify_one(&self) {
        let waker = {
            let mut state = self.0.lock().unwrap();
            state.0 = true;
            state.1.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    pub(crate) fn notified(&self) -> impl Future<Output = ()> {
        poll_fn(|context| {
            let mut state = self.0.lock().unwrap();
            if std::mem::take(&mut state.0) {
                return Poll::Ready(());
            }
            state.1 = Some(context.waker().clone());
            Poll::Pending
        })
    }
}

/// Channel for one value.
pub(crate) mod oneshot {
    use super::{Arc, Mutex};
    use std::pin::Pin;
    use std::task::{Context, Poll, Waker};

    struct State<T> {
        value: Option<T>,
        waker: Option<Waker>,
        sender_gone: bool,
        receiver_gone: bool,
    }

    pub(crate) struct Sender<T>(Arc<Mutex<State<T>>>);

    pub(crate) struct Receiver<T>(Arc<Mutex<State<T>>>);

    pub(crate) fn channel<T>() -> (Sender<T>, Receiver<T>) {
        let state = State { value: None, waker: None, sender_gone: false, receiver_gone: false };
        let state = Arc::new(Mutex::new(state));
        (Sender(Arc::clone(&state)), Receiver(state))
    }

    impl<T> Sender<T> {
        /// Sends the value, or returns it if the receiver was dropped.
        pub(crate) fn send(self, value: T) -> Result<(), T> {
            let mut state = self.0.lock().unwrap();
            if state.receiver_gone {
                return Err(value);
            }
            state.value = Some(value);
            Ok(())
        }
    }

    impl<T> Drop for Sender<T> {
        fn drop(&mut self) {
            let waker = {
                let mut state = self.0.lock().unwrap();
                state.sender_gone = true;
                state.waker.take()
            };
            if let Some(waker) = waker {
                waker.wake();
            }
        }
    }

    impl<T> Future for Receiver<T> {
        type Output = Result<T, ()>;

        fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<T, ()>> {
            let mut state = self.0.lock().unwrap();
            match state.value.take() {
                Some(value) => Poll::Ready(Ok(value)),
                None if state.sender_gone => Poll::Ready(Err(())),
                None => {
                    state.waker = Some(context.waker().clone());
                    Poll::Pending
                }
            }
        }
    }

    impl<T> Drop for Receiver<T> {
        fn drop(&mut self) {
            // The value is dropped outside the lock: its end may send to others.
            let value = {
                let mut state = self.0.lock().unwrap();
                state.receiver_gone = true;
                state.value.take()
            };
            drop(value);
        }
    }
}
