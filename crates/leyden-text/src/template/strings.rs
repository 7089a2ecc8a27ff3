//! Python's string algorithms, where Rust's differ.

/// Returns whether Python considers a character white space.
pub(super) fn is_space(c: char) -> bool {
    c.is_whitespace() || matches!(c, '\x1c'..='\x1f')
}

/// Ends of a text to strip.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Ends {
    Left,
    Right,
    Both,
}

/// Strips white space, or any of `chars`, from the ends of a text.
pub(super) fn strip<'s>(text: &'s str, chars: Option<&str>, ends: Ends) -> &'s str {
    let goes = |c: char| chars.map_or_else(|| is_space(c), |chars| chars.contains(c));
    let text = if ends == Ends::Right { text } else { text.trim_start_matches(goes) };
    if ends == Ends::Left { text } else { text.trim_end_matches(goes) }
}

/// Splits as `str.split` does: at white space if there is no separator, at most `most` times.
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

/// Splits as `str.rsplit` does.
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

/// Returns whether Python ends a line at a character.
pub(super) fn is_line_end(c: char) -> bool {
    matches!(c, '\n' | '\r' | '\x0b' | '\x0c' | '\x1c'..='\x1e' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// Splits as `str.splitlines` does.
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

/// Returns the text with its first character in upper case and the others in lower case.
pub(super) fn capitalize(text: &str) -> String {
    let mut chars = text.chars();
    match chars.next() {
        Some(first) => first.to_uppercase().chain(chars.as_str().to_lowercase().chars()).collect(),
        None => String::new(),
    }
}

/// Returns the text with upper and lower case swapped.
pub(super) fn swap_case(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c.is_uppercase() {
            true => out.extend(c.to_lowercase()),
            false => out.extend(c.to_uppercase()),
        }
    }
    out
}

/// Returns the text case-folded for caseless comparison.
pub(super) fn fold_case(text: &str) -> String {
    text.to_lowercase().replace('ß', "ss").replace('ς', "σ")
}

/// Returns the text with every run of letters capitalized.
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

/// Returns whether a line may be broken at a character.
fn is_break(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\x0b' | '\x0c' | '\r' | ' ')
}

/// Returns the words of a line and the white space between them, as Python's `textwrap` splits them. With `hyphens`
/// words are split after hyphens between letters.
fn words(text: &str, hyphens: bool) -> Vec<&str> {
    let chars: Vec<(usize, char)> = text.char_indices().collect();
    let c = |at: usize| chars.get(at).map(|(_, c)| *c);
    let byte = |at: usize| chars.get(at).map_or(text.len(), |(byte, _)| *byte);
    let is_word = |c: Option<char>| c.is_some_and(|c| c == '_' || c.is_alphanumeric());
    let is_letter = |c: Option<char>| is_word(c) && !c.is_some_and(char::is_numeric);
    let before = |at: usize, n: usize| at.checked_sub(n).and_then(c);
    // Returns the end of a dash of at least two hyphens between words that begins at `at`.
    let dash = |at: usize| {
        let previous = before(at, 1);
        let may = is_word(previous) || previous.is_some_and(|c| "!\"'&.,?".contains(c));
        if !hyphens || !may || c(at) != Some('-') {
            return None;
        }
        let end = (at..).find(|i| c(*i) != Some('-')).unwrap_or(at);
        (end - at >= 2 && is_word(c(end))).then_some(end)
    };
    let hyphen = |at: usize| {
        let behind =
            is_letter(c(at + 1)) && (is_letter(c(at + 2)) || c(at + 2) == Some('-') && is_letter(c(at + 3)));
        let two = is_letter(before(at, 1)) && is_letter(before(at, 2));
        let short = is_letter(before(at, 1)) && before(at, 2) == Some('-') && is_letter(before(at, 3));
        hyphens && c(at) == Some('-') && behind && (two || short)
    };
    let (mut words, mut from) = (Vec::new(), 0);
    while let Some(first) = c(from) {
        let end = if is_break(first) {
            (from..).find(|i| !c(*i).is_some_and(is_break)).unwrap_or(from + 1)
        } else if let Some(end) = dash(from) {
            end
        } else {
            let mut at = from + 1;
            loop {
                if hyphen(at) {
                    break at + 1;
                }
                if c(at).is_none_or(is_break) || dash(at).is_some() {
                    break at;
                }
                at += 1;
            }
        };
        words.push(&text[byte(from)..byte(end)]);
        from = end;
    }
    words
}

/// Wraps a line to lines of at most `width` characters, at word boundaries as Python's `textwrap` does, and with
/// `break_long` also within longer words.
pub(super) fn wrapped(text: &str, width: usize, break_long: bool, hyphens: bool) -> Vec<&str> {
    let mut words: std::collections::VecDeque<&str> = words(text, hyphens).into();
    let is_blank = |word: &str| word.chars().all(is_space);
    let length = |word: &str| word.chars().count();
    let mut lines = Vec::new();
    // Lines are slices of the text; `at` is the position of the next one.
    let mut at = 0;
    while !words.is_empty() {
        if !lines.is_empty() && words.front().is_some_and(|word| is_blank(word)) {
            at += words.pop_front().map_or(0, str::len);
        }
        let (from, mut taken, mut count) = (at, Vec::new(), 0);
        while let Some(word) = words.front().filter(|word| count + length(word) <= width) {
            count += length(word);
            taken.push(*word);
            words.pop_front();
        }
        if let Some(word) = words.front().copied().filter(|word| length(word) > width) {
            if break_long {
                let space = width - count;
                let place = |n: usize| word.char_indices().nth(n).map_or(word.len(), |(byte, _)| byte);
                let mut end = place(space);
                let hyphen = word[..end].rfind('-').filter(|hyphen| *hyphen > 0);
                if let Some(hyphen) = hyphen.filter(|_| hyphens)
                    && word[..hyphen].chars().any(|c| c != '-')
                {
                    end = hyphen + 1;
                }
                taken.push(&word[..end]);
                words[0] = &word[end..];
            } else if taken.is_empty() {
                taken.push(word);
                words.pop_front();
            }
        }
        let all: usize = taken.iter().map(|word| word.len()).sum();
        at += all;
        let blank = taken.last().filter(|word| is_blank(word)).map_or(0, |word| word.len());
        if all > blank {
            lines.push(&text[from..from + all - blank]);
        } else if taken.len() > usize::from(blank > 0) {
            lines.push(&text[from..from]);
        }
    }
    lines
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
