//! Streamed Markdown on a terminal: headings, lists, quotes, code, tables, and emphasis within lines.
//!
//! The first characters of a line show its kind; until then it is held back. Tables are held back until they end,
//! because their columns are as wide as their widest cells. Other syntax is shown unchanged.

use std::mem;

use unicode_width::UnicodeWidthStr;

use crate::cli::wrap::Wrap;

const RESET: &str = "\x1b[0m";
const BOLD: &str = "\x1b[1m";
const DIM: &str = "\x1b[2m";
const ITALIC: &str = "\x1b[3m";
const UNDERLINE: &str = "\x1b[4m";
const CYAN: &str = "\x1b[36m";

/// State of the current line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Line {
    /// Line whose kind is not known yet; its text is in `head`.
    Unknown,
    /// Text, drawn while it arrives.
    Text,
    /// Line that is drawn when it is complete: of code or a table, the opening line of code, or a rule.
    Whole,
}

/// Kind of a line.
#[derive(Debug, PartialEq, Eq)]
enum Kind {
    More,
    Text,
    Whole,
    /// Columns of the source before the heading's text.
    Heading(usize),
    Item {
        indent: usize,
        mark: String,
        rest: usize,
    },
    Quote(usize),
}

/// Formatter of Markdown that arrives in pieces.
#[derive(Debug)]
pub(super) struct Markdown {
    width: Option<usize>,
    wrap: Wrap,
    line: Line,
    head: String,
    /// Mark that ends the code block; `None` outside code.
    fence: Option<String>,
    table: Vec<String>,
    inline: Inline,
}

impl Markdown {
    /// Creates a formatter for a terminal with `width` columns; `None` for no wrapping.
    pub(super) fn new(width: Option<usize>) -> Self {
        Self {
            width,
            wrap: Wrap::new(width),
            line: Line::Unknown,
            head: String::new(),
            fence: None,
            table: Vec::new(),
            inline: Inline::default(),
        }
    }

    /// Adds a piece of text. Returns the formatted text that can be shown.
    pub(super) fn push(&mut self, text: &str) -> String {
        let mut out = String::new();
        text.chars().for_each(|c| self.take(&mut out, c));
        out
    }

    /// Ends the text. Returns the rest.
    pub(super) fn finish(&mut self) -> String {
        let mut out = String::new();
        match self.line {
            Line::Text => self.end_text(&mut out),
            Line::Unknown | Line::Whole if !self.head.is_empty() => {
                let head = mem::take(&mut self.head);
                self.whole(&mut out, &head);
                if out.ends_with('\n') {
                    out.pop();
                }
            }
            _ => {}
        }
        self.end_table(&mut out);
        self.line = Line::Unknown;
        out
    }

    fn take(&mut self, out: &mut String, c: char) {
        match self.line {
            Line::Text if c == '\n' => {
                self.end_text(out);
                self.wrap.line(out);
                self.line = Line::Unknown;
            }
            Line::Text => self.inline.push(&mut self.wrap, out, c),
            Line::Whole | Line::Unknown if c == '\n' => {
                let head = mem::take(&mut self.head);
                self.line = Line::Unknown;
                self.whole(out, &head);
            }
            Line::Whole => self.head.push(c),
            Line::Unknown => {
                self.head.push(c);
                if self.fence.is_some() {
                    self.line = Line::Whole;
                } else {
                    self.decide(out);
                }
            }
        }
    }

    /// Determines the kind of the line, if possible, and draws its beginning.
    fn decide(&mut self, out: &mut String) {
        let kind = kind(&self.head);
        match kind {
            Kind::More => return,
            Kind::Whole => {
                self.line = Line::Whole;
                return;
            }
            _ => self.end_table(out),
        }
        let head = mem::take(&mut self.head);
        self.line = Line::Text;
        let rest = match kind {
            Kind::Heading(rest) => {
                self.inline.base = if rest == 2 { [BOLD, UNDERLINE].concat() } else { BOLD.to_owned() };
                rest
            }
            Kind::Item { indent, mark, rest } => {
                self.wrap.lead(out, &" ".repeat(indent), indent);
                self.wrap.lead(out, &mark, mark.width());
                rest
            }
            Kind::Quote(rest) => {
                self.wrap.lead(out, &format!("{DIM}│{RESET} "), 2);
                self.inline.base = ITALIC.to_owned();
                rest
            }
            _ => 0,
        };
        let base = self.inline.base.clone();
        self.wrap.style(&base);
        head[rest..].chars().for_each(|c| self.inline.push(&mut self.wrap, out, c));
    }

