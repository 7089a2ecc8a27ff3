//! Whole files: what was written is read back, writing is durable, real files open quickly, and a
//! file that shrinks while it is open is noticed.

use leyden_testkit::{patience, shared};
use std::time::{Duration, Instant};

use leyden_tensor::{Array, DType, Gguf, GgufWriter, Value, ValueType, WeightSource};
use proptest::prelude::*;

fn any_array() -> impl Strategy<Value = Array> {
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..20).prop_map(|v| Array::from_u8(&v)),
        prop::collection::vec(any::<i8>(), 0..20).prop_map(|v| Array::from_i8(&v)),
        prop::collection::vec(any::<u16>(), 0..20).prop_map(|v| Array::from_u16(&v)),
        prop::collection::vec(any::<i16>(), 0..20).prop_map(|v| Array::from_i16(&v)),
        prop::collection::vec(any::<u32>(), 0..20).prop_map(|v| Array::from_u32(&v)),
        prop::collection::vec(any::<i32>(), 0..20).prop_map(|v| Array::from_i32(&v)),
        prop::collection::vec(any::<u64>(), 0..20).prop_map(|v| Array::from_u64(&v)),
        prop::collection::vec(any::<i64>(), 0..20).prop_map(|v| Array::from_i64(&v)),
        prop::collection::vec(any::<f32>(), 0..20).prop_map(|v| Array::from_f32(&v)),
        prop::collection::vec(any::<f64>(), 0..20).prop_map(|v| Array::from_f64(&v)),
        prop::collection::vec(any::<bool>(), 0..20).prop_map(|v| Array::from_bools(&v)),
        prop::collection::vec(prop::collection::vec(any::<u8>(), 0..12), 0..20).prop_map(Array::from_strs),
    ]
}

fn any_value() -> impl Strategy<Value = Value> {
    prop_oneof![
        any::<u8>().prop_map(Value::U8),
        any::<i8>().prop_map(Value::I8),
        any::<u16>().prop_map(Value::U16),
        any::<i16>().prop_map(Value::I16),
        any::<u32>().prop_map(Value::U32),
        any::<i32>().prop_map(Value::I32),
        any::<u64>().prop_map(Value::U64),
        any::<i64>().prop_map(Value::I64),
        any::<f32>().prop_map(Value::F32),
        any::<f64>().prop_map(Value::F64),
        any::<bool>().prop_map(Value::Bool),
        any::<String>().prop_map(Value::String),
        any_array().prop_map(Value::Array),
    ]
}

fn any_dtype() -> impl Strategy<Value = DType> {
    prop::sample::select(DType::encodable().collect::<Vec<_>>())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_written_is_read_back(
        entries in prop::collection::vec(("[a-z.]{1,12}", any_value()), 0..12),
        tensors in prop::collection::btree_map(
            "\\PC{1,20}",
            (any_dtype(), prop::collection::vec(1usize..4, 0..3), 1usize..3, any::<u8>()),
            0..8,
        ),
        alignment in prop::option::of(0u32..=12),
    ) {
        let mut writer = GgufWriter::new();
        let mut wanted = Vec::<(String, Value)>::new();
        for (key, value) in entries {
            writer.set(&key, value.clone());
            match wanted.iter_mut().find(|entry| entry.0 == key) {
                Some(entry) => entry.1 = value,
                None => wanted.push((key, value)),
            }
        }
        let alignment = alignment.map(|bits| 1 << bits);
        if let Some(n) = alignment {
            writer.set("general.alignment", Value::U32(n));
        }
        let mut data = Vec::new();
        for (name, (dtype, mut shape, blocks, fill)) in tensors {
            shape.push(blocks * dtype.block_len());
            let n: usize = shape.iter().product::<usize>() / dtype.block_len() * dtype.block_bytes();
            let bytes: Vec<u8> = (0..n).map(|i| fill.wrapping_add(i as u8)).collect();
            writer.add_tensor(&name, dtype, &shape, bytes.clone()).unwrap();
            data.push((name, dtype, shape, bytes));
        }
        let file = Gguf::from_vec(writer.to_vec().unwrap(), "w.gguf").unwrap();
        for (key, value) in &wanted {
            let found = file.metadata().get(key).unwrap();
            // NaN is not equal to itself, so compare what would be written.
            prop_assert_eq!(format!("{found:?}"), format!("{value:?}"));
            if let (Value::Array(a), Value::Array(b)) = (found, value) {
                prop_assert!(a == b);
            }
        }
        let keys: Vec<&str> = file.metadata().iter().map(|(key, _)| key).filter(|&k| k != "general.alignment").collect();
        prop_assert_eq!(keys, wanted.iter().map(|(key, _)| key.as_str()).collect::<Vec<_>>());
        prop_assert_eq!(file.tensor_names(), data.iter().map(|t| t.0.as_str()).collect::<Vec<_>>());
        for (name, dtype, shape, bytes) in &data {
            let view = file.require(name).unwrap();
            prop_assert_eq!((view.name(), view.dtype(), view.shape()), (&name[..], *dtype, &shape[..]));
            prop_assert!(view.bytes() == &bytes[..]);
        }
        for info in file.tensor_info() {
            prop_assert_eq!(info.offset % alignment.unwrap_or(32) as usize, 0);
        }
    }

    /// Integers are read in any width that holds them, and refused by name in any other.
    #[test]
    fn integers_of_any_width(n in any::<i64>(), narrow in any::<i8>()) {
        for (value, n) in [
            (Value::I64(n), i128::from(n)),
            (Value::U64(n as u64), i128::from(n as u64)),
            (Value::I8(narrow), i128::from(narrow)),
            (Value::U16(n as u16), i128::from(n as u16)),
        ] {
            let meta = leyden_tensor::Metadata::new("m.gguf", [("n".to_owned(), value)]).unwrap();
            prop_assert_eq!(meta.u32("n").ok(), u32::try_from(n).ok());
            prop_assert_eq!(meta.i32("n").ok(), i32::try_from(n).ok());
            prop_assert_eq!(meta.u64("n").ok(), u64::try_from(n).ok());
            prop_assert_eq!(meta.i64("n").ok(), i64::try_from(n).ok());
            if let Err(e) = meta.u32("n") {
                prop_assert_eq!(e.to_string(), format!("m.gguf: n: {n} does not fit u32"));
            }
        }
    }
}

