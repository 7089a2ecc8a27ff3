//! Finds the end of a JSON value in text that arrives in pieces.

/// How deep arrays and objects may nest.
const MOST_DEPTH: usize = 64;

/// A place in a JSON object or array. It looks at every byte once, and only at what brackets and strings need: whether
/// the value is JSON is for a parser to say when it is whole.
#[derive(Clone, Debug, Default)]
pub(super) struct JsonScan {
    open: Vec<u8>,
    in_string: bool,
    escaped: bool,
}

/// What a scan came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scanned {
    More,
    /// The value ends before this byte.
    End(usize),
    /// This is no value, as the byte here shows.
    Wrong(usize),
}

impl JsonScan {
    /// Goes on over `text[from..]`, which follows what was seen before.
    pub(super) fn scan(&mut self, text: &str, from: usize) -> Scanned {
        for (i, byte) in text.bytes().enumerate().skip(from) {
            if self.in_string {
                match byte {
                    _ if self.escaped => self.escaped = false,
                    b'\\' => self.escaped = true,
                    b'"' => self.in_string = false,
                    0..0x20 => return Scanned::Wrong(i),
                    _ => {}
                }
                continue;
            }
            match byte {
                b'"' if !self.open.is_empty() => self.in_string = true,
                b'{' | b'[' if self.open.len() < MOST_DEPTH => self.open.push(byte),
                b'}' | b']' => {
                    let matching = self.open.pop() == Some(if byte == b'}' { b'{' } else { b'[' });
                    if !matching {
                        return Scanned::Wrong(i);
                    }
                    if self.open.is_empty() {
                        return Scanned::End(i + 1);
                    }
                }
                b' ' | b'\t' | b'\n' | b'\r' => {}
                b',' | b':' | b'-' | b'+' | b'.' | b'0'..=b'9' | b'a'..=b'z' | b'E'
                    if !self.open.is_empty() => {}
                _ => return Scanned::Wrong(i),
            }
        }
        Scanned::More
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_found_in_pieces() {
        let text = r#" {"a}\"": [1, {"b": "]"}]} rest"#;
        let end = text.find(" rest").unwrap();
        assert_eq!(JsonScan::default().scan(text, 0), Scanned::End(end));
        for cut in 0..end {
            let mut scan = JsonScan::default();
            assert_eq!(scan.scan(&text[..cut], 0), Scanned::More, "{cut}");
            assert_eq!(scan.scan(text, cut), Scanned::End(end), "{cut}");
        }
        for wrong in ["x", "\"a\"", "{]", "}", "{'a'", "{\"a\nb\"", &"[".repeat(100)] {
            assert!(matches!(JsonScan::default().scan(wrong, 0), Scanned::Wrong(_)), "{wrong}");
        }
    }
}
