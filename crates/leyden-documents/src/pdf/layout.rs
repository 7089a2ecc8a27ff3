//! [`Layout`]: lines and spaces from the positions of strings.

use super::matrix::Matrix;

/// Gap between strings, as a share of the height, that is a space.
const SPACE: f64 = 0.17;
/// Move backwards, as a share of the height, after which a string begins a line.
const BACK: f64 = 1.0;
/// Distance of base lines, as a share of the height: above the first another line, above the second another paragraph.
const LINE: f64 = 0.6;
const PARAGRAPH: f64 = 1.9;

/// Text with lines and spaces.
#[derive(Debug, Default)]
pub(crate) struct Layout {
    text: String,
    /// The end of the last string, and its height.
    last: Option<(f64, f64, f64)>,
}

impl Layout {
    /// Returns the number of bytes of text.
    pub(crate) fn len(&self) -> usize {
        self.text.len()
    }

    /// Begins a page: its text is a paragraph of its own.
    pub(crate) fn begin_page(&mut self) {
        self.break_lines(2);
        self.last = None;
    }

    /// Adds a string between two places, given as the maps from text to page there.
    pub(crate) fn place(&mut self, text: &str, start: &Matrix, end: &Matrix, size: f64) {
        if text.is_empty() {
            return;
        }
        let height = (start.c.hypot(start.d) * size.abs()).max(1e-6);
        let length = start.a.hypot(start.b);
        if let Some((x, y, last_height)) = self.last {
            // Along the direction of writing, and across it.
            let (right, up) = if length > 0.0 { (start.a / length, start.b / length) } else { (1.0, 0.0) };
            let (dx, dy) = (start.e - x, start.f - y);
            let along = dx * right + dy * up;
            let across = (dy * right - dx * up).abs();
            let height = height.min(last_height);
            if across > PARAGRAPH * height {
                self.break_lines(2);
            } else if across > LINE * height || along < -BACK * height {
                self.break_lines(1);
            } else if along > SPACE * height && !self.text.ends_with([' ', '\n']) && !text.starts_with(' ') {
                self.text.push(' ');
            }
        }
        // Characters that end lines or are of no use in text.
        self.text
            .extend(text.chars().map(|char| if char.is_control() || char == '\u{a0}' { ' ' } else { char }));
        self.last = Some((end.e, end.f, height));
    }

    fn break_lines(&mut self, lines: usize) {
        self.text.truncate(self.text.trim_end_matches(' ').len());
        let there = self.text.len() - self.text.trim_end_matches('\n').len();
        if !self.text.is_empty() {
            self.text.extend(std::iter::repeat_n('\n', lines.saturating_sub(there)));
        }
    }

    /// Returns the text; empty if there are no characters but white space.
    pub(crate) fn finish(mut self) -> String {
        self.text.truncate(self.text.trim_end().len());
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        self.text
    }
}
