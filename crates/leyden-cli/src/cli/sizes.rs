//! Parsing of sizes such as `16GiB`.

/// Parses a number of bytes, such as `500MB`, `4.5G`, `16GiB` or a plain number: units with an `i` are powers of 1024,
/// others of
/// 1000.
///
/// # Errors
/// The text is not a size, or it is below one byte.
pub(super) fn bytes(text: &str) -> Result<u64, String> {
    let wrong = || format!("`{text}` is not a size such as 500MB, 4.5G or 16GiB");
    let at = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let number = text[..at].parse::<f64>().map_err(|_| wrong())?;
    let unit = text[at..].trim().to_ascii_lowercase();
    let unit = unit.strip_suffix('b').unwrap_or(&unit);
    let (letter, base) = match unit.strip_suffix('i') {
        Some(letter) => (letter, 1024.0_f64),
        None => (unit, 1000.0),
    };
    let power = match letter {
        "" if base == 1000.0 => 0,
        "k" => 1,
        "m" => 2,
        "g" => 3,
        "t" => 4,
        _ => return Err(wrong()),
    };
    let bytes = number * base.powi(power);
    // Above this, an f64 cannot represent all integers.
    if (1.0..9e15).contains(&bytes) { Ok(bytes as u64) } else { Err(wrong()) }
}

/// Parses a number of bytes, which may be 0.
///
/// # Errors
/// As [`bytes`].
pub(super) fn bytes_or_none(text: &str) -> Result<u64, String> {
    if text == "0" { Ok(0) } else { bytes(text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read() {
        let gib = 1 << 30;
        for (text, wanted) in [
            ("16GiB", 16 * gib),
            ("1.5gi", gib * 3 / 2),
            ("500 MB", 500_000_000),
            ("4.5G", 4_500_000_000),
            ("4096", 4096),
            ("700b", 700),
            ("2TiB", 2048 * gib),
        ] {
            assert_eq!(bytes(text), Ok(wanted), "{text}");
        }
        for text in ["", "x", "1PB", "-1G", "0", "1i", "4..5G", "999999T", "1 2", "GB"] {
            assert!(bytes(text).is_err(), "{text}");
        }
    }
}
