//! [`Shard`]: the part of the rows that one machine computes.

use std::fmt;
use std::str::FromStr;
use xxhash_rust::xxh3::xxh3_64;

/// Part `number` of `of`, from 1. Each row is in one part, by the hash of its id or, without one, of its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shard {
    number: u64,
    of: u64,
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Shard, String> {
        let parts = text.split_once('/').and_then(|(k, n)| Some((k.parse().ok()?, n.parse().ok()?)));
        match parts {
            Some((number, of)) if 1 <= number && number <= of => Ok(Shard { number, of }),
            _ => Err("want K/N with K from 1 to N, such as 1/4".to_owned()),
        }
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.of)
    }
}

impl Shard {
    /// Returns true if a row with this id, or else with this number in the input, is in the part.
    pub(crate) fn has(self, id: Option<&str>, index: u64) -> bool {
        let hash = id.map_or_else(|| xxh3_64(&index.to_le_bytes()), |id| xxh3_64(id.as_bytes()));
        hash % self.of == self.number - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_row_is_in_one_part() {
        let parts: Vec<Shard> = (1..=3).map(|k| format!("{k}/3").parse().unwrap()).collect();
        let mut sizes = [0; 3];
        for index in 0..3000 {
            let name = format!("row {index}");
            for id in [None, Some(&name[..])] {
                let of: Vec<usize> = (0..3).filter(|k| parts[*k].has(id, index)).collect();
                assert_eq!(of.len(), 1);
                sizes[of[0]] += 1;
            }
        }
        assert!(sizes.iter().all(|size| (1800..2200).contains(size)), "{sizes:?}");
        for wrong in ["0/3", "4/3", "1", "1/0", "a/b", "1/2/3", ""] {
            assert!(wrong.parse::<Shard>().is_err(), "{wrong}");
        }
    }
}
