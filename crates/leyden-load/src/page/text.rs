//! Text of pages: escaping, and numbers with units.

use std::fmt::Write as _;

/// Appends formatted text; writing to a `String` cannot fail.
pub(super) fn put(html: &mut String, text: std::fmt::Arguments<'_>) {
    let _ = html.write_fmt(text);
}

/// Escapes text for a place between tags or in quotes.
pub(super) fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe += "&amp;",
            '<' => safe += "&lt;",
            '>' => safe += "&gt;",
            '"' => safe += "&quot;",
            '\'' => safe += "&#39;",
            c if c.is_control() => safe.push(' '),
            c => safe.push(c),
        }
    }
    safe
}

/// Formats a number with three significant digits.
pub(super) fn number(n: f64) -> String {
    let digits = if n >= 99.95 || n == 0.0 {
        0
    } else if n >= 9.995 {
        1
    } else {
        2
    };
    format!("{n:.digits$}")
}

/// Formats seconds in a suitable unit.
pub(super) fn seconds(s: f64) -> String {
    if s >= 0.9995 {
        format!("{} s", number(s))
    } else if s >= 0.001 || s == 0.0 {
        format!("{} ms", number(s * 1e3))
    } else {
        format!("{} µs", number(s * 1e6))
    }
}
