//! Thrift's compact protocol: structs as trees of fields, bounded by the bytes that they take.

use super::Read;

/// Maximum depth of structs and lists.
const MAX_DEPTH: usize = 16;

/// A value.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    /// A boolean.
    Bool(bool),
    /// An integer of any width.
    Int(i64),
    /// A double, whose value nothing here needs.
    Double,
    /// Bytes or a text.
    Bytes(Vec<u8>),
    /// A list or set.
    List(Vec<Value>),
    /// A struct.
    Struct(Struct),
}

/// Fields by their ids.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Struct(Vec<(i16, Value)>);

impl Struct {
    /// The field `id`.
    pub(super) fn get(&self, id: i16) -> Option<&Value> {
        self.0.iter().find(|(known, _)| *known == id).map(|(_, value)| value)
    }

    /// An integer.
    pub(super) fn int(&self, id: i16) -> Option<i64> {
        match self.get(id)? {
            Value::Int(n) => Some(*n),
            _ => None,
        }
    }

    /// An integer that is a size.
    pub(super) fn size(&self, id: i16, name: &str) -> Read<usize> {
        let found = self.int(id).ok_or_else(|| format!("{name}: missing"))?;
        usize::try_from(found).map_err(|_| format!("{name}: {found} is below zero"))
    }

    /// A boolean.
    pub(super) fn bool(&self, id: i16) -> Option<bool> {
        match self.get(id)? {
            Value::Bool(truth) => Some(*truth),
            _ => None,
        }
    }

    /// A text.
    pub(super) fn text(&self, id: i16) -> Option<String> {
        match self.get(id)? {
            Value::Bytes(bytes) => String::from_utf8(bytes.clone()).ok(),
            _ => None,
        }
    }

    /// A list; empty where there is none.
    pub(super) fn list(&self, id: i16) -> &[Value] {
        match self.get(id) {
            Some(Value::List(all)) => all,
            _ => &[],
        }
    }

    /// A struct.
    pub(super) fn inner(&self, id: i16) -> Option<&Struct> {
        match self.get(id)? {
            Value::Struct(inner) => Some(inner),
            _ => None,
        }
    }
}

/// Reads a struct from the beginning of `bytes`, and returns it with the number of bytes that it takes.
pub(super) fn read_struct(bytes: &[u8]) -> Read<(Struct, usize)> {
    let mut reader = Reader { bytes, at: 0 };
    let value = reader.fields(0)?;
    Ok((value, reader.at))
}

struct Reader<'b> {
    bytes: &'b [u8],
    at: usize,
}

impl Reader<'_> {
    fn byte(&mut self) -> Read<u8> {
        let byte = self.bytes.get(self.at).copied().ok_or("metadata: cut off")?;
        self.at += 1;
        Ok(byte)
    }

    fn varint(&mut self) -> Read<u64> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err("metadata: a number of more than 64 bits".to_owned())
    }

    fn zigzag(&mut self) -> Read<i64> {
        let n = self.varint()?;
        Ok((n >> 1) as i64 ^ -((n & 1) as i64))
    }

    fn fields(&mut self, depth: usize) -> Read<Struct> {
        if depth > MAX_DEPTH {
            return Err("metadata: nested too deeply".to_owned());
        }
        let (mut fields, mut id) = (Vec::new(), 0_i16);
        loop {
            let head = self.byte()?;
            if head == 0 {
                return Ok(Struct(fields));
            }
            let step = i16::from(head >> 4);
            id = match step {
                0 => self.zigzag()? as i16,
                step => id.wrapping_add(step),
            };
            let value = match head & 0x0f {
                1 => Value::Bool(true),
                2 => Value::Bool(false),
                kind => self.value(kind, depth)?,
            };
            fields.push((id, value));
        }
    }

    fn value(&mut self, kind: u8, depth: usize) -> Read<Value> {
        Ok(match kind {
            // In lists a boolean is a byte.
            1 | 2 => Value::Bool(self.byte()? == 1),
            3 => Value::Int(i64::from(self.byte()? as i8)),
            4..=6 => Value::Int(self.zigzag()?),
            7 => {
                self.at =
                    self.at.checked_add(8).filter(|at| *at <= self.bytes.len()).ok_or("metadata: cut off")?;
                Value::Double
            }
            8 => {
                let length = usize::try_from(self.varint()?).unwrap_or(usize::MAX);
                let end = self.at.checked_add(length).filter(|end| *end <= self.bytes.len());
                let end = end.ok_or("metadata: a text is cut off")?;
                let bytes = self.bytes[self.at..end].to_vec();
                self.at = end;
                Value::Bytes(bytes)
            }
            9 | 10 => {
                let head = self.byte()?;
                let count = match head >> 4 {
                    15 => usize::try_from(self.varint()?).unwrap_or(usize::MAX),
                    n => usize::from(n),
                };
                // Each element takes a byte at least.
                if count > self.bytes.len() - self.at || depth > MAX_DEPTH {
                    return Err("metadata: a list is cut off".to_owned());
                }
                let mut all = Vec::new();
                for _ in 0..count {
                    all.push(self.value(head & 0x0f, depth + 1)?);
                }
                Value::List(all)
            }
            12 => Value::Struct(self.fields(depth + 1)?),
            kind => return Err(format!("metadata: unknown type {kind}")),
        })
    }
}

