//! JSON strings in their written form, and patterns for them.
//!
//! Each character has one written form: itself, or the escape that JSON requires. So a pattern of the text can be
//! converted to one of the written form, and both can be combined and negated alike.

use std::fmt::Write;

use llguidance::derivre::{RegexAst, RegexBuilder};
use regex_syntax::hir::{Class, Hir, HirKind, Look};

/// Written form of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Writing {
    /// Between quotes, with escapes.
    Json,
    /// Without quotes and escapes.
    Plain,
}

/// Maximum cost of deciding whether any text matches several patterns.
const MAX_FUEL: u64 = 10_000;
/// Maximum number of texts to which a pattern is expanded.
const MAX_LISTED: usize = 64;

/// Pattern of a whole text.
#[derive(Clone, Debug)]
pub(crate) struct Pattern {
    hir: Hir,
    /// Look-aheads at the beginning; true for positive ones.
    ahead: Vec<(Hir, bool)>,
}

impl Pattern {
    /// Parses an unanchored pattern in the syntax of JSON Schema, as far as it is regular.
    pub(super) fn search(pattern: &str) -> Result<Pattern, String> {
        let (ahead, rest) = look_ahead(pattern)?;
        let read = |text: &str| {
            // In this syntax `\d` and `\w` match ASCII characters only.
            regex_syntax::parse(&llguidance::regex_to_lark(text, "dw").replace("\\/", "/")).map_err(|e| {
                let message = e.to_string();
                let last = message.lines().last().unwrap_or_default();
                format!("not a pattern that can be followed: {}", last.trim_start_matches("error: "))
            })
        };
        // The rest begins where the look-aheads do.
        let hir = whole(&if ahead.is_empty() { read(rest)? } else { read(&format!("^{rest}"))? })?;
        let ahead = ahead
            .into_iter()
            .map(|(text, holds)| Ok((whole(&read(&format!("^(?:{text})"))?)?, holds)))
            .collect::<Result<_, String>>()?;
        Ok(Pattern { hir, ahead })
    }

    /// Parses an internal pattern of the whole text.
    pub(super) fn own(pattern: &str) -> Option<Pattern> {
        Some(Pattern { hir: regex_syntax::parse(pattern).ok()?, ahead: Vec::new() })
    }

    /// Returns the Lark terms whose conjunction is the terminal of this pattern.
    pub(crate) fn terms(&self, writing: Writing) -> Vec<String> {
        let term = |hir: &Hir| format!("/{}/", quoted(hir, writing));
        let ahead =
            self.ahead.iter().map(|(hir, holds)| if *holds { term(hir) } else { format!("~{}", term(hir)) });
        std::iter::once(term(&self.hir)).chain(ahead).collect()
    }

    fn ast(&self) -> RegexAst {
        let plain = |hir: &Hir| RegexAst::Regex(quoted(hir, Writing::Plain));
        let ahead = self.ahead.iter().map(|(hir, holds)| match holds {
            true => plain(hir),
            false => RegexAst::Not(Box::new(plain(hir))),
        });
        RegexAst::And(std::iter::once(plain(&self.hir)).chain(ahead).collect())
    }

    /// Returns whether a text matches; `None` if deciding exceeds a limit.
    pub(super) fn matches(&self, text: &str) -> Option<bool> {
        let mut builder = RegexBuilder::new();
        let expression = builder.mk(&self.ast()).ok()?;
        let mut regex = builder.to_regex_limited(expression, 100 * MAX_FUEL).ok()?;
        Some(regex.is_match(text))
    }

    /// Returns whether every matching text can be continued to another matching one.
    pub(super) fn is_endless(&self) -> bool {
        self.ahead.is_empty() && endless(&self.hir)
    }

    /// Returns all matching texts, if they are few.
    pub(super) fn listed(&self) -> Option<Vec<String>> {
        if !self.ahead.is_empty() {
            return None;
        }
        listed(&self.hir)
    }
}

