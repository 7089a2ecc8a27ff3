//! The body of an answer, decoded from its framing piece by piece as it arrives.

use super::head::Framing;
use crate::record::{Class, Fail};

/// Maximum length in bytes of a line between chunks: a size with its extensions, or a trailer.
const MAX_LINE_BYTES: usize = 4 << 10;
/// Maximum bytes of all trailers together.
const MAX_TRAILER_BYTES: usize = 16 << 10;

/// A decoder of a body's framing.
#[derive(Debug)]
pub(super) struct Body {
    state: State,
    /// An incomplete line.
    line: Vec<u8>,
    trailer_bytes: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// This many bytes are missing.
    Length(u64),
    Close,
    /// In the line with a chunk's size.
    Size,
    /// This many bytes of the chunk are missing.
    Chunk(u64),
    /// In the line break after a chunk.
    Break,
    Trailer,
    Done,
}

impl Body {
    pub(super) fn new(framing: Framing) -> Self {
        let state = match framing {
            Framing::Length(0) => State::Done,
            Framing::Length(n) => State::Length(n),
            Framing::Chunked => State::Size,
            Framing::Close => State::Close,
        };
        Self { state, line: Vec::new(), trailer_bytes: 0 }
    }

    /// Returns true if the body is complete.
    pub(super) fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// Decodes bytes, calls `out` with the content, and returns the bytes of `input` that belong to this body, a
    /// count.
    pub(super) fn push(
        &mut self,
        input: &[u8],
        out: &mut dyn FnMut(&[u8]) -> Result<(), Fail>,
    ) -> Result<usize, Fail> {
        let mut rest = input;
        while !rest.is_empty() && self.state != State::Done {
            match self.state {
                State::Close => {
                    out(rest)?;
                    rest = &[];
                }
                State::Length(missing) | State::Chunk(missing) => {
                    let n = usize::try_from(missing).unwrap_or(usize::MAX).min(rest.len());
                    let (content, after) = rest.split_at(n);
                    let missing = missing - n as u64;
                    self.state = match self.state {
                        State::Length(_) if missing == 0 => State::Done,
                        State::Length(_) => State::Length(missing),
                        _ if missing == 0 => State::Break,
                        _ => State::Chunk(missing),
                    };
                    rest = after;
                    out(content)?;
                }
                State::Size | State::Break | State::Trailer => {
                    let (part, after, ended) = match rest.iter().position(|&b| b == b'\n') {
                        Some(at) => (&rest[..at], &rest[at + 1..], true),
                        None => (rest, &[][..], false),
                    };
                    rest = after;
                    if self.line.len() + part.len() > MAX_LINE_BYTES {
                        return Err(wrong("a line between chunks is too long"));
                    }
                    self.line.extend_from_slice(part);
                    if ended {
                        self.line()?;
                        self.line.clear();
                    }
                }
                State::Done => {}
            }
        }
        Ok(input.len() - rest.len())
    }

    /// Handles a complete line between chunks.
    fn line(&mut self) -> Result<(), Fail> {
        let line =
            self.line.strip_suffix(b"\r").ok_or_else(|| wrong("a line between chunks ends without CR"))?;
        self.state = match self.state {
            State::Size => {
                let digits = line.split(|&b| b == b';').next().unwrap_or_default().trim_ascii_end();
                let size = str::from_utf8(digits).ok().filter(|text| {
                    (1..=16).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_hexdigit())
                });
                match size.and_then(|text| u64::from_str_radix(text, 16).ok()) {
                    Some(0) => State::Trailer,
                    Some(n) => State::Chunk(n),
                    None => return Err(wrong("a chunk has no size")),
                }
            }
            State::Break if line.is_empty() => State::Size,
            State::Break => return Err(wrong("a chunk is longer than its size")),
            _ if line.is_empty() => State::Done,
            _ => {
                self.trailer_bytes += line.len();
                if self.trailer_bytes > MAX_TRAILER_BYTES {
                    return Err(wrong("the trailers are too long"));
                }
                State::Trailer
            }
        };
        Ok(())
    }

    /// Handles the end of the connection.
    pub(super) fn end(&self) -> Result<(), Fail> {
        match self.state {
            State::Close | State::Done => Ok(()),
            State::Length(n) => Err(Fail::new(
                Class::Connection,
                format!("the connection ended {n} bytes before the answer did"),
            )),
            _ => Err(Fail::new(Class::Connection, "the connection ended in the middle of the answer")),
        }
    }
}

