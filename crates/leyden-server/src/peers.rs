//! How many connections each address has.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, PoisonError};

/// The addresses with open connections.
#[derive(Debug, Default)]
pub(crate) struct Peers(Mutex<HashMap<IpAddr, usize>>);

/// A connection that counts for its address until it is dropped.
#[derive(Debug)]
pub(crate) struct Guest {
    peers: Arc<Peers>,
    address: Option<IpAddr>,
}

impl Peers {
    /// Counts a connection, if its address has fewer than `most`. Those of this machine are not counted: behind a proxy
    /// here they are everybody's.
    pub(crate) fn enter(self: &Arc<Peers>, address: IpAddr, most: usize) -> Option<Guest> {
        let address = Some(whose(address)).filter(|a| !a.is_loopback());
        if let Some(address) = address {
            let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let count = open.entry(address).or_default();
            if *count >= most {
                return None;
            }
            *count += 1;
        }
        Some(Guest { peers: Arc::clone(self), address })
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        let Some(address) = self.address else { return };
        let mut open = self.peers.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = open.get_mut(&address) {
            *count -= 1;
            if *count == 0 {
                open.remove(&address);
            }
        }
    }
}

/// The address that stands for a peer: of IPv6 the network, because one peer has all of a /64 (RFC 4291).
fn whose(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) if !v6.is_loopback() => {
            let [a, b, c, d, ..] = v6.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_so_many_connections() {
        let peers = Arc::new(Peers::default());
        let enter = |address: &str| peers.enter(address.parse().unwrap(), 2);
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
        let own: Vec<_> = ["127.0.0.1", "127.0.0.1", "127.0.0.2", "::1", "::1", "::1"].map(enter).into();
        assert!(own.iter().all(Option::is_some));
        assert!(peers.0.lock().unwrap().is_empty(), "what is closed leaves nothing");
    }
}
