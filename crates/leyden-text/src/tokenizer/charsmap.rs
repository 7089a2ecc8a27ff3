//! SentencePiece's compiled normalization (`tokenizer.ggml.precompiled_charsmap`).
//!
//! It maps texts of a few bytes to other texts. The longest match at each position is replaced; other text is kept.
//! The map is a double-array trie (Aoe 1989, in the compact form of Kanda and others 2018: 32 bits per unit,
//! children found by exclusive or), followed by the replacements, each ended by a zero byte.
//!
//! Texts with the same suffix share its units. A corrupt map may contain cycles or point outside, so the whole trie
//! is walked when it is read, every unit once.

use leyden_tensor::Metadata;

use crate::error::{Error, ErrorKind};

pub(super) const CHARSMAP: &str = "tokenizer.ggml.precompiled_charsmap";

/// Maximum length of a replaced text. Those of Unicode's compatibility forms have some dozens of bytes.
const MAX_KEY_BYTES: usize = 256;

/// Validated map.
#[derive(Debug, Default)]
pub(super) struct Charsmap {
    units: Vec<u32>,
    /// Replacements, each ended by a zero byte.
    replacements: String,
}

/// Unit of the trie: the byte that leads to it, whether a text ends here, and the offset of its children.
#[derive(Clone, Copy)]
struct Unit(u32);

impl Unit {
    /// Returns the byte that leads here from the parent; more than 255 for a unit that holds a value.
    fn label(self) -> u32 {
        self.0 & (1 << 31 | 0xff)
    }

    /// Returns whether a text ends here; its value is then in the unit at the children's base.
    fn ends(self) -> bool {
        self.0 >> 8 & 1 == 1
    }

    /// Returns the exclusive or of this unit's position and the base of its children.
    fn offset(self) -> u32 {
        self.0 >> 10 << ((self.0 & 1 << 9) >> 6)
    }

    /// Returns the start of the value in the replacements.
    fn value(self) -> usize {
        (self.0 & !(1 << 31)) as usize
    }
}

impl Charsmap {
    /// Reads the map from the metadata of a file; an empty map if there is none.
    pub(super) fn from_gguf(meta: &Metadata, file: &str) -> Result<Self, Error> {
        let numbers = meta.opt_array_i32(CHARSMAP);
        let Some(numbers) = numbers.map_err(|error| Error::new(file, None, ErrorKind::Metadata(error)))?
        else {
            return Ok(Self::default());
        };
        let invalid = |what: &str| Error::new(file, CHARSMAP, ErrorKind::Invalid(what.into()));
        // Bytes, stored as signed or unsigned numbers.
        let bytes: Option<Vec<u8>> = numbers
            .iter()
            .map(|&n| u8::try_from(n).ok().or_else(|| i8::try_from(n).ok().map(|n| n as u8)))
            .collect();
        let bytes = bytes.ok_or_else(|| invalid("want bytes, found larger numbers"))?;
        Self::new(&bytes).map_err(invalid)
    }

