//! A reader of pickles that contain a dictionary of tensors and nothing else.
//!
//! A pickle is a program for a stack machine whose instructions can name and call any function. Here the names that
//! `torch.save` uses are built in, and every other name is an error. Lists, dictionaries and tuples are stored in one
//! vector and referred to by index, so that nothing nests, and each instruction adds at most one of them.

use super::error::broken;
use crate::error::ErrorKind;

/// A tensor as part of a storage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tensor {
    /// The name of its type in safetensors.
    pub(super) dtype: &'static str,
    /// Name of the storage, a number.
    pub(super) storage: String,
    /// Index of its first value.
    pub(super) offset: u64,
    pub(super) shape: Vec<u64>,
    pub(super) strides: Vec<u64>,
}

/// Types of storage, and their names in safetensors.
const STORAGES: [(&str, &str); 10] = [
    ("FloatStorage", "F32"),
    ("HalfStorage", "F16"),
    ("BFloat16Storage", "BF16"),
    ("DoubleStorage", "F64"),
    ("LongStorage", "I64"),
    ("IntStorage", "I32"),
    ("ShortStorage", "I16"),
    ("CharStorage", "I8"),
    ("ByteStorage", "U8"),
    ("BoolStorage", "BOOL"),
];

/// Maximum number of lists, dictionaries, tuples and tensors, and of values on the stack.
const MAX_OBJECTS: usize = 1 << 20;
/// Maximum number of dimensions.
const MAX_DIMS: usize = 8;

/// Functions that a pickle may name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Function {
    OrderedDict,
    Tensor,
    Parameter,
    Storage(&'static str),
}

#[derive(Clone, Copy, Debug)]
enum Value<'a> {
    /// An unused value: none, booleans, floats.
    Other,
    Number(i64),
    Text(&'a str),
    Function(Function),
    /// Index of a tuple, list or dictionary in the store; a dictionary has alternating keys and values.
    List(usize),
    Table(usize),
    /// Type and name of a storage.
    Storage(&'static str, &'a str),
    /// Index of a tensor.
    Tensor(usize),
}

struct Machine<'a> {
    bytes: &'a [u8],
    at: usize,
    stack: Vec<Value<'a>>,
    /// Positions of marks on the stack.
    marks: Vec<usize>,
    memo: Vec<Option<Value<'a>>>,
    store: Vec<Vec<Value<'a>>>,
    tensors: Vec<Tensor>,
}

/// Returns the tensors of the dictionary in a pickle, by name.
///
/// # Errors
/// It is damaged, or contains or calls something else.
pub(super) fn read(bytes: &[u8]) -> Result<Vec<(String, Tensor)>, ErrorKind> {
    let (stack, marks, memo) = (Vec::new(), Vec::new(), Vec::new());
    let mut machine =
        Machine { bytes, at: 0, stack, marks, memo, store: vec![Vec::new()], tensors: Vec::new() };
    while machine.step()? {}
    machine.table()
}

fn ends_early() -> ErrorKind {
    broken("ends early")
}

fn unfit() -> ErrorKind {
    broken("is damaged: an instruction does not fit what is on the stack")
}