fn wrong(why: &str) -> Fail {
    Fail::new(Class::Protocol, why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns the decoded content of `pieces`, and the used bytes of the last one.
    fn take(framing: Framing, pieces: &[&[u8]]) -> Result<(Vec<u8>, Body), Fail> {
        let (mut body, mut content) = (Body::new(framing), Vec::new());
        for piece in pieces {
            let used = body.push(piece, &mut |bytes| {
                content.extend_from_slice(bytes);
                Ok(())
            })?;
            assert!(used == piece.len() || body.is_done());
        }
        Ok((content, body))
    }

    #[test]
    fn framings() {
        let (content, body) = take(Framing::Length(3), &[b"ab", b"cd"]).unwrap();
        assert!(content == b"abc" && body.is_done());
        let (content, body) = take(Framing::Close, &[b"ab"]).unwrap();
        assert!(content == b"ab" && !body.is_done() && body.end().is_ok());
        let (content, body) =
            take(Framing::Chunked, &[b"3;x=\"y\"\r\nabc\r\n0\r\nT: v\r\n\r\nNEXT"]).unwrap();
        assert!(content == b"abc" && body.is_done());
        assert!(take(Framing::Length(0), &[]).unwrap().1.is_done());
        for (framing, input) in
            [(Framing::Length(3), &b"ab"[..]), (Framing::Chunked, b"3\r\nab"), (Framing::Chunked, b"")]
        {
            let fail = take(framing, &[input]).unwrap().1.end().unwrap_err();
            assert_eq!(fail.class, Class::Connection);
        }
    }

    #[test]
    fn malformed_chunks_are_refused() {
        for (input, why) in [
            (&b"x\r\n"[..], "no size"),
            (b"\r\n", "no size"),
            (b"-1\r\n", "no size"),
            (b"11112222333344445\r\n", "no size"),
            (b"3\nabc\r\n", "without CR"),
            (b"1\r\nab\r\n", "longer than"),
            (&[b'0'; 5000], "too long"),
        ] {
            let fail = take(Framing::Chunked, &[input]).unwrap_err();
            assert!(fail.class == Class::Protocol && fail.message.contains(why), "{}", fail.message);
        }
        let trailers = [&b"0\r\n"[..], &b"t: xxxxxxxxxxxxxxxx\r\n".repeat(1000)].concat();
        assert!(take(Framing::Chunked, &[&trailers]).is_err());
    }

    proptest! {
        #[test]
        fn content_does_not_depend_on_where_reads_end(
            chunks in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..20), 0..6),
            cuts in proptest::collection::vec(1usize..9, 1..40),
        ) {
            let mut wire = Vec::new();
            for chunk in &chunks {
                wire.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
                wire.extend_from_slice(chunk);
                wire.extend_from_slice(b"\r\n");
            }
            wire.extend_from_slice(b"0\r\n\r\n");
            let (mut pieces, mut rest, mut cuts) = (Vec::new(), &wire[..], cuts.iter().cycle());
            while !rest.is_empty() {
                let (piece, after) = rest.split_at(rest.len().min(*cuts.next().unwrap()));
                pieces.push(piece);
                rest = after;
            }
            let (content, body) = take(Framing::Chunked, &pieces).unwrap();
            prop_assert!(body.is_done());
            prop_assert_eq!(content, chunks.concat());
        }

        #[test]
        fn any_bytes_are_refused_or_taken(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = take(Framing::Chunked, &[&bytes]);
        }
    }
}
