//! Escaping of text for HTML.

use super::mixed::{Mixed, Part};

/// Appends a text with the special characters of HTML escaped.
pub(super) fn escape_into(out: &mut Mixed, part: Part<'_>) {
    for (run, is_content) in part.runs() {
        let mut rest = run;
        while let Some(at) = rest.find(['&', '<', '>', '\'', '"']) {
            out.push_as(&rest[..at], is_content);
            let entity = match rest.as_bytes()[at] {
                b'&' => "&amp;",
                b'<' => "&lt;",
                b'>' => "&gt;",
                b'\'' => "&#39;",
                _ => "&#34;",
            };
            out.push_as(entity, is_content);
            rest = &rest[at + 1..];
        }
        out.push_as(rest, is_content);
    }
}