/// Returns whether no text of a length within the bounds matches all patterns; `None` if deciding exceeds a limit.
pub(super) fn none_follows(patterns: &[&Pattern], least: u64, most: Option<u64>) -> Option<bool> {
    let mut parts: Vec<RegexAst> = patterns.iter().map(|pattern| pattern.ast()).collect();
    if least > 0 || most.is_some() {
        let most = most.map(|most| most.to_string()).unwrap_or_default();
        parts.push(RegexAst::Regex(format!("(?s:.{{{least},{most}}})")));
    }
    let mut builder = RegexBuilder::new();
    let expression = builder.mk(&RegexAst::And(parts)).ok()?;
    let mut regex = builder.to_regex_limited(expression, MAX_FUEL).ok()?;
    Some(regex.always_empty())
}

/// Returns the term of all texts of a length within the bounds.
pub(crate) fn of_length(least: u64, most: Option<u64>, writing: Writing) -> String {
    let count = match (least, most) {
        (0, None) => "*".to_owned(),
        (least, most) => format!("{{{least},{}}}", most.map(|most| most.to_string()).unwrap_or_default()),
    };
    match writing {
        Writing::Json => format!("/\"({CHARACTER}){count}\"/"),
        Writing::Plain => format!("/(?s:.){count}/"),
    }
}

/// Returns the term of one text.
pub(crate) fn literal(text: &str, writing: Writing) -> String {
    let text = serde_json::Value::from(text).to_string();
    match writing {
        Writing::Json => serde_json::Value::from(text).to_string(),
        Writing::Plain => text,
    }
}

/// Character between quotes.
const CHARACTER: &str = r#"[^"\\\x00-\x1f]|\\["\\bfnrt]|\\u00(0[0-7be]|0f|1[0-9a-f])"#;

/// Look-ahead, and whether it is positive.
type Ahead<'a> = (&'a str, bool);

/// Splits a pattern into the look-aheads at its beginning and the rest.
fn look_ahead(pattern: &str) -> Result<(Vec<Ahead<'_>>, &str), String> {
    let mut ahead = Vec::new();
    let mut rest = pattern.strip_prefix('^').unwrap_or_default();
    while let Some(holds) = rest.get(..3).and_then(|open| match open {
        "(?=" => Some(true),
        "(?!" => Some(false),
        _ => None,
    }) {
        let close = closing(&rest[3..]).ok_or("a group is not closed")?;
        ahead.push((&rest[3..3 + close], holds));
        rest = &rest[3 + close + 1..];
    }
    if ahead.is_empty() {
        return Ok((ahead, pattern));
    }
    if alternatives(rest) {
        return Err("look-ahead beside alternatives is not supported".into());
    }
    Ok((ahead, rest))
}

/// Returns the end of the group that is open at the beginning.
fn closing(text: &str) -> Option<usize> {
    let (mut depth, mut class, mut escaped) = (0, false, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            ']' => class = false,
            _ if class => {}
            '[' => class = true,
            '(' => depth += 1,
            ')' if depth == 0 => return Some(at),
            ')' => depth -= 1,
            _ => {}
        }
    }
    None
}

/// Returns whether a pattern has alternatives outside of groups.
fn alternatives(text: &str) -> bool {
    let mut rest = text;
    let (mut class, mut escaped) = (false, false);
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            ']' => class = false,
            _ if class => {}
            '[' => class = true,
            '|' => return true,
            '(' => match closing(rest) {
                Some(close) => rest = &rest[close + 1..],
                None => return false,
            },
            _ => {}
        }
    }
    false
}

/// Converts a search pattern to a pattern of the whole text.
fn whole(hir: &Hir) -> Result<Hir, String> {
    side(hir, true, true)
}

