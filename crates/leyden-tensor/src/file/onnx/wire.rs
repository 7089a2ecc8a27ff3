//! The protocol buffers wire format: iterates over the fields of a message without copying them.
//!
//! Written by hand because it is three rules; generated code would copy every weight and needs `protoc`.

use crate::error::ErrorKind;

/// The bytes of a message or of a field, and their offset in the file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slice<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) at: usize,
}

/// Value of a field.
#[derive(Clone, Copy, Debug)]
pub(super) enum Field<'a> {
    Varint(u64),
    Fixed64([u8; 8]),
    Fixed32([u8; 4]),
    Bytes(Slice<'a>),
}

/// Returns an error of the format with this text.
pub(super) fn broken(what: impl Into<String>) -> ErrorKind {
    ErrorKind::Onnx(what.into().into())
}

impl<'a> Slice<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Slice<'a> {
        Slice { bytes, at: 0 }
    }

    /// Takes bytes from the front.
    fn take(&mut self, count: u64, what: &'static str) -> Result<Slice<'a>, ErrorKind> {
        let split = usize::try_from(count).ok().and_then(|n| self.bytes.split_at_checked(n));
        let (head, rest) = split.ok_or(ErrorKind::Truncated {
            what,
            offset: self.at,
            wanted: count,
            left: self.bytes.len(),
        })?;
        let taken = Slice { bytes: head, at: self.at };
        self.at = self.at.saturating_add(head.len());
        self.bytes = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], ErrorKind> {
        let taken = self.take(u64::try_from(N).unwrap_or(u64::MAX), "a number")?;
        Ok(taken.bytes.try_into().unwrap_or([0; N]))
    }

    /// Reads a varint: groups of seven bits, the lowest first.
    pub(super) fn varint(&mut self) -> Result<u64, ErrorKind> {
        let start = self.at;
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let [byte] = self.array::<1>()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                break;
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(broken(format!("the number at byte {start} has more than 64 bits")))
    }

    /// Returns the number and value of the next field; `None` at the end of the message.
    pub(super) fn next(&mut self) -> Result<Option<(u64, Field<'a>)>, ErrorKind> {
        if self.bytes.is_empty() {
            return Ok(None);
        }
        let start = self.at;
        let tag = self.varint()?;
        let number = tag >> 3;
        if number == 0 {
            return Err(broken(format!("the field at byte {start} has the number 0")));
        }
        let field = match tag & 7 {
            0 => Field::Varint(self.varint()?),
            1 => Field::Fixed64(self.array()?),
            2 => {
                let count = self.varint()?;
                Field::Bytes(self.take(count, "a field")?)
            }
            5 => Field::Fixed32(self.array()?),
            other => return Err(broken(format!("the field at byte {start} has the unknown kind {other}"))),
        };
        Ok(Some((number, field)))
    }

    /// Returns the bytes as text, copied because the bytes of a mapped file can change.
    pub(super) fn text(&self, what: &'static str) -> Result<String, ErrorKind> {
        String::from_utf8(self.bytes.to_vec()).map_err(|_| ErrorKind::Utf8 { what })
    }
}

impl<'a> Field<'a> {
    fn unlike(self, what: &'static str, wanted: &'static str) -> ErrorKind {
        let found = match self {
            Field::Varint(_) => "a number",
            Field::Fixed64(_) => "64 bits",
            Field::Fixed32(_) => "32 bits",
            Field::Bytes(_) => "bytes",
        };
        broken(format!("{what} is {found} where {wanted} should be"))
    }

