//! Strings of JSON as they are written, and patterns for them.
//!
//! A character is written in one way: as it is, or with the escape that JSON needs for it. So a rule for the text is a
//! rule for what is written, and both may be combined and negated alike.

use std::fmt::Write;

use llguidance::derivre::{RegexAst, RegexBuilder};
use regex_syntax::hir::{Class, Hir, HirKind, Look};

/// How a text is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Writing {
    /// Between quotes, with escapes.
    Json,
    /// As it is.
    Plain,
}

/// What combining rules may cost when it is found out whether any text follows them.
const MOST_FUEL: u64 = 10_000;
/// The most texts of a pattern that are told one by one.
const MOST_LISTED: usize = 64;

/// A rule for a text as a whole.
#[derive(Clone, Debug)]
pub(crate) struct Pattern {
    hir: Hir,
    /// What must hold, or must not, at the beginning.
    ahead: Vec<(Hir, bool)>,
}

impl Pattern {
    /// A pattern that is searched for, in the syntax of JSON Schema as far as a regular language can have it.
    pub(super) fn search(pattern: &str) -> Result<Pattern, String> {
        let (ahead, rest) = look_ahead(pattern)?;
        let read = |text: &str| {
            // In this syntax digits and letters of words are those of ASCII.
            regex_syntax::parse(&llguidance::regex_to_lark(text, "dw").replace("\\/", "/")).map_err(|e| {
                let message = e.to_string();
                let last = message.lines().last().unwrap_or_default();
                format!("not a pattern that can be followed: {}", last.trim_start_matches("error: "))
            })
        };
        // What is left begins where the look-aheads do.
        let hir = whole(&if ahead.is_empty() { read(rest)? } else { read(&format!("^{rest}"))? })?;
        let ahead = ahead
            .into_iter()
            .map(|(text, holds)| Ok((whole(&read(&format!("^(?:{text})"))?)?, holds)))
            .collect::<Result<_, String>>()?;
        Ok(Pattern { hir, ahead })
    }

    /// A rule of our own, for the whole text.
    pub(super) fn own(pattern: &str) -> Option<Pattern> {
        Some(Pattern { hir: regex_syntax::parse(pattern).ok()?, ahead: Vec::new() })
    }

    /// The terms, in Lark, that a terminal with this rule is the conjunction of.
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

    /// Whether a text follows it; `None` if that is too much to find out.
    pub(super) fn matches(&self, text: &str) -> Option<bool> {
        let mut builder = RegexBuilder::new();
        let expression = builder.mk(&self.ast()).ok()?;
        let mut regex = builder.to_regex_limited(expression, 100 * MOST_FUEL).ok()?;
        Some(regex.is_match(text))
    }

    /// Whether every text that follows it can go on.
    pub(super) fn is_endless(&self) -> bool {
        self.ahead.is_empty() && endless(&self.hir)
    }

    /// All texts that follow it, if they are few.
    pub(super) fn listed(&self) -> Option<Vec<String>> {
        if !self.ahead.is_empty() {
            return None;
        }
        listed(&self.hir)
    }
}

/// Whether no text follows all of these, with a length within bounds; `None` if that is too much to find out.
pub(super) fn none_follows(patterns: &[&Pattern], least: u64, most: Option<u64>) -> Option<bool> {
    let mut parts: Vec<RegexAst> = patterns.iter().map(|pattern| pattern.ast()).collect();
    if least > 0 || most.is_some() {
        let most = most.map(|most| most.to_string()).unwrap_or_default();
        parts.push(RegexAst::Regex(format!("(?s:.{{{least},{most}}})")));
    }
    let mut builder = RegexBuilder::new();
    let expression = builder.mk(&RegexAst::And(parts)).ok()?;
    let mut regex = builder.to_regex_limited(expression, MOST_FUEL).ok()?;
    Some(regex.always_empty())
}

/// The term of all texts with a length within bounds.
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

/// The term of one text.
pub(crate) fn literal(text: &str, writing: Writing) -> String {
    let text = serde_json::Value::from(text).to_string();
    match writing {
        Writing::Json => serde_json::Value::from(text).to_string(),
        Writing::Plain => text,
    }
}

/// A character between quotes.
const CHARACTER: &str = r#"[^"\\\x00-\x1f]|\\["\\bfnrt]|\\u00(0[0-7be]|0f|1[0-9a-f])"#;

/// What a look-ahead looks for, and whether it must be there.
type Ahead<'a> = (&'a str, bool);

/// The look-aheads at the beginning of a pattern, and whether they hold, and what is left.
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

/// Where the group ends that is open at the beginning.
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

/// Whether a pattern has alternatives outside of its groups.
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

/// What is searched for, as a rule for the whole text.
fn whole(hir: &Hir) -> Result<Hir, String> {
    side(hir, true, true)
}

/// A pattern whose ends stand at the beginning or at the end of what is searched.
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
            // What stands before a beginning is nothing.
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

/// All texts of a rule, if they are few.
fn listed(hir: &Hir) -> Option<Vec<String>> {
    let few = |texts: Vec<String>| (texts.len() <= MOST_LISTED).then_some(texts);
    match hir.kind() {
        HirKind::Empty => Some(vec![String::new()]),
        HirKind::Literal(literal) => Some(vec![String::from_utf8(literal.0.to_vec()).ok()?]),
        HirKind::Class(Class::Unicode(class)) => {
            let mut texts = Vec::new();
            for range in class.iter() {
                for c in range.start()..=range.end() {
                    texts.push(c.to_string());
                    if texts.len() > MOST_LISTED {
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
            let most = repetition.max.filter(|max| *max <= MOST_LISTED as u32)?;
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
    if fronts.len() * backs.len() > MOST_LISTED {
        return None;
    }
    Some(fronts.iter().flat_map(|front| backs.iter().map(move |back| format!("{front}{back}"))).collect())
}

/// The regular expression of what is written, between slashes in Lark.
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
        // Looks were resolved before.
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

/// One of these characters.
fn set(ranges: &[(char, char)], writing: Writing, out: &mut String) {
    let (mut class, mut others) = (String::new(), Vec::new());
    for &(start, end) in ranges {
        let mut from = start;
        // All that needs an escape lies before this.
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
        // A class of nothing matches nothing.
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

/// The regular expression of the escape that a character needs in JSON.
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
