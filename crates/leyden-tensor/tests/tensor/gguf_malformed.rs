//! Hand-made malformed files: each is refused with an error that names the file and the field.

use leyden_tensor::{Gguf, WeightSource};

/// Writes the bytes of a GGUF file without any of the writer's checks.
#[derive(Clone, Default)]
struct Raw(Vec<u8>);

impl Raw {
    fn header(n_tensors: u64, n_keys: u64) -> Raw {
        Raw(b"GGUF".to_vec()).u32(3).u64(n_tensors).u64(n_keys)
    }

    fn bytes(mut self, bytes: &[u8]) -> Raw {
        self.0.extend(bytes);
        self
    }

    fn u32(self, n: u32) -> Raw {
        self.bytes(&n.to_le_bytes())
    }

    fn u64(self, n: u64) -> Raw {
        self.bytes(&n.to_le_bytes())
    }

    fn string(self, s: &[u8]) -> Raw {
        self.u64(s.len() as u64).bytes(s)
    }

    /// A key and the type of its value; the value follows.
    fn key(self, key: &str, ty: u32) -> Raw {
        self.string(key.as_bytes()).u32(ty)
    }

    fn tensor(self, name: &str, dims: &[u64], ty: u32, offset: u64) -> Raw {
        let described = self.string(name.as_bytes()).u32(dims.len() as u32);
        dims.iter().fold(described, |raw, &dim| raw.u64(dim)).u32(ty).u64(offset)
    }

    /// Pads to the alignment and appends data.
    fn data(mut self, len: usize) -> Raw {
        self.0.resize(self.0.len().next_multiple_of(32) + len, 1);
        self
    }
}

const U32: u32 = 4;
const BOOL: u32 = 7;
const STRING: u32 = 8;
const ARRAY: u32 = 9;
const F32: u32 = 0;
const Q4_K: u32 = 12;

