//! Width of terminals, and wrapping of lines between words.

use std::io::{self, BufWriter, IsTerminal, Stdout, Write};

use terminal_size::{Width, terminal_size_of};

use super::wrap::Wrap;

/// Returns the columns of standard output, if it is a terminal.
pub(super) fn columns_of_output() -> Option<usize> {
    let stdout = io::stdout();
    stdout.is_terminal().then(|| terminal_size_of(stdout)).flatten().map(|(Width(n), _)| usize::from(n))
}

/// Returns the columns of standard error, if it is a terminal.
pub(super) fn columns_of_errors() -> Option<usize> {
    let stderr = io::stderr();
    stderr.is_terminal().then(|| terminal_size_of(stderr)).flatten().map(|(Width(n), _)| usize::from(n))
}

/// Returns standard error, with wrapped lines.
pub(super) fn errors() -> Folding<io::Stderr> {
    Folding { out: io::stderr(), width: columns_of_errors(), line: Vec::new() }
}

/// Returns standard output: prose on a terminal is wrapped, data are not.
pub(super) fn output(is_prose: bool) -> Folding<BufWriter<Stdout>> {
    let width = columns_of_output().filter(|_| is_prose);
    Folding { out: BufWriter::new(io::stdout()), width, line: Vec::new() }
}

/// Wraps a line between words to lines of at most `width` columns; later lines begin with `hang` spaces.
pub(super) fn folded(line: &str, width: Option<usize>, hang: usize) -> String {
    let (mut wrap, mut out) = (Wrap::new(width), String::new());
    wrap.hang_at(hang);
    line.chars().for_each(|c| wrap.push(&mut out, c));
    wrap.flush(&mut out);
    out
}

/// Returns the indentation of the second and later lines: that of the text after the last two spaces, as in a list of
/// commands, or else that of the first line.
fn hang_of(line: &str, width: usize) -> usize {
    let indent = line.len() - line.trim_start_matches(' ').len();
    let rest = &line[indent..];
    let column = rest.find("  ").map(|gap| {
        let blanks = rest[gap..].len() - rest[gap..].trim_start_matches(' ').len();
        indent + rest[..gap].chars().count() + blanks
    });
    column.filter(|column| indent > 0 && *column <= width / 2).unwrap_or(indent)
}

/// Writer that wraps complete lines between words.
#[derive(Debug)]
pub(super) struct Folding<W> {
    out: W,
    width: Option<usize>,
    /// Incomplete line.
    line: Vec<u8>,
}

impl<W: Write> Write for Folding<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(width) = self.width else { return self.out.write(bytes) };
        self.line.extend_from_slice(bytes);
        while let Some(end) = self.line.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.line.drain(..=end).collect();
            let line = String::from_utf8_lossy(&line[..end]);
            let hang = hang_of(&line, width);
            writeln!(self.out, "{}", folded(&line, Some(width), hang))?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.write_all(&std::mem::take(&mut self.line))?;
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(width: Option<usize>, text: &str) -> String {
        let mut folding = Folding { out: Vec::new(), width, line: Vec::new() };
        // Pieces end anywhere.
        text.as_bytes().chunks(3).for_each(|piece| folding.write_all(piece).unwrap());
        folding.flush().unwrap();
        String::from_utf8(folding.out).unwrap()
    }

    #[test]
    fn lines_end_between_words() {
        let list = "  /set NAME  change a setting; alone it lists them\nno end";
        let wanted = "  /set NAME  change a setting;\n             alone it lists them\nno end";
        assert_eq!(written(Some(32), list), wanted);
        assert_eq!(written(None, list), list);
        let line = "load 1.2 s | first token 40.0 ms | prefill 9 tokens\n";
        assert_eq!(written(Some(30), line), "load 1.2 s | first token 40.0\nms | prefill 9 tokens\n");
    }
}
