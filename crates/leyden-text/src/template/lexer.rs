//! Splits the source of a template into tokens, with the white-space settings of chat templates: `trim_blocks`
//! (removes the line break after a block or comment) and `lstrip_blocks` (removes spaces before one at the
//! beginning of a line).

use super::ast::SyntaxError;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token<'s> {
    /// Literal text.
    Data(&'s str),
    /// `{{` or `{%`.
    Open(Tag),
    /// `}}` or `%}`.
    Close(Tag),
    Name(&'s str),
    Str(String),
    Int(i64),
    Float(f64),
    /// Operator or bracket.
    Op(&'static str),
    End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tag {
    Print,
    Block,
}

/// Token with the line in which it begins.
#[derive(Clone, Debug)]
pub(super) struct Located<'s> {
    pub(super) token: Token<'s>,
    pub(super) line: usize,
}

/// Operators, longest first, so that the first match is the right one.
const OPS: [&str; 26] = [
    "//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[", "]", "(", ")", "{", "}", ">", "<",
    "=", ".", ":", "|", ",", ";",
];

pub(super) struct Lexer<'s> {
    source: &'s str,
    at: usize,
    line: usize,
    tokens: Vec<Located<'s>>,
}

/// Returns the tokens of `source`, whose only line break is `\n`.
pub(super) fn tokens(source: &str) -> Result<Vec<Located<'_>>, SyntaxError> {
    let mut lexer = Lexer { source, at: 0, line: 1, tokens: Vec::new() };
    while lexer.at < source.len() {
        lexer.data_and_tag()?;
    }
    lexer.push(Token::End);
    Ok(lexer.tokens)
}