    pub(super) fn bytes(self, what: &'static str) -> Result<Slice<'a>, ErrorKind> {
        match self {
            Field::Bytes(bytes) => Ok(bytes),
            other => Err(other.unlike(what, "bytes")),
        }
    }

    pub(super) fn text(self, what: &'static str) -> Result<String, ErrorKind> {
        self.bytes(what)?.text(what)
    }

    pub(super) fn number(self, what: &'static str) -> Result<u64, ErrorKind> {
        match self {
            Field::Varint(value) => Ok(value),
            other => Err(other.unlike(what, "a number")),
        }
    }

    /// Returns an integer that may be negative.
    pub(super) fn int(self, what: &'static str) -> Result<i64, ErrorKind> {
        Ok(self.number(what)?.cast_signed())
    }

    pub(super) fn float(self, what: &'static str) -> Result<f32, ErrorKind> {
        match self {
            Field::Fixed32(bytes) => Ok(f32::from_le_bytes(bytes)),
            other => Err(other.unlike(what, "32 bits")),
        }
    }

    /// Adds one number, or all of a packed field. Each takes at least a byte of the file.
    pub(super) fn add_numbers(self, what: &'static str, to: &mut Vec<u64>) -> Result<(), ErrorKind> {
        match self {
            Field::Varint(value) => to.push(value),
            Field::Bytes(mut bytes) => {
                let count = bytes.bytes.iter().filter(|byte| **byte < 0x80).count();
                to.reserve(count);
                while !bytes.bytes.is_empty() {
                    to.push(bytes.varint()?);
                }
            }
            other => return Err(other.unlike(what, "numbers")),
        }
        Ok(())
    }

    /// Adds one float, or all of a packed field.
    pub(super) fn add_floats(self, what: &'static str, to: &mut Vec<f32>) -> Result<(), ErrorKind> {
        match self {
            Field::Fixed32(bytes) => to.push(f32::from_le_bytes(bytes)),
            Field::Bytes(bytes) => {
                let (values, rest) = bytes.bytes.as_chunks::<4>();
                if !rest.is_empty() {
                    return Err(broken(format!("{what} ends within a float")));
                }
                to.extend(values.iter().map(|value| f32::from_le_bytes(*value)));
            }
            other => return Err(other.unlike(what, "floats")),
        }
        Ok(())
    }
}

/// Reads a key and its value.
pub(super) fn pair(mut message: Slice<'_>) -> Result<(String, String), ErrorKind> {
    let (mut key, mut value) = (String::new(), String::new());
    while let Some((number, field)) = message.next()? {
        match number {
            1 => key = field.text("key")?,
            2 => value = field.text("value")?,
            _ => {}
        }
    }
    Ok((key, value))
}

/// Reads the domain and the version of an operator set.
pub(super) fn opset(mut message: Slice<'_>) -> Result<(String, i64), ErrorKind> {
    let (mut domain, mut version) = (String::new(), 0);
    while let Some((number, field)) = message.next()? {
        match number {
            1 => domain = field.text("domain")?,
            2 => version = field.int("version")?,
            _ => {}
        }
    }
    if domain == "ai.onnx" {
        domain.clear();
    }
    Ok((domain, version))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(bytes: &[u8]) -> String {
        let mut message = Slice::new(bytes);
        loop {
            match message.next() {
                Ok(Some(_)) => {}
                Ok(None) => return String::new(),
                Err(kind) => return kind.to_string(),
            }
        }
    }

    #[test]
    fn fields_of_every_kind() {
        let bytes =
            [0x08, 0x96, 0x01, 0x12, 2, b'h', b'i', 0x1d, 0, 0, 128, 63, 0x21, 1, 0, 0, 0, 0, 0, 0, 0];
        let mut message = Slice::new(&bytes);
        assert!(matches!(message.next(), Ok(Some((1, Field::Varint(150))))));
        let Ok(Some((2, field))) = message.next() else { panic!() };
        assert_eq!((field.text("t").unwrap().as_str(), field.bytes("t").unwrap().at), ("hi", 5));
        let Ok(Some((3, field))) = message.next() else { panic!() };
        assert_eq!(field.float("f").unwrap(), 1.0);
        assert!(matches!(message.next(), Ok(Some((4, Field::Fixed64([1, 0, 0, 0, 0, 0, 0, 0]))))));
        assert!(matches!(message.next(), Ok(None)));
    }

    #[test]
    fn numbers_of_64_bits() {
        let all = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
        assert_eq!(Slice::new(&all).varint().unwrap(), u64::MAX);
        let mut more = all;
        more[9] = 2;
        assert!(Slice::new(&more).varint().unwrap_err().to_string().contains("more than 64 bits"));
        let endless = [0x80; 20];
        assert!(Slice::new(&endless).varint().unwrap_err().to_string().contains("more than 64 bits"));
        let mut numbers = Vec::new();
        Field::Bytes(Slice::new(&[1, 0x80, 0x01])).add_numbers("n", &mut numbers).unwrap();
        assert_eq!(numbers, [1, 128]);
    }

    #[test]
    fn what_is_damaged_is_an_error() {
        for (bytes, wanted) in [
            (&[0x08][..], "a number needs 1 bytes"),
            (&[0x08, 0x80], "a number needs 1 bytes"),
            (&[0x12, 5, 1], "a field needs 5 bytes"),
            (
                &[0x12, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f],
                "a field needs 9223372036854775807 bytes",
            ),
            (&[0x1d, 0, 0], "needs 4 bytes"),
            (&[0x0b], "the unknown kind 3"),
            (&[0x00, 0x00], "the number 0"),
        ] {
            assert!(error(bytes).contains(wanted), "{bytes:?}: {}", error(bytes));
        }
        let float = Field::Bytes(Slice::new(&[0, 0, 0]));
        assert!(float.add_floats("f", &mut Vec::new()).is_err());
        assert!(float.number("n").unwrap_err().to_string().contains("n is bytes where a number should be"));
    }
}
