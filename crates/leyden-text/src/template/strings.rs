//! Python's algorithms on text, where Rust's differ.

/// Whether Python counts a character as white space.
pub(super) fn is_space(c: char) -> bool {
    c.is_whitespace() || matches!(c, '\x1c'..='\x1f')
}

/// Which ends of a text.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Ends {
    Left,
    Right,
    Both,
}

/// The text without the white space, or any of `chars`, at its ends.
pub(super) fn strip<'s>(text: &'s str, chars: Option<&str>, ends: Ends) -> &'s str {
    let goes = |c: char| chars.map_or_else(|| is_space(c), |chars| chars.contains(c));
    let text = if ends == Ends::Right { text } else { text.trim_start_matches(goes) };
    if ends == Ends::Left { text } else { text.trim_end_matches(goes) }
}

/// `str.split`: at white space if there is no separator, at most `most` times.
pub(super) fn split<'s>(text: &'s str, separator: Option<&str>, most: usize) -> Vec<&'s str> {
    let Some(separator) = separator else {
        let mut parts = Vec::new();
        let mut rest = text.trim_start_matches(is_space);
        while !rest.is_empty() {
            let end = if parts.len() < most { rest.find(is_space) } else { None };
            match end {
                Some(end) => {
                    parts.push(&rest[..end]);
                    rest = rest[end..].trim_start_matches(is_space);
                }
                None => {
                    parts.push(rest);
                    break;
                }
            }
        }
        return parts;
    };
    text.splitn(most.saturating_add(1), separator).collect()
}

/// `str.rsplit`.
pub(super) fn rsplit<'s>(text: &'s str, separator: Option<&str>, most: usize) -> Vec<&'s str> {
    let mut parts: Vec<&str> = match separator {
        Some(separator) => text.rsplitn(most.saturating_add(1), separator).collect(),
        None => {
            let mut parts = Vec::new();
            let mut rest = text.trim_end_matches(is_space);
            while !rest.is_empty() {
                let start = if parts.len() < most { rest.rfind(is_space) } else { None };
                let Some(start) = start else {
                    parts.push(rest);
                    break;
                };
                let space = rest[start..].chars().next().map_or(1, char::len_utf8);
                parts.push(&rest[start + space..]);
                rest = rest[..start].trim_end_matches(is_space);
            }
            parts
        }
    };
    parts.reverse();
    parts
}

/// Whether Python ends a line at a character.
pub(super) fn is_line_end(c: char) -> bool {
    matches!(c, '\n' | '\r' | '\x0b' | '\x0c' | '\x1c'..='\x1e' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// `str.splitlines`.
pub(super) fn lines(text: &str, keep_ends: bool) -> Vec<&str> {
    let mut lines = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let Some((at, c)) = rest.char_indices().find(|(_, c)| is_line_end(*c)) else {
            lines.push(rest);
            break;
        };
        let end = at + if rest[at..].starts_with("\r\n") { 2 } else { c.len_utf8() };
        lines.push(&rest[..if keep_ends { end } else { at }]);
        rest = &rest[end..];
    }
    lines
}

/// The text with its first character in upper case and the others in lower case.
pub(super) fn capitalize(text: &str) -> String {
    let mut chars = text.chars();
    match chars.next() {
        Some(first) => first.to_uppercase().chain(chars.as_str().to_lowercase().chars()).collect(),
        None => String::new(),
    }
}

/// The text with every run of letters capitalised.
pub(super) fn title(text: &str) -> String {
    let mut in_word = false;
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        let is_cased = c.is_lowercase() || c.is_uppercase();
        if in_word {
            out.extend(c.to_lowercase());
        } else {
            out.extend(c.to_uppercase());
        }
        in_word = is_cased;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn split_at_white_space_and_separators() {
        let all = usize::MAX;
        assert_eq!(split("  a  b c ", None, all), ["a", "b", "c"]);
        assert_eq!(split("  a  b c ", None, 1), ["a", "b c "]);
        assert_eq!(split("", None, all), [""; 0]);
        assert_eq!(split("", Some(","), all), [""]);
        assert_eq!(split("a,,b", Some(","), all), ["a", "", "b"]);
        assert_eq!(split("a,b,c", Some(","), 1), ["a", "b,c"]);
        assert_eq!(rsplit("a,b,c", Some(","), 1), ["a,b", "c"]);
        assert_eq!(rsplit("  a  b c ", None, 1), ["  a  b", "c"]);
        assert_eq!(rsplit(" a b ", None, 0), [" a b"]);
    }

    #[test]
    fn lines_end_at_every_kind_of_break() {
        assert_eq!(lines("a\nb\r\n\rc\u{2028}", false), ["a", "b", "", "c"]);
        assert_eq!(lines("a\r\nb", true), ["a\r\n", "b"]);
        assert_eq!(lines("", false), [""; 0]);
    }

    #[test]
    fn strip_and_case() {
        assert_eq!(strip("\x1f a \n", None, Ends::Both), "a");
        assert_eq!(strip("xyaxy", Some("yx"), Ends::Left), "axy");
        assert_eq!(strip("xyaxy", Some("yx"), Ends::Right), "xya");
        assert_eq!(capitalize("ÉCOLE a"), "École a");
        assert_eq!(title("hello wORLD it's 3d"), "Hello World It'S 3D");
    }
}
