//! Text of pages.

use std::fmt::Write as _;

/// Appends formatted text; writing to a string never fails.
pub(crate) fn put(html: &mut String, text: std::fmt::Arguments<'_>) {
    let _ = html.write_fmt(text);
}

/// Escapes text for a place between tags or in quotes. Control characters become spaces.
pub(crate) fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe += "&amp;",
            '<' => safe += "&lt;",
            '>' => safe += "&gt;",
            '"' => safe += "&quot;",
            '\'' => safe += "&#39;",
            // Marks that reorder the text around them.
            '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {}
            c if c.is_control() => safe.push(' '),
            c => safe.push(c),
        }
    }
    safe
}

/// Shortens a text to `max` characters.
pub(crate) fn short(text: &str, max: usize) -> String {
    match text.chars().count() > max {
        true => text.chars().take(max.saturating_sub(1)).chain(['…']).collect(),
        false => text.to_owned(),
    }
}

/// Returns the last part of a path.
pub(crate) fn file_name(path: &str) -> &str {
    path.rsplit('/').find(|part| !part.is_empty()).unwrap_or(path)
}

/// Returns a word of a command line in quotation marks where a shell would change it.
pub(crate) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_./:,=@%+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

/// Returns a command line that a shell reads as these words.
#[must_use]
pub fn command_line(words: impl IntoIterator<Item = impl AsRef<str>>) -> String {
    words.into_iter().map(|word| quoted(word.as_ref())).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_lines_are_read_as_their_words() {
        let line = command_line(["leyden", "load", "--slo", "ttft_p95=2s,user_tps>=5", "it's", ""]);
        assert_eq!(line, "leyden load --slo 'ttft_p95=2s,user_tps>=5' 'it'\\''s' ''");
    }

    #[test]
    fn texts_are_shortened_and_paths_cut() {
        assert_eq!((short("abcdef", 4), short("abcd", 4)), ("abc…".to_owned(), "abcd".to_owned()));
        assert_eq!((file_name("/a/b/"), file_name("c"), file_name("/")), ("b", "c", "/"));
    }
}