impl<'a> Machine<'a> {
    /// Runs one instruction; returns false at the end.
    fn step(&mut self) -> Result<bool, ErrorKind> {
        let [op] = *self.take(1)? else { return Err(ends_early()) };
        match op {
            b'.' => return Ok(false),
            0x80 => drop(self.take(1)?),
            0x95 => drop(self.take(8)?),
            b'(' => {
                self.room(self.marks.len())?;
                self.marks.push(self.stack.len());
            }
            b'N' | 0x88 | 0x89 => self.push(Value::Other)?,
            b'G' => {
                self.take(8)?;
                self.push(Value::Other)?;
            }
            b'K' => self.integer(1, false)?,
            b'M' => self.integer(2, false)?,
            b'J' => self.integer(4, true)?,
            0x8a => {
                let len = self.size(1)?;
                self.integer(len, true)?;
            }
            b'X' => self.text(4)?,
            0x8c => self.text(1)?,
            b']' | b'}' => {
                let new = self.keep(Vec::new())?;
                self.push(if op == b']' { Value::List(new) } else { Value::Table(new) })?;
            }
            // Entry 0 of the store is empty.
            b')' => self.push(Value::List(0))?,
            b't' => {
                let items = self.since_mark()?;
                let new = self.keep(items)?;
                self.push(Value::List(new))?;
            }
            0x85..=0x87 => {
                let items = self.last(usize::from(op).saturating_sub(0x84))?;
                let new = self.keep(items)?;
                self.push(Value::List(new))?;
            }
            b's' => {
                let items = self.last(2)?;
                self.extend(items)?;
            }
            b'a' => {
                let items = self.last(1)?;
                self.extend(items)?;
            }
            b'u' | b'e' => {
                let items = self.since_mark()?;
                self.extend(items)?;
            }
            b'q' => {
                let at = self.size(1)?;
                self.remember(at)?;
            }
            b'r' => {
                let at = self.size(4)?;
                self.remember(at)?;
            }
            0x94 => self.remember(self.memo.len())?,
            b'h' => {
                let at = self.size(1)?;
                self.recall(at)?;
            }
            b'j' => {
                let at = self.size(4)?;
                self.recall(at)?;
            }
            b'c' => {
                let (module, name) = (self.line()?, self.line()?);
                self.function(module, name)?;
            }
            0x93 => match self.last(2)?[..] {
                [Value::Text(module), Value::Text(name)] => self.function(module, name)?,
                _ => return Err(unfit()),
            },
            b'Q' => self.storage()?,
            b'R' | 0x81 => self.call()?,
            // State of a dictionary, such as versions of modules.
            b'b' | b'0' => drop(self.last(1)?),
            other => {
                return Err(broken(format!(
                    "has the instruction {other:#04x}, which no dictionary of tensors needs"
                )));
            }
        }
        Ok(true)
    }

