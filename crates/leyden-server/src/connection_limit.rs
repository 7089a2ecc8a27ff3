//! Connection limits: in all and per address.
//!
//! A connection within the limits gets a permit. A connection beyond them is accepted, too: it may request health and
//! metrics, and with any other request it waits for a permit, while idle connections with a permit are closed. The
//! number of waiting connections is limited. Connections that have sent nothing yet (pending ones) are limited, too: the
//! oldest is closed for a new one, so every new connection can send a request.

use crate::ip_network::{Network, limited_address};
use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, timeout};

/// Interval of the signals to idle connections with a permit while others wait.
const CONTENTION_INTERVAL: Duration = Duration::from_millis(50);
/// Minimum time before a pending connection is closed for a newer one: its request may be under way.
const MIN_SILENCE: Duration = Duration::from_millis(200);

/// Limits of the number of connections.
#[derive(Clone, Debug)]
pub(crate) struct Limits {
    pub(crate) total: usize,
    pub(crate) per_address: usize,
    /// Proxies; the limit per address does not apply to them.
    pub(crate) trusted: Vec<Network>,
}

impl Limits {
    /// Returns the maximum number of pending connections.
    fn max_pending(&self) -> usize {
        (self.total / 4).clamp(16, 1024)
    }

    /// Returns the maximum number of connections that wait for a permit with a request.
    fn max_waiting(&self) -> usize {
        (self.max_pending() / 4).max(8)
    }
}

/// Limiter of the connections of a server.
#[derive(Debug)]
pub(crate) struct ConnectionLimit {
    limits: Limits,
    state: Mutex<State>,
    freed: Notify,
    contention: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct State {
    all: Count,
    of: HashMap<IpAddr, Count>,
    /// Pending connections, the oldest first.
    pending: VecDeque<Pending>,
    next: u64,
    /// Time of the last signal to idle connections.
    signalled: Option<Instant>,
}

#[derive(Debug)]
struct Pending {
    number: u64,
    close: Arc<Notify>,
    /// Time at which the server began to read from the connection.
    since: Option<Instant>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Count {
    taken: usize,
    waiting: usize,
}

/// Permit of a connection; dropping it lets another connection have it.
#[derive(Debug)]
pub(crate) struct ConnectionPermit {
    limit: Arc<ConnectionLimit>,
    peer: Option<IpAddr>,
}

/// Connection without a permit that has sent nothing yet.
#[derive(Debug)]
pub(crate) struct PendingConnection {
    limit: Arc<ConnectionLimit>,
    number: u64,
    close: Arc<Notify>,
}

/// Place in the queue for a permit.
struct Waiting<'a>(&'a ConnectionLimit, Option<IpAddr>);

impl ConnectionLimit {
    pub(crate) fn new(limits: Limits) -> Arc<ConnectionLimit> {
        let (contention, _) = watch::channel(());
        Arc::new(ConnectionLimit { limits, state: Mutex::default(), freed: Notify::new(), contention })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the address under which a connection is counted; `None` for a trusted proxy.
    fn peer(&self, address: IpAddr) -> Option<IpAddr> {
        let address = address.to_canonical();
        (!self.limits.trusted.iter().any(|n| n.contains(address))).then(|| limited_address(address))
    }

    /// Returns a permit, unless the limit is reached by the permits and the waiting connections.
    pub(crate) fn try_acquire(self: &Arc<ConnectionLimit>, address: IpAddr) -> Option<ConnectionPermit> {
        let peer = self.peer(address);
        self.take(peer, |count| count.taken + count.waiting)
    }

    fn take(
        self: &Arc<ConnectionLimit>,
        peer: Option<IpAddr>,
        ahead: fn(&Count) -> usize,
    ) -> Option<ConnectionPermit> {
        let mut state = self.state();
        if ahead(&state.all) >= self.limits.total {
            return None;
        }
        if let Some(peer) = peer {
            if state.of.get(&peer).is_some_and(|count| ahead(count) >= self.limits.per_address) {
                return None;
            }
            state.of.entry(peer).or_default().taken += 1;
        }
        state.all.taken += 1;
        Some(ConnectionPermit { limit: Arc::clone(self), peer })
    }

    /// Returns a permit as soon as one is free; `None` if too many wait already, or once `over` returns true.
    pub(crate) async fn acquire(
        self: &Arc<ConnectionLimit>,
        address: IpAddr,
        over: impl Fn() -> bool,
    ) -> Option<ConnectionPermit> {
        let peer = self.peer(address);
        let _place = self.queue(peer)?;
        while !over() {
            let freed = self.freed.notified();
            // Another waiting connection may be faster; that does no harm, as all are served.
            if let Some(permit) = self.take(peer, |count| count.taken) {
                return Some(permit);
            }
            self.signal_contention();
            let _ = timeout(CONTENTION_INTERVAL, freed).await;
        }
        None
    }

    /// Signals idle connections to close, at most once per interval.
    fn signal_contention(&self) {
        let now = Instant::now();
        let mut state = self.state();
        if state.signalled.is_none_or(|last| now - last >= CONTENTION_INTERVAL) {
            state.signalled = Some(now);
            let _ = self.contention.send(());
        }
    }

    fn queue(&self, peer: Option<IpAddr>) -> Option<Waiting<'_>> {
        let most = self.limits.max_waiting();
        let mut state = self.state();
        if state.all.waiting >= most {
            return None;
        }
        if let Some(peer) = peer {
            if state.of.get(&peer).is_some_and(|count| count.waiting >= most / 2) {
                return None;
            }
            state.of.entry(peer).or_default().waiting += 1;
        }
        state.all.waiting += 1;
        Some(Waiting(self, peer))
    }

