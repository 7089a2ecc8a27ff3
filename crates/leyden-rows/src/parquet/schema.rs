//! The schema as a tree of nodes, whose leaves are the columns of the file.

use super::Read;
use super::thrift::{Struct, Value};
use crate::MAX_COLUMNS;

/// Maximum depth of nested columns.
const MAX_DEPTH: usize = 24;

/// Physical type of a leaf.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Physical {
    /// One bit.
    Boolean,
    /// 4 bytes.
    Int32,
    /// 8 bytes.
    Int64,
    /// 12 bytes: nanoseconds of a day, and the day.
    Int96,
    /// 4 bytes.
    Float,
    /// 8 bytes.
    Double,
    /// Bytes of any length.
    Bytes,
    /// So many bytes.
    Fixed(usize),
}

/// Meaning of the values of a leaf.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meaning {
    /// None beyond the physical type.
    Plain,
    /// Text.
    Text,
    /// Integer without a sign.
    Unsigned,
    /// Decimal number with so many digits behind the point.
    Decimal(u32),
    /// Days since 1970.
    Date,
    /// Time of day; ticks per second.
    Time(i64),
    /// Time since 1970; ticks per second.
    Timestamp(i64),
    /// 16-bit float.
    Float16,
}

/// Number of values of a node in its parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Repetition {
    /// One.
    Required,
    /// One or none.
    Optional,
    /// Any number.
    Repeated,
}

/// Form of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// Fields.
    Struct,
    /// A list.
    List,
    /// Keys and values.
    Map,
}

/// A node of the schema.
#[derive(Debug, Clone)]
pub(super) struct Node {
    /// Name.
    pub(super) name: String,
    /// Number of values.
    pub(super) repetition: Repetition,
    /// Column or fields.
    pub(super) kind: Kind,
    /// Number of the first leaf in or below the node.
    pub(super) first_leaf: usize,
}

/// Column or fields.
#[derive(Debug, Clone)]
pub(super) enum Kind {
    /// A column.
    Leaf,
    /// A group of nodes.
    Group(Form, Vec<Node>),
}

/// A column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Leaf {
    /// Physical type.
    pub(super) physical: Physical,
    /// Meaning of the values.
    pub(super) meaning: Meaning,
    /// Definition level of a present value.
    pub(super) max_definition: u16,
    /// Repetition level of the innermost list.
    pub(super) max_repetition: u16,
}

/// The fields of a row.
#[derive(Debug, Clone)]
pub(super) struct Schema {
    /// Nodes in order.
    pub(super) fields: Vec<Node>,
    /// All columns in order.
    pub(super) leaves: Vec<Leaf>,
}

impl Schema {
    /// Reads the list of elements in a footer.
    pub(super) fn read(elements: &[Value]) -> Read<Schema> {
        let mut elements = elements.iter().map(|element| match element {
            Value::Struct(element) => Ok(element),
            _ => Err("schema: not a list of structs".to_owned()),
        });
        let root = elements.next().ok_or("schema: empty")??;
        let mut leaves = Vec::new();
        let count = root.size(5, "schema: number of columns")?;
        let mut fields = Vec::new();
        for _ in 0..count.min(MAX_COLUMNS + 1) {
            fields.push(node(&mut elements, &mut leaves, (0, 0), 0)?);
        }
        match leaves.len() > MAX_COLUMNS || count > MAX_COLUMNS {
            true => Err(format!("schema: more than {MAX_COLUMNS} columns")),
            false => Ok(Schema { fields, leaves }),
        }
    }
}

