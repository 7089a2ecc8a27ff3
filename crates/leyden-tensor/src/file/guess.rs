//! A guess at the format of a file that is not a model file, for error messages.

/// Magic bytes of formats; a longer entry comes before its own prefix.
const KNOWN: &[(&[u8], &str)] = &[
    (b"GGUF", "a GGUF file"),
    (b"lmgg", "an old GGML file (before GGUF)"),
    (b"tjgg", "an old GGJT file (before GGUF)"),
    (b"fmgg", "an old GGMF file (before GGUF)"),
    (b"FUGG", "a byte-swapped GGUF file"),
    (b"PK\x03\x04", "a ZIP archive or PyTorch checkpoint"),
    (b"version https://git-lfs", "a Git LFS pointer: the file itself was not downloaded"),
    (b"\x80\x02", "a Python pickle"),
    (b"\x80\x03", "a Python pickle"),
    (b"\x80\x04", "a Python pickle"),
    (b"\x80\x05", "a Python pickle"),
    (b"\x93NUMPY", "a NumPy array"),
    (b"\x89HDF\r\n\x1a\n", "an HDF5 file, as Keras writes it"),
    (b"\x89PNG\r\n\x1a\n", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF8", "a GIF image"),
    (b"RIFF", "a RIFF file: sound or an image"),
    (b"%PDF", "a PDF document"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"BZh", "a bzip2 archive"),
    (b"\xfd7zXZ\0", "an xz archive"),
    (b"\x28\xb5\x2f\xfd", "a zstd archive"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
    (b"SQLite format 3\0", "an SQLite database"),
    (b"\x7fELF", "a program"),
    (b"MZ", "a program"),
    (b"\xcf\xfa\xed\xfe", "a program"),
    (b"#!", "a script"),
];

/// Description of a file of unknown format.
pub(super) const UNKNOWN: &str = "something unknown";

/// Description of the files that [`Onnx`](super::Onnx) reads.
pub(super) const ONNX: &str = "an ONNX model";

/// Number of bytes from the start in which words are searched for.
const WORDS_WITHIN: usize = 4 << 10;

/// Returns a description of a file's format; `None` if it is not recognised.
pub(super) fn guess(bytes: &[u8]) -> Option<&'static str> {
    if let Some((_, name)) = KNOWN.iter().find(|(magic, _)| bytes.starts_with(magic)) {
        return Some(name);
    }
    let start = bytes.get(..16).unwrap_or(bytes);
    let text = bytes.trim_ascii_start();
    if bytes.get(257..262) == Some(b"ustar") {
        Some("a tar archive")
    } else if bytes.get(4..8) == Some(b"TFL3") {
        Some("a TensorFlow Lite model")
    } else if is_page(text) {
        Some("a web page")
    } else if text.starts_with(b"{") {
        Some(json(text))
    } else if start.get(8) == Some(&b'{') {
        Some("a safetensors file")
    } else if is_onnx(start) {
        Some(ONNX)
    } else if start.iter().all(|&b| b == 0) {
        Some("zeros (an interrupted download?)")
    } else if start.iter().all(|b| b.is_ascii_graphic() || b.is_ascii_whitespace()) {
        Some("text")
    } else {
        None
    }
}

fn is_page(text: &[u8]) -> bool {
    let begins = |word: &[u8]| text.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word));
    begins(b"<!doctype") || begins(b"<html") || begins(b"<?xml")
}

/// Returns a description of a JSON file in a model's folder.
fn json(text: &[u8]) -> &'static str {
    let text = text.get(..WORDS_WITHIN).unwrap_or(text);
    let has = |word: &[u8]| text.windows(word.len()).any(|at| at == word);
    if has(b"\"weight_map\"") {
        "JSON, the list of a model's parts: name the folder"
    } else if has(b"\"architectures\"") || has(b"\"model_type\"") {
        "JSON, a model's config.json: name the folder"
    } else if has(b"\"added_tokens\"") || has(b"\"added_tokens_decoder\"") || has(b"\"truncation\"") {
        "JSON, a tokenizer: name the folder of the model"
    } else {
        "JSON"
    }
}

/// Returns true for a protocol buffers message that begins as ONNX's `ModelProto` does: `ir_version`, then
/// another field.
fn is_onnx(start: &[u8]) -> bool {
    // Tags of fields 2 to 8 and 14, with their wire types.
    const NEXT: [u8; 8] = [0x12, 0x1a, 0x22, 0x28, 0x32, 0x3a, 0x42, 0x72];
    matches!(start, [0x08, 1..=20, next, ..] if NEXT.contains(next))
}
