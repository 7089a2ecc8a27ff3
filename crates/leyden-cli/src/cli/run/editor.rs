//! Line input from a terminal: editing, and a history file.

use std::borrow::Cow;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use reedline::{
    ColumnarMenu, Completer, CompletionResult, EditCommand, Emacs, FileBackedHistory, KeyCode, KeyModifiers,
    MenuBuilder, Prompt, PromptEditMode, PromptHistorySearch, PromptHistorySearchStatus, Reedline,
    ReedlineEvent, ReedlineMenu, Signal, Span, Suggestion, ValidationResult, Validator,
    default_emacs_keybindings,
};

use super::chat::completions;
use super::lines::{Line, Lines, is_open};
use crate::cli::failure::Failure;
use crate::cli::knobs;

/// Maximum number of lines in the history.
const HISTORY_LINES: usize = 1000;
/// Name of the completion menu.
const MENU: &str = "completions";

/// Line input without editing, for runs whose standard output or standard error is a file or pipe: the editor would
/// query the cursor through standard output, which must have answers only, and draw on standard error. Ctrl-C at the
/// prompt ends the program.
pub(super) struct Plain;

impl Lines for Plain {
    fn next(&mut self) -> Result<Line, Failure> {
        let _ = write!(io::stderr(), "> ");
        let mut text = String::new();
        match io::stdin().read_line(&mut text) {
            Ok(0) => Ok(Line::End),
            Ok(_) => Ok(Line::Text(text.trim_end_matches(['\r', '\n']).to_owned())),
            Err(error) => Err(Failure::new(format!("cannot read from the terminal: {error}"))),
        }
    }
}

/// Line editor.
pub(super) struct Editor {
    reedline: Reedline,
}

impl Editor {
    /// Creates an editor with the history of earlier conversations. Without a history file, or if it cannot be read,
    /// the history has only this conversation.
    pub(super) fn new() -> Self {
        let mut keys = default_emacs_keybindings();
        let complete = vec![ReedlineEvent::Menu(MENU.to_owned()), ReedlineEvent::MenuNext];
        keys.add_binding(KeyModifiers::NONE, KeyCode::Tab, ReedlineEvent::UntilFound(complete));
        let line_break = ReedlineEvent::Edit(vec![EditCommand::InsertNewline]);
        keys.add_binding(KeyModifiers::ALT, KeyCode::Enter, line_break);
        let menu = Box::new(ColumnarMenu::default().with_name(MENU));
        let reedline = Reedline::create()
            .use_bracketed_paste(true)
            .with_completer(Box::new(Commands))
            .with_menu(ReedlineMenu::EngineCompleter(menu))
            .with_quick_completions(true)
            .with_partial_completions(true)
            .with_validator(Box::new(Quotes))
            .with_edit_mode(Box::new(Emacs::new(keys)));
        let history = knobs::history_file().and_then(|path| match history(&path) {
            Ok(history) => Some(history),
            Err(error) => {
                let path = path.display();
                let _ = writeln!(io::stderr(), "the history cannot be saved in {path}: {error}");
                None
            }
        });
        match history {
            Some(history) => Self { reedline: reedline.with_history(Box::new(history)) },
            None => Self { reedline },
        }
    }
}

/// Completer of commands, settings and file names.
struct Commands;

impl Completer for Commands {
    fn complete(&mut self, line: &str, position: usize) -> CompletionResult {
        let typed = line.get(..position).filter(|typed| typed.starts_with('/'));
        let (start, texts) = typed.map_or((0, Vec::new()), completions);
        let suggestion = |value: String| Suggestion {
            // No space after a folder's name, which may continue.
            append_whitespace: !value.ends_with('/'),
            value,
            span: Span::new(start.min(position), position),
            ..Suggestion::default()
        };
        CompletionResult::fresh(texts.into_iter().map(suggestion).collect::<Vec<_>>())
    }
}

/// Validator: Enter within quotes starts another line of the message.
struct Quotes;

impl Validator for Quotes {
    fn validate(&self, line: &str) -> ValidationResult {
        if is_open(line) { ValidationResult::Incomplete } else { ValidationResult::Complete }
    }
}

fn history(path: &Path) -> Result<FileBackedHistory, Box<dyn std::error::Error>> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    keep_private(path)?;
    Ok(FileBackedHistory::with_file(HISTORY_LINES, PathBuf::from(path))?)
}

/// Creates the file with access for the user only, before the editor writes to it.
#[cfg(unix)]
fn keep_private(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt;
    fs::OpenOptions::new().append(true).create(true).mode(0o600).open(path).map(drop)
}

#[cfg(not(unix))]
fn keep_private(path: &Path) -> io::Result<()> {
    fs::OpenOptions::new().append(true).create(true).open(path).map(drop)
}

impl Lines for Editor {
    fn next(&mut self) -> Result<Line, Failure> {
        match self.reedline.read_line(&Sign) {
            Ok(Signal::Success(text)) => Ok(Line::Text(text)),
            Ok(Signal::CtrlC) => Ok(Line::Interrupt),
            Ok(Signal::CtrlD) => Ok(Line::End),
            // No other signals are requested.
            Ok(_) => Ok(Line::Text(String::new())),
            Err(error) => Err(Failure::new(format!("cannot read from the terminal: {error}"))),
        }
    }
}

/// Prompt of the line.
struct Sign;

impl Prompt for Sign {
    fn render_prompt_left(&self) -> Cow<'_, str> {
        Cow::Borrowed("")
    }

    fn render_prompt_right(&self) -> Cow<'_, str> {
        Cow::Borrowed("")
    }

    fn render_prompt_indicator(&self, _: PromptEditMode) -> Cow<'_, str> {
        Cow::Borrowed("> ")
    }

    fn render_prompt_multiline_indicator(&self) -> Cow<'_, str> {
        Cow::Borrowed("  ")
    }

    fn render_prompt_history_search_indicator(&self, search: PromptHistorySearch) -> Cow<'_, str> {
        let found = match search.status {
            PromptHistorySearchStatus::Passing => "search",
            PromptHistorySearchStatus::Failing => "not found",
        };
        Cow::Owned(format!("({found}: {}) ", search.term))
    }
}
