//! The entries of one column, and rows made of those of all columns.

use super::Read;
use super::encodings::{Values, decode, dictionary};
use super::pages::{Page, Pages};
use super::schema::{Form, Kind, Leaf, Node, Repetition};
use serde_json::{Map, Value};

/// Entries of one column in one row group: a value or none, with its levels (Melnik et al., Dremel, 2010).
pub(super) struct Column {
    pages: Pages,
    leaf: Leaf,
    dictionary: Vec<Value>,
    definitions: Vec<u32>,
    repetitions: Vec<u32>,
    values: Values,
    /// Place in the page, and number of its entries.
    at: usize,
    count: usize,
}

impl Column {
    /// The entries of pages.
    pub(super) fn new(pages: Pages, leaf: Leaf) -> Column {
        Column {
            pages,
            leaf,
            dictionary: Vec::new(),
            definitions: Vec::new(),
            repetitions: Vec::new(),
            values: Values::Plain(Vec::new().into_iter()),
            at: 0,
            count: 0,
        }
    }

    /// Goes to the next page where this one has ended; `false` at the end.
    fn fill(&mut self) -> Read<bool> {
        while self.at == self.count {
            match self.pages.next()? {
                None => return Ok(false),
                Some(Page::Dictionary { count, values }) => {
                    self.dictionary = dictionary(&self.leaf, &values, count)?;
                }
                Some(Page::Data { definitions, repetitions, count, encoding, values }) => {
                    let most = u32::from(self.leaf.max_definition);
                    let present = match definitions.is_empty() {
                        true => count,
                        false => definitions.iter().filter(|level| **level == most).count(),
                    };
                    self.values = decode(&self.leaf, encoding, &values, present)?;
                    (self.definitions, self.repetitions) = (definitions, repetitions);
                    (self.at, self.count) = (0, count);
                }
            }
        }
        Ok(true)
    }

    /// Levels of the next entry: definition and repetition; `None` at the end.
    fn levels(&mut self) -> Read<Option<(u32, u32)>> {
        let more = self.fill()?;
        let level = |levels: &[u32]| levels.get(self.at).copied().unwrap_or(0);
        Ok(more.then(|| (level(&self.definitions), level(&self.repetitions))))
    }

    /// Takes the next entry; `null` for one without a value.
    fn take(&mut self) -> Read<Value> {
        let (definition, _) = self.levels()?.ok_or("a column has too few values")?;
        self.at += 1;
        if definition < u32::from(self.leaf.max_definition) {
            return Ok(Value::Null);
        }
        match &mut self.values {
            Values::Plain(values) => values.next().ok_or_else(|| "a page has too few values".to_owned()),
            Values::Indices(indices) => {
                let index = indices.next().ok_or("a page has too few values")? as usize;
                let found = self.dictionary.get(index).cloned();
                found.ok_or_else(|| format!("value {index} of a dictionary of {}", self.dictionary.len()))
            }
        }
    }
}

/// Makes the value of a node for the next row. `definition` and `repetition` are the levels of its parent.
pub(super) fn value(node: &Node, columns: &mut [Column], definition: u32, repetition: u32) -> Read<Value> {
    let levels = columns.get_mut(node.first_leaf).ok_or("a group without columns")?.levels()?;
    let (found, _) = levels.ok_or("a column has too few values")?;
    match node.repetition {
        Repetition::Required => inner(node, columns, definition, repetition),
        Repetition::Optional if found > definition => inner(node, columns, definition + 1, repetition),
        Repetition::Optional => skip(node, columns).map(|()| Value::Null),
        Repetition::Repeated => repeated(node, columns, definition, repetition).map(Value::Array),
    }
}

/// Makes the values of a repeated node.
fn repeated(node: &Node, columns: &mut [Column], definition: u32, repetition: u32) -> Read<Vec<Value>> {
    let first = node.first_leaf;
    let (found, _) = columns[first].levels()?.ok_or("a column has too few values")?;
    if found <= definition {
        skip(node, columns)?;
        return Ok(Vec::new());
    }
    let mut all = Vec::new();
    loop {
        all.push(inner(node, columns, definition + 1, repetition + 1)?);
        match columns[first].levels()? {
            Some((_, level)) if level > repetition => {}
            _ => return Ok(all),
        }
    }
}

/// Takes one entry of each column of a node that has no value.
fn skip(node: &Node, columns: &mut [Column]) -> Read<()> {
    match &node.kind {
        Kind::Leaf => columns[node.first_leaf].take().map(drop),
        Kind::Group(_, fields) => fields.iter().try_for_each(|field| skip(field, columns)),
    }
}

/// Makes one value of a node that has one.
fn inner(node: &Node, columns: &mut [Column], definition: u32, repetition: u32) -> Read<Value> {
    let (form, fields) = match &node.kind {
        Kind::Leaf => return columns[node.first_leaf].take(),
        Kind::Group(form, fields) => (form, fields),
    };
    if let (Form::List | Form::Map, [entries]) = (form, &fields[..])
        && entries.repetition == Repetition::Repeated
    {
        let found = repeated(entries, columns, definition, repetition)?;
        return Ok(if *form == Form::List { list(entries, found) } else { map(found) });
    }
    let mut object = Map::new();
    for field in fields {
        object.insert(field.name.clone(), value(field, columns, definition, repetition)?);
    }
    Ok(Value::Object(object))
}

/// The elements of a list, which newer writers put into a group of their own.
fn list(entries: &Node, found: Vec<Value>) -> Value {
    let alone = match &entries.kind {
        Kind::Group(_, fields) => {
            fields.len() == 1 && entries.name != "array" && !entries.name.ends_with("_tuple")
        }
        Kind::Leaf => false,
    };
    let element = |entry: Value| match entry {
        Value::Object(fields) if alone => fields.into_iter().next().map_or(Value::Null, |(_, value)| value),
        other => other,
    };
    Value::Array(found.into_iter().map(element).collect())
}

/// The entries of a map as an object.
fn map(found: Vec<Value>) -> Value {
    let entry = |entry: Value| {
        let Value::Object(fields) = entry else { return None };
        let mut fields = fields.into_iter().map(|(_, value)| value);
        let key = fields.next()?;
        let key = key.as_str().map_or_else(|| key.to_string(), str::to_owned);
        Some((key, fields.next().unwrap_or(Value::Null)))
    };
    Value::Object(found.into_iter().filter_map(entry).collect())
}
