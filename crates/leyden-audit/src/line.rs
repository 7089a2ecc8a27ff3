//! [`Line`]: one line of a log.
//!
//! `{"seq":7,"prev":"…","time":"…","tick":12,"kind":"entry","body":{…}}`, in this order and without white space. The
//! signature of a checkpoint is its last field, of the bytes of the line without that field.

use crate::clock::{self, Stamp};
use crate::digest::{hex, unhex};
use crate::error::Error;
use leyden_verify::Key;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// SHA-256 of a line.
pub(crate) type Hash = [u8; 32];

/// Hexadecimal digits of a signature.
const SIGNATURE_DIGITS: usize = 128;
/// Purpose of a signature, hashed before the line.
const PURPOSE: &[u8] = b"leyden audit checkpoint 1\n";
/// Name of the format.
pub(crate) const FORMAT: &str = "leyden-audit";
/// Version of the format.
pub(crate) const VERSION: u32 = 1;

/// Kind of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A process opened the log.
    Open,
    /// A record.
    Entry,
    /// A signature of all lines so far.
    Checkpoint,
    /// The wall clock was set.
    Clock,
    /// An unfinished line was cut off.
    Cut,
}

/// Names of the kinds.
const KINDS: [(Kind, &str); 5] = [
    (Kind::Open, "open"),
    (Kind::Entry, "entry"),
    (Kind::Checkpoint, "checkpoint"),
    (Kind::Clock, "clock"),
    (Kind::Cut, "cut"),
];

impl Kind {
    fn name(self) -> &'static str {
        KINDS.iter().find(|(kind, _)| *kind == self).map_or("", |(_, name)| name)
    }
}

/// Body of an `open` line.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct OpenBody {
    pub(crate) format: String,
    pub(crate) version: u32,
    /// Random id of the log.
    pub(crate) log: String,
    /// Version of the program.
    pub(crate) leyden: String,
    /// Public key of the checkpoints.
    pub(crate) key: String,
    /// Public key to which contents are encrypted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) recipient: Option<String>,
    /// Microseconds by which the time is before that of the line before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) clock_back_micros: Option<i64>,
}

/// Reason of a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Why {
    Open,
    Interval,
    Rotation,
    Close,
}

/// Body of a checkpoint.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CheckpointBody {
    pub(crate) why: Why,
    pub(crate) log: String,
    pub(crate) key: String,
}

/// Body of a `clock` line.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ClockBody {
    /// Microseconds by which the wall clock was set, against the counter.
    pub(crate) set_by_micros: i64,
}

/// Body of a `cut` line.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CutBody {
    pub(crate) segment: u64,
    /// Number of the bytes that were cut off.
    pub(crate) bytes: u64,
    /// Their SHA-256.
    pub(crate) sha256: String,
}

/// A line that was read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line<'a> {
    pub(crate) seq: u64,
    pub(crate) prev: Hash,
    pub(crate) stamp: Stamp,
    pub(crate) kind: Kind,
    /// JSON of the body.
    pub(crate) body: &'a [u8],
    /// Bytes before the signature's field, and the signature.
    signature: Option<(&'a [u8], &'a str)>,
}

/// Returns the SHA-256 of a line without its end.
pub(crate) fn hash(line: &[u8]) -> Hash {
    Sha256::digest(line).into()
}

