//! A source file split into code and literals, with the lines of tests marked.
//!
//! Rules search for words in code, so comments and the contents of literals must not match. The scanner below knows
//! just enough of Rust's grammar for that: nested comments, escapes, raw strings, and that `'a` may be a lifetime.

/// One file, split for the rules.
#[derive(Debug)]
pub(crate) struct Source {
    /// Path from the repository's root, with forward slashes.
    pub(crate) path: String,
    /// Lines with comments and the contents of literals replaced by blanks.
    code: Vec<String>,
    /// String literals with their line numbers, from 1.
    literals: Vec<(usize, String)>,
    /// True for each line that belongs to a test.
    test: Vec<bool>,
    /// First lines of doc comments, with their line numbers, from 1.
    doc_openings: Vec<(usize, String)>,
}

impl Source {
    /// Splits `text`. Files that are not Rust are kept as code without literals.
    pub(crate) fn new(path: String, text: &str) -> Self {
        let (code, literals) =
            if path.ends_with(".rs") { split(text) } else { (text.to_owned(), Vec::new()) };
        let whole = ["/tests/", "/benches/", "/examples/"].iter().any(|folder| path.contains(folder))
            || path.ends_with("/tests.rs");
        let mut test = test_lines(&code);
        if whole {
            test.fill(true);
        }
        let doc_openings = doc_openings(text);
        Self { path, code: code.lines().map(str::to_owned).collect(), literals, test, doc_openings }
    }

    /// Returns true if this is Rust.
    pub(crate) fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// Returns code lines with their numbers, from 1, tests included.
    pub(crate) fn all_lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.code.iter().enumerate().map(|(i, line)| (i + 1, line.as_str()))
    }

    /// Returns code lines outside tests, with their numbers.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.all_lines().filter(|(number, _)| !self.is_test(*number))
    }

    /// Returns string literals outside tests, with their line numbers.
    pub(crate) fn literals(&self) -> impl Iterator<Item = (usize, &str)> {
        self.literals.iter().map(|(line, text)| (*line, text.as_str())).filter(|(n, _)| !self.is_test(*n))
    }

    /// Returns the first lines of doc comments with their numbers, from 1, tests included.
    pub(crate) fn doc_openings(&self) -> impl Iterator<Item = (usize, &str)> {
        self.doc_openings.iter().map(|(line, text)| (*line, text.as_str()))
    }

    /// Returns the number of lines, comments included, that are not tests.
    pub(crate) fn len_without_tests(&self) -> usize {
        self.test.iter().filter(|test| !**test).count()
    }

    /// Returns the number of all lines.
    pub(crate) fn len(&self) -> usize {
        self.code.len()
    }

    /// Marks every line as a test.
    pub(crate) fn mark_as_test(&mut self) {
        self.test.fill(true);
    }

    /// Returns the paths that `#[cfg(test)] mod name;` in this file may refer to.
    pub(crate) fn test_modules(&self) -> Vec<String> {
        let Some((folder, file)) = self.path.rsplit_once('/') else { return Vec::new() };
        let folder = match file {
            "mod.rs" | "lib.rs" | "main.rs" => folder.to_owned(),
            _ => format!("{folder}/{}", file.trim_end_matches(".rs")),
        };
        let mut found = Vec::new();
        for (i, line) in self.code.iter().enumerate() {
            let after = line.trim().strip_prefix("#[cfg(test)]");
            let Some(after) = after else { continue };
            let declaration = if after.trim().is_empty() { self.code.get(i + 1) } else { None };
            let declaration = declaration.map_or(after, |next| next.as_str()).trim();
            if let Some(name) = declaration.strip_suffix(';').and_then(|d| d.rsplit_once("mod ")) {
                found.push(format!("{folder}/{}.rs", name.1));
                found.push(format!("{folder}/{}/mod.rs", name.1));
            }
        }
        found
    }

    fn is_test(&self, line: usize) -> bool {
        self.test.get(line - 1).copied().unwrap_or(false)
    }
}

/// Returns true if `word` is in `line` with no letter, digit or underscore on either side.
pub(crate) fn has_word(line: &str, word: &str) -> bool {
    let part_of_name = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        !before.is_some_and(part_of_name) && !after.is_some_and(part_of_name)
    })
}

/// Returns the first line of each doc comment, without its marks.
fn doc_openings(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut before = None;
    for (i, line) in text.lines().enumerate() {
        let line = line.trim_start();
        let mark = ["//!", "///"].into_iter().find(|mark| line.starts_with(mark));
        if let Some(mark) = mark.filter(|_| mark != before) {
            found.push((i + 1, line[mark.len()..].trim().to_owned()));
        }
        before = mark;
    }
    found
}

/// Blanks comments and literals; also returns the string literals.
fn split(text: &str) -> (String, Vec<(usize, String)>) {
    let chars: Vec<char> = text.chars().collect();
    let mut code = String::with_capacity(text.len());
    let mut literals = Vec::new();
    let mut line = 1;
    let mut i = 0;
    while i < chars.len() {
        let rest = &chars[i..];
        let after_name = i > 0 && (chars[i - 1].is_alphanumeric() || chars[i - 1] == '_');
        let skipped = if rest.starts_with(&['/', '/']) {
            rest.iter().position(|&c| c == '\n').unwrap_or(rest.len())
        } else if rest.starts_with(&['/', '*']) {
            block_comment(rest)
        } else if let Some((open, body)) = string(rest, after_name) {
            literals.push((line, rest[open..open + body].iter().collect()));
            (open + body + open - prefix_len(rest)).min(rest.len())
        } else {
            char_literal(rest)
        };
        for &c in &rest[..skipped.max(1)] {
            line += usize::from(c == '\n');
            code.push(if skipped == 0 || c == '\n' { c } else { ' ' });
        }
        i += skipped.max(1);
    }
    (code, literals)
}