    fn take(&mut self, n: usize) -> Result<&'a [u8], ErrorKind> {
        let end = self.at.checked_add(n).ok_or_else(ends_early)?;
        let taken = self.bytes.get(self.at..end).ok_or_else(ends_early)?;
        self.at = end;
        Ok(taken)
    }

    /// Reads an unsigned number of `n` bytes.
    fn size(&mut self, n: usize) -> Result<usize, ErrorKind> {
        let size = self.take(n)?.iter().rev().fold(0_u64, |all, &byte| (all << 8) | u64::from(byte));
        usize::try_from(size).map_err(|_| ends_early())
    }

    fn integer(&mut self, n: usize, signed: bool) -> Result<(), ErrorKind> {
        let bytes = self.take(n)?;
        if n > 8 {
            return Err(broken("has a number of more than 64 bits"));
        }
        let negative = signed && bytes.last().is_some_and(|&last| last >= 0x80);
        let start = if negative { -1_i64 } else { 0 };
        let value = bytes.iter().rev().fold(start, |all, &byte| (all << 8) | i64::from(byte));
        self.push(Value::Number(value))
    }

    fn text(&mut self, n: usize) -> Result<(), ErrorKind> {
        let len = self.size(n)?;
        let text =
            std::str::from_utf8(self.take(len)?).map_err(|_| broken("has a text that is not UTF-8"))?;
        self.push(Value::Text(text))
    }

    fn line(&mut self) -> Result<&'a str, ErrorKind> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let end = rest.iter().position(|&byte| byte == b'\n').ok_or_else(ends_early)?;
        let line = self.take(end)?;
        self.take(1)?;
        std::str::from_utf8(line).map_err(|_| broken("has a name that is not UTF-8"))
    }

    fn room(&self, held: usize) -> Result<(), ErrorKind> {
        if held < MAX_OBJECTS { Ok(()) } else { Err(broken(format!("has more than {MAX_OBJECTS} objects"))) }
    }

    fn push(&mut self, value: Value<'a>) -> Result<(), ErrorKind> {
        self.room(self.stack.len())?;
        self.stack.push(value);
        Ok(())
    }

    fn keep(&mut self, items: Vec<Value<'a>>) -> Result<usize, ErrorKind> {
        self.room(self.store.len())?;
        self.store.push(items);
        Ok(self.store.len().saturating_sub(1))
    }

    /// Removes and returns the last values, not beyond a mark.
    fn last(&mut self, n: usize) -> Result<Vec<Value<'a>>, ErrorKind> {
        let floor = self.marks.last().copied().unwrap_or_default();
        let from = self.stack.len().checked_sub(n).filter(|&from| from >= floor).ok_or_else(unfit)?;
        Ok(self.stack.split_off(from))
    }

    fn since_mark(&mut self) -> Result<Vec<Value<'a>>, ErrorKind> {
        let mark = self.marks.pop().ok_or_else(unfit)?;
        if mark > self.stack.len() {
            return Err(unfit());
        }
        Ok(self.stack.split_off(mark))
    }

    /// Adds to the list or dictionary on the stack.
    fn extend(&mut self, items: Vec<Value<'a>>) -> Result<(), ErrorKind> {
        let at = match self.stack.last() {
            Some(Value::List(at) | Value::Table(at)) if *at > 0 => *at,
            _ => return Err(unfit()),
        };
        self.store.get_mut(at).ok_or_else(unfit)?.extend(items);
        Ok(())
    }

    fn remember(&mut self, at: usize) -> Result<(), ErrorKind> {
        let value = *self.stack.last().ok_or_else(unfit)?;
        self.room(at)?;
        if at >= self.memo.len() {
            // Indices are consecutive; a gap is at most as long as the bytes that were read.
            if at > self.at {
                return Err(unfit());
            }
            self.memo.resize(at.saturating_add(1), None);
        }
        *self.memo.get_mut(at).ok_or_else(unfit)? = Some(value);
        Ok(())
    }

    fn recall(&mut self, at: usize) -> Result<(), ErrorKind> {
        let value = self.memo.get(at).copied().flatten().ok_or_else(unfit)?;
        self.push(value)
    }

    fn function(&mut self, module: &str, name: &str) -> Result<(), ErrorKind> {
        let storage = || STORAGES.iter().find(|row| row.0 == name).map(|row| Function::Storage(row.1));
        let found = match (module, name) {
            ("collections", "OrderedDict") => Some(Function::OrderedDict),
            ("torch._utils", "_rebuild_tensor_v2") => Some(Function::Tensor),
            ("torch._utils", "_rebuild_parameter") => Some(Function::Parameter),
            ("torch", _) => storage(),
            _ => None,
        };
        let Some(found) = found else {
            let name: String = format!("{module}.{name}").chars().take(80).collect();
            let what = format!(
                "asks for `{}`: only dictionaries of tensors are read, and no code is run",
                name.escape_debug()
            );
            return Err(broken(what));
        };
        self.push(Value::Function(found))
    }

    fn list(&self, value: Value<'a>) -> Result<&[Value<'a>], ErrorKind> {
        match value {
            Value::List(at) => self.store.get(at).map(Vec::as_slice).ok_or_else(unfit),
            _ => Err(unfit()),
        }
    }

    /// Converts a description of a storage: `storage`, type, number, device, size.
    fn storage(&mut self) -> Result<(), ErrorKind> {
        let [described] = self.last(1)?[..] else { return Err(unfit()) };
        let storage = match *self.list(described)? {
            [Value::Text("storage"), Value::Function(Function::Storage(dtype)), Value::Text(key), ..] => {
                Value::Storage(dtype, key)
            }
            _ => return Err(unfit()),
        };
        self.push(storage)
    }

    fn call(&mut self) -> Result<(), ErrorKind> {
        let [function, arguments] = self.last(2)?[..] else { return Err(unfit()) };
        let Value::Function(function) = function else { return Err(unfit()) };
        let arguments = self.list(arguments)?.to_vec();
        let made = match (function, &arguments[..]) {
            (Function::OrderedDict, []) => Value::Table(self.keep(Vec::new())?),
            (Function::Parameter, [tensor @ Value::Tensor(_), ..]) => *tensor,
            (Function::Tensor, [Value::Storage(dtype, key), Value::Number(offset), shape, strides, ..]) => {
                let shape = self.numbers(*shape)?;
                let strides = self.numbers(*strides)?;
                let offset = u64::try_from(*offset).map_err(|_| unfit())?;
                if shape.len() != strides.len() {
                    return Err(unfit());
                }
                self.room(self.tensors.len())?;
                self.tensors.push(Tensor { dtype, storage: (*key).to_owned(), offset, shape, strides });
                Value::Tensor(self.tensors.len().saturating_sub(1))
            }
            _ => return Err(unfit()),
        };
        self.push(made)
    }

    fn numbers(&self, value: Value<'a>) -> Result<Vec<u64>, ErrorKind> {
        let list = self.list(value)?;
        if list.len() > MAX_DIMS {
            return Err(broken(format!("has a tensor of more than {MAX_DIMS} dimensions")));
        }
        let number = |value: &Value<'_>| match value {
            Value::Number(n) => u64::try_from(*n).map_err(|_| unfit()),
            _ => Err(unfit()),
        };
        list.iter().map(number).collect()
    }

    /// Returns the dictionary of tensors that is left at the end.
    fn table(self) -> Result<Vec<(String, Tensor)>, ErrorKind> {
        let no_table = || broken("has no dictionary of tensors: save the model's state_dict()");
        let Some(Value::Table(at)) = self.stack.last() else { return Err(no_table()) };
        let items = self.store.get(*at).ok_or_else(no_table)?;
        let (pairs, rest) = items.as_chunks::<2>();
        if !rest.is_empty() {
            return Err(no_table());
        }
        let pair = |[key, value]: &[Value<'_>; 2]| match (key, value) {
            (Value::Text(name), Value::Tensor(at)) => {
                let tensor = self.tensors.get(*at).cloned().ok_or_else(no_table)?;
                Ok(((*name).to_owned(), tensor))
            }
            _ => Err(no_table()),
        };
        pairs.iter().map(pair).collect()
    }
}

