//! Text of HTML: a pass over its tags, without a tree.

use crate::encoding;
use html5gum::{DefaultEmitter, Token, Tokenizer};

/// Elements whose content is no text of the document.
const SKIPPED: [&[u8]; 11] = [
    b"script",
    b"style",
    b"template",
    b"noscript",
    b"svg",
    b"math",
    b"object",
    b"iframe",
    b"select",
    b"textarea",
    b"noframes",
];
/// Elements that begin and end a line.
const LINES: [&[u8]; 30] = [
    b"address",
    b"article",
    b"aside",
    b"blockquote",
    b"body",
    b"center",
    b"dd",
    b"details",
    b"div",
    b"dl",
    b"dt",
    b"fieldset",
    b"figcaption",
    b"figure",
    b"footer",
    b"form",
    b"header",
    b"hr",
    b"html",
    b"li",
    b"main",
    b"nav",
    b"ol",
    b"option",
    b"section",
    b"summary",
    b"table",
    b"tbody",
    b"tr",
    b"ul",
];
/// Elements with an empty line before and after them.
const PARAGRAPHS: [&[u8]; 10] =
    [b"p", b"h1", b"h2", b"h3", b"h4", b"h5", b"h6", b"pre", b"title", b"caption"];

/// Returns the text of an HTML file.
///
/// # Errors
/// The bytes are no text.
pub(crate) fn text(bytes: &[u8]) -> Result<String, String> {
    let html = encoding::decode(bytes, declared(bytes))?;
    let mut emitter = DefaultEmitter::default();
    emitter.naively_switch_states(true);
    let mut page = Page::default();
    for token in Tokenizer::new_with_emitter(html.as_str(), emitter) {
        match token {
            Ok(Token::StartTag(tag)) => page.start(&tag.name, tag.self_closing),
            Ok(Token::EndTag(tag)) => page.end(&tag.name),
            Ok(Token::String(text)) => page.push(&String::from_utf8_lossy(&text)),
            Ok(_) => {}
            Err(never) => match never {},
        }
    }
    Ok(page.finish())
}

/// Text of a page up to the current tag.
#[derive(Default)]
struct Page {
    text: String,
    /// The element whose content is skipped, and the number of its kind that are open.
    skipped: Option<(Vec<u8>, usize)>,
    /// Number of open `pre` elements.
    pre: usize,
    /// `true` after a cell of the current row.
    cells: bool,
    /// Ends of lines that the next text needs before it.
    breaks: usize,
    /// `true` if white space stands before the next text.
    space: bool,
}

impl Page {
    fn start(&mut self, name: &[u8], self_closing: bool) {
        match &mut self.skipped {
            Some((skipped, open)) if skipped == name && !self_closing => return *open += 1,
            Some(_) => return,
            None if SKIPPED.contains(&name) && !self_closing => {
                return self.skipped = Some((name.to_vec(), 1));
            }
            None => {}
        }
        match name {
            b"br" => self.text.push_str(if self.breaks == 0 { "\n" } else { "" }),
            b"td" | b"th" => self.cell(),
            b"tr" => self.row(),
            _ => self.block(name),
        }
        if name == b"br" {
            self.space = false;
        }
        if name == b"pre" {
            self.pre += 1;
        }
    }

    fn end(&mut self, name: &[u8]) {
        if let Some((skipped, open)) = &mut self.skipped {
            if skipped == name {
                *open -= 1;
                if *open == 0 {
                    self.skipped = None;
                }
            }
            return;
        }
        self.block(name);
        if name == b"pre" {
            self.pre = self.pre.saturating_sub(1);
        }
    }

    fn row(&mut self) {
        self.cells = false;
        self.break_lines(1);
    }

    fn cell(&mut self) {
        if self.cells && self.breaks == 0 {
            self.text.push('\t');
            self.space = false;
        }
        self.cells = true;
    }

