//! The head of an answer: status and the few headers that are used.

use std::time::Duration;

use crate::record::{Class, Fail};

/// Maximum size of a head in bytes.
pub(super) const MAX_HEAD_BYTES: usize = 64 << 10;
/// Maximum number of header lines.
const MAX_HEADERS: usize = 128;
/// Maximum `Retry-After` in seconds; larger values are clipped.
const MAX_RETRY_AFTER: u64 = 3600;

/// Method by which the end of a body is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    /// A number of bytes.
    Length(u64),
    /// Chunks, each with its length.
    Chunked,
    /// The end of the connection.
    Close,
}

/// Status and headers of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) status: u16,
    pub(crate) framing: Framing,
    /// True if another request may follow on this connection.
    pub(crate) keep: bool,
    /// Media type in lower case, without parameters.
    pub(crate) media_type: String,
    pub(crate) retry_after: Option<Duration>,
}

fn wrong(why: impl Into<String>) -> Fail {
    Fail::new(Class::Protocol, why)
}

/// Returns the end of the head in `bytes`, the blank line included; the first `from` bytes were searched before.
pub(super) fn end(bytes: &[u8], from: usize) -> Option<usize> {
    let from = from.saturating_sub(3);
    bytes.get(from..)?.windows(4).position(|w| w == b"\r\n\r\n").map(|at| from + at + 4)
}