/// Writes a struct.
#[derive(Debug, Default)]
pub(super) struct Writer {
    bytes: Vec<u8>,
    /// Id of the last field of each open struct.
    last: Vec<i16>,
}

impl Writer {
    /// A struct without fields.
    pub(super) fn new() -> Writer {
        Writer { bytes: Vec::new(), last: vec![0] }
    }

    /// The bytes of the struct.
    pub(super) fn finish(mut self) -> Vec<u8> {
        self.bytes.push(0);
        self.bytes
    }

    fn varint(&mut self, mut n: u64) {
        while n >= 0x80 {
            self.bytes.push(n as u8 | 0x80);
            n >>= 7;
        }
        self.bytes.push(n as u8);
    }

    fn zigzag(&mut self, n: i64) {
        self.varint(((n << 1) ^ (n >> 63)) as u64);
    }

    /// The head of a field, whose ids ascend by fewer than 16.
    fn head(&mut self, id: i16, kind: u8) {
        let step = id - self.last.last().copied().unwrap_or(0);
        self.bytes.push((step as u8) << 4 | kind);
        if let Some(last) = self.last.last_mut() {
            *last = id;
        }
    }

    /// An `i32`.
    pub(super) fn int(&mut self, id: i16, n: i64) {
        self.head(id, 5);
        self.zigzag(n);
    }

    /// An `i64`.
    pub(super) fn long(&mut self, id: i16, n: i64) {
        self.head(id, 6);
        self.zigzag(n);
    }

    /// A text.
    pub(super) fn text(&mut self, id: i16, text: &str) {
        self.head(id, 8);
        self.raw_text(text);
    }

    /// A text in a list.
    pub(super) fn raw_text(&mut self, text: &str) {
        self.varint(text.len() as u64);
        self.bytes.extend_from_slice(text.as_bytes());
    }

    /// An `i32` in a list.
    pub(super) fn raw_int(&mut self, n: i64) {
        self.zigzag(n);
    }

    /// The head of a list of `count` elements: 5 for `i32`, 8 for texts, 12 for structs.
    pub(super) fn list(&mut self, id: i16, kind: u8, count: usize) {
        self.head(id, 9);
        if count < 15 {
            self.bytes.push((count as u8) << 4 | kind);
        } else {
            self.bytes.push(0xf0 | kind);
            self.varint(count as u64);
        }
    }

    /// A struct as a field, filled by `f`.
    pub(super) fn inner(&mut self, id: i16, f: impl FnOnce(&mut Writer)) {
        self.head(id, 12);
        self.element(f);
    }

    /// A struct in a list, filled by `f`.
    pub(super) fn element(&mut self, f: impl FnOnce(&mut Writer)) {
        self.last.push(0);
        f(self);
        self.last.pop();
        self.bytes.push(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structs_come_back() {
        let mut writer = Writer::new();
        writer.int(1, -3);
        writer.list(2, 12, 20);
        (0..20).for_each(|n| writer.element(|w| w.long(4, i64::MIN + n)));
        writer.inner(3, |w| w.text(1, "ä"));
        writer.list(4, 8, 1);
        writer.raw_text("x");
        let bytes = writer.finish();
        let (read, length) = read_struct(&bytes).unwrap();
        assert_eq!((read.int(1), length, read.list(2).len()), (Some(-3), bytes.len(), 20));
        assert_eq!(read.inner(3).and_then(|inner| inner.text(1)).as_deref(), Some("ä"));
        assert_eq!(read.list(4), [Value::Bytes(b"x".to_vec())]);
        for cut in 0..bytes.len() {
            assert!(read_struct(&bytes[..cut]).is_err(), "{cut}");
        }
    }
}
