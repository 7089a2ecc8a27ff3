//! [`Value`]: values of templates, modelled on Python's types.
//!
//! Strings, lists and dictionaries are immutable, as in the sandbox of chat templates; so no value can contain
//! itself. Mutable values, namespaces, are stored in the runtime.

use std::cmp::Ordering;
use std::ops::Range as Bytes;
use std::rc::Rc;

use super::budget::{Budget, Failure, Result, fail};
use super::mixed::{Mixed, Part};

/// Maximum nesting of lists, since comparing, printing and dropping recurse.
const MAX_NESTING: u32 = 200;

#[derive(Clone, Debug)]
pub(super) enum Value {
    /// A name or attribute that does not exist, with its name.
    Undefined(Rc<str>),
    None,
    Bool(bool),
    Int(i64),
    /// Integer beyond 64 bits, as its digits.
    BigInt(Rc<Text>),
    Float(f64),
    Str(Rc<Text>),
    List(Rc<List>),
    Tuple(Rc<List>),
    Dict(Rc<Dict>),
    Range(Range),
    /// Index into the runtime's namespaces.
    Namespace(usize),
    /// Index into the runtime's macros.
    Macro(usize),
    /// Function by name.
    Function(&'static str),
    /// Method by name, with its receiver.
    Method(Rc<Value>, &'static str),
    Loop(Rc<Loop>),
    Stateful(Rc<Stateful>),
}

#[derive(Debug)]
pub(super) struct Text {
    text: Box<str>,
    /// Ranges of the content, as in [`Mixed`].
    content: Box<[Bytes<usize>]>,
    /// True if marked as safe: joining it with another string by `+` escapes the other one.
    pub(super) safe: bool,
    budget: Rc<Budget>,
}

#[derive(Debug)]
pub(super) struct List {
    items: Vec<Value>,
    nesting: u32,
    /// True for a group of `groupby`: a pair whose parts have names.
    group: bool,
    budget: Rc<Budget>,
}

#[derive(Debug)]
pub(super) struct Dict {
    /// Entries in the order of insertion, with distinct keys.
    entries: Vec<(Value, Value)>,
    nesting: u32,
    budget: Rc<Budget>,
}

/// Numbers from `start` by `step`, `len` of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Range {
    pub(super) start: i64,
    pub(super) step: i64,
    pub(super) len: usize,
}

/// State of a `for` loop, which is `loop` in the template.
#[derive(Debug)]
pub(super) struct Loop {
    pub(super) items: Rc<List>,
    pub(super) index: std::cell::Cell<usize>,
    /// Nesting depth of recursive calls of the same loop.
    pub(super) depth: usize,
    /// Index into the interpreter's recursive loops, if the loop is recursive.
    pub(super) recursion: Option<usize>,
    /// Index into the runtime's remembered arguments of `loop.changed`.
    pub(super) changed: std::cell::Cell<Option<usize>>,
}

/// Object with a counter.
#[derive(Debug)]
pub(super) struct Stateful {
    pub(super) kind: Counted,
    /// Number of items returned so far.
    pub(super) asked: std::cell::Cell<usize>,
}

/// Kind of an object with a counter.
#[derive(Debug)]
pub(super) enum Counted {
    /// Sequence of items that repeats.
    Cycler(Rc<List>),
    /// An empty text at first, and this separator afterwards.
    Joiner(Value),
}

impl Stateful {
    pub(super) fn type_name(&self) -> &'static str {
        match self.kind {
            Counted::Cycler(_) => "cycler",
            Counted::Joiner(_) => "joiner",
        }
    }

    pub(super) fn is_cycler(&self) -> bool {
        matches!(self.kind, Counted::Cycler(_))
    }
}

impl Drop for Text {
    fn drop(&mut self) {
        self.budget.free(size_of::<Text>() + self.text.len() + size_of_val(&*self.content));
    }
}

impl Drop for List {
    fn drop(&mut self) {
        self.budget.free(size_of::<List>() + self.items.len() * size_of::<Value>());
    }
}

impl Drop for Dict {
    fn drop(&mut self) {
        self.budget.free(size_of::<Dict>() + self.entries.len() * size_of::<(Value, Value)>());
    }
}