    /// Adds a pending connection. If there are too many, closes the oldest, once the minimum time has passed.
    pub(crate) async fn add_pending(self: &Arc<ConnectionLimit>) -> PendingConnection {
        loop {
            let early = {
                let mut state = self.state();
                let oldest =
                    state.pending.front().filter(|_| state.pending.len() >= self.limits.max_pending());
                let early = oldest
                    .map(|o| MIN_SILENCE.saturating_sub(o.since.map_or(Duration::ZERO, |s| s.elapsed())));
                if early.is_none_or(|early| early.is_zero()) {
                    if early.is_some()
                        && let Some(oldest) = state.pending.pop_front()
                    {
                        oldest.close.notify_one();
                    }
                    let number = state.next;
                    state.next += 1;
                    let close = Arc::new(Notify::new());
                    state.pending.push_back(Pending { number, close: Arc::clone(&close), since: None });
                    return PendingConnection { limit: Arc::clone(self), number, close };
                }
                early
            };
            // A connection may close by itself meanwhile.
            sleep(early.unwrap_or_default().min(CONTENTION_INTERVAL / 5)).await;
        }
    }

    /// Returns a receiver that is notified repeatedly while connections wait.
    pub(crate) fn contention(&self) -> watch::Receiver<()> {
        self.contention.subscribe()
    }

    /// Returns true if connections wait for a permit that a connection of this address could free.
    pub(crate) fn is_contended(&self, address: IpAddr) -> bool {
        let state = self.state();
        let of_peer = self.peer(address).and_then(|peer| state.of.get(&peer).copied()).unwrap_or_default();
        of_peer.waiting > 0 || (state.all.waiting > 0 && state.all.taken >= self.limits.total)
    }

    /// Waits until no connection has a permit.
    pub(crate) async fn wait_until_unused(&self) {
        while self.state().all.taken > 0 {
            let freed = self.freed.notified();
            let _ = timeout(CONTENTION_INTERVAL, freed).await;
        }
    }

    fn leave(&self, peer: Option<IpAddr>, change: fn(&mut Count)) {
        let mut state = self.state();
        change(&mut state.all);
        let Some(peer) = peer else { return };
        if let Some(count) = state.of.get_mut(&peer) {
            change(count);
            if count.taken + count.waiting == 0 {
                state.of.remove(&peer);
            }
        }
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.limit.leave(self.peer, |count| count.taken -= 1);
        self.limit.freed.notify_waiters();
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.leave(self.1, |count| count.waiting -= 1);
    }
}

impl PendingConnection {
    /// Marks the connection as read from. Returns a handle that is notified when the connection must close.
    pub(crate) fn begin_reading(&self) -> Arc<Notify> {
        let mut state = self.limit.state();
        if let Some(own) = state.pending.iter_mut().find(|s| s.number == self.number) {
            own.since = Some(Instant::now());
        }
        Arc::clone(&self.close)
    }