#[allow(clippy::indexing_slicing, reason = "a test fails by panicking")]
#[cfg(test)]
mod tests {
    use super::*;

    fn error(bytes: &[u8]) -> String {
        read(bytes).unwrap_err().to_string()
    }

    #[test]
    fn pickles_are_read_and_nothing_is_run() {
        // {"w": _rebuild_tensor_v2(('storage', FloatStorage, '0', 'cpu', 6), 0, (2, 3), (3, 1), False, OrderedDict())}
        let good = b"\x80\x02}q\0X\x01\0\0\0wq\x01ctorch._utils\n_rebuild_tensor_v2\nq\x02((X\x07\0\0\0storageq\x03\
            ctorch\nFloatStorage\nq\x04X\x01\0\0\x000q\x05X\x03\0\0\0cpuq\x06K\x06tq\x07QK\0K\x02K\x03\x86q\x08K\x03K\x01\
            \x86q\x09\x89ccollections\nOrderedDict\nq\n)Rq\x0btq\x0cRq\rs.";
        let [(name, tensor)] = &read(good).unwrap()[..] else { panic!("one tensor") };
        assert_eq!((name.as_str(), tensor.dtype, &tensor.shape[..]), ("w", "F32", &[2, 3][..]));
        assert_eq!((tensor.storage.as_str(), tensor.offset, &tensor.strides[..]), ("0", 0, &[3, 1][..]));
        for end in 0..good.len() {
            assert!(read(&good[..end]).is_err(), "{end}");
        }
        for at in 0..good.len() {
            for byte in [0, b'(', b't', b'R', b'u', b'h', b'0', 0x94, 0xff] {
                let mut changed = good.to_vec();
                changed[at] = byte;
                // Any result is allowed, but no panic.
                let _ = read(&changed);
            }
        }
        let run = b"\x80\x02cos\nsystem\nX\x02\0\0\0ls\x85R.";
        assert!(
            error(run).starts_with("asks for `os.system`: only dictionaries of tensors"),
            "{}",
            error(run)
        );
        let flood = [&b"}"[..], &vec![b'}'; MAX_OBJECTS + 1][..]].concat();
        assert!(error(&flood).contains("objects"));
        assert!(error(b"\x80\x02K\x01.").contains("state_dict()"));
        assert!(error(b"r\xff\xff\xff\xff.").contains("does not fit"));
    }
}