/// Converts a part of a pattern that is `first` or `last` in it: anchors are resolved, and other ends allow any
/// text.
fn side(hir: &Hir, first: bool, last: bool) -> Result<Hir, String> {
    let any = || regex_syntax::parse("(?s:.*)").map_err(|e| e.to_string());
    let around = |inner: Hir| -> Result<Hir, String> {
        let mut parts = Vec::new();
        if first {
            parts.push(any()?);
        }
        parts.push(inner);
        if last {
            parts.push(any()?);
        }
        Ok(Hir::concat(parts))
    };
    if hir.properties().look_set().is_empty() {
        return around(hir.clone());
    }
    match hir.kind() {
        HirKind::Look(Look::Start) if first => {
            if last {
                any()
            } else {
                Ok(Hir::empty())
            }
        }
        HirKind::Look(Look::End) if last => {
            if first {
                any()
            } else {
                Ok(Hir::empty())
            }
        }
        HirKind::Capture(capture) => side(&capture.sub, first, last),
        HirKind::Alternation(parts) => {
            let parts: Result<Vec<Hir>, String> = parts.iter().map(|part| side(part, first, last)).collect();
            Ok(Hir::alternation(parts?))
        }
        HirKind::Concat(parts) => {
            let mut out = Vec::new();
            let mut parts = parts.as_slice();
            // No text precedes a start anchor.
            let starts = first && matches!(parts[0].kind(), HirKind::Look(Look::Start));
            if starts {
                parts = &parts[1..];
            }
            let ends = last && parts.last().is_some_and(|p| matches!(p.kind(), HirKind::Look(Look::End)));
            if ends {
                parts = &parts[..parts.len() - 1];
            }
            let (first, last) = (first && !starts, last && !ends);
            if parts.is_empty() {
                return if first || last { any() } else { Ok(Hir::empty()) };
            }
            for (i, part) in parts.iter().enumerate() {
                out.push(side(part, first && i == 0, last && i + 1 == parts.len())?);
            }
            Ok(Hir::concat(out))
        }
        _ => Err("an anchor or a boundary within a pattern is not supported".into()),
    }
}

fn endless(hir: &Hir) -> bool {
    match hir.kind() {
        HirKind::Repetition(repetition) => {
            repetition.max.is_none() && repetition.sub.properties().minimum_len().is_some_and(|len| len > 0)
        }
        HirKind::Capture(capture) => endless(&capture.sub),
        HirKind::Concat(parts) => parts.last().is_some_and(endless),
        HirKind::Alternation(parts) => parts.iter().all(endless),
        _ => false,
    }
}

/// Returns all texts of an expression, if they are few.
fn listed(hir: &Hir) -> Option<Vec<String>> {
    let few = |texts: Vec<String>| (texts.len() <= MAX_LISTED).then_some(texts);
    match hir.kind() {
        HirKind::Empty => Some(vec![String::new()]),
        HirKind::Literal(literal) => Some(vec![String::from_utf8(literal.0.to_vec()).ok()?]),
        HirKind::Class(Class::Unicode(class)) => {
            let mut texts = Vec::new();
            for range in class.iter() {
                for c in range.start()..=range.end() {
                    texts.push(c.to_string());
                    if texts.len() > MAX_LISTED {
                        return None;
                    }
                }
            }
            Some(texts)
        }
        HirKind::Capture(capture) => listed(&capture.sub),
        HirKind::Alternation(parts) => {
            let mut texts: Vec<String> = Vec::new();
            for part in parts {
                for text in listed(part)? {
                    if !texts.contains(&text) {
                        texts.push(text);
                    }
                }
            }
            few(texts)
        }
        HirKind::Concat(parts) => {
            let mut texts = vec![String::new()];
            for part in parts {
                texts = product(&texts, &listed(part)?)?;
            }
            Some(texts)
        }
        HirKind::Repetition(repetition) => {
            let most = repetition.max.filter(|max| *max <= MAX_LISTED as u32)?;
            let one = listed(&repetition.sub)?;
            let mut power = vec![String::new()];
            let mut texts = Vec::new();
            for count in 0..=most {
                if count >= repetition.min {
                    texts.extend(
                        power.iter().filter(|text| !texts.contains(*text)).cloned().collect::<Vec<_>>(),
                    );
                }
                if count < most {
                    power = product(&power, &one)?;
                }
            }
            few(texts)
        }
        _ => None,
    }
}