impl Text {
    pub(super) fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the whole text with its content ranges.
    pub(super) fn part(&self) -> Part<'_> {
        Part::new(&self.text, &self.content)
    }
}

impl List {
    pub(super) fn items(&self) -> &[Value] {
        &self.items
    }

    /// Returns a part of a group by its name.
    pub(super) fn part_of_group(&self, name: &str) -> Option<&Value> {
        let at = ["grouper", "list"].iter().position(|known| self.group && *known == name)?;
        self.items.get(at)
    }
}

impl Dict {
    pub(super) fn entries(&self) -> &[(Value, Value)] {
        &self.entries
    }

    /// Returns the value of a text key.
    pub(super) fn get(&self, key: &str) -> Option<&Value> {
        self.entries.iter().find(|(k, _)| k.as_str() == Some(key)).map(|(_, value)| value)
    }
}

/// Returns the maximum nesting of the values plus one.
fn nesting<'a>(values: impl Iterator<Item = &'a Value>) -> Result<u32> {
    let deepest = values.map(|value| match value {
        Value::List(list) | Value::Tuple(list) => list.nesting,
        Value::Dict(dict) => dict.nesting,
        _ => 0,
    });
    match deepest.max().unwrap_or(0) + 1 {
        nesting if nesting > MAX_NESTING => Err(Failure::Limit("its lists nest too deeply")),
        nesting => Ok(nesting),
    }
}

/// Constructor of values that counts them in the budget of a rendering.
#[derive(Clone, Debug)]
pub(super) struct Maker(pub(super) Rc<Budget>);

impl Maker {
    /// Creates a text of the template.
    pub(super) fn own(&self, text: &str) -> Result<Value> {
        self.part(Part::own(text))
    }

    /// Creates a text that is content.
    pub(super) fn content(&self, text: &str) -> Result<Value> {
        let all = 0..text.len();
        self.part(Part::new(text, if text.is_empty() { &[] } else { std::slice::from_ref(&all) }))
    }

    /// Creates a copy of a part of another text.
    pub(super) fn part(&self, part: Part<'_>) -> Result<Value> {
        let mut text = Mixed::default();
        text.push(part);
        self.text(text)
    }

    pub(super) fn text(&self, text: Mixed) -> Result<Value> {
        self.marked(text, false)
    }

    /// Creates an integer beyond 64 bits.
    pub(super) fn big_int(&self, digits: &str) -> Result<Value> {
        Ok(match self.own(digits)? {
            Value::Str(text) => Value::BigInt(text),
            other => other,
        })
    }

    /// Creates a text, marked as safe if `safe` is true.
    pub(super) fn marked(&self, text: Mixed, safe: bool) -> Result<Value> {
        let Mixed { text, content } = text;
        self.0.make(size_of::<Text>() + text.len() + size_of_val(&*content))?;
        let (text, content) = (text.into(), content.into());
        Ok(Value::Str(Rc::new(Text { text, content, safe, budget: Rc::clone(&self.0) })))
    }

    pub(super) fn rc_list(&self, items: Vec<Value>) -> Result<Rc<List>> {
        let nesting = nesting(items.iter())?;
        self.0.make(size_of::<List>() + items.len() * size_of::<Value>())?;
        Ok(Rc::new(List { items, nesting, group: false, budget: Rc::clone(&self.0) }))
    }

    /// Creates a group of `groupby`.
    pub(super) fn group(&self, grouper: Value, list: Value) -> Result<Value> {
        let items = vec![grouper, list];
        let nesting = nesting(items.iter())?;
        self.0.make(size_of::<List>() + items.len() * size_of::<Value>())?;
        Ok(Value::Tuple(Rc::new(List { items, nesting, group: true, budget: Rc::clone(&self.0) })))
    }

    pub(super) fn list(&self, items: Vec<Value>) -> Result<Value> {
        self.rc_list(items).map(Value::List)
    }

    pub(super) fn tuple(&self, items: Vec<Value>) -> Result<Value> {
        self.rc_list(items).map(Value::Tuple)
    }

    /// Creates a dictionary from entries with distinct keys.
    pub(super) fn dict(&self, entries: Vec<(Value, Value)>) -> Result<Value> {
        let nesting = nesting(entries.iter().map(|(_, value)| value))?;
        self.0.make(size_of::<Dict>() + entries.len() * size_of::<(Value, Value)>())?;
        Ok(Value::Dict(Rc::new(Dict { entries, nesting, budget: Rc::clone(&self.0) })))
    }

