//! Parquet as pyarrow, polars and DuckDB write it (`make.py`), and damaged files.

use super::read;
use leyden_rows::Reader;
use serde_json::Value;
use std::path::PathBuf;

fn data(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/rows/data").join(name)
}

/// Files with their rows.
fn files() -> Vec<(String, Value)> {
    let rows = std::fs::read_to_string(data("parquet.json")).unwrap();
    let Value::Object(files) = serde_json::from_str(&rows).unwrap() else { panic!("an object") };
    files.into_iter().filter(|(name, _)| name != "brotli.parquet").collect()
}

#[test]
fn rows_are_pyarrows() {
    let files = files();
    assert_eq!(files.len(), 8);
    for (name, wanted) in files {
        let rows = read(&data(&name)).unwrap_or_else(|error| panic!("{error}"));
        for (row, wanted) in rows.iter().zip(wanted.as_array().unwrap()) {
            assert_eq!(&Value::Object(row.fields.clone()), wanted, "{name}: {}", row.place);
        }
        assert_eq!(rows.len(), wanted.as_array().unwrap().len(), "{name}");
        assert_eq!(rows[3].place, "row 4");
        let reader = Reader::open(&data(&name), None).unwrap();
        assert!(reader.columns().unwrap().iter().any(|column| column == "id"));
    }
    let told = read(&data("brotli.parquet")).unwrap_err();
    assert!(told.what.contains("compressed with brotli, which is not read"), "{told}");
}

/// Cut, and with any byte changed: rows or an error, never a panic or an endless loop.
#[test]
fn damaged_files_are_errors_or_rows() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("damaged.parquet");
    for (name, _) in files() {
        let whole = std::fs::read(data(&name)).unwrap();
        for cut in (0..whole.len()).step_by(97) {
            std::fs::write(&path, &whole[..cut]).unwrap();
            assert!(read(&path).is_err(), "{name} cut at {cut}");
        }
        for at in (0..whole.len()).step_by(13) {
            for change in [0xff, 0x01] {
                let mut bytes = whole.clone();
                bytes[at] ^= change;
                std::fs::write(&path, &bytes).unwrap();
                let _ = read(&path);
            }
        }
    }
}