#[test]
fn arrays_are_read_as_asked_or_refused_by_name() {
    let mut w = GgufWriter::new();
    w.set("i", Array::from_u64(&[1, 2, 3]).into()).set("big", Array::from_i64(&[1, 1 << 40]).into());
    w.set("f", Array::from_f64(&[0.5, 1e300]).into()).set("s", Array::from_strs([&b"a\xff"[..], b""]).into());
    w.set("none", Array::from_f32(&[]).into());
    let file = Gguf::from_vec(w.to_vec().unwrap(), "m.gguf").unwrap();
    let meta = file.metadata();
    assert_eq!(meta.opt_array_i32("i").unwrap(), Some(vec![1, 2, 3]));
    assert_eq!(meta.opt_array_u32("absent").unwrap(), None);
    assert_eq!(
        meta.opt_array_i32("big").unwrap_err().to_string(),
        "m.gguf: big: 1099511627776 does not fit i32"
    );
    assert_eq!(meta.opt_array_f32("f").unwrap(), Some(vec![0.5, f32::INFINITY]));
    assert_eq!(
        meta.opt_array_i32("f").unwrap_err().to_string(),
        "m.gguf: f: want array of i32, found array of f64"
    );
    assert_eq!(
        meta.opt_array_i32("none").unwrap_err().to_string(),
        "m.gguf: none: want array of i32, found array of f32"
    );
    assert_eq!(
        meta.opt_array_i32("s").unwrap_err().to_string(),
        "m.gguf: s: want array of i32, found array of string"
    );
    assert_eq!(
        meta.opt_array_str("i").unwrap_err().to_string(),
        "m.gguf: i: want array of string, found array of u64"
    );
    let s = meta.opt_array_str("s").unwrap().unwrap();
    assert_eq!((s.len(), s.get(0), s.get(1), s.get(2)), (2, Some(&b"a\xff"[..]), Some(&b""[..]), None));
    drop(file);
    assert_eq!(s.get(0), Some(&b"a\xff"[..]), "strings outlive the file");
}

#[test]
fn writer_refuses_what_the_reader_would() {
    let mut w = GgufWriter::new();
    w.add_tensor("w", DType::F32, &[1], vec![0; 4]).unwrap();
    let mut error = |name: &str, shape: &[usize], len| {
        w.add_tensor(name, DType::F32, shape, vec![0; len]).map(|_| ()).unwrap_err().to_string()
    };
    assert_eq!(error("w", &[1], 4), "w: tensor appears twice");
    assert_eq!(error("v", &[1], 5), "v: 5 bytes given, type and shape need 4");
    assert_eq!(error("v", &[1; 5], 4), "v: 5 dimensions, want 1 to 4");
    assert_eq!(error("v", &[], 4), "v: 0 dimensions, want 1 to 4");
    assert_eq!(error("v", &[0, 4], 0), "v: a dimension is zero");
    assert_eq!(error("", &[1], 4), ": tensor name is empty");
    assert!(
        error(&"n".repeat(65_536), &[1], 4)
            .ends_with("length of the name is 65536, at most 65535 is possible")
    );
    w.set("general.alignment", Value::U32(48));
    assert!(
        w.to_vec().unwrap_err().to_string().contains("general.alignment: alignment 48 is not a power of two")
    );
    let mut w = GgufWriter::new();
    w.set("", Value::U8(1));
    assert!(w.to_vec().is_err());
}