    /// Adds an entry, or replaces the value of an equal key.
    pub(super) fn insert(&self, entries: &mut Vec<(Value, Value)>, key: Value, value: Value) -> Result<()> {
        key.check_hashable()?;
        self.0.steps(entries.len() / 4)?;
        for entry in entries.iter_mut() {
            if entry.0.equals(&key, &self.0)? {
                entry.1 = value;
                return Ok(());
            }
        }
        entries.push((key, value));
        Ok(())
    }
}

impl Value {
    /// Creates the value of a name or attribute that does not exist.
    pub(super) fn undefined(name: &str) -> Value {
        // Names are shown in errors only; copies of a long one would multiply the size of a template.
        let end = name.char_indices().nth(40).map_or(name.len(), |(i, _)| i);
        Value::Undefined(name[..end].into())
    }

    pub(super) fn as_str(&self) -> Option<&str> {
        match self {
            Value::Str(text) => Some(text.as_str()),
            _ => None,
        }
    }

    /// Returns a text with its content ranges; an empty one for other values.
    pub(super) fn as_part(&self) -> Part<'_> {
        match self {
            Value::Str(text) => text.part(),
            _ => Part::own(""),
        }
    }

    pub(super) fn is_undefined(&self) -> bool {
        matches!(self, Value::Undefined(_))
    }

    /// Returns the name of the type, as in Python.
    pub(super) fn type_name(&self) -> &'static str {
        match self {
            Value::Undefined(_) => "undefined",
            Value::None => "None",
            Value::Bool(_) => "bool",
            Value::Int(_) | Value::BigInt(_) => "int",
            Value::Float(_) => "float",
            Value::Str(_) => "str",
            Value::List(_) => "list",
            Value::Tuple(_) => "tuple",
            Value::Dict(_) => "dict",
            Value::Range(_) => "range",
            Value::Namespace(_) => "namespace",
            Value::Macro(_) | Value::Function(_) | Value::Method(..) => "function",
            Value::Loop(_) => "loop",
            Value::Stateful(object) => object.type_name(),
        }
    }

    /// Returns an error if the value is undefined.
    pub(super) fn check_defined(&self) -> Result<()> {
        match self {
            Value::Undefined(name) => fail(format!("{name} is undefined")),
            _ => Ok(()),
        }
    }

    fn check_hashable(&self) -> Result<()> {
        match self {
            Value::List(_) | Value::Dict(_) => fail(format!("a {} cannot be a key", self.type_name())),
            Value::Tuple(items) => items.items.iter().try_for_each(Value::check_hashable),
            _ => Ok(()),
        }
    }

    /// Returns whether the value counts as true in a condition.
    pub(super) fn is_true(&self) -> bool {
        match self {
            Value::Undefined(_) | Value::None => false,
            Value::Bool(b) => *b,
            Value::Int(i) => *i != 0,
            Value::Float(f) => *f != 0.0,
            Value::Str(text) => !text.text.is_empty(),
            Value::List(list) | Value::Tuple(list) => !list.items.is_empty(),
            Value::Dict(dict) => !dict.entries.is_empty(),
            Value::Range(range) => range.len > 0,
            Value::BigInt(_)
            | Value::Namespace(_)
            | Value::Macro(_)
            | Value::Function(_)
            | Value::Method(..)
            | Value::Loop(_)
            | Value::Stateful(_) => true,
        }
    }

    /// Returns a number; booleans count as 0 or 1.
    pub(super) fn as_number(&self) -> Option<Number> {
        match self {
            Value::Bool(b) => Some(Number::Int(i64::from(*b))),
            Value::Int(i) => Some(Number::Int(*i)),
            // The nearest float.
            Value::BigInt(digits) => digits.text.parse().ok().map(Number::Float),
            Value::Float(f) => Some(Number::Float(*f)),
            _ => None,
        }
    }

    /// Returns an integer; booleans count as 0 or 1.
    pub(super) fn as_int(&self) -> Option<i64> {
        match self.as_number() {
            Some(Number::Int(i)) => Some(i),
            _ => None,
        }
    }

    /// Returns whether two values are equal, as in Python.
    pub(super) fn equals(&self, other: &Value, budget: &Budget) -> Result<bool> {
        budget.steps(1)?;
        match (self, other) {
            (Value::BigInt(a), Value::BigInt(b)) => return Ok(a.text == b.text),
            (Value::BigInt(_), Value::Int(_)) | (Value::Int(_), Value::BigInt(_)) => return Ok(false),
            _ => {}
        }
        if let (Some(a), Some(b)) = (self.as_number(), other.as_number()) {
            return Ok(a.compare(b) == Some(Ordering::Equal));
        }
        Ok(match (self, other) {
            (Value::Undefined(_), Value::Undefined(_)) | (Value::None, Value::None) => true,
            (Value::Str(a), Value::Str(b)) => {
                budget.scan(a.text.len().min(b.text.len()))?;
                a.text == b.text
            }
            (Value::List(a), Value::List(b)) | (Value::Tuple(a), Value::Tuple(b)) => {
                if a.items.len() != b.items.len() {
                    return Ok(false);
                }
                for (a, b) in a.items.iter().zip(&b.items) {
                    if !a.equals(b, budget)? {
                        return Ok(false);
                    }
                }
                true
            }
            (Value::Dict(a), Value::Dict(b)) => {
                if a.entries.len() != b.entries.len() {
                    return Ok(false);
                }
                for (key, value) in &a.entries {
                    match b.lookup(key, budget)? {
                        Some(other) if value.equals(other, budget)? => {}
                        _ => return Ok(false),
                    }
                }
                true
            }
            (Value::Range(a), Value::Range(b)) => a == b,
            (Value::Namespace(a), Value::Namespace(b)) | (Value::Macro(a), Value::Macro(b)) => a == b,
            (Value::Function(a), Value::Function(b)) => a == b,
            (Value::Loop(a), Value::Loop(b)) => Rc::ptr_eq(a, b),
            (Value::Stateful(a), Value::Stateful(b)) => Rc::ptr_eq(a, b),
            _ => false,
        })
    }

    /// Returns the order of two values, as in Python; an error for types that have no order.
    pub(super) fn compare(&self, other: &Value, budget: &Budget) -> Result<Option<Ordering>> {
        budget.steps(1)?;
        self.check_defined()?;
        other.check_defined()?;
        if let (Some(a), Some(b)) = (self.as_number(), other.as_number()) {
            return Ok(a.compare(b));
        }
        match (self, other) {
            (Value::Str(a), Value::Str(b)) => {
                budget.scan(a.text.len().min(b.text.len()))?;
                Ok(Some(a.text.cmp(&b.text)))
            }
            (Value::List(a), Value::List(b)) | (Value::Tuple(a), Value::Tuple(b)) => {
                for (a, b) in a.items.iter().zip(&b.items) {
                    if !a.equals(b, budget)? {
                        return a.compare(b, budget);
                    }
                }
                Ok(Some(a.items.len().cmp(&b.items.len())))
            }
            _ => fail(format!("cannot compare {} with {}", self.type_name(), other.type_name())),
        }
    }
}

impl Dict {
    /// Returns the value of a key.
    pub(super) fn lookup(&self, key: &Value, budget: &Budget) -> Result<Option<&Value>> {
        budget.steps(self.entries.len() / 8)?;
        if let Some(key) = key.as_str() {
            return Ok(self.get(key));
        }
        for (k, value) in &self.entries {
            if k.equals(key, budget)? {
                return Ok(Some(value));
            }
        }
        Ok(None)
    }
}

impl Range {
    pub(super) fn iter(self) -> impl DoubleEndedIterator<Item = i64> {
        (0..self.len as i64).map(move |i| self.start + i * self.step)
    }
}

/// Number for arithmetic.
#[derive(Clone, Copy, Debug)]
pub(super) enum Number {
    Int(i64),
    Float(f64),
}

impl Number {
    pub(super) fn as_f64(self) -> f64 {
        match self {
            Number::Int(i) => i as f64,
            Number::Float(f) => f,
        }
    }

    fn compare(self, other: Number) -> Option<Ordering> {
        match (self, other) {
            (Number::Int(a), Number::Int(b)) => Some(a.cmp(&b)),
            _ => self.as_f64().partial_cmp(&other.as_f64()),
        }
    }
}
