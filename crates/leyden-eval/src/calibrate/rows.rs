//! Labelled rows: a text with the labels of a model.

use crate::error::Error;
use crate::suite::Source;
use leyden_rows::{Reader, Row};
use leyden_tasks::calibration::LabelKind;
use serde_json::Value;
use std::collections::HashMap;
use std::path::Path;

/// Maximum number of rows.
const MAX_ROWS: usize = 1 << 20;
/// Maximum number of names of labels in a message.
const SHOWN: usize = 8;

/// Text with its labels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelledRow {
    /// Text.
    pub text: String,
    /// Indices of its labels in the model, ascending.
    pub labels: Vec<usize>,
    /// File and position.
    pub place: String,
}

/// Reads all rows of a file with their labels. A label is a name, or in JSON and Parquet a number, which is the label's
/// index. Texts with any number of labels have a list of them, in tables as JSON.
///
/// # Errors
/// The file cannot be read or has no rows, a column is missing, or a row has no text or an unknown label.
pub fn read_labelled(
    path: &Path,
    source: &Source<'_>,
    (names, kind): (&[String], LabelKind),
) -> Result<Vec<LabelledRow>, Error> {
    let mut reader = Reader::open(path, source.format)?;
    let (text, label) = (source.column.unwrap_or("text"), source.label.unwrap_or("label"));
    if let Some(columns) = reader.columns() {
        for (wanted, option) in [(text, "--column"), (label, "--label")] {
            if !columns.iter().any(|column| column == wanted) {
                let columns = columns.join(", ");
                return Err(Error::Usage(format!(
                    "{}: no column `{wanted}`; name another with {option}; columns: {columns}",
                    path.display()
                )));
            }
        }
    }
    let known: HashMap<&str, usize> = names.iter().enumerate().map(|(i, name)| (&name[..], i)).collect();
    let mut rows = Vec::new();
    while rows.len() < source.limit.unwrap_or(usize::MAX) {
        let Some(row) = reader.next()? else { break };
        if rows.len() == MAX_ROWS {
            return Err(Error::file(path, format!("more than {MAX_ROWS} rows; use --limit")));
        }
        let place = format!("{}: {}", path.display(), row.place);
        let wrong = |what: String| Error::Rows(format!("{place}: {what}"));
        let found = row.text(Some(text)).map_err(wrong)?.to_owned();
        let labels = labels(&row, label, (names, kind), &known).map_err(wrong)?;
        rows.push(LabelledRow { text: found, labels, place: place.clone() });
    }
    if rows.is_empty() { Err(Error::file(path, "no rows in it")) } else { Ok(rows) }
}

/// Returns the indices of a row's labels.
fn labels(
    row: &Row,
    column: &str,
    (names, kind): (&[String], LabelKind),
    known: &HashMap<&str, usize>,
) -> Result<Vec<usize>, String> {
    let wrong = |what: String| format!("field `{column}`: {what}");
    let one = |value: &Value| -> Result<usize, String> {
        let index = |n: u64| usize::try_from(n).ok().filter(|n| *n < names.len());
        let found = match value {
            Value::String(name) => known.get(&name[..]).copied(),
            Value::Number(number) => number.as_u64().and_then(index),
            _ => return Err(wrong("want a label".to_owned())),
        };
        found.ok_or_else(|| {
            let shown = names.iter().take(SHOWN).map(|name| format!("`{name}`")).collect::<Vec<_>>();
            let more = if names.len() > SHOWN {
                format!(" and {} more", names.len() - SHOWN)
            } else {
                String::new()
            };
            wrong(format!("the model has no label {value}; it has {}{more}", shown.join(", ")))
        })
    };
    let value = row.fields.get(column);
    if kind == LabelKind::One {
        return match value {
            None | Some(Value::Null) => Err(wrong("missing".to_owned())),
            Some(value) => Ok(vec![one(value)?]),
        };
    }
    // One label that applies or does not.
    let yes = |value: &Value| match value {
        Value::Bool(yes) => Some(*yes),
        Value::Number(number) => number.as_u64().filter(|n| *n < 2).map(|n| n == 1),
        Value::String(text) if !known.contains_key(&text[..]) => match &text[..] {
            "1" | "true" => Some(true),
            "0" | "false" => Some(false),
            _ => None,
        },
        _ => None,
    };
    if let ([_], Some(yes)) = (names, value.and_then(yes)) {
        return Ok(if yes { vec![0] } else { Vec::new() });
    }
    let mut found = match value {
        None => return Err(wrong("missing; a text without labels has an empty list".to_owned())),
        Some(Value::Null) => Vec::new(),
        Some(Value::String(text)) if text.is_empty() => Vec::new(),
        Some(Value::String(text)) if text.starts_with('[') && !known.contains_key(&text[..]) => {
            let list: Vec<Value> =
                serde_json::from_str(text).map_err(|error| wrong(format!("want a list: {error}")))?;
            list.iter().map(one).collect::<Result<_, _>>()?
        }
        Some(Value::Array(list)) => list.iter().map(one).collect::<Result<_, _>>()?,
        Some(value) => vec![one(value)?],
    };
    found.sort_unstable();
    found.dedup();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn labels_are_names_numbers_and_lists() {
        let names: Vec<String> = ["a", "b", "[c"].map(str::to_owned).to_vec();
        let known: HashMap<&str, usize> = names.iter().enumerate().map(|(i, n)| (&n[..], i)).collect();
        let read = |value: Value, kind| {
            let row = Row::new([("y".to_owned(), value)].into_iter().collect(), "line 1".to_owned());
            labels(&row, "y", (&names, kind), &known)
        };
        let of_one = |value| read(value, LabelKind::One);
        assert_eq!((of_one(json!("b")), of_one(json!(2))), (Ok(vec![1]), Ok(vec![2])));
        for (value, wanted) in [
            (json!("x"), "field `y`: the model has no label \"x\"; it has `a`, `b`, `[c`"),
            (json!(3), "no label 3"),
            (json!(null), "missing"),
            (json!(["a"]), "want a label"),
        ] {
            let told = of_one(value).unwrap_err();
            assert!(told.contains(wanted), "{told}");
        }
        let any = |value| read(value, LabelKind::Any);
        assert_eq!(any(json!(["b", "a", "b"])), Ok(vec![0, 1]));
        assert_eq!(
            (any(json!("[\"b\"]")), any(json!("[c")), any(json!("a"))),
            (Ok(vec![1]), Ok(vec![2]), Ok(vec![0]))
        );
        assert_eq!((any(json!("")), any(json!([])), any(json!(null))), (Ok(vec![]), Ok(vec![]), Ok(vec![])));
        assert!(any(json!("[x")).unwrap_err().contains("want a list"));
        let single = vec!["spam".to_owned()];
        let known = HashMap::from([("spam", 0)]);
        for (value, wanted) in
            [(json!(true), vec![0]), (json!("0"), vec![]), (json!(1), vec![0]), (json!("spam"), vec![0])]
        {
            let row = Row::new([("y".to_owned(), value)].into_iter().collect(), String::new());
            assert_eq!(labels(&row, "y", (&single, LabelKind::Any), &known), Ok(wanted));
        }
    }
}