impl<'s> Lexer<'s> {
    fn rest(&self) -> &'s str {
        &self.source[self.at..]
    }

    fn push(&mut self, token: Token<'s>) {
        self.tokens.push(Located { token, line: self.line });
    }

    fn error<T>(&self, message: impl Into<String>) -> Result<T, SyntaxError> {
        Err(SyntaxError { line: self.line, message: message.into() })
    }

    /// Advances by `n` bytes and counts the lines.
    fn advance(&mut self, n: usize) -> &'s str {
        let passed = &self.source[self.at..self.at + n];
        self.at += n;
        self.line += passed.bytes().filter(|&b| b == b'\n').count();
        passed
    }

    fn skip_white_space(&mut self) {
        let n = self.rest().len() - self.rest().trim_start().len();
        self.advance(n);
    }

    fn data_and_tag(&mut self) -> Result<(), SyntaxError> {
        let rest = self.rest();
        let open = rest
            .match_indices('{')
            .map(|(i, _)| i)
            .find(|&i| matches!(rest.as_bytes().get(i + 1), Some(b'{' | b'%' | b'#')));
        let Some(open) = open else {
            let data = self.advance(rest.len());
            self.tokens.push(Located { token: Token::Data(data), line: self.line });
            return Ok(());
        };
        let kind = rest.as_bytes()[open + 1];
        self.data(open, kind != b'{', open + 2);
        match kind {
            b'#' => {
                let Some(end) = self.rest().find("#}") else {
                    return self.error("this comment has no end `#}`");
                };
                let body = self.advance(end);
                self.advance(2);
                self.after_close(body, true);
            }
            b'{' => {
                self.push(Token::Open(Tag::Print));
                self.expression_tokens("}}", Tag::Print)?;
            }
            _ if is_block(self.rest(), "raw").is_some() => self.raw()?,
            _ => {
                self.push(Token::Open(Tag::Block));
                self.expression_tokens("%}", Tag::Block)?;
            }
        }
        Ok(())
    }

    /// Pushes the data of `len` bytes before a tag and advances to `next`, after the tag's opening and its sign.
    fn data(&mut self, len: usize, is_block: bool, next: usize) {
        let rest = self.rest();
        let line = self.line;
        let begins_line = self.at == 0 || self.source[..self.at].ends_with('\n');
        let mut data = &rest[..len];
        let sign = rest.as_bytes().get(next);
        match sign {
            Some(b'-') => data = data.trim_end(),
            Some(b'+') => {}
            _ if is_block => {
                let line_start = data.rfind('\n').map_or(0, |i| i + 1);
                let only_spaces = data[line_start..].bytes().all(|b| matches!(b, b' ' | b'\t'));
                if only_spaces && (line_start > 0 || begins_line) {
                    data = &data[..line_start];
                }
            }
            _ => {}
        }
        self.advance(next);
        if matches!(sign, Some(b'-' | b'+')) {
            self.advance(1);
        }
        if !data.is_empty() {
            self.tokens.push(Located { token: Token::Data(data), line });
        }
    }

    /// Skips white space after a closing delimiter: all of it if `body` ends with `-`, otherwise the line break
    /// after a block or comment.
    fn after_close(&mut self, body: &str, is_block: bool) {
        match body.as_bytes().last() {
            Some(b'-') => self.skip_white_space(),
            Some(b'+') if is_block => {}
            _ if is_block && self.rest().starts_with('\n') => {
                self.advance(1);
            }
            _ => {}
        }
    }

    /// Reads `{% raw %}` up to its `{% endraw %}`, starting after the opening `{%` and its sign.
    fn raw(&mut self) -> Result<(), SyntaxError> {
        let Some(open) = is_block(self.rest(), "raw") else { return Ok(()) };
        let opening = self.advance(open);
        if opening.ends_with("-%}") {
            self.skip_white_space();
        }
        let rest = self.rest();
        let end = rest.match_indices("{%").map(|(i, _)| i).find(|&i| {
            let tag = &rest[i + 2..];
            is_block(tag.strip_prefix(['-', '+']).unwrap_or(tag), "endraw").is_some()
        });
        let Some(end) = end else { return self.error("this raw block has no end") };
        self.data(end, true, end + 2);
        let Some(close) = is_block(self.rest(), "endraw") else { return Ok(()) };
        let closing = self.advance(close);
        self.after_close(&closing[..closing.len() - 2], true);
        Ok(())
    }

    /// Reads the tokens of a tag up to its end.
    fn expression_tokens(&mut self, close: &str, tag: Tag) -> Result<(), SyntaxError> {
        let mut brackets = Vec::new();
        loop {
            self.skip_white_space();
            let rest = self.rest();
            if rest.is_empty() {
                return self.error(format!("this tag has no end `{close}`"));
            }
            if brackets.is_empty() {
                let signed =
                    rest.strip_prefix('-').or(if tag == Tag::Block { rest.strip_prefix('+') } else { None });
                let sign = usize::from(signed.is_some_and(|after| after.starts_with(close)));
                if rest[sign..].starts_with(close) {
                    let body = self.advance(sign);
                    self.push(Token::Close(tag));
                    self.advance(close.len());
                    self.after_close(body, tag == Tag::Block);
                    return Ok(());
                }
            }
            let line = self.line;
            let token = self.expression_token(&mut brackets)?;
            self.tokens.push(Located { token, line });
        }
    }

    fn expression_token(&mut self, brackets: &mut Vec<&'static str>) -> Result<Token<'s>, SyntaxError> {
        let rest = self.rest();
        let first = rest.chars().next().unwrap_or_default();
        if first == '\'' || first == '"' {
            return self.string(first);
        }
        if first.is_ascii_digit() {
            return self.number();
        }
        if first == '_' || first.is_alphanumeric() {
            let len = rest.find(|c: char| c != '_' && !c.is_alphanumeric()).unwrap_or(rest.len());
            return Ok(Token::Name(self.advance(len)));
        }
        let Some(op) = OPS.into_iter().find(|op| rest.starts_with(op)) else {
            return self.error(format!("unexpected character {first:?}"));
        };
        match op {
            "(" => brackets.push(")"),
            "[" => brackets.push("]"),
            "{" => brackets.push("}"),
            ")" | "]" | "}" if brackets.pop() != Some(op) => return self.error(format!("unexpected `{op}`")),
            _ => {}
        }
        self.advance(op.len());
        Ok(Token::Op(op))
    }

    fn number(&mut self) -> Result<Token<'s>, SyntaxError> {
        let rest = self.rest();
        for (prefixes, base) in [(["0x", "0X"], 16), (["0o", "0O"], 8), (["0b", "0B"], 2)] {
            let Some(digits) = prefixes.iter().find_map(|prefix| rest.strip_prefix(prefix)) else { continue };
            let len = digits.find(|c: char| c != '_' && !c.is_digit(base)).unwrap_or(digits.len());
            let text = self.advance(2 + len).replace('_', "");
            let number = i64::from_str_radix(&text[2..], base);
            return number.map(Token::Int).or_else(|_| self.error(format!("bad number {text}")));
        }
        // `x.0.1` is two lookups and not one lookup of 0.1.
        let may_be_float = !self.source[..self.at].ends_with('.');
        let digits = |text: &str| text.find(|c: char| c != '_' && !c.is_ascii_digit()).unwrap_or(text.len());
        let mut len = digits(rest);
        let mut is_float = false;
        if may_be_float {
            if let Some(fraction) = rest[len..].strip_prefix('.')
                && fraction.starts_with(|c: char| c.is_ascii_digit())
            {
                len += 1 + digits(fraction);
                is_float = true;
            }
            if let Some(exponent) = rest[len..].strip_prefix(['e', 'E']) {
                let number = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
                if number.starts_with(|c: char| c.is_ascii_digit()) {
                    len += 1 + (exponent.len() - number.len()) + digits(number);
                    is_float = true;
                }
            }
        }
        let text = self.advance(len).replace('_', "");
        if is_float {
            return text.parse().map(Token::Float).or_else(|_| self.error(format!("bad number {text}")));
        }
        text.parse().map(Token::Int).or_else(|_| self.error(format!("the integer {text} is too large")))
    }

    fn string(&mut self, quote: char) -> Result<Token<'s>, SyntaxError> {
        let rest = self.rest();
        let mut text = String::new();
        let mut chars = rest.char_indices().skip(1).peekable();
        while let Some((i, c)) = chars.next() {
            if c == quote {
                self.advance(i + 1);
                return Ok(Token::Str(text));
            }
            if c != '\\' {
                text.push(c);
                continue;
            }
            let Some((at, escape)) = chars.next() else { break };
            match escape {
                '\n' => {}
                '\\' | '\'' | '"' => text.push(escape),
                'n' => text.push('\n'),
                't' => text.push('\t'),
                'r' => text.push('\r'),
                'a' => text.push('\x07'),
                'b' => text.push('\x08'),
                'f' => text.push('\x0c'),
                'v' => text.push('\x0b'),
                '0'..='7' => {
                    let mut code = escape.to_digit(8).unwrap_or_default();
                    for _ in 0..2 {
                        let Some(digit) = chars.peek().and_then(|&(_, c)| c.to_digit(8)) else { break };
                        code = code * 8 + digit;
                        chars.next();
                    }
                    text.extend(char::from_u32(code));
                }
                'x' | 'u' | 'U' => {
                    let digits = match escape {
                        'x' => 2,
                        'u' => 4,
                        _ => 8,
                    };
                    let hex = rest.get(at + 1..at + 1 + digits);
                    let code = hex.and_then(|hex| u32::from_str_radix(hex, 16).ok()).and_then(char::from_u32);
                    let Some(code) = code else { return self.error("bad escape sequence in a string") };
                    text.push(code);
                    chars.by_ref().take(digits).for_each(drop);
                }
                other => text.extend(['\\', other]),
            }
        }
        self.error("this string has no end")
    }
}

