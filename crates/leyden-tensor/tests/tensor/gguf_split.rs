//! Models in several GGUF files: opened whole from any part, and refused, naming the file, when a part
//! is missing or belongs to something else.

use std::path::{Path, PathBuf};

use leyden_tensor::{DType, Gguf, GgufWriter, Value, WeightSource};

/// Returns the metadata of part `no` of a model; part 0 has the model's own metadata.
fn part(no: u16, count: u16, total: i32, tensors: &[&str]) -> GgufWriter<'static> {
    let mut w = GgufWriter::new();
    if no == 0 {
        w.set("general.architecture", "llama".into()).set("general.alignment", Value::U32(64));
    }
    w.set("split.no", no.into()).set("split.count", count.into()).set("split.tensors.count", total.into());
    for name in tensors {
        w.add_tensor(name, DType::F32, &[8], vec![no as u8 + 1; 32]).expect("valid tensor");
    }
    w
}

fn parts() -> [GgufWriter<'static>; 3] {
    // The first part may be without tensors.
    [part(0, 3, 3, &[]), part(1, 3, 3, &["a", "c"]), part(2, 3, 3, &["b"])]
}

fn path(folder: &Path, no: usize) -> PathBuf {
    folder.join(format!("m-{no:05}-of-00003.gguf"))
}

fn write(folder: &Path) {
    for (no, part) in parts().iter().enumerate() {
        part.write_to(&path(folder, no + 1)).expect("folder is writable");
    }
}

#[test]
fn any_part_opens_all() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path());
    for no in 1..=3 {
        let file = Gguf::open(&path(folder.path(), no)).unwrap();
        assert_eq!(file.path(), path(folder.path(), 1));
        assert_eq!(file.paths(), [1, 2, 3].map(|no| path(folder.path(), no)));
        // The names alone give the paths.
        assert_eq!(Gguf::files_of(&path(folder.path(), no)), file.paths());
        assert_eq!(file.metadata().str("general.architecture").unwrap(), "llama");
        assert_eq!(file.tensor_names(), ["a", "c", "b"]);
        assert_eq!(file.tensor_info().iter().map(|t| t.file).collect::<Vec<_>>(), [1, 1, 2]);
        for (name, fill) in [("a", 2), ("b", 3), ("c", 2)] {
            assert!(file.require(name).unwrap().bytes() == [fill; 32], "{name}");
            file.advise_willneed(name);
            file.advise_dontneed(name, 0..usize::MAX);
        }
        let missing = file.require("d").unwrap_err().to_string();
        assert_eq!(missing, format!("{}: d: required tensor is missing", path(folder.path(), 1).display()));
    }
}

#[test]
fn a_name_of_no_part_is_one_file() {
    for name in [
        "m.gguf",
        "m-00002-of-00001.gguf.x",
        "m-00004-of-99999.gguf",
        "m-0-of-3.gguf",
        "m-00004-of-00003.gguf",
        "m-1-of-00003.gguf",
        "-of-.gguf",
    ] {
        assert_eq!(Gguf::files_of(Path::new(name)), [Path::new(name)], "{name}");
    }
}

/// Merging leaves the keys behind, with a count of 0; and a single part is whole.
#[test]
fn counts_of_0_and_1_are_no_split() {
    for count in [0u16, 1] {
        let bytes = part(0, count, 7, &["a"]).to_vec().unwrap();
        assert_eq!(Gguf::from_vec(bytes, "m.gguf").unwrap().tensor_names(), ["a"]);
    }
}

