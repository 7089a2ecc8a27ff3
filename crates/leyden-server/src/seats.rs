//! Connection limits: in all and per address.
//!
//! A connection above the limit is not refused at once: it is accepted, may request health and metrics, and waits for a
//! seat with any other request, while idle connections with a seat are asked to close. The number of waiting
//! connections is limited too, and silent connections without a seat are closed for newer ones, so every new connection
//! can send a request.

use crate::peers::{Network, whose};
use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, timeout};

/// Interval at which idle connections with a seat are asked to close while others wait.
const CROWDED: Duration = Duration::from_millis(50);
/// Minimum time that a connection without a seat may be silent before it is closed for a newer one: its request is on
/// its way.
const SILENT: Duration = Duration::from_millis(200);

/// Limits of the number of connections.
#[derive(Clone, Debug)]
pub(crate) struct Room {
    pub(crate) seats: usize,
    pub(crate) seats_per_peer: usize,
    /// Proxies, whose connections are exempt from the limit per address.
    pub(crate) trusted: Vec<Network>,
}

impl Room {
    /// Returns the maximum number of silent connections beyond the seats.
    fn standing(&self) -> usize {
        (self.seats / 4).clamp(16, 1024)
    }

    /// Returns the maximum number of connections beyond these that wait with a request.
    fn waiting(&self) -> usize {
        (self.standing() / 4).max(8)
    }
}