/// Appends a line without its end to `out`.
pub(crate) fn write(out: &mut Vec<u8>, (seq, prev): (u64, &Hash), stamp: Stamp, kind: Kind, body: &[u8]) {
    let (prev, time, tick) = (hex(prev), clock::written(stamp.time), stamp.tick);
    let kind = kind.name();
    let head =
        format!(r#"{{"seq":{seq},"prev":"{prev}","time":"{time}","tick":{tick},"kind":"{kind}","body":"#);
    out.extend_from_slice(head.as_bytes());
    out.extend_from_slice(body);
    out.push(b'}');
}

/// Adds a signature to the line that begins at `from` in `out`.
///
/// # Errors
/// The key has no secret part.
pub(crate) fn sign(out: &mut Vec<u8>, from: usize, key: &Key) -> Result<(), Error> {
    let signature = key.sign(&signed(&out[from..]));
    let signature =
        signature.ok_or_else(|| Error::new("the audit key has no secret part, so it signs nothing"))?;
    out.pop();
    out.extend_from_slice(format!(r#","signature":"{signature}"}}"#).as_bytes());
    Ok(())
}

/// Returns the bytes that are signed for a line without its signature.
fn signed(line: &[u8]) -> Vec<u8> {
    [PURPOSE, line].concat()
}

/// Reader of the fields before the body.
struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    /// Returns the text between `before` and the next `end`.
    fn text(&mut self, name: &str, before: &str, end: u8) -> Result<&'a str, String> {
        let wrong = || format!("{name}: missing, or not where the format has it");
        let rest = self.rest.strip_prefix(before.as_bytes()).ok_or_else(wrong)?;
        // No value before the body is longer.
        let at = rest.iter().take(80).position(|byte| *byte == end).ok_or_else(wrong)?;
        self.rest = &rest[at..];
        std::str::from_utf8(&rest[..at]).map_err(|_| wrong())
    }

    /// Returns the number between `before` and the next comma.
    fn number(&mut self, name: &str, before: &str) -> Result<u64, String> {
        let text = self.text(name, before, b',')?;
        let number: Option<u64> = text.parse().ok();
        number.filter(|n| n.to_string() == text).ok_or_else(|| format!("{name}: not a whole number"))
    }
}

/// Reads a line.
///
/// # Errors
/// A field is missing or wrong; the text names it.
pub(crate) fn parse(line: &[u8]) -> Result<Line<'_>, String> {
    let mut fields = Fields { rest: line };
    let seq = fields.number("seq", "{\"seq\":")?;
    let prev = fields.text("prev", ",\"prev\":\"", b'"')?;
    let prev = unhex(prev).and_then(|bytes| Hash::try_from(bytes).ok());
    let prev = prev.ok_or("prev: want 64 hexadecimal digits")?;
    let time = fields.text("time", "\",\"time\":\"", b'"')?;
    let time = clock::read(time).map_err(|error| error.to_string())?;
    let tick = fields.number("tick", "\",\"tick\":")?;
    let kind = fields.text("kind", ",\"kind\":\"", b'"')?;
    let kind = KINDS.iter().find(|(_, name)| *name == kind).map(|(kind, _)| *kind);
    let kind = kind.ok_or("kind: not a kind of this version of the format")?;
    let body = fields.rest.strip_prefix(b"\",\"body\":").and_then(|rest| rest.strip_suffix(b"}"));
    let body = body.ok_or("body: missing, or not where the format has it")?;
    let stamp = Stamp { time, tick };
    if kind != Kind::Checkpoint {
        return Ok(Line { seq, prev, stamp, kind, body, signature: None });
    }
    let wrong = "signature: missing, or not where the format has it";
    let length = SIGNATURE_DIGITS + r#","signature":"""#.len();
    let at = body.len().checked_sub(length).ok_or(wrong)?;
    let (body, signature) = body.split_at(at);
    let signature = signature.strip_prefix(br#","signature":""#).and_then(|rest| rest.strip_suffix(b"\""));
    let signature = signature.and_then(|digits| std::str::from_utf8(digits).ok()).ok_or(wrong)?;
    let before = &line[..line.len() - length - 1];
    Ok(Line { seq, prev, stamp, kind, body, signature: Some((before, signature)) })
}

impl<'a> Line<'a> {
    /// Reads the body.
    ///
    /// # Errors
    /// It is no JSON of its kind.
    pub(crate) fn body<T: Deserialize<'a>>(&self) -> Result<T, String> {
        serde_json::from_slice(self.body).map_err(|error| format!("body: {error}"))
    }

    /// Returns true if the line has a signature by this key.
    pub(crate) fn is_signed_by(&self, key: &Key) -> bool {
        self.signature.is_some_and(|(before, signature)| {
            let mut line = before.to_vec();
            line.push(b'}');
            key.verifies(&signed(&line), signature)
        })
    }
}
