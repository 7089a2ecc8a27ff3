//! CSV and TSV with a header, quoted as in RFC 4180.

use super::{Source, lines};
use crate::{Error, MAX_COLUMNS, MAX_ROW_BYTES, Row};
use csv_core::{ReadRecordResult, Reader, ReaderBuilder};
use serde_json::{Map, Value};
use std::io::BufRead;

/// Rows of a table.
pub(crate) struct Csv<R> {
    records: Records<R>,
    columns: Vec<String>,
}

impl<R: BufRead> Csv<R> {
    /// Reads the header of `input`, which messages call `name`. Without a delimiter it is the comma, or the semicolon where the
    /// header has semicolons and no comma.
    pub(crate) fn new(mut input: R, name: &str, delimiter: Option<u8>) -> Result<Csv<R>, Error> {
        let start = input.fill_buf().map_err(|error| Error::new(name, format!("cannot read: {error}")))?;
        let header = start.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let semicolons = header.contains(&b';') && !header.contains(&b',');
        let delimiter = delimiter.unwrap_or(if semicolons { b';' } else { b',' });
        let mut records = Records {
            input,
            name: name.to_owned(),
            parser: ReaderBuilder::new().delimiter(delimiter).build(),
            text: vec![0; 1 << 12],
            ends: vec![0; 64],
        };
        let Some((_, fields)) = records.next()? else {
            return Err(Error::new(name, "no header").hint("the first row names the columns: id,text"));
        };
        let mut columns: Vec<String> = Vec::new();
        for (i, column) in fields.enumerate() {
            let column = std::str::from_utf8(column)
                .map_err(|_| Error::new(name, "header: not UTF-8 text").hint("save it as UTF-8"))?;
            let column = if column.is_empty() { format!("column {}", i + 1) } else { column.to_owned() };
            if columns.contains(&column) {
                return Err(Error::new(name, format!("header: two columns have the name `{column}`")));
            }
            columns.push(column);
        }
        Ok(Csv { records, columns })
    }
}

impl<R: BufRead> Source for Csv<R> {
    fn next(&mut self) -> Result<Option<Row>, Error> {
        let Some((line, values)) = self.records.next()? else { return Ok(None) };
        let (mut fields, mut problem, mut found) = (Map::new(), None, 0);
        let mut columns = self.columns.iter();
        for value in values {
            found += 1;
            let Some(column) = columns.next() else { continue };
            match std::str::from_utf8(value) {
                Ok(value) => drop(fields.insert(column.clone(), Value::String(value.to_owned()))),
                Err(error) => problem = Some(format!("field `{column}`: {}", lines::not_utf8(&error))),
            }
        }
        let wanted = self.columns.len();
        if found != wanted {
            problem = Some(format!("{found} fields, but the header has {wanted}; is a quote not closed?"));
        }
        Ok(Some(Row { fields, place: format!("line {line}"), problem }))
    }

    fn columns(&self) -> Option<&[String]> {
        Some(&self.columns)
    }
}

/// Records of bytes.
struct Records<R> {
    input: R,
    name: String,
    parser: Reader,
    /// The fields of one record, one behind the other.
    text: Vec<u8>,
    /// The end of each field in `text`.
    ends: Vec<usize>,
}

impl<R: BufRead> Records<R> {
    /// Reads the next record: its line, from 1, and its fields.
    fn next(&mut self) -> Result<Option<(u64, impl Iterator<Item = &[u8]>)>, Error> {
        let line = self.parser.line();
        let (mut n_text, mut n_ends) = (0, 0);
        loop {
            let input = self.input.fill_buf();
            let input = input.map_err(|error| Error::new(&self.name, format!("cannot read: {error}")))?;
            let (result, taken, text, ends) =
                self.parser.read_record(input, &mut self.text[n_text..], &mut self.ends[n_ends..]);
            self.input.consume(taken);
            (n_text, n_ends) = (n_text + text, n_ends + ends);
            let longest = |most: u64| {
                let what = format!("line {line}: a row of more than {most}");
                Error::new(&self.name, what).hint("a quote in it, or before it, may not be closed")
            };
            match result {
                ReadRecordResult::InputEmpty => {}
                ReadRecordResult::OutputFull if self.text.len() as u64 > MAX_ROW_BYTES => {
                    return Err(longest(MAX_ROW_BYTES));
                }
                ReadRecordResult::OutputFull => self.text.resize(2 * self.text.len(), 0),
                ReadRecordResult::OutputEndsFull if self.ends.len() > MAX_COLUMNS => {
                    return Err(Error::new(
                        &self.name,
                        format!("line {line}: more than {MAX_COLUMNS} fields"),
                    ));
                }
                ReadRecordResult::OutputEndsFull => self.ends.resize(2 * self.ends.len(), 0),
                ReadRecordResult::Record => break,
                ReadRecordResult::End => return Ok(None),
            }
        }
        let mut start = 0;
        let fields = self.ends[..n_ends].iter().map(move |end| {
            let field = start..*end;
            start = *end;
            field
        });
        Ok(Some((line, fields.map(|field| &self.text[field]))))
    }
}
