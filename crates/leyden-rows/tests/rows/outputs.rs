//! Output files: what is written is read back.

use super::read;
use leyden_rows::{Entry, Journal, Output, write};
use serde_json::{Value, json};

/// A journal with these rows.
fn journal(rows: &[Value]) -> Journal {
    let mut journal = Journal::temporary().unwrap();
    for (n, row) in (0..).zip(rows) {
        let failed = row.get("error").is_some();
        journal.append(&Entry { number: n, hash: 0, failed, key: 0.0, row: row.to_string() }).unwrap();
    }
    journal
}

fn rows() -> Vec<Value> {
    vec![
        json!({ "id": 1, "text": "a, \"b\"\nc", "ok": true, "score": 0.5, "embedding": [1.5, -2.0], "x": [1, "a"] }),
        json!({ "id": -2, "text": "", "ok": false, "score": 3, "embedding": [], "x": null }),
        json!({ "id": 3, "error": "bad" }),
    ]
}

#[test]
fn every_format_keeps_the_rows() {
    let folder = tempfile::tempdir().unwrap();
    let written = |name: &str| {
        let path = folder.path().join(name);
        write(&path, Output::of_path(&path).unwrap(), &mut journal(&rows()), None).unwrap();
        let read = read(&path).unwrap();
        (
            std::fs::read(&path).unwrap(),
            read.into_iter().map(|row| Value::Object(row.fields)).collect::<Vec<_>>(),
        )
    };
    assert_eq!(written("a.jsonl").1, rows());
    assert_eq!(written("a.json").1, rows());
    let parquet = written("a.parquet").1;
    let wanted = json!({ "id": 1, "text": "a, \"b\"\nc", "ok": true, "score": 0.5, "embedding": [1.5, -2.0], "x": "[1,\"a\"]", "error": null });
    assert_eq!(parquet[0], wanted);
    assert_eq!(
        (&parquet[1]["embedding"], &parquet[1]["score"], &parquet[1]["x"]),
        (&json!([]), &json!(3.0), &Value::Null)
    );
    assert_eq!((&parquet[2]["embedding"], &parquet[2]["error"]), (&Value::Null, &json!("bad")));
    let (csv, table) = written("a.csv");
    let csv = String::from_utf8(csv).unwrap();
    assert!(
        csv.starts_with("id,text,ok,score,embedding,x,error\n1,\"a, \"\"b\"\"\nc\",true,0.5,\"[1.5,-2.0]\","),
        "{csv}"
    );
    assert_eq!(
        (table.len(), &table[2]["error"], &table[0]["text"]),
        (3, &json!("bad"), &json!("a, \"b\"\nc"))
    );
    assert_eq!(written("a.tsv").1, table);
}

#[test]
fn vectors_are_one_array() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.npy");
    let mut journal = journal(&[json!({ "embedding": [0.5, 2.0] }), json!({ "error": "bad" })]);
    write(&path, Output::Npy, &mut journal, None).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    let length = 10 + usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    let head = std::str::from_utf8(&bytes[10..length]).unwrap();
    assert!(
        head.starts_with("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), }")
            && head.ends_with('\n')
    );
    assert_eq!(length % 64, 0);
    let floats: Vec<f32> =
        bytes[length..].as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect();
    assert_eq!(floats[..2], [0.5, 2.0]);
    assert!(floats.len() == 4 && floats[2..].iter().all(|x| x.is_nan()));
    let mut ragged = self::journal(&[json!({ "embedding": [0.5] }), json!({ "embedding": [0.5, 1.0] })]);
    assert!(write(&path, Output::Npy, &mut ragged, None).unwrap_err().what.contains("vectors of 1"));
    assert_eq!(std::fs::read(&path).unwrap(), bytes, "a failure leaves the file");
}

#[test]
fn rows_of_a_sorted_output_stand_in_its_order() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.jsonl");
    let mut journal = Journal::temporary().unwrap();
    for (n, key) in (0..).zip([1.0, 3.0, 2.0]) {
        journal
            .append(&Entry { number: n, hash: 0, failed: false, key, row: json!({ "n": n }).to_string() })
            .unwrap();
    }
    let order = journal.best_first(Some(2)).unwrap();
    write(&path, Output::JsonLines, &mut journal, Some(&order)).unwrap();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "{\"n\":1}\n{\"n\":2}\n");
    let mut text = Journal::temporary().unwrap();
    text.append(&Entry { number: 0, hash: 0, failed: false, key: 0.0, row: json!("a\nb\n").to_string() })
        .unwrap();
    write(&folder.path().join("a.txt"), Output::Text, &mut text, None).unwrap();
    assert_eq!(std::fs::read_to_string(folder.path().join("a.txt")).unwrap(), "a\nb\n");
}