/// Parses a head that ends with its blank line.
pub(super) fn parse(bytes: &[u8]) -> Result<Head, Fail> {
    let text = bytes.strip_suffix(b"\r\n\r\n").ok_or_else(|| wrong("the head has no end"))?;
    let mut lines = text.split(|&b| b == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    let (minor, status) = status_line(lines.next().unwrap_or_default())?;
    let mut head = Head {
        status,
        framing: Framing::Close,
        keep: minor == 1,
        media_type: String::new(),
        retry_after: None,
    };
    let (mut length, mut chunked) = (None, false);
    for (n, line) in lines.enumerate() {
        if n == MAX_HEADERS {
            return Err(wrong("more than 128 headers"));
        }
        let (name, value) = header(line)?;
        match name.as_str() {
            "content-length" => {
                let n = Some(value).filter(|v| !v.is_empty() && v.bytes().all(|b| b.is_ascii_digit()));
                let n: u64 =
                    n.and_then(|v| v.parse().ok()).ok_or_else(|| wrong("Content-Length is not a number"))?;
                if length.is_some_and(|known| known != n) {
                    return Err(wrong("two different Content-Length headers"));
                }
                length = Some(n);
            }
            "transfer-encoding" if value.eq_ignore_ascii_case("chunked") && !chunked => chunked = true,
            "transfer-encoding" => return Err(wrong("a transfer encoding other than chunked")),
            "content-encoding" if !value.eq_ignore_ascii_case("identity") => {
                return Err(wrong("the answer is compressed although the request did not accept that"));
            }
            "connection" => {
                for word in value.split(',').map(str::trim) {
                    if word.eq_ignore_ascii_case("close") {
                        head.keep = false;
                    } else if minor == 0 && word.eq_ignore_ascii_case("keep-alive") {
                        head.keep = true;
                    }
                }
            }
            "content-type" => {
                head.media_type = value.split(';').next().unwrap_or("").trim().to_ascii_lowercase();
            }
            "retry-after" => {
                // A date would need the server's clock; only seconds are supported.
                let seconds = value.parse::<u64>().ok().map(|s| s.min(MAX_RETRY_AFTER));
                head.retry_after = seconds.map(Duration::from_secs);
            }
            _ => {}
        }
    }
    head.framing = match (chunked, length) {
        // Parties that choose differently between these would read different answers (request smuggling).
        (true, Some(_)) => return Err(wrong("both Content-Length and Transfer-Encoding")),
        (true, None) => Framing::Chunked,
        (false, Some(n)) => Framing::Length(n),
        (false, None) if matches!(status, 204 | 304) || status < 200 => Framing::Length(0),
        (false, None) => Framing::Close,
    };
    head.keep &= head.framing != Framing::Close;
    Ok(head)
}

/// Returns the minor version and the status.
fn status_line(line: &[u8]) -> Result<(u8, u16), Fail> {
    let bad = || wrong("the answer does not begin as HTTP/1.1 does");
    let rest = line.strip_prefix(b"HTTP/1.").ok_or_else(bad)?;
    let [minor @ (b'0' | b'1'), b' ', a @ b'1'..=b'9', b @ b'0'..=b'9', c @ b'0'..=b'9', after @ ..] = rest
    else {
        return Err(bad());
    };
    if after.first().is_some_and(|b| *b != b' ') {
        return Err(bad());
    }
    let digit = |b: &u8| u16::from(*b - b'0');
    Ok((minor - b'0', digit(a) * 100 + digit(b) * 10 + digit(c)))
}

/// Returns the name, in lower case, and the value of a header.
fn header(line: &[u8]) -> Result<(String, &str), Fail> {
    let bad = || wrong("a header line is malformed");
    let colon = line.iter().position(|&b| b == b':').ok_or_else(bad)?;
    let (name, value) = (&line[..colon], &line[colon + 1..]);
    let token = |b: &u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(b);
    if name.is_empty()
        || !name.iter().all(token)
        || value.iter().any(|b| (*b < b' ' && *b != b'\t') || *b == 127)
    {
        return Err(bad());
    }
    let name = String::from_utf8_lossy(name).to_ascii_lowercase();
    // A value outside ASCII belongs to no header that is used.
    Ok((name, str::from_utf8(value).unwrap_or("").trim()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(lines: &str) -> Result<Head, Fail> {
        parse(format!("{}\r\n\r\n", lines.replace('\n', "\r\n")).as_bytes())
    }

    #[test]
    fn heads_are_read() {
        let head = read(
            "HTTP/1.1 200 OK\nContent-Type: Text/Event-Stream; charset=utf-8\nTransfer-Encoding: chunked",
        );
        let head = head.unwrap();
        assert_eq!((head.status, head.framing, head.keep), (200, Framing::Chunked, true));
        assert_eq!(head.media_type, "text/event-stream");
        let head = read("HTTP/1.1 429 \nRetry-After: 7\ncontent-length: 3\nConnection: x, Close").unwrap();
        assert_eq!((head.framing, head.keep), (Framing::Length(3), false));
        assert_eq!(head.retry_after, Some(Duration::from_secs(7)));
        let head = read("HTTP/1.0 200\nConnection: keep-alive\nContent-Length: 1").unwrap();
        assert!(head.keep);
        let head = read("HTTP/1.1 200 OK\nRetry-After: Wed, 21 Oct 2015 07:28:00 GMT").unwrap();
        assert_eq!((head.framing, head.keep, head.retry_after), (Framing::Close, false, None));
        assert_eq!(read("HTTP/1.1 204 x").unwrap().framing, Framing::Length(0));
    }

    #[test]
    fn malformed_heads_are_refused() {
        for (lines, why) in [
            ("HTTP/2 200", "does not begin"),
            ("HTTP/1.1 20", "does not begin"),
            ("HTTP/1.1 2000", "does not begin"),
            ("SSH-2.0", "does not begin"),
            ("HTTP/1.1 200 OK\nNo colon", "malformed"),
            ("HTTP/1.1 200 OK\nA b: c", "malformed"),
            ("HTTP/1.1 200 OK\n folded: x", "malformed"),
            ("HTTP/1.1 200 OK\nContent-Length: -1", "not a number"),
            ("HTTP/1.1 200 OK\nContent-Length: 99999999999999999999", "not a number"),
            ("HTTP/1.1 200 OK\nContent-Length: 1\nContent-Length: 2", "two different"),
            ("HTTP/1.1 200 OK\nContent-Length: 1\nTransfer-Encoding: chunked", "both"),
            ("HTTP/1.1 200 OK\nTransfer-Encoding: gzip, chunked", "other than"),
            ("HTTP/1.1 200 OK\nContent-Encoding: br", "compressed"),
        ] {
            let fail = read(lines).unwrap_err();
            assert!(fail.message.contains(why), "{lines}: {}", fail.message);
        }
        assert!(read(&format!("HTTP/1.1 200 OK{}", "\na: b".repeat(129))).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_refused_or_read(bytes in proptest::collection::vec(any::<u8>(), 0..200), from in 0usize..300) {
            let _ = end(&bytes, from);
            let _ = parse(&[b"HTTP/1.1 200 OK\r\n", &bytes[..], b"\r\n\r\n"].concat());
        }
    }
}