/// Returns the length up to its end if `text`, after `{%` and its sign, is the block `name` without arguments.
fn is_block(text: &str, name: &str) -> Option<usize> {
    let inner = text.trim_start().strip_prefix(name)?.trim_start();
    let inner = inner.strip_prefix(['-', '+']).filter(|after| after.starts_with("%}")).unwrap_or(inner);
    inner.starts_with("%}").then(|| text.len() - inner.len() + 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn show(source: &str) -> String {
        let shown = tokens(source).unwrap().into_iter().map(|t| match t.token {
            Token::Data(data) => format!("{data:?}"),
            Token::Open(Tag::Print) => "{{".into(),
            Token::Open(Tag::Block) => "{%".into(),
            Token::Close(Tag::Print) => "}}".into(),
            Token::Close(Tag::Block) => "%}".into(),
            Token::Name(name) => name.into(),
            Token::Str(s) => format!("{s:?}"),
            Token::Int(i) => i.to_string(),
            Token::Float(f) => format!("{f:?}"),
            Token::Op(op) => op.into(),
            Token::End => ".".into(),
        });
        shown.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn white_space_around_tags() {
        for (source, want) in [
            ("a {% b %}\n c", r#""a " {% b %} " c" ."#),
            ("a\n  {% b %}\n c", r#""a\n" {% b %} " c" ."#),
            ("  {% b %}{# c #}\n\nd", r#"{% b %} "\nd" ."#),
            ("a \n {%- b -%} \n c", r#""a" {% b %} "c" ."#),
            ("a\n {%+ b +%}\n c", r#""a\n " {% b %} "\n c" ."#),
            ("  {{ b }}\n c", r#""  " {{ b }} "\n c" ."#),
            ("a {{- b -}} c", r#""a" {{ b }} "c" ."#),
            ("a {#- {{ b }} -#} c", r#""a" "c" ."#),
            ("{% raw %}\n {{ a }} {%- endraw %}\nb", r#""\n {{ a }}" "b" ."#),
            ("{ a } {", r#""{ a } {" ."#),
        ] {
            assert_eq!(show(source), want, "{source:?}");
        }
    }

    #[test]
    fn expressions() {
        for (source, want) in [
            ("{{ {'a': {}}}}", r#"{{ { "a" : { } } }} ."#),
            (r#"{{ 'a\n\'\x41\u00e9\q\101' }}"#, r#"{{ "a\n'Aé\\qA" }} ."#),
            ("{{ 1_000 + 1.5e3 - 1e2 }}", "{{ 1000 + 1500.0 - 100.0 }} ."),
            ("{{ a.0.1 }}", "{{ a . 0 . 1 }} ."),
            ("{{ a//b**c!=d }}", "{{ a // b ** c != d }} ."),
            ("{%- if x -%}", "{% if x %} ."),
            ("{{ -1 -}}", "{{ - 1 }} ."),
        ] {
            assert_eq!(show(source), want, "{source:?}");
        }
    }

    #[test]
    fn errors_name_the_line() {
        for (source, want) in [
            ("a\n{{ 'b", "line 2: this string has no end"),
            ("{% if", "line 1: this tag has no end `%}`"),
            ("\n\n{# b", "line 3: this comment has no end `#}`"),
            ("{{ ) }}", "line 1: unexpected `)`"),
            ("{{ § }}", "line 1: unexpected character '§'"),
            ("{{ 99999999999999999999 }}", "line 1: the integer 99999999999999999999 is too large"),
            ("{% raw %}", "line 1: this raw block has no end"),
        ] {
            let error = tokens(source).unwrap_err();
            assert_eq!(format!("line {}: {}", error.line, error.message), want);
        }
    }
}
