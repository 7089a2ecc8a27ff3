//! Ids of requests: unpredictable ones, and those that clients give.

use hyper::header::HeaderMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

/// Maximum number of characters of a client's id.
const MAX_CHARS: usize = 128;

/// Generator of ids: a counter under a keyed hash, whose keys the standard library takes from the system's random
/// numbers. No id occurs twice, and an id does not reveal the number of requests.
#[derive(Debug, Default)]
pub(crate) struct Ids {
    keys: [RandomState; 2],
    next: AtomicU64,
}

impl Ids {
    /// Returns a new id of 32 hexadecimal digits.
    pub(crate) fn next(&self) -> String {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let [a, b] = &self.keys;
        format!("{:016x}{:016x}", a.hash_one(number), b.hash_one(number))
    }
}

/// Returns the id that a client gave its request, if it is valid in a log and a header.
pub(crate) fn of_client(headers: &HeaderMap) -> Option<&str> {
    let mut all = headers.get_all("x-request-id").iter();
    let (Some(id), None) = (all.next(), all.next()) else { return None };
    let known = |b: u8| b.is_ascii_alphanumeric() || b"-_.:/+=@".contains(&b);
    id.to_str().ok().filter(|id| (1..=MAX_CHARS).contains(&id.len()) && id.bytes().all(known))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_not_in_a_row() {
        let ids = Ids::default();
        let mut all: Vec<String> = (0..1000).map(|_| ids.next()).collect();
        assert!(all.iter().all(|id| id.len() == 32));
        // Successive ids share no more digits than random ones.
        for pair in all.windows(2) {
            let same = pair[0].bytes().zip(pair[1].bytes()).filter(|(a, b)| a == b).count();
            assert!(same < 16, "{pair:?}");
        }
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 1000);
        assert_ne!(Ids::default().next(), ids.next());
    }

    #[test]
    fn a_clients_id_is_taken_if_it_is_one() {
        let long = "x".repeat(129);
        for (value, wanted) in [
            ("req-1_2.3:4", true),
            ("0e3c4cb1-4b8f-4b84-9c4e-0b6a9d6f8a11", true),
            ("", false),
            (&long, false),
            ("a b", false),
            ("a\"b", false),
            ("a;b", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.append("x-request-id", value.parse().unwrap());
            assert_eq!(of_client(&headers).is_some(), wanted, "{value}");
            headers.append("x-request-id", "second".parse().unwrap());
            assert_eq!(of_client(&headers), None);
        }
    }
}