    fn end_text(&mut self, out: &mut String) {
        self.inline.end(&mut self.wrap, out);
        self.wrap.flush(out);
    }

    /// Draws a complete line.
    fn whole(&mut self, out: &mut String, line: &str) {
        let text = line.trim();
        if let Some(fence) = &self.fence {
            if text.starts_with(fence.as_str()) && text.trim_matches(['`', '~']).is_empty() {
                self.fence = None;
                return;
            }
            out.push_str(&format!("{CYAN}{line}{RESET}\n"));
            return;
        }
        if text.starts_with('|') && text.len() > 1 {
            self.table.push(text.to_owned());
            return;
        }
        self.end_table(out);
        if text.starts_with("```") || text.starts_with("~~~") {
            self.fence = Some(text[..3].to_owned());
        } else if is_rule(text) {
            out.push_str(&format!("{DIM}{}{RESET}\n", "─".repeat(self.width.unwrap_or(40).min(40))));
        } else {
            line.chars().for_each(|c| self.inline.push(&mut self.wrap, out, c));
            self.end_text(out);
            self.wrap.line(out);
        }
    }

    /// Draws the table so far, if there is one.
    fn end_table(&mut self, out: &mut String) {
        let lines = mem::take(&mut self.table);
        if lines.is_empty() {
            return;
        }
        match table(&lines, self.width) {
            Some(drawn) => out.push_str(&drawn),
            None => lines.iter().for_each(|line| out.push_str(&format!("{line}\n"))),
        }
    }
}

/// Returns the kind of a line from its first characters.
fn kind(head: &str) -> Kind {
    let indent = head.len() - head.trim_start_matches(' ').len();
    let text = &head[indent..];
    let mut chars = text.chars();
    let Some(first) = chars.next() else { return Kind::More };
    let marks = text.chars().take_while(|c| *c == first).count();
    let behind = text[marks * first.len_utf8()..].chars().next();
    match first {
        '|' => Kind::Whole,
        '`' | '~' if marks >= 3 => Kind::Whole,
        '`' | '~' if behind.is_none() => Kind::More,
        '#' => match behind {
            None if marks <= 6 => Kind::More,
            Some(' ') if marks <= 6 => Kind::Heading(indent + marks + 1),
            _ => Kind::Text,
        },
        '>' => match behind {
            None if marks == 1 => Kind::More,
            Some(' ') if marks == 1 => Kind::Quote(indent + 2),
            _ => Kind::Text,
        },
        '-' | '*' | '+' | '_' if behind.is_none() && (marks < 3 || marks == text.len()) => match marks {
            1 | 2 => Kind::More,
            _ => Kind::Whole,
        },
        '-' | '*' | '+' if marks == 1 && behind == Some(' ') => {
            Kind::Item { indent, mark: "• ".to_owned(), rest: indent + 2 }
        }
        '0'..='9' => {
            let digits = text.bytes().take_while(u8::is_ascii_digit).count();
            let mut after = text[digits..].chars();
            match (after.next(), after.next()) {
                (None, _) if digits < 4 => Kind::More,
                (Some('.' | ')'), None) => Kind::More,
                (Some('.' | ')'), Some(' ')) => {
                    let rest = digits + 2;
                    Kind::Item { indent, mark: text[..rest].to_owned(), rest: indent + rest }
                }
                _ => Kind::Text,
            }
        }
        _ => Kind::Text,
    }
}

/// Returns true for a rule: three or more of the same mark.
fn is_rule(text: &str) -> bool {
    ['-', '*', '_'].iter().any(|mark| text.len() >= 3 && text.chars().all(|c| c == *mark))
}

/// Formatter of emphasis and code within a line.
#[derive(Debug, Default)]
struct Inline {
    /// Style of the whole line.
    base: String,
    bold: bool,
    italic: bool,
    code: bool,
    /// First character of a mark that may have two, and the character before it.
    held: Option<(char, char)>,
    last: char,
}