#[test]
fn write_to_replaces_the_file_and_leaves_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.gguf");
    for n in [1u32, 2] {
        let mut w = GgufWriter::new();
        w.set("n", n.into()).add_tensor("w", DType::F32, &[2], vec![n as u8; 8]).unwrap();
        w.write_to(&path).unwrap();
        let file = Gguf::open(&path).unwrap();
        assert_eq!((file.metadata().u32("n").unwrap(), file.path()), (n, path.as_path()));
        assert_eq!(std::fs::read(&path).unwrap(), w.to_vec().unwrap());
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    // A file cannot replace a folder: the error names it and the temporary file is gone.
    let taken = folder.path().join("taken");
    std::fs::create_dir(&taken).unwrap();
    let error = GgufWriter::new().write_to(&taken).unwrap_err().to_string();
    assert!(error.starts_with(&format!("{}: cannot write: is a folder", taken.display())), "{error}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
    let absent = folder.path().join("absent/m.gguf");
    assert!(
        GgufWriter::new()
            .write_to(&absent)
            .unwrap_err()
            .to_string()
            .contains("cannot create a file in the folder")
    );
}

/// An open file that shrinks: reads give zeros, and the file reports it.
#[test]
fn truncation_while_open_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.gguf");
    let mut w = GgufWriter::new();
    w.set("t.tokens", Array::from_strs((0..5000).map(|i| i.to_string())).into());
    w.add_tensor("w", DType::F32, &[64, 4096], vec![7; 1 << 20]).unwrap();
    w.write_to(&path).unwrap();
    let file = Gguf::open(&path).unwrap();
    let w = file.require("w").unwrap();
    assert_eq!((w.row(63)[0], file.truncated(), file.check_intact().is_ok()), (7, false, true));
    file.advise_willneed("w");
    file.advise_dontneed("w", 0..usize::MAX);
    assert_eq!(w.row(63)[0], 7, "given back and read again");
    std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(4096).unwrap();
    assert!(w.bytes().iter().skip(8192).all(|&b| b == 0));
    assert!(file.truncated());
    assert_eq!(
        file.check_intact().unwrap_err().to_string(),
        format!(
            "{}: part of the file could not be read: it was truncated while open, or the disk failed",
            path.display()
        )
    );
    let tokens = file.metadata().opt_array_str("t.tokens").unwrap().unwrap();
    assert_eq!(
        tokens.iter().filter(|t| t.len() <= 4).count(),
        5000,
        "lengths are those from when it was opened"
    );
}

/// The model file in the shared folder, compared with its README.
#[test]
fn storyteller_opens() {
    let Some(path) = shared("demo-model/storyteller-f16.gguf") else { return };
    let file = Gguf::open(&path).unwrap();
    let meta = file.metadata();
    assert_eq!(meta.str("general.architecture").unwrap(), "llama");
    assert_eq!(
        (meta.u32("llama.block_count").unwrap(), meta.u32("llama.embedding_length").unwrap()),
        (4, 256)
    );
    assert_eq!(meta.opt_array_str("tokenizer.ggml.tokens").unwrap().unwrap().len(), 4096);
    let embedding = file.require("token_embd.weight").unwrap();
    assert_eq!((embedding.dtype(), embedding.shape()), (DType::F16, &[4096, 256][..]));
    let parameters: usize = file.tensor_info().iter().map(|t| t.shape.iter().product::<usize>()).sum();
    assert!((4_000_000..4_500_000).contains(&parameters));
}

/// Every vocabulary opens; 150,000 tokens take no more than 30 ms.
#[test]
fn vocabularies_open_quickly() {
    let Some(folder) = shared("data/tokenizers/ggml-vocab") else { return };
    let mut seen = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|e| e != "gguf") {
            continue;
        }
        let open = || {
            let start = Instant::now();
            (Gguf::open(&path).unwrap(), start.elapsed())
        };
        // The best of five: the first may wait for the disk, any may wait for the processor.
        let (file, took) = (0..5).map(|_| open()).min_by_key(|(_, took)| *took).unwrap();
        let tokens = file.metadata().opt_array_str("tokenizer.ggml.tokens").unwrap().unwrap();
        assert!(tokens.len() > 1000 && tokens.iter().any(|t| t == b"the" || t == "\u{2581}the".as_bytes()));
        let limit = Duration::from_millis(30 * (tokens.len() as u64).max(150_000) / 150_000);
        assert!(took <= patience(limit), "{}: {} tokens in {took:?}", path.display(), tokens.len());
        eprintln!("{}: {} tokens in {took:?}", path.file_name().unwrap().display(), tokens.len());
        for (key, value) in file.metadata().iter() {
            assert!(value.value_type() != ValueType::Array || !key.is_empty());
        }
        seen += 1;
    }
    assert!(seen > 5);
}
