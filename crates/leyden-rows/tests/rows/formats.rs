//! Rows of text formats.

use super::read;
use leyden_rows::{Format, Reader, Row};
use serde_json::{Value, json};
use std::io::Write;

/// The rows of a file with this name and content, or the error.
fn rows(name: &str, content: &[u8]) -> Result<Vec<Row>, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, content).unwrap();
    read(&path).map_err(|error| format!("{error} {}", error.hint.as_deref().unwrap_or("")))
}

/// Fields of all rows.
fn fields(rows: &[Row]) -> Value {
    rows.iter().map(|row| Value::Object(row.fields.clone())).collect()
}

#[test]
fn every_format_has_the_same_rows() {
    let wanted = json!([{ "id": "1", "text": "a, \"b\"\nc" }, { "id": "2", "text": "ä;\t" }]);
    let json_rows = wanted.as_array().unwrap();
    let lines = json_rows.iter().map(|row| format!("{row}\n")).collect::<String>();
    let csv = "id,text\n1,\"a, \"\"b\"\"\nc\"\n2,ä;\t\n";
    for (name, content) in [
        ("rows.csv", csv.to_owned()),
        ("rows.csv", format!("\u{feff}{}", csv.replace('\n', "\r\n").replace("\"\"\r\nc", "\"\"\nc"))),
        ("rows.csv", "id;text\n1;\"a, \"\"b\"\"\nc\"\n2;\"ä;\t\"\n".to_owned()),
        ("rows.tsv", "id\ttext\n1\t\"a, \"\"b\"\"\nc\"\n2\t\"ä;\t\"".to_owned()),
        ("rows.json", wanted.to_string()),
        ("rows.json", serde_json::to_string_pretty(&wanted).unwrap()),
        ("rows.json", lines.clone()),
        ("rows.jsonl", lines.replace('\n', "\r\n\n")),
        ("rows.NDJSON", lines.clone()),
    ] {
        assert_eq!(fields(&rows(name, content.as_bytes()).unwrap()), wanted, "{name}: {content}");
    }
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(lines.as_bytes()).unwrap();
    assert_eq!(fields(&rows("rows.jsonl.gz", &packed.finish().unwrap()).unwrap()), wanted);
    let text = rows("rows.txt", b"one\r\n\ntwo").unwrap();
    assert_eq!(fields(&text), json!([{ "text": "one" }, { "text": "" }, { "text": "two" }]));
    assert_eq!(fields(&rows("a.jsonl", b"\"one\"").unwrap()), json!([{ "text": "one" }]));
    for empty in [("a.json", "[]"), ("a.csv", "text\n"), ("a.txt", ""), ("a.jsonl", "\n\n")] {
        assert_eq!(rows(empty.0, empty.1.as_bytes()).unwrap(), [], "{empty:?}");
    }
}

/// Each bad row has its place and reason, and the rows behind it are read.
#[test]
fn a_bad_row_is_one_row() {
    for (name, content, place, reason) in [
        ("a.csv", &b"id,text\n1,a,b\n2,good\n"[..], "line 2", "3 fields, but the header has 2"),
        ("a.csv", b"id,text\n1,\xff\n2,good\n", "line 2", "field `text`: not UTF-8 text: byte 0"),
        ("a.txt", b"\xff\ngood\n", "line 1", "not UTF-8 text: byte 0"),
        ("a.jsonl", b"{\"text\": \n{\"text\": \"good\"}\n", "line 1", "not JSON"),
        ("a.jsonl", b"\"\\ud800\"\n\"good\"\n", "line 1", "half of a surrogate pair"),
        ("a.jsonl", b"[1]\n\"good\"\n", "line 1", "neither an object nor a text"),
        ("a.json", b"[3, {\"text\": \"good\"}]", "item 1", "neither an object nor a text"),
        ("a.json", b"[{\"text\": 3}, {\"text\": \"good\"}]", "item 1", "field `text`: not a text"),
        ("a.jsonl", b"{\"txt\": 3}\n\"good\"\n", "line 1", "field `text`: missing"),
    ] {
        let rows = rows(name, content).unwrap();
        let told = rows[0].text(None).unwrap_err();
        assert!(told.contains(reason) && rows[0].place == place, "{name}: {told}");
        assert_eq!((rows[1].text(None), rows.len()), (Ok("good"), 2), "{name}");
    }
}

#[test]
fn a_broken_file_is_an_error_with_a_next_step() {
    for (name, content, words) in [
        ("a.csv", &b"a,a\n1,2\n"[..], "two columns have the name `a`"),
        ("a.csv", b"", "no header"),
        ("a.csv", b"\xff\xfea\0", "UTF-16"),
        ("a.csv", b"PAR1", "--format parquet"),
        ("a.json", b"[{\"text\": \"a\"}", "item 1: the file ends within the list"),
        ("a.json", b"[{\"text\": \"a\"}] x", "behind the list"),
        ("a.json", b"[{\"text\" \"a\"}]", "item 1: not JSON"),
        ("a.json", b"{\"text\": {\"0\": \"a\"}}", "orient='records'"),
        ("a.json", b"{\n\"text\": 1}", "an object over several lines"),
        ("a.json", b"3", "not a JSON list"),
        ("a.xlsx", b"PK", "rows are not read from .xlsx known endings are .txt"),
        ("a", b"x", "no ending that tells the format"),
        ("a.parquet", b"x", "not readable as Parquet"),
    ] {
        let told = rows(name, content).unwrap_err();
        assert!(told.contains(words), "{name}: {told}");
    }
    assert!(Reader::from_read(Box::new(&b""[..]), "in", Format::Parquet).unwrap_err().usage);
}

/// A quote that is not closed takes neither all memory nor all time.
#[test]
fn rows_have_a_longest() {
    let quote = std::io::Cursor::new(b"text\n\"").chain(std::io::repeat(b'x'));
    let mut reader = Reader::from_read(Box::new(quote), "in", Format::Csv).unwrap();
    assert!(reader.next().unwrap_err().hint.unwrap().contains("quote"));
    for (format, start) in [(Format::Text, ""), (Format::JsonLines, "\""), (Format::Json, "[\"")] {
        let endless = std::io::Cursor::new(start.as_bytes()).chain(std::io::repeat(b'x'));
        let mut reader = Reader::from_read(Box::new(endless), "in", format).unwrap();
        assert!(reader.next().unwrap_err().what.contains("64 MiB"), "{format:?}");
    }
    let wide = std::io::Cursor::new(b"text\n").chain(std::io::repeat(b','));
    let mut reader = Reader::from_read(Box::new(wide), "in", Format::Csv).unwrap();
    assert!(reader.next().unwrap_err().what.contains("fields"));
}

use std::io::Read;