impl Inline {
    fn push(&mut self, wrap: &mut Wrap, out: &mut String, c: char) {
        if let Some((mark, before)) = self.held.take() {
            if c == mark && mark == '_' {
                // `__` is unchanged: it is more often part of a name such as `__init__` than bold.
                wrap.push(out, mark);
                wrap.push(out, c);
                self.last = mark;
                return;
            }
            if c == mark {
                self.bold = !self.bold;
                self.restyle(wrap);
                self.last = mark;
                return;
            }
            // Underscores within words, and multiplication signs, are unchanged.
            let inside = before.is_alphanumeric() && (mark == '_' && c.is_alphanumeric());
            let opens = !self.italic && !c.is_whitespace() && !before.is_alphanumeric() && before != '_';
            let closes = self.italic && !before.is_whitespace() && !inside;
            if opens || closes {
                self.italic = !self.italic;
                self.restyle(wrap);
            } else {
                wrap.push(out, mark);
            }
            self.last = mark;
        }
        match c {
            '`' => {
                self.code = !self.code;
                self.restyle(wrap);
            }
            '*' | '_' if !self.code => {
                self.held = Some((c, self.last));
                return;
            }
            _ => wrap.push(out, c),
        }
        self.last = c;
    }

    fn restyle(&self, wrap: &mut Wrap) {
        let mut style = RESET.to_owned() + &self.base;
        for (on, escape) in [(self.bold, BOLD), (self.italic, ITALIC), (self.code, CYAN)] {
            style += if on { escape } else { "" };
        }
        wrap.style(&style);
    }

    /// Ends the line with its emphasis.
    fn end(&mut self, wrap: &mut Wrap, out: &mut String) {
        if let Some((mark, _)) = self.held.take() {
            if self.italic {
                self.italic = false
            } else {
                wrap.push(out, mark)
            }
            if !(self.bold || self.code) {
                wrap.style(RESET);
            }
        }
        if self.bold || self.italic || self.code || !self.base.is_empty() {
            wrap.style(RESET);
        }
        *self = Self::default();
    }
}

/// Draws a table; `None` if it has no line below its header or is wider than the terminal.
fn table(lines: &[String], width: Option<usize>) -> Option<String> {
    let rows: Vec<Vec<&str>> = lines.iter().map(|line| cells(line)).collect();
    let is_divider = |row: &[&str]| {
        row.iter().all(|cell| cell.contains('-') && cell.chars().all(|c| matches!(c, '-' | ':')))
    };
    let divider = rows.get(1).filter(|row| is_divider(row))?;
    let is_right: Vec<bool> =
        divider.iter().map(|cell| cell.ends_with(':') && !cell.starts_with(':')).collect();
    let drawn: Vec<Vec<(String, usize)>> = rows
        .iter()
        .enumerate()
        .filter(|(i, _)| *i != 1)
        .map(|(i, row)| row.iter().map(|cell| styled(cell, i == 0)).collect())
        .collect();
    let columns = drawn.iter().map(Vec::len).max()?;
    let wide =
        |column: usize| drawn.iter().filter_map(|row| row.get(column)).map(|cell| cell.1).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(wide).collect();
    if width.is_some_and(|width| widths.iter().sum::<usize>() + 3 * (columns - 1) > width) {
        return None;
    }
    let mut out = String::new();
    for (i, row) in drawn.iter().enumerate() {
        let mut line = String::new();
        for (column, width) in widths.iter().enumerate() {
            let (text, used) = row.get(column).map_or(("", 0), |(text, used)| (text.as_str(), *used));
            let gap = " ".repeat(width - used);
            let bar = if column == 0 { String::new() } else { format!(" {DIM}│{RESET} ") };
            let right = is_right.get(column).copied().unwrap_or(false);
            line += &if right { format!("{bar}{gap}{text}") } else { format!("{bar}{text}{gap}") };
        }
        out += line.trim_end();
        out.push('\n');
        if i == 0 {
            let rules: Vec<String> = widths.iter().map(|width| "─".repeat(*width)).collect();
            out += &format!("{DIM}{}{RESET}\n", rules.join("─┼─"));
        }
    }
    Some(out)
}

fn cells(line: &str) -> Vec<&str> {
    line.trim().trim_start_matches('|').trim_end_matches('|').split('|').map(str::trim).collect()
}

/// Returns a cell with its emphasis, and its width in columns.
fn styled(cell: &str, bold: bool) -> (String, usize) {
    let (mut wrap, mut out) = (Wrap::new(None), String::new());
    let base = if bold { BOLD } else { "" };
    let mut inline = Inline { base: base.to_owned(), ..Inline::default() };
    wrap.style(base);
    cell.chars().for_each(|c| inline.push(&mut wrap, &mut out, c));
    inline.end(&mut wrap, &mut out);
    wrap.flush(&mut out);
    let width = bare(&out).width();
    (out, width)
}