/// Returns the length of a block comment, which may be nested.
fn block_comment(rest: &[char]) -> usize {
    let mut depth = 0usize;
    let mut i = 0;
    while i < rest.len() {
        match rest.get(i..i + 2) {
            Some(['/', '*']) => depth += 1,
            Some(['*', '/']) => depth -= 1,
            _ => {
                i += 1;
                continue;
            }
        }
        i += 2;
        if depth == 0 {
            return i;
        }
    }
    rest.len()
}

/// Returns the number of letters before the quotation mark or the hashes of a string: `r`, `b`, `c`, `br`, `cr`.
fn prefix_len(rest: &[char]) -> usize {
    rest.iter().take_while(|c| c.is_ascii_lowercase()).count()
}

/// Returns the lengths of the opening (prefix, hashes, quotation mark) and of the contents of a string that starts
/// here.
fn string(rest: &[char], after_name: bool) -> Option<(usize, usize)> {
    let prefix = prefix_len(rest);
    let word: String = rest[..prefix].iter().collect();
    if prefix > 0 && (after_name || !["r", "b", "c", "br", "cr"].contains(&word.as_str())) {
        return None;
    }
    let raw = word.ends_with('r');
    let hashes = if raw { rest[prefix..].iter().take_while(|&&c| c == '#').count() } else { 0 };
    let open = prefix + hashes + 1;
    if rest.get(open - 1) != Some(&'"') {
        return None;
    }
    let mut i = open;
    while i < rest.len() {
        match rest[i] {
            '\\' if !raw => i += 1,
            '"' if rest[i + 1..].iter().take(hashes).filter(|&&c| c == '#').count() == hashes => {
                return Some((open, i - open));
            }
            _ => {}
        }
        i += 1;
    }
    Some((open, rest.len() - open))
}

/// Returns the length of a character literal, or 0 for anything else, including a lifetime.
fn char_literal(rest: &[char]) -> usize {
    match rest {
        ['\'', '\\', _, tail @ ..] => {
            3 + tail.iter().position(|&c| c == '\'').map_or(tail.len(), |end| end + 1)
        }
        ['\'', _, '\'', ..] => 3,
        _ => 0,
    }
}

/// Marks the lines of every item after `#[cfg(test)]`.
fn test_lines(code: &str) -> Vec<bool> {
    let mut marks = vec![false; code.lines().count()];
    let mut from = 0;
    while let Some(found) = code[from..].find("#[cfg(test)]") {
        let start = from + found;
        let end = item_end(code, start + "#[cfg(test)]".len());
        let first = code[..start].matches('\n').count();
        let last = code[..end].matches('\n').count();
        for mark in marks.iter_mut().take(last + 1).skip(first) {
            *mark = true;
        }
        from = end;
    }
    marks
}

/// Returns the end of the item that begins at `start`: its closing brace, or a semicolon before any brace.
fn item_end(code: &str, start: usize) -> usize {
    let mut depth = 0usize;
    for (i, c) in code[start..].char_indices() {
        match c {
            ';' if depth == 0 => return start + i + 1,
            '{' => depth += 1,
            '}' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return start + i + 1;
                }
            }
            _ => {}
        }
    }
    code.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn split_sets_comments_and_literals_apart() {
        let cases: [(&str, &str, &[&str]); 11] = [
            ("a // b\nc", "a     \nc", &[]),
            ("a /* b /* c */ d */ e", "a                   e", &[]),
            ("f(\"x // y\")", "f(        )", &["x // y"]),
            (r#"f("a\"b")"#, "f(      )", &[r#"a\"b"#]),
            (r##"f(r#"a"b"#)"##, "f(        )", &["a\"b"]),
            ("b\"q\"", "    ", &["q"]),
            ("'\"'; x", "   ; x", &[]),
            (r"'\''; x", "    ; x", &[]),
            (r"'\u{1F600}'; x", "           ; x", &[]),
            ("fn f<'a>(x: &'a str)", "fn f<'a>(x: &'a str)", &[]),
            ("attr\"\"", "attr  ", &[""]),
        ];
        for (text, code, literals) in cases {
            let (got, strings) = split(text);
            assert_eq!(got, code, "{text}");
            assert_eq!(strings.iter().map(|s| s.1.as_str()).collect::<Vec<_>>(), literals, "{text}");
        }
    }

    #[test]
    fn split_survives_unfinished_text() {
        for text in ["\"abc", "/* abc", "r#\"abc\"", "'", "'\\", "r#", "b'"] {
            split(text);
        }
    }

    #[test]
    fn tests_are_marked_to_their_closing_brace() {
        let text = "fn a() {}\n#[cfg(test)]\nmod tests {\n  fn b() {}\n}\nfn c() {}\n";
        let source = Source::new("crates/x/src/lib.rs".to_owned(), text);
        assert_eq!(source.lines().map(|(n, _)| n).collect::<Vec<_>>(), [1, 6]);
        assert_eq!((source.len_without_tests(), source.len()), (2, 6));
    }

    #[test]
    fn words_have_boundaries() {
        assert!(has_word("x = unsafe { y }", "unsafe"));
        assert!(!has_word("#![expect(unsafe_code)]", "unsafe"));
        assert!(!has_word("not_unsafe", "unsafe"));
    }
}