#[test]
fn what_does_not_fit_is_refused_by_file() {
    let renamed = "split.no: this is part 2 of 3: the name of its file must end in -00002-of-00003.gguf";
    type Change = fn(&Path);
    let cases: [(&str, Change, &str); 13] = [
        (
            "missing part",
            |f| std::fs::remove_file(path(f, 3)).unwrap(),
            "m-00003-of-00003.gguf: cannot open: No such file",
        ),
        (
            "missing first part",
            |f| std::fs::remove_file(path(f, 1)).unwrap(),
            "m-00001-of-00003.gguf: cannot open: No such file",
        ),
        (
            "part of another size",
            |f| part(2, 4, 3, &["b"]).write_to(&path(f, 3)).unwrap(),
            "m-00003-of-00003.gguf: split.count: is 4, want 3",
        ),
        (
            "parts exchanged",
            |f| std::fs::copy(path(f, 2), path(f, 3)).map(drop).unwrap(),
            "m-00003-of-00003.gguf: split.no: is 1, want 2",
        ),
        (
            "other number of tensors",
            |f| part(2, 3, 4, &["b"]).write_to(&path(f, 3)).unwrap(),
            "m-00003-of-00003.gguf: split.tensors.count: is 4, want 3",
        ),
        (
            "too few tensors",
            |f| part(2, 3, 3, &[]).write_to(&path(f, 3)).unwrap(),
            "m-00001-of-00003.gguf: split.tensors.count: is 3, want 2",
        ),
        (
            "tensor in two parts",
            |f| part(2, 3, 3, &["a"]).write_to(&path(f, 3)).unwrap(),
            "m-00001-of-00003.gguf: a: tensor appears twice",
        ),
        (
            "not a part",
            |f| GgufWriter::new().write_to(&path(f, 3)).unwrap(),
            "m-00003-of-00003.gguf: split.count: required metadata key is missing",
        ),
        (
            "not GGUF",
            |f| std::fs::write(path(f, 3), "<html>").unwrap(),
            "m-00003-of-00003.gguf: header: not a GGUF file: it looks like a web page",
        ),
        (
            "cut",
            |f| std::fs::write(path(f, 3), &parts()[2].to_vec().unwrap()[..150]).unwrap(),
            "m-00003-of-00003.gguf: ",
        ),
        (
            "no number",
            |f| {
                let mut w = GgufWriter::new();
                w.set("split.count", Value::U16(3)).write_to(&path(f, 2)).unwrap();
            },
            "m-00002-of-00003.gguf: split.no: required metadata key is missing",
        ),
        (
            "number beyond the count",
            |f| part(3, 3, 3, &[]).write_to(&path(f, 2)).unwrap(),
            "m-00002-of-00003.gguf: split.no: number of the part, counted from 0, is 3, at most 2 is possible",
        ),
        (
            "count beyond the format",
            |f| {
                let mut w = part(1, 3, 3, &[]);
                w.set("split.count", Value::U32(u32::MAX)).write_to(&path(f, 2)).unwrap();
            },
            "m-00002-of-00003.gguf: split.count: number of parts is 4294967295, at most 65535 is possible",
        ),
    ];
    for (case, change, want) in cases {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path());
        change(folder.path());
        let given = path(folder.path(), if case == "missing first part" { 3 } else { 2 });
        let error = Gguf::open(&given).unwrap_err().to_string();
        assert!(error.contains(want), "{case}: {error}");
    }
    // A name that does not give the names of the others.
    let folder = tempfile::tempdir().unwrap();
    for name in ["m.gguf", "m-00001-of-00003.gguf", "m-00002-of-00004.gguf", "m-2-of-3.gguf"] {
        let path = folder.path().join(name);
        parts()[1].write_to(&path).unwrap();
        let error = Gguf::open(&path).unwrap_err().to_string();
        assert!(error.starts_with(&format!("{}: {renamed}", path.display())), "{error}");
    }
    let error = Gguf::from_vec(parts()[1].to_vec().unwrap(), "<memory>").unwrap_err().to_string();
    assert!(error.starts_with(&format!("<memory>: {renamed}")), "{error}");
}

#[test]
fn truncation_of_any_part_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path());
    let mut w = part(2, 3, 3, &[]);
    w.add_tensor("b", DType::F32, &[1 << 16], vec![9; 1 << 18]).unwrap();
    w.write_to(&path(folder.path(), 3)).unwrap();
    let file = Gguf::open(&path(folder.path(), 1)).unwrap();
    file.check_intact().unwrap();
    std::fs::OpenOptions::new().write(true).open(path(folder.path(), 3)).unwrap().set_len(4096).unwrap();
    assert!(file.require("b").unwrap().bytes().ends_with(&[0; 100]) && file.truncated());
    let error = file.check_intact().unwrap_err().to_string();
    assert!(error.starts_with(&format!("{}: part of the file", path(folder.path(), 3).display())), "{error}");
}