/// The connections of a server.
#[derive(Debug)]
pub(crate) struct Seats {
    room: Room,
    state: Mutex<State>,
    freed: Notify,
    crowded: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct State {
    all: Count,
    of: HashMap<IpAddr, Count>,
    /// Silent connections without a seat, the oldest first.
    standing: VecDeque<Silent>,
    next: u64,
    /// Time at which idle connections were last asked to close.
    asked: Option<Instant>,
}

#[derive(Debug)]
struct Silent {
    number: u64,
    go: Arc<Notify>,
    /// Time at which the server began to read from it.
    since: Option<Instant>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Count {
    taken: usize,
    waiting: usize,
}

/// A seat; dropping it frees the seat.
#[derive(Debug)]
pub(crate) struct Seat {
    seats: Arc<Seats>,
    peer: Option<IpAddr>,
}

/// A connection without a seat that has sent nothing yet.
#[derive(Debug)]
pub(crate) struct Standing {
    seats: Arc<Seats>,
    number: u64,
    go: Arc<Notify>,
}

/// A place in the queue for a seat.
struct Waiting<'a>(&'a Seats, Option<IpAddr>);

impl Seats {
    pub(crate) fn new(room: Room) -> Arc<Seats> {
        let (crowded, _) = watch::channel(());
        Arc::new(Seats { room, state: Mutex::default(), freed: Notify::new(), crowded })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the address whose share a connection counts in; `None` for a proxy.
    fn peer(&self, address: IpAddr) -> Option<IpAddr> {
        let address = address.to_canonical();
        (!self.room.trusted.iter().any(|n| n.contains(address))).then(|| whose(address))
    }

    /// Returns a seat, unless all are taken or waited for.
    pub(crate) fn enter(self: &Arc<Seats>, address: IpAddr) -> Option<Seat> {
        let peer = self.peer(address);
        self.take(peer, |count| count.taken + count.waiting)
    }

    fn take(self: &Arc<Seats>, peer: Option<IpAddr>, ahead: fn(&Count) -> usize) -> Option<Seat> {
        let mut state = self.state();
        if ahead(&state.all) >= self.room.seats {
            return None;
        }
        if let Some(peer) = peer {
            if state.of.get(&peer).is_some_and(|count| ahead(count) >= self.room.seats_per_peer) {
                return None;
            }
            state.of.entry(peer).or_default().taken += 1;
        }
        state.all.taken += 1;
        Some(Seat { seats: Arc::clone(self), peer })
    }

    /// Returns a seat as soon as one is free; `None` if too many wait already, or once `over` returns true.
    pub(crate) async fn wait(self: &Arc<Seats>, address: IpAddr, over: impl Fn() -> bool) -> Option<Seat> {
        let peer = self.peer(address);
        let _place = self.queue(peer)?;
        while !over() {
            let freed = self.freed.notified();
            // Another waiting connection may be faster; that does no harm, as all are served.
            if let Some(seat) = self.take(peer, |count| count.taken) {
                return Some(seat);
            }
            self.ask_for_room();
            let _ = timeout(CROWDED, freed).await;
        }
        None
    }

    /// Asks idle connections to close, at most once per interval.
    fn ask_for_room(&self) {
        let now = Instant::now();
        let mut state = self.state();
        if state.asked.is_none_or(|asked| now - asked >= CROWDED) {
            state.asked = Some(now);
            let _ = self.crowded.send(());
        }
    }

    fn queue(&self, peer: Option<IpAddr>) -> Option<Waiting<'_>> {
        let most = self.room.waiting();
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

    /// Returns a place without a seat. If there is none, the connection that has been silent for longest is closed,
    /// once that time reaches the minimum.
    pub(crate) async fn stand(self: &Arc<Seats>) -> Standing {
        loop {
            let early = {
                let mut state = self.state();
                let oldest = state.standing.front().filter(|_| state.standing.len() >= self.room.standing());
                let early =
                    oldest.map(|o| SILENT.saturating_sub(o.since.map_or(Duration::ZERO, |s| s.elapsed())));
                if early.is_none_or(|early| early.is_zero()) {
                    if early.is_some()
                        && let Some(oldest) = state.standing.pop_front()
                    {
                        oldest.go.notify_one();
                    }
                    let number = state.next;
                    state.next += 1;
                    let go = Arc::new(Notify::new());
                    state.standing.push_back(Silent { number, go: Arc::clone(&go), since: None });
                    return Standing { seats: Arc::clone(self), number, go };
                }
                early
            };
            // A connection may close by itself meanwhile.
            sleep(early.unwrap_or_default().min(CROWDED / 5)).await;
        }
    }

    /// Returns a receiver that is notified repeatedly while connections wait.
    pub(crate) fn crowded(&self) -> watch::Receiver<()> {
        self.crowded.subscribe()
    }

    /// Returns true if connections wait for a seat that this address uses.
    pub(crate) fn are_short(&self, address: IpAddr) -> bool {
        let state = self.state();
        let of_peer = self.peer(address).and_then(|peer| state.of.get(&peer).copied()).unwrap_or_default();
        of_peer.waiting > 0 || (state.all.waiting > 0 && state.all.taken >= self.room.seats)
    }

    /// Waits until no seat is taken.
    pub(crate) async fn empty(&self) {
        while self.state().all.taken > 0 {
            let freed = self.freed.notified();
            let _ = timeout(CROWDED, freed).await;
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

impl Drop for Seat {
    fn drop(&mut self) {
        self.seats.leave(self.peer, |count| count.taken -= 1);
        self.seats.freed.notify_waiters();
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.leave(self.1, |count| count.waiting -= 1);
    }
}

impl Standing {
    /// Marks that the server reads from the connection. The returned handle is notified when the connection must close.
    pub(crate) fn begin(&self) -> Arc<Notify> {
        let mut state = self.seats.state();
        if let Some(own) = state.standing.iter_mut().find(|s| s.number == self.number) {
            own.since = Some(Instant::now());
        }
        Arc::clone(&self.go)
    }

    /// Marks that the connection has sent something, and is not closed for newer ones.
    pub(crate) fn speaks(&self) {
        self.seats.state().standing.retain(|s| s.number != self.number);
    }
}

impl Drop for Standing {
    fn drop(&mut self) {
        self.speaks();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seats(trusted: &str) -> Arc<Seats> {
        let trusted = trusted.split(' ').filter(|t| !t.is_empty()).map(|t| t.parse().unwrap()).collect();
        Seats::new(Room { seats: 8, seats_per_peer: 2, trusted })
    }

    #[test]
    fn an_address_has_so_many_connections() {
        let seats = seats("");
        let enter = |address: &str| seats.enter(address.parse().unwrap());
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
        assert!(seats.state().of.is_empty(), "what is closed leaves nothing");
    }

    #[test]
    fn a_trusted_proxy_has_no_share() {
        let seats = seats("127.0.0.1 10.0.0.0/8");
        let enter = |address: &str| seats.enter(address.parse().unwrap());
        let own: Vec<_> = ["127.0.0.1", "127.0.0.1", "10.1.2.3", "10.1.2.3", "10.1.2.3"].map(enter).into();
        assert!(own.iter().all(Option::is_some));
        let more: Vec<_> = (0..9).map(|_| enter("127.0.0.1")).collect();
        assert_eq!(more.iter().flatten().count(), 3, "there are eight for all");
    }

    #[tokio::test]
    async fn who_waits_gets_the_next_seat_and_places_for_waiting_have_limits() {
        let seats = seats("");
        let address: IpAddr = "192.0.2.1".parse().unwrap();
        let mut taken: Vec<_> = (0..2).map(|_| seats.enter(address)).collect();
        assert!(!seats.are_short(address));
        let mut crowded = seats.crowded();
        let waiter = tokio::spawn({
            let seats = Arc::clone(&seats);
            async move { seats.wait(address, || false).await }
        });
        crowded.changed().await.unwrap();
        assert!(seats.are_short(address) && !seats.are_short("192.0.2.2".parse().unwrap()));
        // No new connection gets ahead of the queue.
        taken.pop();
        assert!(seats.enter(address).is_none());
        let seat = waiter.await.unwrap();
        assert!(seat.is_some());
        // Of 16 connections without a seat eight can wait, half of them from one address.
        let places: Vec<_> = (0..9).map(|_| seats.queue(Some(address))).collect();
        assert_eq!(places.iter().flatten().count(), 4);
        assert!(seats.wait(address, || false).await.is_none());
        drop((places, seat, taken));
        assert!(seats.state().of.is_empty());
        seats.empty().await;
    }

    #[tokio::test]
    async fn the_oldest_silent_one_goes() {
        let seats = seats("");
        let mut standing = Vec::new();
        for _ in 0..16 {
            standing.push(seats.stand().await);
        }
        standing[0].speaks();
        standing.push(seats.stand().await);
        // No connection is closed before the server has read from it for a while.
        assert!(timeout(SILENT * 2, seats.stand()).await.is_err());
        let begin = Instant::now();
        standing.iter().for_each(|s| drop(s.begin()));
        standing.push(seats.stand().await);
        assert!(begin.elapsed() >= SILENT);
        standing[1].go.notified().await;
        for other in [0, 2, 16, 17] {
            assert!(timeout(Duration::from_millis(1), standing[other].go.notified()).await.is_err());
        }
    }
}