/// Returns a text without its escape sequences.
fn bare(text: &str) -> String {
    let mut parts = text.split('\x1b');
    let mut out = parts.next().unwrap_or("").to_owned();
    for part in parts {
        out += part.split_once('m').map_or("", |(_, rest)| rest);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a text as drawn, and checks that cutting it into pieces changes nothing.
    fn drawn(width: Option<usize>, text: &str) -> String {
        let mut whole = Markdown::new(width);
        let at_once = whole.push(text) + &whole.finish();
        let mut pieces = Markdown::new(width);
        let one_by_one: String = text.chars().map(|c| pieces.push(&c.to_string())).collect();
        assert_eq!(one_by_one + &pieces.finish(), at_once, "{text:?}");
        at_once
    }

    #[test]
    fn plain_text_stays() {
        for text in [
            "",
            "\n",
            "Hello.",
            "2 * 3 * 4 = 24\n",
            "snake_case and __init__",
            "a - b\n\n-5 degrees",
            "1984 was a year. 3.14 is a number.",
            "#hashtag and C# code",
            "100",
            "-",
            "**",
            "~/.config",
            "> ",
        ] {
            let shown = bare(&drawn(None, text));
            let wanted = if text == "**" || text == "> " { shown.clone() } else { text.to_owned() };
            assert_eq!(shown, wanted, "{text:?}");
        }
    }

    #[test]
    fn emphasis_and_code_are_styled() {
        assert_eq!(drawn(None, "a **b** c"), format!("a {RESET}{BOLD}b{RESET} c"));
        assert_eq!(
            drawn(None, "an *i* and _j_!"),
            format!("an {RESET}{ITALIC}i{RESET} and {RESET}{ITALIC}j{RESET}!")
        );
        assert_eq!(drawn(None, "use `a_b*c`."), format!("use {RESET}{CYAN}a_b*c{RESET}."));
        assert_eq!(drawn(None, "**open"), format!("{RESET}{BOLD}open{RESET}"));
        assert_eq!(drawn(None, "*all*\n"), format!("{RESET}{ITALIC}all{RESET}\n"));
    }

    #[test]
    fn headings_lists_and_quotes() {
        assert_eq!(drawn(None, "# One\n"), format!("{BOLD}{UNDERLINE}One{RESET}\n"));
        assert_eq!(drawn(None, "### Three\ntext"), format!("{BOLD}Three{RESET}\ntext"));
        assert_eq!(drawn(None, "- a\n  * b\n10. c"), "• a\n  • b\n10. c");
        assert_eq!(drawn(None, "> said"), format!("{DIM}│{RESET} {ITALIC}said{RESET}"));
        assert_eq!(drawn(None, "---\nx"), format!("{DIM}{}{RESET}\nx", "─".repeat(40)));
        assert_eq!(drawn(Some(16), "- one two three four five"), "• one two three\n  four five");
        assert_eq!(drawn(Some(16), "12. one two three four"), "12. one two\n    three four");
    }

    #[test]
    fn code_is_not_wrapped_and_not_read() {
        let text = "```rust\nfn main() { **not bold** }\n\n# no heading\n```\nafter";
        let wanted = format!(
            "{CYAN}fn main() {{ **not bold** }}{RESET}\n{CYAN}{RESET}\n{CYAN}# no heading{RESET}\nafter"
        );
        assert_eq!(drawn(Some(16), text), wanted);
        // Cut off within.
        assert_eq!(drawn(None, "```\nx = 1"), format!("{CYAN}x = 1{RESET}"));
    }

    #[test]
    fn tables_have_columns() {
        let text = "| Name | Size |\n|:---|---:|\n| **a** | 10 |\n| bcd | 9 |\nafter";
        let bar = format!(" {DIM}│{RESET} ");
        let wanted = format!(
            "{BOLD}Name{RESET}{bar}{BOLD}Size{RESET}\n{DIM}─────┼─────{RESET}\n{RESET}{BOLD}a{RESET}   {bar}  10\nbcd {bar}   9\nafter"
        );
        assert_eq!(drawn(None, text), wanted);
        // Too wide, or no table at all.
        assert_eq!(
            drawn(Some(16), "| one two three | four five |\n|---|---|\n"),
            "| one two three | four five |\n|---|---|\n"
        );
        assert_eq!(drawn(None, "| just a line"), "| just a line\n");
    }

    #[test]
    fn lines_are_wrapped() {
        assert_eq!(
            drawn(Some(16), "The king had a *red* hat."),
            format!("The king had a\n{RESET}{ITALIC}red{RESET} hat.")
        );
    }
}
