//! [`Events`]: parser of server-sent events, for bytes that may be split anywhere.
//!
//! Follows the WHATWG's definition of `text/event-stream`: lines end with LF, CR or both, `data` fields of one event
//! are joined with LF, a blank line ends the event; comments and other fields are ignored.

use crate::record::{Class, Fail};

/// Maximum size of an event in bytes.
const MAX_EVENT_BYTES: usize = 4 << 20;

/// Splits a stream into the data of its events.
#[derive(Debug, Default)]
pub(crate) struct Events {
    line: Vec<u8>,
    data: Vec<u8>,
    /// True if the event has a `data` field.
    has_data: bool,
    /// True if the last line ended with CR, so an LF that follows belongs to it.
    after_cr: bool,
    started: bool,
}

impl Events {
    /// Parses bytes and calls `out` with the data of every event that they complete.
    pub(crate) fn push(
        &mut self,
        mut bytes: &[u8],
        out: &mut dyn FnMut(&str) -> Result<(), Fail>,
    ) -> Result<(), Fail> {
        while let Some(&first) = bytes.first() {
            if std::mem::take(&mut self.after_cr) && first == b'\n' {
                bytes = &bytes[1..];
                continue;
            }
            let end = bytes.iter().position(|b| matches!(b, b'\n' | b'\r'));
            let part = &bytes[..end.unwrap_or(bytes.len())];
            if self.line.len() + self.data.len() + part.len() > MAX_EVENT_BYTES {
                return Err(Fail::new(Class::Protocol, "an event is longer than 4 MiB"));
            }
            self.line.extend_from_slice(part);
            let Some(end) = end else { return Ok(()) };
            self.after_cr = bytes[end] == b'\r';
            bytes = &bytes[end + 1..];
            self.line(out)?;
        }
        Ok(())
    }

    /// Handles a complete line.
    fn line(&mut self, out: &mut dyn FnMut(&str) -> Result<(), Fail>) -> Result<(), Fail> {
        let mut line = &self.line[..];
        if !std::mem::replace(&mut self.started, true) {
            line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
        }
        if line.is_empty() {
            self.line.clear();
            if std::mem::take(&mut self.has_data) {
                let text = str::from_utf8(&self.data);
                let text = text.map_err(|_| Fail::new(Class::Protocol, "an event is not UTF-8"))?;
                let result = out(text);
                self.data.clear();
                return result;
            }
            return Ok(());
        }
        let (field, value) = match line.iter().position(|&b| b == b':') {
            Some(at) => (&line[..at], &line[at + 1..]),
            None => (line, &[][..]),
        };
        if field == b"data" {
            if self.has_data {
                self.data.push(b'\n');
            }
            self.data.extend_from_slice(value.strip_prefix(b" ").unwrap_or(value));
            self.has_data = true;
        }
        self.line.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn events(pieces: &[&[u8]]) -> Result<Vec<String>, Fail> {
        let (mut events, mut found) = (Events::default(), Vec::new());
        for piece in pieces {
            events.push(piece, &mut |data| {
                found.push(data.to_owned());
                Ok(())
            })?;
        }
        Ok(found)
    }

    const STREAM: &[u8] =
        "\u{feff}: hello\r\ndata: one\r\n\r\nevent: x\ndata:two\ndata\ndata:  three\n\nid: 4\n\n\
        data: vier\u{e4}\u{1f642}\r\rdata: [DONE]\n\ndata: unfinished"
            .as_bytes();
    const WANTED: [&str; 4] = ["one", "two\n\n three", "vier\u{e4}\u{1f642}", "[DONE]"];

    #[test]
    fn events_are_found() {
        assert_eq!(events(&[STREAM]).unwrap(), WANTED);
        assert_eq!(events(&[b"data: \xff\n\n"]).unwrap_err().class, Class::Protocol);
        let endless = vec![b'x'; 1 << 20];
        assert!(events(&[&endless[..]; 5]).unwrap_err().message.contains("longer"));
    }

    #[test]
    fn any_two_cuts_leave_the_events_alone() {
        for i in 0..=STREAM.len() {
            for j in i..=STREAM.len() {
                assert_eq!(events(&[&STREAM[..i], &STREAM[i..j], &STREAM[j..]]).unwrap(), WANTED, "{i} {j}");
            }
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_refused_or_read(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = events(&[&bytes]);
        }
    }
}
