//! Numbers, untrusted texts and tables on a terminal.

use std::io::{self, Write};

use unicode_width::UnicodeWidthStr;

use super::terminal;

/// Formats a number of bytes: `1536` as `1.5 KiB`.
pub(super) fn bytes(n: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if n < 1024 {
        return format!("{n} B");
    }
    let mut value = n as f64;
    let mut unit = "";
    for name in UNITS {
        if value < 1024.0 {
            break;
        }
        value /= 1024.0;
        unit = name;
    }
    // Three digits are enough for reading.
    let text = format!("{value:.*}", if value < 10.0 { 2 } else { usize::from(value < 100.0) });
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text} {unit}")
}

/// Formats a count: `4198400` as `4.20 M`.
pub(super) fn count(n: u64) -> String {
    const UNITS: [(f64, &str); 4] = [(1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "K")];
    let value = n as f64;
    match UNITS.iter().find(|(size, _)| value >= *size) {
        Some((size, unit)) => format!("{:.2} {unit}", value / size),
        None => n.to_string(),
    }
}

/// Formats a number of things: `1 node`, `2 nodes`.
pub(super) fn plural(n: usize, thing: &str) -> String {
    if n == 1 { format!("1 {thing}") } else { format!("{n} {thing}s") }
}

/// Returns at most `most` characters of an untrusted text, without control characters, which could move the cursor or
/// change colours, and without direction marks, which reorder the text around them.
pub(super) fn printable(text: &str, most: usize) -> String {
    let mut shown = String::new();
    for (i, c) in text.chars().enumerate() {
        if i == most {
            shown.push('…');
            break;
        }
        let reorders =
            matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        if c.is_control() || reorders {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
    }
    shown
}

/// Rows of a label and a text; all texts, also of several lines, begin in the same column.
#[derive(Debug, Default)]
pub(super) struct Facts {
    rows: Vec<(String, String)>,
}

impl Facts {
    /// Adds a row.
    pub(super) fn add(&mut self, label: &str, text: impl Into<String>) {
        self.rows.push((label.to_owned(), text.into()));
    }

    /// Writes all rows, wrapped on a terminal.
    pub(super) fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        self.write_in(out, terminal::columns_of_output())
    }

    fn write_in(&self, out: &mut dyn Write, columns: Option<usize>) -> io::Result<()> {
        let width = self.rows.iter().map(|(label, _)| label.chars().count()).max().unwrap_or(0) + 2;
        for (label, text) in &self.rows {
            let mut lines = text.lines();
            let first = format!("{label:width$}{}", lines.next().unwrap_or(""));
            writeln!(out, "{}", terminal::folded(first.trim_end(), columns, width))?;
            for line in lines {
                let line = format!("{:width$}{line}", "");
                writeln!(out, "{}", terminal::folded(&line, columns, width))?;
            }
        }
        Ok(())
    }
}

/// Table of cells; each column is as wide as its widest cell, and the columns in `right` are aligned right.
#[derive(Debug)]
pub(super) struct Table {
    right: Vec<usize>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// Creates a table with a header.
    pub(super) fn new(head: &[&str], right: &[usize]) -> Self {
        Self { right: right.to_vec(), rows: vec![head.iter().map(|&cell| cell.to_owned()).collect()] }
    }

    /// Adds a row.
    pub(super) fn add(&mut self, row: Vec<String>) {
        self.rows.push(row);
    }

    /// Writes header and rows. If the terminal is too narrow, cells are wrapped; if that is not enough, each row
    /// becomes lines of a label and a cell.
    pub(super) fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        self.write_in(out, terminal::columns_of_output())
    }

    fn write_in(&self, out: &mut dyn Write, terminal: Option<usize>) -> io::Result<()> {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let widest = |of: &dyn Fn(&str) -> usize| -> Vec<usize> {
            let column = |i: usize| {
                let cells = self.rows.iter().filter_map(|row: &Vec<String>| row.get(i));
                cells.map(|cell: &String| of(cell)).max()
            };
            (0..columns).map(|i| column(i).unwrap_or(0)).collect()
        };
        let mut widths = widest(&|cell| cell.width());
        let gaps = GAP * columns.saturating_sub(1);
        if let Some(terminal) = terminal {
            let least = widest(&|cell| cell.split(' ').map(UnicodeWidthStr::width).max().unwrap_or(0));
            if least.iter().sum::<usize>() + gaps > terminal {
                return self.write_rows_as_facts(out, terminal);
            }
            while widths.iter().sum::<usize>() + gaps > terminal {
                // The widest column that can be narrower.
                let narrower = (0..columns).filter(|i| widths[*i] > least[*i]).max_by_key(|i| widths[*i]);
                let Some(i) = narrower else { break };
                widths[i] -= 1;
            }
        }
        for row in &self.rows {
            let cells: Vec<Vec<String>> =
                row.iter().zip(&widths).map(|(cell, width)| broken(cell, *width)).collect();
            for n in 0..cells.iter().map(Vec::len).max().unwrap_or(0) {
                let mut line = String::new();
                for (i, (cell, width)) in cells.iter().zip(&widths).enumerate() {
                    let cell = cell.get(n).map_or("", String::as_str);
                    let blanks = " ".repeat(width.saturating_sub(cell.width()));
                    line += if i == 0 { "" } else { "  " };
                    let right = self.right.contains(&i);
                    line += &if right { blanks + cell } else { cell.to_owned() + &blanks };
                }
                writeln!(out, "{}", line.trim_end())?;
            }
        }
        Ok(())
    }

    /// Writes each row as lines of a label and a cell, with an empty line between rows.
    fn write_rows_as_facts(&self, out: &mut dyn Write, terminal: usize) -> io::Result<()> {
        let Some((head, rows)) = self.rows.split_first() else { return Ok(()) };
        for (i, row) in rows.iter().enumerate() {
            if i > 0 {
                writeln!(out)?;
            }
            let mut facts = Facts::default();
            head.iter().zip(row).for_each(|(label, cell)| facts.add(label.trim(), cell.trim()));
            facts.write_in(out, Some(terminal))?;
        }
        Ok(())
    }
}

