//! Wrapping of streamed text to the terminal's width.

use unicode_width::UnicodeWidthChar;

/// Minimum width of wrapped text. A narrow terminal may have less room beside an indentation.
const MIN_WIDTH: usize = 16;

/// Wraps lines between words. Text arrives in pieces; a word is written when the next one begins.
#[derive(Debug)]
pub(super) struct Wrap {
    /// Columns of the terminal; `None` for no wrapping.
    width: Option<usize>,
    /// Indentation of the second and later lines of a paragraph.
    hang: usize,
    /// Column of the next character.
    column: usize,
    spaces: usize,
    word: String,
    word_width: usize,
}

impl Wrap {
    pub(super) fn new(width: Option<usize>) -> Self {
        let width = width.map(|width| width.max(MIN_WIDTH));
        Self { width, hang: 0, column: 0, spaces: 0, word: String::new(), word_width: 0 }
    }

    /// Sets the indentation of later lines.
    pub(super) fn hang_at(&mut self, hang: usize) {
        self.hang = self.width.map_or(0, |width| hang.min(width * 2 / 3));
    }

    /// Writes a prefix of the first line, such as a list's bullet, and indents later lines to the text after it.
    pub(super) fn lead(&mut self, out: &mut String, text: &str, width: usize) {
        out.push_str(text);
        self.column += width;
        self.hang = self.width.map_or(0, |all| (self.column).min(all / 2));
    }

    /// Adds a character.
    pub(super) fn push(&mut self, out: &mut String, c: char) {
        match c {
            '\n' => self.line(out),
            ' ' => {
                self.flush(out);
                self.spaces += 1;
            }
            _ => {
                let width = c.width().unwrap_or(0);
                // Lines may end between any wide characters (Chinese, Japanese).
                if width == 2 {
                    self.flush(out);
                }
                self.word.push(c);
                self.word_width += width;
                if width == 2 {
                    self.flush(out);
                }
            }
        }
    }

    /// Adds an escape sequence, which has no width.
    pub(super) fn style(&mut self, escape: &str) {
        self.word.push_str(escape);
    }

    /// Ends the line.
    pub(super) fn line(&mut self, out: &mut String) {
        self.flush(out);
        self.spaces = 0;
        out.push('\n');
        (self.column, self.hang) = (0, 0);
    }

    /// Writes the word so far.
    pub(super) fn flush(&mut self, out: &mut String) {
        if self.word.is_empty() {
            return;
        }
        let is_over = self.width.is_some_and(|width| self.column + self.spaces + self.word_width > width);
        if is_over && self.column > self.hang && self.word_width > 0 {
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', self.hang));
            self.column = self.hang;
        } else {
            out.extend(std::iter::repeat_n(' ', self.spaces));
            self.column += self.spaces;
        }
        self.spaces = 0;
        out.push_str(&self.word);
        self.column += self.word_width;
        self.word.clear();
        self.word_width = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrapped(width: Option<usize>, text: &str) -> String {
        let (mut wrap, mut out) = (Wrap::new(width), String::new());
        text.chars().for_each(|c| wrap.push(&mut out, c));
        wrap.flush(&mut out);
        out
    }

    #[test]
    fn lines_end_between_words() {
        let text = "The king had a daughter, and  she was called Mimosa.\nSo it was.";
        assert_eq!(
            wrapped(Some(20), text),
            "The king had a\ndaughter, and  she\nwas called Mimosa.\nSo it was."
        );
        assert_eq!(wrapped(None, text), text);
        assert_eq!(wrapped(Some(16), "a unbreakablyandquitelong word"), "a\nunbreakablyandquitelong\nword");
        assert_eq!(wrapped(Some(16), "漢字漢字漢字漢字漢字"), "漢字漢字漢字漢字\n漢字");
        assert_eq!(wrapped(Some(20), "  indented"), "  indented");
    }
}