    fn block(&mut self, name: &[u8]) {
        if PARAGRAPHS.contains(&name) {
            self.break_lines(2);
        } else if LINES.contains(&name) {
            self.break_lines(1);
        }
    }

    fn break_lines(&mut self, lines: usize) {
        self.breaks = self.breaks.max(lines);
        self.space = false;
    }

    fn push(&mut self, text: &str) {
        if self.skipped.is_some() {
            return;
        }
        if self.pre > 0 {
            self.before();
            self.text.push_str(text);
            return;
        }
        for (i, word) in text.split([' ', '\n', '\t', '\x0c', '\r']).enumerate() {
            self.space |= i > 0;
            if !word.is_empty() {
                self.before();
                self.text.push_str(word);
            }
        }
    }

    /// Writes the white space that stands before the next text.
    fn before(&mut self) {
        if !self.text.is_empty() && self.breaks > 0 {
            let there = self.text.len() - self.text.trim_end_matches('\n').len();
            self.text.extend(std::iter::repeat_n('\n', self.breaks.saturating_sub(there)));
        } else if self.space && !self.text.is_empty() && !self.text.ends_with(['\n', '\t']) {
            self.text.push(' ');
        }
        (self.breaks, self.space) = (0, false);
    }

    fn finish(mut self) -> String {
        self.text.truncate(self.text.trim_end().len());
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        self.text
    }
}

/// Returns the encoding that the first 1024 bytes declare.
fn declared(bytes: &[u8]) -> Option<&[u8]> {
    let head = &bytes[..bytes.len().min(1024)];
    let lower = head.to_ascii_lowercase();
    let found = [&b"charset="[..], b"encoding="].iter().find_map(|key| {
        lower.windows(key.len()).position(|window| window == *key).map(|at| at + key.len())
    })?;
    let value = head[found..].trim_ascii_start();
    let value = value.strip_prefix(b"\"").or_else(|| value.strip_prefix(b"'")).unwrap_or(value);
    let end = value
        .iter()
        .position(|byte| !byte.is_ascii_alphanumeric() && !b"-_:".contains(byte))
        .unwrap_or(value.len());
    Some(&value[..end])
}

#[cfg(test)]
mod tests {
    use super::text;

    fn of(html: &str) -> String {
        text(html.as_bytes()).unwrap()
    }

    #[test]
    fn blocks_are_lines_and_white_space_is_one_space() {
        assert_eq!(
            of("<p>One\n  <b>two</b>three <i> four</i></p><p>Five</p>"),
            "One twothree four\n\nFive\n"
        );
        assert_eq!(of("a<br>b<br><br>c"), "a\nb\n\nc\n");
        assert_eq!(of("<ul><li>a<li>b</ul>after"), "a\nb\nafter\n");
        assert_eq!(of("<table><tr><th>A<th>B</tr><tr><td>1</td><td>2</td></tr></table>"), "A\tB\n1\t2\n");
        assert_eq!(of("<pre>a\n  b</pre>c"), "a\n  b\n\nc\n");
        assert_eq!(of(""), "");
    }

    #[test]
    fn scripts_and_styles_are_no_text() {
        assert_eq!(
            of("a<script>if (a < b) x = '<p>'</script><style>p{}</style><svg><text>t</text></svg> b"),
            "a b\n"
        );
        assert_eq!(of("a<script>b<script>b</script>c"), "ac\n");
        assert_eq!(of("a<script>never closed"), "a\n");
    }

    #[test]
    fn entities_and_declared_encodings_are_decoded() {
        assert_eq!(of("&lt;&amp;&eacute;&#8364;&#x41;&unknown;"), "<&é€A&unknown;\n");
        assert_eq!(text(b"<meta charset=windows-1251>\xcf\xf0").unwrap(), "Пр\n");
        assert_eq!(text(b"<?xml version='1.0' encoding=\"iso-8859-15\"?>\xa4").unwrap(), "€\n");
    }
}
