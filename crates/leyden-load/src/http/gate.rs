//! [`Gate`]: the end of a run for all its threads, whether they sleep or wait for bytes.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Instant;

/// Shared state that tells the threads of a run that it is over: first no new requests, then no waiting for answers.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    closing: AtomicBool,
    cut: AtomicBool,
    sleepers: Mutex<()>,
    wake: Condvar,
    sockets: Mutex<HashMap<u64, Arc<TcpStream>>>,
    next: AtomicU64,
}

impl Gate {
    /// Ends the sending of requests; threads that sleep before one wake up.
    pub(crate) fn close(&self) {
        self.closing.store(true, Ordering::SeqCst);
        // Locked, so that no thread is between checking the flag and falling asleep.
        drop(self.sleepers.lock().unwrap_or_else(PoisonError::into_inner));
        self.wake.notify_all();
    }

    /// Aborts requests in flight too.
    pub(crate) fn cut(&self) {
        self.cut.store(true, Ordering::SeqCst);
        self.close();
        for socket in self.sockets.lock().unwrap_or_else(PoisonError::into_inner).values() {
            // The socket may be closed already.
            let _ = socket.shutdown(Shutdown::Both);
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closing.load(Ordering::SeqCst)
    }

    pub(crate) fn is_cut(&self) -> bool {
        self.cut.load(Ordering::SeqCst)
    }

    /// Sleeps; returns false if the gate was closed meanwhile.
    pub(crate) fn sleep_until(&self, until: Instant) -> bool {
        let mut guard = self.sleepers.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if self.is_closed() {
                return false;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            guard = self.wake.wait_timeout(guard, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Registers a connection for [`cut`](Self::cut) while the returned value lives.
    pub(crate) fn hold(self: &Arc<Self>, stream: TcpStream) -> Socket {
        let (stream, id) = (Arc::new(stream), self.next.fetch_add(1, Ordering::Relaxed));
        self.sockets.lock().unwrap_or_else(PoisonError::into_inner).insert(id, Arc::clone(&stream));
        // Checked after registering, so that a concurrent cut is noticed here or shuts the socket.
        if self.is_cut() {
            let _ = stream.shutdown(Shutdown::Both);
        }
        Socket { stream, id, gate: Arc::clone(self) }
    }
}

/// A connection that its [`Gate`] can cut.
#[derive(Debug)]
pub(crate) struct Socket {
    stream: Arc<TcpStream>,
    id: u64,
    gate: Arc<Gate>,
}

impl Socket {
    pub(crate) fn stream(&self) -> &TcpStream {
        &self.stream
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.gate.sockets.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.id);
    }
}

impl Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        (&*self.stream).read(buffer)
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (&*self.stream).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn sleepers_wake_when_it_closes() {
        let gate = Arc::new(Gate::default());
        assert!(gate.sleep_until(Instant::now() + Duration::from_millis(5)));
        let sleeper = Arc::clone(&gate);
        let thread =
            std::thread::spawn(move || sleeper.sleep_until(Instant::now() + Duration::from_secs(600)));
        gate.close();
        assert!(!thread.join().unwrap() && !gate.sleep_until(Instant::now()));
    }
}
