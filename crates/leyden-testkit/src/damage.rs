//! Ways to damage a file.

/// Returns values to overwrite counts, lengths and offsets of a file of `len` bytes with.
#[must_use]
pub fn boundary_values(len: usize) -> [u64; 23] {
    let (len, most) = (len as u64, u64::MAX);
    [
        0,
        1,
        2,
        7,
        8,
        15,
        16,
        31,
        255,
        1 << 16,
        (1 << 31) - 1,
        1 << 31,
        (1 << 32) - 1,
        1 << 32,
        1 << 40,
        1 << 62,
        (1 << 63) - 1,
        1 << 63,
        most - 1,
        most,
        len,
        len.wrapping_sub(1),
        len + 1,
    ]
}

/// Returns a copy of `file` with other bytes from `at` on, as far as it goes.
#[must_use]
pub fn overwrite(file: &[u8], at: usize, with: &[u8]) -> Vec<u8> {
    let mut bytes = file.to_vec();
    let n = with.len().min(bytes.len() - at);
    bytes[at..at + n].copy_from_slice(&with[..n]);
    bytes
}

/// Returns the byte ranges of the tokens of JSON text, damaged or not.
#[must_use]
pub fn json_tokens(text: &[u8]) -> Vec<(usize, usize)> {
    let mut tokens = Vec::new();
    let mut at = 0;
    while at < text.len() {
        let begin = at;
        at += 1;
        if text[begin] == b'"' {
            while at < text.len() && (text[at] != b'"' || text[at - 1] == b'\\') {
                at += 1;
            }
            at = (at + 1).min(text.len());
        } else if text[begin].is_ascii_alphanumeric() || text[begin] == b'-' {
            while at < text.len() && (text[at].is_ascii_alphanumeric() || b"+-.".contains(&text[at])) {
                at += 1;
            }
        } else if text[begin].is_ascii_whitespace() {
            continue;
        }
        tokens.push((begin, at));
    }
    tokens
}