    fn new(bytes: &[u8]) -> Result<Self, &'static str> {
        let (size, rest) = bytes.split_first_chunk().ok_or("too short for the size of its trie")?;
        let size = u32::from_le_bytes(*size) as usize;
        let (units, replacements) = rest.split_at_checked(size).ok_or("its trie is longer than the map")?;
        let (units, []) = units.as_chunks() else { return Err("the size of its trie is no multiple of 4") };
        let map = Charsmap {
            units: units.iter().map(|unit| u32::from_le_bytes(*unit)).collect(),
            replacements: String::from_utf8(replacements.to_vec())
                .map_err(|_| "a replacement is not UTF-8")?,
        };
        map.check()?;
        Ok(map)
    }

    fn unit(&self, at: u32) -> Option<Unit> {
        self.units.get(at as usize).copied().map(Unit)
    }

    /// Walks the whole trie, depth first, and checks it.
    fn check(&self) -> Result<(), &'static str> {
        /// Unit on the path from the root: the base of its children, the next byte to examine, and the length of
        /// the longest known path below it.
        struct Open {
            at: Option<usize>,
            base: u32,
            next: u32,
            height: usize,
        }
        #[derive(Clone, Copy)]
        enum Mark {
            New,
            Open,
            Done(usize),
        }
        let outside = "its trie leads outside";
        let Some(root) = self.unit(0) else { return Ok(()) };
        let mut marks = vec![Mark::New; self.units.len()];
        let mut way = vec![Open { at: None, base: root.offset(), next: 1, height: 0 }];
        while let Some(last) = way.last_mut() {
            if last.next > 255 {
                let (at, height) = (last.at, last.height);
                way.pop();
                if let (Some(at), Some(parent)) = (at, way.last_mut()) {
                    marks[at] = Mark::Done(height);
                    parent.height = parent.height.max(height + 1);
                }
                continue;
            }
            let byte = last.next;
            last.next += 1;
            let at = last.base ^ byte;
            let unit = self.unit(at).ok_or(outside)?;
            if unit.label() != byte {
                continue;
            }
            match marks[at as usize] {
                Mark::Open => return Err("its trie leads in a circle"),
                Mark::Done(height) => last.height = last.height.max(height + 1),
                Mark::New => {
                    let base = at ^ unit.offset();
                    if unit.ends() {
                        let value = self.unit(base).ok_or(outside)?;
                        self.replacement(value).ok_or("a replacement lies outside or has no end")?;
                    }
                    marks[at as usize] = Mark::Open;
                    way.push(Open { at: Some(at as usize), base, next: 1, height: 0 });
                }
            }
            if way.last().is_some_and(|last| way.len() - 1 + last.height > MAX_KEY_BYTES) {
                return Err("it replaces a text of more than 256 bytes");
            }
        }
        Ok(())
    }

    fn replacement(&self, unit: Unit) -> Option<&str> {
        let text = self.replacements.get(unit.value()..)?;
        Some(&text[..text.find('\0')?])
    }

    /// Returns the length of the longest prefix of `text` that is replaced, and its replacement.
    pub(super) fn longest(&self, text: &[u8]) -> Option<(usize, &str)> {
        let mut base = self.unit(0)?.offset();
        let mut longest = None;
        for (n, &byte) in (1..).zip(text) {
            let at = base ^ u32::from(byte);
            let Some(unit) = self.unit(at).filter(|unit| byte != 0 && unit.label() == u32::from(byte)) else {
                break;
            };
            base = at ^ unit.offset();
            if unit.ends() {
                longest = self.unit(base).map(|value| (n, value));
            }
        }
        let (n, value) = longest?;
        Some((n, self.replacement(value)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a map of one-byte texts, all in the block of the root's children.
    fn one_byte(pairs: &[(u8, u32)], replacements: &str) -> Vec<u8> {
        let mut units = vec![0u32; 1024];
        // The root's children are at 256 and up; the value of the child for `byte` is at 512 ^ byte.
        units[0] = 256 << 10;
        for &(byte, value) in pairs {
            let at = 256 ^ u32::from(byte);
            let children = 512 ^ u32::from(byte);
            units[at as usize] = u32::from(byte) | 1 << 8 | (at ^ children) << 10;
            units[children as usize] = 1 << 31 | value;
        }
        let mut bytes = (units.len() as u32 * 4).to_le_bytes().to_vec();
        bytes.extend(units.iter().flat_map(|unit| unit.to_le_bytes()));
        bytes.extend(replacements.as_bytes());
        bytes
    }

    #[test]
    fn longest_replaces_and_keeps() {
        let map = Charsmap::new(&one_byte(&[(b'a', 0), (b'b', 3)], "xy\0\0")).unwrap();
        assert_eq!(map.longest(b"ab"), Some((1, "xy")));
        assert_eq!(map.longest(b"b"), Some((1, "")));
        assert_eq!(map.longest(b"c"), None);
        assert_eq!(map.longest(b""), None);
        assert_eq!(Charsmap::default().longest(b"a"), None);
    }

    #[test]
    fn damage_is_an_error() {
        let good = one_byte(&[(b'a', 0)], "x\0");
        let with = |at: u32, unit: u32| {
            let mut bytes = good.clone();
            bytes[4 + 4 * at as usize..][..4].copy_from_slice(&unit.to_le_bytes());
            Charsmap::new(&bytes).unwrap_err()
        };
        let a = 256 ^ u32::from(b'a');
        assert!(Charsmap::new(&good).is_ok());
        assert_eq!(with(0, 4096 << 10), "its trie leads outside");
        assert_eq!(with(512 ^ u32::from(b'a'), 1 << 31 | 7), "a replacement lies outside or has no end");
        // A child whose children are at its own position.
        assert_eq!(with(a, u32::from(b'a') | u32::from(b'a') << 10), "its trie leads in a circle");
        for (bytes, want) in [
            (&good[..3], "too short for the size of its trie"),
            (&good[..100], "its trie is longer than the map"),
            (&good[..good.len() - 1], "a replacement lies outside or has no end"),
            (&[2, 0, 0, 0, 0, 0, 0][..], "the size of its trie is no multiple of 4"),
            (&[0, 0, 0, 0, 0xff][..], "a replacement is not UTF-8"),
        ] {
            assert_eq!(Charsmap::new(bytes).unwrap_err(), want);
        }
        assert!(Charsmap::new(&[0; 4]).is_ok());
    }

    proptest::proptest! {
        #[test]
        fn garbage_never_panics(
            changes in proptest::collection::vec((0usize..4200, proptest::prelude::any::<u8>()), 1..9),
            text in "[a-c\u{e9}]{0,9}",
        ) {
            let mut bytes = one_byte(&[(b'a', 0), (b'b', 2), (0xc3, 2)], "x\0é\0");
            for (at, byte) in changes {
                let at = at % bytes.len();
                bytes[at] = byte;
            }
            if let Ok(map) = Charsmap::new(&bytes) {
                for at in 0..text.len() {
                    map.longest(&text.as_bytes()[at..]);
                }
            }
        }
    }
}