/// Spaces between columns.
const GAP: usize = 2;

/// Wraps a cell between words to lines of at most `width` columns; a longer word stays whole.
fn broken(cell: &str, width: usize) -> Vec<String> {
    if cell.width() <= width {
        return vec![cell.to_owned()];
    }
    let mut lines = vec![String::new()];
    for word in cell.split(' ') {
        let line = lines.last().map_or(0, |line| line.width());
        if line > 0 && line + 1 + word.width() > width {
            lines.push(String::new());
        }
        if let Some(line) = lines.last_mut() {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        let sizes = [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1 KiB"),
            (1536, "1.5 KiB"),
            (48 << 10, "48 KiB"),
            (8_528_800, "8.13 MiB"),
            (1023 << 20, "1023 MiB"),
            (u64::MAX, "16 EiB"),
        ];
        for (n, wanted) in sizes {
            assert_eq!(bytes(n), wanted, "{n}");
        }
        for (n, wanted) in [(0, "0"), (999, "999"), (4_198_400, "4.20 M"), (8_030_000_000, "8.03 B")] {
            assert_eq!(count(n), wanted, "{n}");
        }
    }

    #[test]
    fn printable_disarms_and_shortens() {
        assert_eq!(printable("a\x1b[31mb\n", 80), "a\\u{1b}[31mb\\n");
        assert_eq!(printable("a\u{202e}b", 80), "a\\u{202e}b");
        assert_eq!(printable("Grüße", 3), "Grü…");
    }

    #[test]
    fn a_narrow_terminal_breaks_no_word() {
        let mut table = Table::new(&["name", "n", "note"], &[1]);
        table.add(vec!["a".into(), "10".into(), "the quick brown fox jumps".into()]);
        let written = |table: &Table, width| {
            let mut text = Vec::new();
            table.write_in(&mut text, Some(width)).unwrap();
            String::from_utf8(text).unwrap()
        };
        assert_eq!(written(&table, 80), "name   n  note\na     10  the quick brown fox jumps\n");
        assert_eq!(
            written(&table, 22),
            "name   n  note\na     10  the quick\n          brown fox\n          jumps\n"
        );
        let facts = "name  a\nn     10\nnote  the quick\n      brown fox\n      jumps\n";
        let mut long = Table::new(&["name", "n", "note"], &[]);
        long.add(vec!["a".into(), "10".into(), "the quick brown fox jumps".into()]);
        let mut text = Vec::new();
        long.write_rows_as_facts(&mut text, 16).unwrap();
        assert_eq!(String::from_utf8(text).unwrap(), facts);
        // A word that is wider than the terminal stays whole.
        table.add(vec!["/a/path/that/is/long.gguf".into(), "1".into(), "x".into()]);
        assert!(written(&table, 22).contains("name  /a/path/that/is/long.gguf\n"), "{}", written(&table, 22));
    }

    #[test]
    fn tables_align() {
        let mut text = Vec::new();
        let mut table = Table::new(&["name", "n"], &[1]);
        table.add(vec!["a".into(), "10".into()]);
        table.write_in(&mut text, None).unwrap();
        let mut facts = Facts::default();
        facts.add("one", "x\ny");
        facts.add("seven", "z");
        facts.write_in(&mut text, None).unwrap();
        assert_eq!(String::from_utf8(text).unwrap(), "name   n\na     10\none    x\n       y\nseven  z\n");
    }
}
