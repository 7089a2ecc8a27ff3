//! [`Screen`]: output of an answer, as plain text or formatted on a terminal.

use std::io::{self, IsTerminal, Write};

use terminal_size::{Width, terminal_size};

use super::answer::Heard;
use super::markdown::Markdown;
use crate::cli::knobs;
use crate::cli::wrap::Wrap;

const DIM: &str = "\x1b[2m";
const RESET: &str = "\x1b[0m";

/// Output of one answer.
#[derive(Debug)]
pub(super) enum Screen {
    /// Model's text unchanged, for files, pipes and plain terminals.
    Plain {
        /// True after a line break and before the first character.
        at_start: bool,
    },
    /// Markdown formatted, lines wrapped, reasoning dimmed.
    Drawn {
        markdown: Box<Markdown>,
        /// Wrapper of the reasoning, while it is shown.
        reasoning: Option<Wrap>,
        width: Option<usize>,
        at_start: bool,
    },
}

impl Screen {
    /// Creates a screen for standard output. Text is formatted on a terminal only, unless `plain` is true or the
    /// terminal is plain.
    pub(super) fn new(plain: bool) -> Self {
        if plain || !io::stdout().is_terminal() || knobs::is_plain_terminal() {
            return Self::Plain { at_start: true };
        }
        let width = terminal_size().map(|(Width(width), _)| usize::from(width));
        Self::Drawn { markdown: Box::new(Markdown::new(width)), reasoning: None, width, at_start: true }
    }

    /// Shows a piece of the answer.
    pub(super) fn hear(&mut self, heard: &Heard<'_>, out: &mut dyn Write) -> io::Result<()> {
        let shown = match (&mut *self, heard) {
            (Self::Plain { .. }, Heard::Raw(text)) => (*text).to_owned(),
            (Self::Drawn { reasoning, width, .. }, Heard::Reasoning(text)) => {
                let mut shown = String::new();
                let wrap = reasoning.get_or_insert_with(|| {
                    shown += DIM;
                    Wrap::new(*width)
                });
                text.chars().for_each(|c| wrap.push(&mut shown, c));
                shown
            }
            (Self::Drawn { markdown, reasoning, .. }, Heard::Content(text)) => {
                end_of(reasoning) + &markdown.push(text)
            }
            _ => return Ok(()),
        };
        self.write(&shown, out)
    }

    /// Ends the answer: shows the rest, and a line break unless there was one.
    pub(super) fn finish(&mut self, out: &mut dyn Write) -> io::Result<()> {
        if let Self::Drawn { markdown, reasoning, .. } = self {
            let mut shown = end_of(reasoning) + &markdown.finish();
            if shown.ends_with("\n\n") {
                shown.pop();
            }
            self.write(&shown, out)?;
        }
        if !*self.at_start() {
            self.write("\n", out)?;
        }
        Ok(())
    }

    fn at_start(&mut self) -> &mut bool {
        match self {
            Self::Plain { at_start } | Self::Drawn { at_start, .. } => at_start,
        }
    }

    fn write(&mut self, text: &str, out: &mut dyn Write) -> io::Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        *self.at_start() = text.ends_with('\n');
        out.write_all(text.as_bytes())?;
        out.flush()
    }
}

/// Returns the end of the reasoning, if any: its last word, and an empty line before the answer.
fn end_of(reasoning: &mut Option<Wrap>) -> String {
    let mut shown = String::new();
    if let Some(mut wrap) = reasoning.take() {
        wrap.flush(&mut shown);
        shown += RESET;
        shown += "\n\n";
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(mut screen: Screen, heard: &[Heard<'_>]) -> String {
        let mut out = Vec::new();
        heard.iter().for_each(|heard| screen.hear(heard, &mut out).unwrap());
        screen.finish(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    const HEARD: [Heard<'static>; 7] = [
        Heard::Nothing,
        Heard::Raw("<think>The user wants "),
        Heard::Reasoning("The user wants "),
        Heard::Raw("more.</think>"),
        Heard::Reasoning("more."),
        Heard::Raw("**Yes**"),
        Heard::Content("**Yes**"),
    ];

    #[test]
    fn reasoning_is_dim_and_stands_apart() {
        let width = Some(16);
        let markdown = Box::new(Markdown::new(width));
        let screen = Screen::Drawn { markdown, reasoning: None, width, at_start: true };
        let wanted = "\x1b[2mThe user wants\nmore.\x1b[0m\n\n\x1b[0m\x1b[1mYes\x1b[0m\n";
        assert_eq!(shown(screen, &HEARD), wanted);
    }

    #[test]
    fn what_is_not_drawn_is_the_models_own_text() {
        let plain = || Screen::Plain { at_start: true };
        assert_eq!(shown(plain(), &HEARD), "<think>The user wants more.</think>**Yes**\n");
        assert_eq!(shown(plain(), &[Heard::Raw("ends\n")]), "ends\n");
        assert_eq!(shown(plain(), &[]), "");
    }
}