fn cases() -> Vec<(&'static str, Raw, &'static str)> {
    let header = Raw::header;
    let tensor = |dims: &[u64], ty, offset| header(1, 0).tensor("blk.0.w", dims, ty, offset).data(4096);
    let text = |s: &[u8]| Raw(s.to_vec());
    let aligned = |n: u32| header(0, 1).key("general.alignment", U32).u32(n);
    let two = |a: u64, b: u64| header(2, 0).tensor("a", &[8], F32, a).tensor("b", &[8], F32, b).data(4096);
    let twos = |name| header(2, 0).tensor("w", &[8], F32, 0).tensor(name, &[8], F32, 32).data(64);
    vec![
        // What is not GGUF at all.
        ("empty", text(b""), "header: file ends early: magic needs 4 bytes at byte 0, 0 are left"),
        ("short magic", text(b"GG"), "header: file ends early: magic needs 4 bytes at byte 0, 2 are left"),
        (
            "ggjt",
            text(b"tjgg\x03\0\0\0"),
            "header: not a GGUF file: it looks like an old GGJT file (before GGUF)",
        ),
        ("lfs", text(b"version https://git-lfs.github.com/spec/v1\n"), "looks like a Git LFS pointer"),
        ("html", text(b"<!DOCTYPE html><html>"), "looks like a web page"),
        ("html in small letters", text(b"\n<!doctype html>"), "looks like a web page"),
        ("error of a store", text(b"<?xml version=\"1.0\"?><Error>"), "looks like a web page"),
        ("onnx", text(b"\x08\x08\x12\x07pytorch\x1a\x052.1.0"), "looks like an ONNX model"),
        ("onnx without a producer", text(b"\x08\x0a\x3a\xff\x01\x0a\x10"), "looks like an ONNX model"),
        ("png", text(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"), "looks like a PNG image"),
        ("jpeg", text(b"\xff\xd8\xff\xe0\0\x10JFIF\0"), "looks like a JPEG image"),
        ("pickle", text(b"\x80\x04\x95\x10\0\0\0\0\0\0\0}"), "looks like a Python pickle"),
        ("numpy", text(b"\x93NUMPY\x01\0v\0"), "looks like a NumPy array"),
        ("gzip", text(b"\x1f\x8b\x08\0\0\0\0\0"), "looks like a gzip archive"),
        ("tar", text(&[&[b'a'; 257][..], b"ustar\x0000"].concat()), "looks like a tar archive"),
        ("tokenizer", text(br#"{"version": "1.0", "truncation": null}"#), "looks like JSON, a tokenizer"),
        (
            "config",
            text(br#"{"architectures": ["LlamaForCausalLM"]}"#),
            "a model's config.json: name the folder",
        ),
        (
            "index",
            text(br#"{"metadata": {}, "weight_map": {}}"#),
            "the list of a model's parts: name the folder",
        ),
        ("safetensors", text(b"\x40\0\0\0\0\0\0\0{\"a\":1}"), "looks like a safetensors file"),
        ("zip", text(b"PK\x03\x04aaaaaaaa"), "looks like a ZIP archive or PyTorch checkpoint"),
        ("zeros", text(&[0; 64]), "looks like zeros (an interrupted download?)"),
        ("words", text(b"once upon a time there was"), "looks like text"),
        ("noise", text(&[0x93, 1, 2, 0xfe, 9, 9, 9, 9]), "looks like something unknown"),
        // The header.
        ("no version", text(b"GGUF"), "header: file ends early: version needs 4 bytes at byte 4, 0 are left"),
        (
            "version 1",
            text(b"GGUF").u32(1).u64(0).u64(0),
            "header: GGUF version 1 is not supported (2 and 3 are)",
        ),
        ("version 4", text(b"GGUF").u32(4).u64(0).u64(0), "header: GGUF version 4 is not supported"),
        ("version 0", text(b"GGUF").u32(0).u64(0).u64(0), "header: GGUF version 0 is not supported"),
        ("big-endian", text(b"GGUF\0\0\0\x03").u64(0).u64(0), "header: big-endian GGUF is not supported"),
        ("no counts", text(b"GGUF").u32(3), "number of tensors needs 8 bytes at byte 8, 0 are left"),
        ("keys without bytes", header(0, 1), "header: number of keys is 1, at most 0 is possible"),
        ("keys 5e8", header(0, 500_000_000), "header: number of keys is 500000000, at most 0 is possible"),
        (
            "keys max",
            header(0, u64::MAX).data(999),
            "header: number of keys is 18446744073709551615, at most",
        ),
        (
            "tensors max",
            header(u64::MAX, 0).data(999),
            "header: number of tensors is 18446744073709551615, at most",
        ),
        (
            "tensors 2^62",
            header(1 << 62, 0).data(99),
            "header: number of tensors is 4611686018427387904, at most",
        ),
        // Keys and values.
        (
            "key too long",
            header(0, 1).u64(1 << 40).data(99),
            "metadata key 0 of 1: length of the name is 1099511627776",
        ),
        (
            "key beyond end",
            header(0, 1).u64(90).data(20),
            "metadata key 0 of 1: file ends early: key needs 90 bytes at byte 32",
        ),
        ("empty key", header(0, 1).key("", U32).u32(1).data(9), "metadata key 0 of 1: key is empty"),
        (
            "key not UTF-8",
            header(0, 1).string(b"\xff\xfe").u32(U32).data(9),
            "metadata key 0 of 1: key is not UTF-8",
        ),
        ("value type 13", header(0, 1).key("k", 13).data(9), "k: unknown metadata value type 13"),
        (
            "value type max",
            header(0, 1).key("k", u32::MAX).data(9),
            "k: unknown metadata value type 4294967295",
        ),
        (
            "value cut",
            header(0, 1).key("k.long", 10).bytes(&[1, 2]),
            "k.long: file ends early: value needs 8 bytes at byte 42, 2 are left",
        ),
        ("bool 2", header(0, 1).key("k", BOOL).bytes(&[2]), "k: boolean stored as 2, want 0 or 1"),
        (
            "string beyond end",
            header(0, 1).key("k", STRING).u64(100).data(9),
            "k: file ends early: string needs 100 bytes at byte 45",
        ),
        ("string 2^63", header(0, 1).key("k", STRING).u64(1 << 63).data(9), "k: file ends early"),
        ("string not UTF-8", header(0, 1).key("k", STRING).string(b"\xc3\x28"), "k: value is not UTF-8"),
        ("string surrogate", header(0, 1).key("k", STRING).string(b"\xed\xa0\x80"), "k: value is not UTF-8"),
        ("duplicate key", header(0, 2).key("k", U32).u32(1).key("k", U32).u32(1), "k: key appears twice"),
        (
            "array of arrays",
            header(0, 1).key("k", ARRAY).u32(ARRAY).u64(1).data(99),
            "k: arrays of arrays are not supported",
        ),
        (
            "array element 99",
            header(0, 1).key("k", ARRAY).u32(99).u64(1).data(99),
            "k: unknown metadata value type 99",
        ),
        (
            "array count 2^62",
            header(0, 1).key("k", ARRAY).u32(U32).u64(1 << 62).data(99),
            "k: array length is 4611686018427387904, at most",
        ),
        (
            "array count max",
            header(0, 1).key("k", ARRAY).u32(12).u64(u64::MAX).data(99),
            "k: array length is 18446744073709551615, at most",
        ),
        (
            "array one over",
            header(0, 1).key("k", ARRAY).u32(0).u64(4).bytes(&[1, 2, 3]),
            "k: array length is 4, at most 3 is possible",
        ),
        (
            "strings 2^60",
            header(0, 1).key("k", ARRAY).u32(STRING).u64(1 << 60).data(99),
            "k: array length is 1152921504606846976, at most",
        ),
        (
            "string in array",
            header(0, 1).key("k", ARRAY).u32(STRING).u64(2).string(b"a").u64(9).bytes(b"ab"),
            "k: file ends early: string in array needs 9 bytes at byte 66, 2 are left",
        ),
        (
            "bools 2",
            header(0, 1).key("k", ARRAY).u32(BOOL).u64(3).bytes(&[1, 0, 3]),
            "k: boolean stored as 3",
        ),
        // Alignment.
        ("alignment 0", aligned(0), "general.alignment: alignment 0 is not a power of two from 1 to 1048576"),
        ("alignment 3", aligned(3), "general.alignment: alignment 3 is not"),
        ("alignment 2^21", aligned(1 << 21), "general.alignment: alignment 2097152 is not"),
        ("alignment 2^31", aligned(1 << 31), "general.alignment: alignment 2147483648 is not"),
        (
            "alignment i32",
            header(0, 1).key("general.alignment", 5).u32(32),
            "general.alignment: want u32, found i32",
        ),
        (
            "alignment u64",
            header(0, 1).key("general.alignment", 10).u64(32),
            "general.alignment: want u32, found u64",
        ),
        (
            "alignment text",
            header(0, 1).key("general.alignment", STRING).string(b"32"),
            "general.alignment: want u32, found string",
        ),
        // Tensors.
        ("tensor cut", Raw(header(1, 0).tensor("w", &[8], F32, 0).0[..40].to_vec()).bytes(&[0; 17]), "w: "),
        (
            "tensor name empty",
            header(1, 0).tensor("", &[8], F32, 0).data(99),
            "tensor 0 of 1: tensor name is empty",
        ),
        (
            "tensor name long",
            header(1, 0).tensor(&"n".repeat(65_536), &[8], F32, 0).data(99),
            "tensor 0 of 1: length of the name is 65536, at most 65535",
        ),
        (
            "tensor name not UTF-8",
            header(1, 0).string(b"\xff").u32(1).u64(8).u32(F32).u64(0).data(99),
            "tensor 0 of 1: tensor name is not UTF-8",
        ),
        ("no dimensions", tensor(&[], F32, 0), "blk.0.w: 0 dimensions, want 1 to 4"),
        ("five dimensions", tensor(&[1, 1, 1, 1, 1], F32, 0), "blk.0.w: 5 dimensions, want 1 to 4"),
        (
            "dimensions max",
            header(1, 0).string(b"blk.0.w").u32(u32::MAX).data(99),
            "blk.0.w: 4294967295 dimensions",
        ),
        ("dimension 0", tensor(&[8, 0], F32, 0), "blk.0.w: a dimension is zero"),
        (
            "dimensions 2^40",
            tensor(&[1 << 40, 1 << 40], F32, 0),
            "blk.0.w: dimensions [1099511627776, 1099511627776] need more bytes",
        ),
        (
            "dimensions near 2^62",
            tensor(&[(1 << 62) - 1, 1, 1, 1], F32, 0),
            "blk.0.w: dimensions [4611686018427387903, 1, 1, 1] need more bytes",
        ),
        ("dimensions max all", tensor(&[u64::MAX; 4], Q4_K, 0), "blk.0.w: "),
        (
            "dimensions 2^32 each",
            tensor(&[1 << 32, 1 << 32], Q4_K, 0),
            "blk.0.w: dimensions [4294967296, 4294967296] need more bytes",
        ),
        (
            "partial block",
            tensor(&[255, 2], Q4_K, 0),
            "blk.0.w: rows of 255 values are not a multiple of the 256 values in a Q4_K block",
        ),
        (
            "partial foreign block",
            tensor(&[63, 2], 42, 0),
            "blk.0.w: rows of 63 values are not a multiple of the 64 values in a Q2_0 block",
        ),
        ("type 43", tensor(&[8], 43, 0), "blk.0.w: tensor type 43 is unknown"),
        ("type max", tensor(&[8], u32::MAX, 0), "blk.0.w: tensor type 4294967295 is unknown"),
        ("type withdrawn", tensor(&[32], 31, 0), "blk.0.w: tensor type Q4_0_4_4 (31) is not supported"),
        (
            "misaligned",
            tensor(&[8], F32, 16),
            "blk.0.w: data offset 16 is not a multiple of the alignment 32",
        ),
        (
            "offset 2^63",
            tensor(&[8], F32, 1 << 63),
            "blk.0.w: data ends at byte 9223372036854775904, but the file has",
        ),
        ("offset max", tensor(&[8], F32, u64::MAX - 31), "blk.0.w: data lies beyond the address space"),
        (
            "one block too long",
            tensor(&[1032], F32, 0),
            "blk.0.w: data ends at byte 4192, but the file has 4160 bytes (truncated download?)",
        ),
        ("foreign too long", tensor(&[64, 300], 40, 0), "blk.0.w: data ends at byte"),
        ("overlap", two(0, 0), "b: data overlaps that of a"),
        ("overlap unsorted", two(32, 0).data(0), ""),
        ("duplicate tensor", twos("w"), "w: tensor appears twice"),
        ("data missing", header(1, 0).tensor("w", &[8], F32, 0), "w: data ends at byte 96, but the file has"),
    ]
}

#[test]
fn each_is_refused_by_name() {
    let mut wrong = Vec::new();
    for (case, raw, want) in cases() {
        match Gguf::from_vec(raw.0, "bad.gguf") {
            Ok(_) if want.is_empty() => {}
            Ok(_) => wrong.push(format!("{case}: accepted")),
            Err(e) => {
                let message = e.to_string();
                if want.is_empty() || !message.starts_with("bad.gguf: ") || !message.contains(want) {
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
    let path = folder.path().join("bad.gguf");
    for (case, raw, want) in cases() {
        std::fs::write(&path, &raw.0).unwrap();
        match Gguf::open(&path) {
            Ok(_) => assert!(want.is_empty(), "{case}"),
            Err(e) => assert!(e.to_string().starts_with(&format!("{}: ", path.display())), "{case}: {e}"),
        }
    }
}

#[test]
fn what_is_not_a_regular_file_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let error = |path: &std::path::Path| Gguf::open(path).unwrap_err().to_string();
    assert!(error(folder.path()).ends_with(": not a regular file"));
    assert!(error("/dev/zero".as_ref()).ends_with(": not a regular file"));
    assert!(error(&folder.path().join("absent")).contains("absent: cannot open: "));
}

/// Foreign types can be listed, and are refused by name when asked for.
#[test]
fn foreign_types_are_listed_and_refused_on_use() {
    let raw = Raw::header(2, 0)
        .tensor("blk.0.ffn_up.weight", &[64, 2], 42, 0)
        .tensor("norm", &[8], F32, 64)
        .data(128);
    let file = Gguf::from_vec(raw.0, "m.gguf").unwrap();
    let info = &file.tensor_info()[0];
    assert_eq!((info.type_name, info.type_id, info.dtype), ("Q2_0", 42, None));
    assert_eq!((&info.shape[..], info.bytes, info.offset % 32), (&[2, 64][..], 36, 0));
    let want = "m.gguf: blk.0.ffn_up.weight: tensor type Q2_0 (42) is not supported";
    assert_eq!(file.require("blk.0.ffn_up.weight").unwrap_err().to_string(), want);
    assert_eq!(file.optional("blk.0.ffn_up.weight").unwrap_err().to_string(), want);
    assert!(file.tensor("blk.0.ffn_up.weight").is_none());
    assert_eq!(file.require("norm").unwrap().shape(), &[8]);
    assert!(file.optional("absent").unwrap().is_none());
    assert_eq!(file.require("absent").unwrap_err().to_string(), "m.gguf: absent: required tensor is missing");
}

#[test]
fn valid_oddities_are_accepted() {
    let header = Raw::header;
    for (case, raw) in [
        ("nothing in it", header(0, 0)),
        ("version 2", Raw(b"GGUF".to_vec()).u32(2).u64(0).u64(0)),
        (
            "alignment 1",
            header(1, 1).key("general.alignment", U32).u32(1).tensor("w", &[1], 24, 0).bytes(&[9]),
        ),
        ("gap between tensors", header(2, 0).tensor("a", &[8], F32, 0).tensor("b", &[8], F32, 960).data(992)),
        ("tail after the data", header(1, 0).tensor("a", &[8], F32, 0).data(5000)),
        (
            "tokens of any bytes",
            header(0, 1).key("t", ARRAY).u32(STRING).u64(2).string(b"\xff\0").string(b""),
        ),
        ("empty arrays", header(0, 2).key("t", ARRAY).u32(STRING).u64(0).key("n", ARRAY).u32(U32).u64(0)),
        ("name with odd characters", header(1, 0).tensor("../\u{202e}\0", &[8], F32, 0).data(32)),
    ] {
        Gguf::from_vec(raw.0, "odd.gguf").map_err(|e| panic!("{case}: {e}")).unwrap();
    }
}