fn product(fronts: &[String], backs: &[String]) -> Option<Vec<String>> {
    if fronts.len() * backs.len() > MAX_LISTED {
        return None;
    }
    Some(fronts.iter().flat_map(|front| backs.iter().map(move |back| format!("{front}{back}"))).collect())
}

/// Returns the regular expression of the written form, for use between slashes in Lark.
fn quoted(hir: &Hir, writing: Writing) -> String {
    let mut out = String::new();
    if writing == Writing::Json {
        out.push('"');
    }
    write(hir, writing, &mut out);
    if writing == Writing::Json {
        out.push('"');
    }
    out
}

fn write(hir: &Hir, writing: Writing, out: &mut String) {
    match hir.kind() {
        // Anchors were resolved before.
        HirKind::Empty | HirKind::Look(_) => {}
        HirKind::Literal(literal) => {
            for c in String::from_utf8_lossy(&literal.0).chars() {
                match escape(c).filter(|_| writing == Writing::Json) {
                    Some(escape) => out.push_str(&escape),
                    None => character(c, out),
                }
            }
        }
        HirKind::Class(Class::Unicode(class)) => {
            let ranges = class.iter().map(|range| (range.start(), range.end()));
            set(&ranges.collect::<Vec<_>>(), writing, out);
        }
        HirKind::Class(Class::Bytes(class)) => {
            let ranges = class.iter().map(|range| (char::from(range.start()), char::from(range.end())));
            set(&ranges.collect::<Vec<_>>(), writing, out);
        }
        HirKind::Repetition(repetition) => {
            out.push_str("(?:");
            write(&repetition.sub, writing, out);
            let max = repetition.max.map(|max| max.to_string()).unwrap_or_default();
            let _ = write!(out, "){{{},{max}}}", repetition.min);
        }
        HirKind::Capture(capture) => write(&capture.sub, writing, out),
        HirKind::Concat(parts) => parts.iter().for_each(|part| write(part, writing, out)),
        HirKind::Alternation(parts) => {
            out.push_str("(?:");
            for (i, part) in parts.iter().enumerate() {
                if i > 0 {
                    out.push('|');
                }
                write(part, writing, out);
            }
            out.push(')');
        }
    }
}

/// Writes an expression of one of these characters.
fn set(ranges: &[(char, char)], writing: Writing, out: &mut String) {
    let (mut class, mut others) = (String::new(), Vec::new());
    for &(start, end) in ranges {
        let mut from = start;
        // All characters that need an escape are in this range.
        while writing == Writing::Json && from <= end && from <= '\\' {
            match escape(from) {
                Some(escape) => others.push(escape),
                None => character(from, &mut class),
            }
            from = char::from(from as u8 + 1);
        }
        if from <= end {
            character(from, &mut class);
            class.push('-');
            character(end, &mut class);
        }
    }
    let class = if class.is_empty() { None } else { Some(format!("[{class}]")) };
    let all: Vec<String> = class.into_iter().chain(others).collect();
    match all.as_slice() {
        // An empty class matches nothing.
        [] => out.push_str("[^\\s\\S]"),
        [one] => out.push_str(one),
        _ => {
            let _ = write!(out, "(?:{})", all.join("|"));
        }
    }
}

fn character(c: char, out: &mut String) {
    if c.is_ascii_alphanumeric() {
        out.push(c);
    } else {
        let _ = write!(out, "\\x{{{:x}}}", u32::from(c));
    }
}

/// Returns the regular expression of the escape that a character needs in JSON.
fn escape(c: char) -> Option<String> {
    Some(match c {
        '"' => "\\\\\"".to_owned(),
        '\\' => "\\\\\\\\".to_owned(),
        '\n' => "\\\\n".to_owned(),
        '\r' => "\\\\r".to_owned(),
        '\t' => "\\\\t".to_owned(),
        '\u{8}' => "\\\\b".to_owned(),
        '\u{c}' => "\\\\f".to_owned(),
        c if c < ' ' => format!("\\\\u{:04x}", u32::from(c)),
        _ => return None,
    })
}