/// Reads the next node with those below it.
fn node<'s>(
    elements: &mut impl Iterator<Item = Read<&'s Struct>>,
    leaves: &mut Vec<Leaf>,
    (mut definition, mut repetition_level): (u16, u16),
    depth: usize,
) -> Read<Node> {
    let element = elements.next().ok_or("schema: cut off")??;
    let name = element.text(4).ok_or("schema: a column without a name")?;
    if depth > MAX_DEPTH || leaves.len() > MAX_COLUMNS {
        return Err(format!("column `{name}`: nested too deeply, or too many columns"));
    }
    let repetition = match element.int(3) {
        Some(0) => Repetition::Required,
        Some(1) => Repetition::Optional,
        Some(2) => Repetition::Repeated,
        _ => return Err(format!("column `{name}`: no repetition")),
    };
    definition += u16::from(repetition != Repetition::Required);
    repetition_level += u16::from(repetition == Repetition::Repeated);
    let first_leaf = leaves.len();
    let children = element.int(5).unwrap_or(0);
    if children == 0 {
        let (physical, meaning) = leaf(element).map_err(|what| format!("column `{name}`: {what}"))?;
        leaves.push(Leaf { physical, meaning, max_definition: definition, max_repetition: repetition_level });
        return Ok(Node { name, repetition, kind: Kind::Leaf, first_leaf });
    }
    let logical = element.inner(10);
    let form = match (element.int(6), logical) {
        (Some(3), _) => Form::List,
        (Some(1 | 2), _) => Form::Map,
        (_, Some(logical)) if logical.get(3).is_some() => Form::List,
        (_, Some(logical)) if logical.get(2).is_some() => Form::Map,
        _ => Form::Struct,
    };
    let mut fields = Vec::new();
    for _ in 0..children {
        fields.push(node(elements, leaves, (definition, repetition_level), depth + 1)?);
    }
    Ok(Node { name, repetition, kind: Kind::Group(form, fields), first_leaf })
}

/// Reads the type of a column.
fn leaf(element: &Struct) -> Read<(Physical, Meaning)> {
    let physical = match element.int(1) {
        Some(0) => Physical::Boolean,
        Some(1) => Physical::Int32,
        Some(2) => Physical::Int64,
        Some(3) => Physical::Int96,
        Some(4) => Physical::Float,
        Some(5) => Physical::Double,
        Some(6) => Physical::Bytes,
        Some(7) => match element.size(2, "length of values")? {
            n @ 1..=0xffff => Physical::Fixed(n),
            n => return Err(format!("values of {n} bytes")),
        },
        other => return Err(format!("unknown type {other:?}")),
    };
    let scale = || u32::try_from(element.int(7).unwrap_or(0)).unwrap_or(0).min(100);
    let logical = element.inner(10);
    let unit = |of: &Struct| {
        let unit = of.inner(2);
        let has = |id| unit.is_some_and(|unit| unit.get(id).is_some());
        if has(3) {
            1_000_000_000
        } else if has(2) {
            1_000_000
        } else {
            1000
        }
    };
    let of_logical = logical.and_then(|logical| {
        Some(match () {
            () if [1, 4, 11].iter().any(|id| logical.get(*id).is_some()) => Meaning::Text,
            () if logical.get(5).is_some() => Meaning::Decimal(scale()),
            () if logical.get(6).is_some() => Meaning::Date,
            () if logical.get(7).is_some() => Meaning::Time(unit(logical.inner(7)?)),
            () if logical.get(8).is_some() => Meaning::Timestamp(unit(logical.inner(8)?)),
            () if logical.get(10).is_some() && logical.inner(10)?.bool(2) == Some(false) => Meaning::Unsigned,
            () if logical.get(15).is_some() => Meaning::Float16,
            () => return None,
        })
    });
    let of_converted = match element.int(6) {
        Some(0 | 4 | 19) => Meaning::Text,
        Some(5) => Meaning::Decimal(scale()),
        Some(6) => Meaning::Date,
        Some(7) => Meaning::Time(1000),
        Some(8) => Meaning::Time(1_000_000),
        Some(9) => Meaning::Timestamp(1000),
        Some(10) => Meaning::Timestamp(1_000_000),
        Some(11..=14) => Meaning::Unsigned,
        _ => Meaning::Plain,
    };
    Ok((physical, of_logical.unwrap_or(of_converted)))
}
