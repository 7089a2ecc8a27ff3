//! Hand-made malformed safetensors models: each is refused with an error that names the file and what
//! is wrong in it.

use std::path::Path;

use leyden_tensor::{MAX_TENSORS, Safetensors, WeightSource};

fn framed(header: &str, data: usize) -> Vec<u8> {
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    bytes.resize(bytes.len() + data, 1);
    bytes
}

/// A file with one tensor `blk` of which some fields are given.
fn one(dtype: &str, shape: &str, offsets: &str, data: usize) -> Vec<u8> {
    framed(&format!(r#"{{"blk":{{"dtype":{dtype},"shape":{shape},"data_offsets":{offsets}}}}}"#), data)
}

/// Two tensors of four bytes each at the given places.
fn two(a: [u64; 2], b: [u64; 2], data: usize) -> Vec<u8> {
    let entry =
        |at: [u64; 2]| format!(r#"{{"dtype":"F32","shape":[1],"data_offsets":[{},{}]}}"#, at[0], at[1]);
    framed(&format!(r#"{{"a":{},"b":{}}}"#, entry(a), entry(b)), data)
}

fn cases() -> Vec<(&'static str, Vec<u8>, &'static str)> {
    let f32 = r#""F32""#;
    let w = r#"{"dtype":"F32","shape":[1],"data_offsets":[0,4]}"#;
    let len = |n: u64, rest: &[u8]| [&n.to_le_bytes()[..], rest].concat();
    let deep = format!("{{\"w\":{}", "[".repeat(100_000));
    let long = "n".repeat(65_536);
    vec![
        // What is not safetensors at all.
        (
            "empty",
            vec![],
            "header: file ends early: length of the header needs 8 bytes at byte 0, 0 are left",
        ),
        (
            "short length",
            vec![1, 2, 3],
            "header: file ends early: length of the header needs 8 bytes at byte 0",
        ),
        (
            "gguf",
            b"GGUF\x03\0\0\0\0\0\0\0\0\0\0\0".to_vec(),
            "header: not a safetensors file: it looks like a GGUF file",
        ),
        ("zip", b"PK\x03\x04aaaaaaaaaaaa".to_vec(), "the directory at its end is missing or damaged"),
        ("pickle", b"\x80\x02}q\x00(X\x05\0\0\0".to_vec(), "looks like a Python pickle"),
        ("lfs", b"version https://git-lfs.github.com/spec/v1\n".to_vec(), "looks like a Git LFS pointer"),
        ("html", b"<!DOCTYPE html><html>".to_vec(), "looks like a web page"),
        ("json", br#"{"weight_map": {}}"#.to_vec(), "looks like JSON"),
        ("zeros", vec![0; 64], "looks like zeros (an interrupted download?)"),
        ("noise", len(40, &[0x93; 60]), "looks like something unknown"),
        // The length of the header.
        ("length 0", len(0, b"{}"), "header: line 1 column 0: EOF while parsing"),
        ("length 0 alone", len(0, b""), "header: line 1 column 0: EOF"),
        (
            "length one over",
            len(3, b"{}"),
            "header: file ends early: header needs 3 bytes at byte 8, 2 are left",
        ),
        (
            "length 1e8",
            len(100_000_000, b"{}"),
            "header: file ends early: header needs 100000000 bytes at byte 8",
        ),
        (
            "length 1e8+1",
            len(100_000_001, b"{}"),
            "header: length of the header is 100000001, at most 100000000",
        ),
        ("length 2^63", len(1 << 63, b"{}"), "header: length of the header is 9223372036854775808"),
        ("length max", len(u64::MAX, b"{}"), "header: length of the header is 18446744073709551615"),
        // The syntax of the header.
        ("begins with a space", framed(" {}", 0), "looks like something unknown"),
        ("array", framed("[]", 0), "looks like something unknown"),
        ("ends early", framed(r#"{"w""#, 0), "w: line 1 column 4: EOF"),
        ("something after it", framed("{} x", 0), "header: line 1 column 4: trailing characters"),
        ("NUL after it", framed("{}\0\0", 0), "header: line 1 column 3: trailing characters"),
        (
            "nested",
            framed(&deep, 0),
            "w: line 1 column 5: invalid type: sequence, expected an object with dtype",
        ),
        (
            "name not UTF-8",
            [&9u64.to_le_bytes()[..], b"{\"\xff\xfe\":{}"].concat(),
            "header: file ends early",
        ),
        ("surrogate", framed(r#"{"\ud800":{}}"#, 0), "header: line 1"),
        ("comment", framed("{/**/}", 0), "header: line 1 column 2: key must be a string"),
        ("tensor null", framed(r#"{"w":null}"#, 0), "w: line 1 column 9: invalid type: null"),
        ("tensor empty", framed(r#"{"w":{}}"#, 0), "w: line 1 column 7: missing field `dtype`"),
        (
            "no offsets",
            framed(r#"{"w":{"dtype":"F32","shape":[]}}"#, 0),
            "w: line 1 column 31: missing field `data_offsets`",
        ),
        (
            "unknown field",
            framed(r#"{"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"code":"x"}}"#, 4),
            "w: line 1 column 59: unknown field `code`",
        ),
        (
            "field twice",
            framed(r#"{"w":{"dtype":"F32","dtype":"F16","shape":[1],"data_offsets":[0,4]}}"#, 4),
            "w: line 1 column 33: field dtype appears twice",
        ),
        (
            "offsets twice",
            framed(r#"{"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"data_offsets":[0,4]}}"#, 4),
            "field data_offsets appears twice",
        ),
        ("tensor twice", framed(&format!(r#"{{"w":{w},"w":{w}}}"#), 4), "w: tensor appears twice"),
        (
            "tensor twice in two spellings",
            framed(&format!(r#"{{"w":{w},"\u0077":{w}}}"#), 4),
            "w: tensor appears twice",
        ),
        ("name empty", framed(&format!(r#"{{"":{w}}}"#), 4), "header: name is empty"),
        (
            "name long",
            framed(&format!(r#"{{"{long}":{w}}}"#), 4),
            "header: length of the name is 65536, at most 65535",
        ),
        // __metadata__.
        (
            "metadata twice",
            framed(r#"{"__metadata__":{},"__metadata__":{}}"#, 0),
            "__metadata__: key appears twice",
        ),
        ("metadata key twice", framed(r#"{"__metadata__":{"a":"1","a":"2"}}"#, 0), "a: key appears twice"),
        ("metadata key empty", framed(r#"{"__metadata__":{"":"1"}}"#, 0), "__metadata__: name is empty"),
        (
            "metadata number",
            framed(r#"{"__metadata__":{"a":1}}"#, 0),
            "__metadata__: line 1 column 22: invalid type: integer `1`, expected a string",
        ),
        (
            "metadata null",
            framed(r#"{"__metadata__":null}"#, 0),
            "__metadata__: line 1 column 20: invalid type: null",
        ),
        // Types.
        ("type unknown", one(r#""F128""#, "[1]", "[0,16]", 16), "blk: tensor type F128 is unknown"),
        ("type lower case", one(r#""f32""#, "[1]", "[0,4]", 4), "blk: tensor type f32 is unknown"),
        (
            "type hostile",
            one(r#""\u001b[31m""#, "[1]", "[0,4]", 4),
            "blk: tensor type \\u{1b}[31m is unknown",
        ),
        ("type number", one("7", "[1]", "[0,4]", 4), "blk: line 1 column 17: invalid type: integer `7`"),
        // Shapes.
        ("shape number", one(f32, "1", "[0,4]", 4), "blk: line 1 column 31: invalid type: integer `1`"),
        (
            "shape negative",
            one(f32, "[-1]", "[0,4]", 4),
            "blk: line 1 column 33: invalid value: integer `-1`",
        ),
        (
            "shape float",
            one(f32, "[1.0]", "[0,4]", 4),
            "blk: line 1 column 34: invalid type: floating point `1.0`",
        ),
        ("shape 2^64", one(f32, "[18446744073709551616]", "[0,4]", 4), "blk: line 1 column"),
        ("shape nested", one(f32, "[[1]]", "[0,4]", 4), "blk: line 1 column 31: invalid type: sequence"),
        (
            "nine dimensions",
            one(f32, "[1,1,1,1,1,1,1,1,1]", "[0,4]", 4),
            "blk: number of dimensions is 9, at most 8 is possible",
        ),
        (
            "shape max",
            one(f32, "[18446744073709551615]", "[0,4]", 4),
            "blk: dimensions [18446744073709551615] need more bytes",
        ),
        (
            "shape wraps to 4",
            one(f32, "[4294967296,4294967296,1]", "[0,4]", 4),
            "blk: dimensions [1, 4294967296, 4294967296] need more bytes",
        ),
        (
            "shape wraps to 0",
            one(f32, "[9223372036854775808,2]", "[0,0]", 0),
            "need more bytes than can be addressed",
        ),
        (
            "zero hides overflow",
            one(f32, "[0,18446744073709551615,18446744073709551615]", "[0,0]", 0),
            "need more bytes than can be addressed",
        ),
        (
            "half of a byte",
            one(r#""F4""#, "[3]", "[0,1]", 1),
            "blk: rows of 3 values are not a multiple of the 2 values in a F4",
        ),
        ("too few bytes", one(f32, "[2]", "[0,4]", 4), "blk: 4 bytes given, type and shape need 8"),
        ("too many bytes", one(f32, "[2]", "[0,12]", 12), "blk: 12 bytes given, type and shape need 8"),
        // Places.
        ("offsets reversed", one(f32, "[1]", "[4,0]", 4), "blk: data begins at byte 4 and ends at byte 0"),
        ("one offset", one(f32, "[1]", "[4]", 4), "blk: line 1 column 52: invalid length 1"),
        ("three offsets", one(f32, "[1]", "[0,4,8]", 4), "blk: line 1 column"),
        ("negative offset", one(f32, "[1]", "[-4,0]", 4), "blk: line 1 column"),
        (
            "truncated",
            one(f32, "[2]", "[0,8]", 7),
            "blk: data ends at byte 72, but the file has 71 bytes (truncated download?)",
        ),
        (
            "offset max",
            one(f32, "[1]", "[18446744073709551611,18446744073709551615]", 4),
            "blk: data lies beyond the address space",
        ),
        (
            "offset 2^63",
            one(f32, "[1]", "[9223372036854775804,9223372036854775808]", 4),
            "blk: data ends at byte 92233720368547",
        ),
        ("overlap", two([0, 4], [2, 6], 6), "b: data overlaps that of a"),
        ("same place", two([0, 4], [0, 4], 4), "b: data overlaps that of a"),
        ("gap before", two([4, 8], [8, 12], 12), "header: bytes 116 to 120 of the file belong to no tensor"),
        ("gap between", two([0, 4], [8, 12], 12), "header: bytes 120 to 124 of the file belong to no tensor"),
        ("gap after", two([0, 4], [4, 8], 100), "header: bytes 123 to 215 of the file belong to no tensor"),
        ("data without tensors", framed("{}", 9), "header: bytes 10 to 19 of the file belong to no tensor"),
    ]
}

#[test]
fn each_is_refused_by_name() {
    let mut wrong = Vec::new();
    for (case, bytes, want) in cases() {
        match Safetensors::from_vec(bytes, "bad.safetensors") {
            Ok(_) => wrong.push(format!("{case}: accepted")),
            Err(e) => {
                let message = e.to_string();
                if !message.starts_with("bad.safetensors: ") || !message.contains(want) {
                    wrong.push(format!("{case}: {message}\n    want: {want}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Errors of malformed files on disk begin with the path.
#[test]
fn each_is_refused_when_opened() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    for (case, bytes, _) in cases() {
        std::fs::write(&path, &bytes).unwrap();
        for given in [&path, folder.path()] {
            let e = Safetensors::open(given).unwrap_err();
            assert!(e.to_string().starts_with(&format!("{}: ", path.display())), "{case}: {e}");
        }
    }
}

#[test]
fn valid_oddities_are_accepted() {
    let entry = |dtype: &str, shape: &str, at: [u64; 2]| {
        format!(r#"{{"dtype":"{dtype}","shape":{shape},"data_offsets":[{},{}]}}"#, at[0], at[1])
    };
    let e = entry("F32", "[0]", [0, 0]);
    for (case, bytes) in [
        ("nothing in it", framed("{}", 0)),
        ("padding", framed("{}  \t\r\n     ", 0)),
        ("eight dimensions", one(r#""F32""#, "[1,1,1,1,1,1,1,1]", "[0,4]", 4)),
        ("scalar", one(r#""BF16""#, "[]", "[0,2]", 2)),
        ("empty tensors at one place", framed(&format!(r#"{{"a":{e},"b":{e}}}"#), 0)),
        (
            "empty tensor where another begins",
            framed(&format!(r#"{{"b":{},"a":{e}}}"#, entry("F32", "[1]", [0, 4])), 4),
        ),
        (
            "empty tensor at the end",
            framed(
                &format!(r#"{{"b":{},"a":{}}}"#, entry("F32", "[1]", [0, 4]), entry("F32", "[0]", [4, 4])),
                4,
            ),
        ),
        (
            "order of the header is not that of the data",
            framed(
                &format!(r#"{{"b":{},"a":{}}}"#, entry("F16", "[2]", [6, 10]), entry("F16", "[3]", [0, 6])),
                10,
            ),
        ),
        ("values that share bytes", one(r#""F6_E2M3""#, "[2,2]", "[0,3]", 3)),
        ("odd names", framed(&format!(r#"{{"../\u202e\u0000":{e},"__METADATA__":{e}}}"#), 0)),
        ("data that is not aligned", framed(&format!(r#"{{"a":{}}} "#, entry("F32", "[1]", [0, 4])), 4)),
    ] {
        Safetensors::from_vec(bytes, "odd.safetensors").map_err(|e| panic!("{case}: {e}")).unwrap();
    }
}

const A: &str = "model-1.safetensors";
const B: &str = "model-2.safetensors";

/// A sharded model with tensor `a` in one file and `b` in the other, and a given index.
fn sharded(folder: &Path, index: &str) {
    let w = r#"{"dtype":"F32","shape":[1],"data_offsets":[0,4]}"#;
    for (file, name) in [(A, "a"), (B, "b")] {
        std::fs::write(folder.join(file), framed(&format!(r#"{{"{name}":{w}}}"#), 4))
            .expect("folder is writable");
    }
    std::fs::write(folder.join("model.safetensors.index.json"), index).expect("folder is writable");
}

#[test]
fn bad_indices_are_refused_by_name() {
    let map = |entries: &str| format!(r#"{{"weight_map": {{{entries}}}}}"#);
    let good = format!(r#""a": "{A}", "b": "{B}""#);
    let folder = tempfile::tempdir().unwrap();
    sharded(folder.path(), &map(&good));
    assert_eq!(Safetensors::open(folder.path()).unwrap().tensor_names(), ["a", "b"]);

    let index = "model.safetensors.index.json: ";
    let many: Vec<String> = (0..=MAX_TENSORS).map(|i| format!(r#""{i}":"{A}""#)).collect();
    let mut cases = vec![
        ("empty", String::new(), index, "line 1 column 0: EOF"),
        ("not an object", "[]".to_owned(), index, "line 1 column 0: invalid type: sequence"),
        ("no map", r#"{"metadata": {}}"#.to_owned(), index, "line 1 column 16: missing field `weight_map`"),
        (
            "map twice",
            format!(r#"{{"weight_map": {{{good}}}, "weight_map": {{}}}}"#),
            index,
            "key weight_map appears twice",
        ),
        ("map empty", map(""), index, "weight_map: list of files is empty"),
        ("file is a number", map(r#""a": 1"#), index, "line 1 column 22: invalid type: integer `1`"),
        ("something after it", map(&good) + "x", index, "trailing characters"),
        ("too many tensors", map(&many.join(",")), index, "more than 131072 tensors"),
        ("tensor twice", map(&format!(r#"{good}, "a": "{A}""#)), index, "a: tensor appears twice"),
        ("tensor in two files", map(&format!(r#"{good}, "a": "{B}""#)), index, "a: tensor appears twice"),
        (
            "missing file",
            map(&format!(r#"{good}, "c": "gone.safetensors""#)),
            "gone.safetensors: ",
            "cannot open: No such file",
        ),
        (
            "wrong files",
            map(&format!(r#""a": "{B}", "b": "{A}""#)),
            A,
            ": a: the index says that this tensor is in model-2.safetensors",
        ),
        (
            "tensor not in the index",
            map(&format!(r#""a": "{A}", "c": "{B}""#)),
            B,
            ": b: the index does not list this tensor",
        ),
        (
            "tensor not in the file",
            map(&format!(r#"{good}, "c": "{B}""#)),
            B,
            ": c: the tensor is missing here, where ",
        ),
    ];
    for name in [
        "../x.safetensors",
        "/etc/x.safetensors",
        "sub/x.safetensors",
        "..\\x.safetensors",
        "config.json",
        "..",
    ] {
        let name = serde_json::to_string(name).unwrap();
        cases.push(("path", map(&format!(r#"{good}, "c": {name}"#)), index, "weight_map: "));
    }
    for (case, text, file, want) in cases {
        sharded(folder.path(), &text);
        let error = Safetensors::open(folder.path()).unwrap_err().to_string();
        assert!(error.starts_with(&format!("{}/{file}", folder.path().display())), "{case}: {error}");
        assert!(error.contains(want), "{case}: {error}\n    want: {want}");
    }
    sharded(folder.path(), &map(&good));
    let big = std::fs::File::create(folder.path().join("model.safetensors.index.json")).unwrap();
    big.set_len((32 << 20) + 1).unwrap();
    assert!(Safetensors::open(folder.path()).unwrap_err().to_string().contains("file size is 33554433"));
}

/// Nothing that an index or a folder can name makes the reader wait or read a device.
#[test]
fn special_files_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    sharded(folder.path(), &format!(r#"{{"weight_map": {{"a": "{A}"}}}}"#));
    for target in ["/dev/zero", "/proc/self"] {
        std::fs::remove_file(folder.path().join(A)).unwrap();
        std::os::unix::fs::symlink(target, folder.path().join(A)).unwrap();
        let error = Safetensors::open(folder.path()).unwrap_err().to_string();
        assert!(error.ends_with(&format!("{A}: not a regular file")), "{error}");
    }
}