    /// Marks the connection as no longer pending, so it is not closed for newer ones.
    pub(crate) fn mark_active(&self) {
        self.limit.state().pending.retain(|s| s.number != self.number);
    }
}

impl Drop for PendingConnection {
    fn drop(&mut self) {
        self.mark_active();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(trusted: &str) -> Arc<ConnectionLimit> {
        let trusted = trusted.split(' ').filter(|t| !t.is_empty()).map(|t| t.parse().unwrap()).collect();
        ConnectionLimit::new(Limits { total: 8, per_address: 2, trusted })
    }

    #[test]
    fn an_address_has_so_many_connections() {
        let limit = limit("");
        let enter = |address: &str| limit.try_acquire(address.parse().unwrap());
        let (a, b) = (enter("192.0.2.1"), enter("::ffff:192.0.2.1"));
        assert!(a.is_some() && b.is_some() && enter("192.0.2.1").is_none());
        let other = enter("192.0.2.2");
        assert!(other.is_some());
        drop(a);
        assert!(enter("192.0.2.1").is_some());
        let v6 = [enter("2001:db8::1"), enter("2001:db8::2")];
        assert!(v6.iter().all(Option::is_some) && enter("2001:db8::3").is_none());
        assert!(enter("2001:db8:0:1::3").is_some());
        drop((b, other, v6));
        let own: Vec<_> = ["127.0.0.1", "127.0.0.1"].map(enter).into();
        assert!(own.iter().all(Option::is_some) && enter("127.0.0.1").is_none(), "this machine's too");
        drop(own);
        assert!(limit.state().of.is_empty(), "what is closed leaves nothing");
    }

    #[test]
    fn a_trusted_proxy_has_no_share() {
        let limit = limit("127.0.0.1 10.0.0.0/8");
        let enter = |address: &str| limit.try_acquire(address.parse().unwrap());
        let own: Vec<_> = ["127.0.0.1", "127.0.0.1", "10.1.2.3", "10.1.2.3", "10.1.2.3"].map(enter).into();
        assert!(own.iter().all(Option::is_some));
        let more: Vec<_> = (0..9).map(|_| enter("127.0.0.1")).collect();
        assert_eq!(more.iter().flatten().count(), 3, "there are eight for all");
    }

    #[tokio::test]
    async fn who_waits_gets_the_next_seat_and_places_for_waiting_have_limits() {
        let limit = limit("");
        let address: IpAddr = "192.0.2.1".parse().unwrap();
        let mut taken: Vec<_> = (0..2).map(|_| limit.try_acquire(address)).collect();
        assert!(!limit.is_contended(address));
        let mut contention = limit.contention();
        let waiter = tokio::spawn({
            let limit = Arc::clone(&limit);
            async move { limit.acquire(address, || false).await }
        });
        contention.changed().await.unwrap();
        assert!(limit.is_contended(address) && !limit.is_contended("192.0.2.2".parse().unwrap()));
        // No new connection gets ahead of the queue.
        taken.pop();
        assert!(limit.try_acquire(address).is_none());
        let permit = waiter.await.unwrap();
        assert!(permit.is_some());
        // Of 16 connections without a permit eight can wait, half of them from one address.
        let places: Vec<_> = (0..9).map(|_| limit.queue(Some(address))).collect();
        assert_eq!(places.iter().flatten().count(), 4);
        assert!(limit.acquire(address, || false).await.is_none());
        drop((places, permit, taken));
        assert!(limit.state().of.is_empty());
        limit.wait_until_unused().await;
    }

    #[tokio::test]
    async fn the_oldest_silent_one_goes() {
        let limit = limit("");
        let mut pending = Vec::new();
        for _ in 0..16 {
            pending.push(limit.add_pending().await);
        }
        pending[0].mark_active();
        pending.push(limit.add_pending().await);
        // No connection is closed before the server has read from it for a while.
        assert!(timeout(MIN_SILENCE * 2, limit.add_pending()).await.is_err());
        let begin = Instant::now();
        pending.iter().for_each(|s| drop(s.begin_reading()));
        pending.push(limit.add_pending().await);
        assert!(begin.elapsed() >= MIN_SILENCE);
        pending[1].close.notified().await;
        for other in [0, 2, 16, 17] {
            assert!(timeout(Duration::from_millis(1), pending[other].close.notified()).await.is_err());
        }
    }
}
