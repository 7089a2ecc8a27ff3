//! Pieces between white space: marks, a core, marks.

use super::signs;

/// Number of characters above which a piece is cut, so that rules stay linear in the text.
const MAX_PIECE_CHARS: usize = 120;

/// A stretch of text without white space.
#[derive(Debug)]
pub(super) struct Piece {
    /// Byte at which it begins.
    pub(super) start: usize,
    pub(super) lead: String,
    /// The part between the marks, with straight apostrophes and hyphens.
    pub(super) core: String,
    /// Byte after the core.
    pub(super) core_end: usize,
    pub(super) trail: String,
}

/// Words that begin with an apostrophe.
const APOSTROPHES: &[&str] = &["tis", "twas", "em", "cause", "til", "twere", "twill", "n"];

/// Returns the pieces of a text.
pub(super) fn split(text: &str) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut start = None;
    let mut n_chars = 0;
    for (at, symbol) in text.char_indices() {
        let space = symbol.is_whitespace() || symbol == '\u{200b}';
        let long = n_chars >= MAX_PIECE_CHARS;
        // A dash or an ellipsis between words ends a piece as a space does; it stays with the piece before it.
        let after_dash =
            start.is_some_and(|from: usize| ends_with_dash(&text[from..at])) && symbol.is_alphanumeric();
        if space || long || after_dash {
            if let Some(from) = start.take() {
                pieces.push(piece(from, &text[from..at]));
            }
            n_chars = 0;
        }
        if !space {
            start.get_or_insert(at);
            n_chars += 1;
        }
    }
    if let Some(from) = start {
        pieces.push(piece(from, &text[from..]));
    }
    pieces
}

/// Returns true if a piece ends with a dash or an ellipsis after something else.
fn ends_with_dash(text: &str) -> bool {
    ["—", "--", "…", "..."].iter().any(|dash| text.ends_with(dash))
}

/// Returns the piece of `text`, which begins at byte `start`.
fn piece(start: usize, text: &str) -> Piece {
    // A sign alone may be that of a product or of a difference.
    if matches!(text, "*" | "-" | "−") {
        let (lead, trail) = (String::new(), String::new());
        return Piece { start, lead, core: plain(text), core_end: start + text.len(), trail };
    }
    let mut front = text.len() - text.trim_start_matches(signs::is_lead).len();
    let lead_text = &text[..front];
    let rest = &text[front..];
    // A sign before a number belongs to it.
    if lead_text.ends_with(['-', '−']) && rest.starts_with(|c: char| c.is_ascii_digit() || "$£€.".contains(c))
    {
        front -= lead_text.chars().next_back().map_or(0, char::len_utf8);
    }
    let core = text[front..].trim_end_matches(signs::is_trail);
    let core_end = front + core.len();
    let trail = text[core_end..].to_owned();
    let mut core = plain(core);
    let mut lead = text[..front].to_owned();
    let quoted = lead.ends_with(['\'', '’', '‘']);
    if quoted && APOSTROPHES.contains(&core.to_lowercase().as_str()) {
        lead.truncate(lead.len() - lead.chars().next_back().map_or(0, char::len_utf8));
        core.insert(0, '\'');
    }
    // Decades such as '90s.
    if quoted && core.len() == 3 && core.ends_with('s') && core.as_bytes()[..2].iter().all(u8::is_ascii_digit)
    {
        lead.truncate(lead.len() - lead.chars().next_back().map_or(0, char::len_utf8));
    }
    Piece { start, lead, core, core_end: start + core_end, trail }
}

/// Returns a core with one form of apostrophes, hyphens and digits, and without characters that have no form.
fn plain(core: &str) -> String {
    let mut out = String::with_capacity(core.len());
    for symbol in core.chars() {
        match symbol {
            '’' | '‘' | 'ʼ' | '`' | '´' => out.push('\''),
            '‐' | '‑' | '‒' | '−' => out.push('-'),
            '\u{ff10}'..='\u{ff19}' => out.push(char::from(b'0' + (symbol as u32 - 0xff10) as u8)),
            _ if signs::is_invisible(symbol) => {}
            _ => out.push(symbol),
        }
    }
    out
}
