//! IP networks, and the address under which connections are limited.

use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

/// An IP network, such as `10.0.0.0/8`; a single address is a network of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    /// Length of the prefix in bits.
    bits: u32,
}

impl Network {
    /// Returns true if the network contains an address.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address) {
            (IpAddr::V4(a), IpAddr::V4(b)) => same(u32::from(a).into(), u32::from(b).into(), 32 - self.bits),
            (IpAddr::V6(a), IpAddr::V6(b)) => same(a.into(), b.into(), 128 - self.bits),
            _ => false,
        }
    }
}

/// Returns true if two numbers are equal except in their last `last` bits.
fn same(a: u128, b: u128, last: u32) -> bool {
    a.checked_shr(last).unwrap_or(0) == b.checked_shr(last).unwrap_or(0)
}

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Network, String> {
        let wrong = || format!("`{text}` is neither an address nor a network such as 10.0.0.0/8");
        let (address, bits) = text.split_once('/').map_or((text, None), |(a, b)| (a, Some(b)));
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let all = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.map_or(Ok(all), str::parse).ok().filter(|bits| *bits <= all).ok_or_else(wrong)?;
        Ok(Network { address, bits })
    }
}

/// Returns the address under which a peer's connections are limited: for IPv6 that of its /64 network, because a host
/// has a whole /64 (RFC 4291).
pub(crate) fn limited_address(address: IpAddr) -> IpAddr {
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
    fn networks_have_their_addresses() {
        let cases = [
            ("10.0.0.0/8", "10.255.0.1", true),
            ("10.0.0.0/8", "11.0.0.1", false),
            ("127.0.0.1", "127.0.0.1", true),
            ("127.0.0.1", "127.0.0.2", false),
            ("0.0.0.0/0", "203.0.113.9", true),
            ("0.0.0.0/0", "::1", false),
            ("::/0", "2001:db8::1", true),
            ("2001:db8::/32", "2001:db8:1::1", true),
            ("2001:db8::/32", "2001:db9::1", false),
        ];
        for (network, address, wanted) in cases {
            let network: Network = network.parse().unwrap();
            assert_eq!(network.contains(address.parse().unwrap()), wanted, "{network:?} {address}");
        }
        for wrong in ["", "localhost", "10.0.0.0/33", "10.0.0.0/", "10.0.0.0/x", "::/129", "10/8"] {
            assert!(wrong.parse::<Network>().is_err(), "{wrong}");
        }
    }
}
