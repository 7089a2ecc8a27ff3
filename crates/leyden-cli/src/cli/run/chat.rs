//! The interactive conversation: lines in, answers out, and a few commands.
//!
//! It knows neither terminal nor model, only [`Lines`] and [`Chat`], so that tests can play both. Answers go to
//! standard output and everything else to standard error, as everywhere.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::ops::ControlFlow;
use std::path::Path;

use leyden::Message;

use super::interrupt::Interrupt;
use crate::cli::failure::Failure;
use crate::cli::text::plural;

/// Who answers.
pub(super) trait Chat {
    /// Answers a message. `on_event` gets every piece of text, and nothing where only time has passed; it may stop
    /// the answer, and what came until then counts as the answer.
    fn answer(
        &mut self,
        message: &str,
        on_event: &mut dyn FnMut(Option<&str>) -> ControlFlow<()>,
    ) -> Result<Reply, Failure>;

    /// Forgets what was said.
    fn clear(&mut self);

    /// What was said.
    fn messages(&self) -> &[Message];
}

/// How an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reply {
    /// As answers do.
    Done,
    /// There was no room for more.
    ContextFull,
}

/// Who asks.
pub(super) trait Lines {
    /// Waits for the next line.
    fn next(&mut self) -> Result<Line, Failure>;
}

/// What came from the keyboard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Line {
    /// A message or a command; may hold several lines.
    Text(String),
    /// Ctrl-C: the line was given up.
    Interrupt,
    /// Ctrl-D: no more will come.
    End,
}

/// A command of the conversation.
struct Command {
    name: &'static str,
    argument: &'static str,
    help: &'static str,
    run: fn(&mut Scene<'_>, &str) -> Result<ControlFlow<()>, Failure>,
}

/// Every command, one line each.
const COMMANDS: &[Command] = &[
    Command { name: "/help", argument: "", help: "list the commands", run: help },
    Command { name: "/clear", argument: "", help: "forget what was said", run: clear },
    Command {
        name: "/save",
        argument: "FILE",
        help: "write the conversation; as JSON if FILE ends in .json",
        run: save,
    },
    Command { name: "/quit", argument: "", help: "leave, as Ctrl-D does", run: quit },
];

/// What commands act on.
struct Scene<'a> {
    chat: &'a mut dyn Chat,
    err: &'a mut dyn Write,
}

/// Talks until the lines end.
pub(super) fn run(
    chat: &mut dyn Chat,
    lines: &mut dyn Lines,
    interrupt: &Interrupt,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> Result<(), Failure> {
    loop {
        let text = match lines.next()? {
            Line::End => return Ok(()),
            Line::Interrupt => {
                say(err, "Ctrl-D or /quit leaves");
                continue;
            }
            Line::Text(text) => text,
        };
        if text.trim().is_empty() {
            continue;
        }
        // A blank before the slash makes it a message.
        let result = if text.starts_with('/') {
            command(&mut Scene { chat, err }, text.trim())
        } else {
            answer(chat, &text, interrupt, out, err).map(ControlFlow::Continue)
        };
        match result {
            Ok(ControlFlow::Continue(())) => {}
            Ok(ControlFlow::Break(())) => return Ok(()),
            Err(failure) if failure.is_closed_pipe() => return Err(failure),
            // A prompt that is too long or a file that cannot be written does not end the conversation.
            Err(failure) => failure.report(err),
        }
    }
}

fn answer(
    chat: &mut dyn Chat,
    text: &str,
    interrupt: &Interrupt,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> Result<(), Failure> {
    let answering = interrupt.answering();
    let mut lost = None;
    let mut ended = true;
    let reply = chat.answer(text, &mut |piece| {
        if let Some(piece) = piece {
            ended = piece.ends_with('\n');
            if let Err(error) = out.write_all(piece.as_bytes()).and_then(|()| out.flush()) {
                lost = Some(error);
                return ControlFlow::Break(());
            }
        }
        if answering.stopped() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    let stopped = answering.stopped();
    drop(answering);
    if let Some(error) = lost {
        return Err(error.into());
    }
    // The next question begins on a line of its own.
    if !ended {
        writeln!(out)?;
        out.flush()?;
    }
    let reply = reply?;
    if stopped {
        say(err, "(stopped)");
    } else if reply == Reply::ContextFull {
        say(err, "(the context is full; /clear begins anew)");
    }
    Ok(())
}

fn command(scene: &mut Scene<'_>, text: &str) -> Result<ControlFlow<()>, Failure> {
    let (name, argument) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    match COMMANDS.iter().find(|command| command.name == name) {
        Some(command) => (command.run)(scene, argument.trim()),
        None => {
            say(
                scene.err,
                "no such command; /help lists them, and a blank before the slash makes it a message",
            );
            Ok(ControlFlow::Continue(()))
        }
    }
}

fn help(scene: &mut Scene<'_>, _: &str) -> Result<ControlFlow<()>, Failure> {
    for command in COMMANDS {
        say(
            scene.err,
            &format!("  {:<12} {}", format!("{} {}", command.name, command.argument), command.help),
        );
    }
    say(scene.err, "  Alt-Enter    a line break within a message");
    say(scene.err, "  Ctrl-C       stop the answer");
    say(scene.err, "  Ctrl-R       search what was typed before");
    Ok(ControlFlow::Continue(()))
}

fn clear(scene: &mut Scene<'_>, _: &str) -> Result<ControlFlow<()>, Failure> {
    scene.chat.clear();
    say(scene.err, "(forgotten)");
    Ok(ControlFlow::Continue(()))
}

fn quit(_: &mut Scene<'_>, _: &str) -> Result<ControlFlow<()>, Failure> {
    Ok(ControlFlow::Break(()))
}

fn save(scene: &mut Scene<'_>, file: &str) -> Result<ControlFlow<()>, Failure> {
    if file.is_empty() {
        return Err(Failure::usage("/save needs a file name").hint("/save story.txt"));
    }
    let messages = scene.chat.messages();
    let json = Path::new(file).extension().is_some_and(|extension| extension.eq_ignore_ascii_case("json"));
    let text = if json {
        serde_json::to_string_pretty(messages).map_err(|error| Failure::new(format!("{file}: {error}")))?
            + "\n"
    } else {
        messages.iter().map(|message| format!("{}: {}\n\n", message.role, message.content.trim())).collect()
    };
    new_file(Path::new(file), |file| file.write_all(text.as_bytes()).and_then(|()| file.sync_all()))
        .map_err(|error| Failure::new(format!("{file}: cannot save: {error}")))?;
    say(scene.err, &format!("(saved {} to {file})", plural(messages.len(), "message")));
    Ok(ControlFlow::Continue(()))
}

/// Makes a file and fills it; one that cannot be filled, because the disk is full, does not stay.
///
/// An existing file is not overwritten: what lies there may be worth more than this conversation.
fn new_file(path: &Path, fill: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
    fill(&mut file).inspect_err(|_| {
        // The error that led here is the one to report.
        let _ = fs::remove_file(path);
    })
}

fn say(err: &mut dyn Write, text: &str) {
    // Standard error may be closed; the conversation goes on.
    let _ = writeln!(err, "{text}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    /// Answers each message with its letters, one piece each, and a full context to "long".
    #[derive(Default)]
    struct Echo {
        messages: Vec<Message>,
        heard: Vec<String>,
    }

    impl Chat for Echo {
        fn answer(
            &mut self,
            message: &str,
            on_event: &mut dyn FnMut(Option<&str>) -> ControlFlow<()>,
        ) -> Result<Reply, Failure> {
            self.heard.push(message.to_owned());
            if message == "fail" {
                return Err(Failure::new("the prompt has 9 tokens").hint("shorten it"));
            }
            if on_event(None).is_break() {
                return Ok(Reply::Done);
            }
            for letter in message.chars() {
                if on_event(Some(&letter.to_string())).is_break() {
                    break;
                }
            }
            self.messages.push(Message::new("user", message));
            Ok(if message == "long" { Reply::ContextFull } else { Reply::Done })
        }

        fn clear(&mut self) {
            self.messages.clear();
        }

        fn messages(&self) -> &[Message] {
            &self.messages
        }
    }

    struct Script(VecDeque<Line>);

    impl Lines for Script {
        fn next(&mut self) -> Result<Line, Failure> {
            Ok(self.0.pop_front().unwrap_or(Line::End))
        }
    }

    fn play(chat: &mut Echo, lines: &[&str]) -> (String, String) {
        let lines = lines.iter().map(|&line| match line {
            "^C" => Line::Interrupt,
            text => Line::Text(text.to_owned()),
        });
        let (mut out, mut err) = (Vec::new(), Vec::new());
        run(chat, &mut Script(lines.collect()), &Interrupt::default(), &mut out, &mut err).unwrap();
        (String::from_utf8(out).unwrap(), String::from_utf8(err).unwrap())
    }

    #[test]
    fn answers_stand_on_lines_of_their_own() {
        let (out, err) = play(&mut Echo::default(), &["hello", "", "  ", "ends\n", " /help is a message"]);
        assert_eq!((out.as_str(), err.as_str()), ("hello\nends\n /help is a message\n", ""));
    }

    #[test]
    fn commands_do_not_reach_the_model() {
        let mut chat = Echo::default();
        let (out, err) = play(&mut chat, &["/help", "/nonsense", "one", "/clear", "^C", "/quit", "never"]);
        assert_eq!(out, "one\n");
        assert_eq!(chat.heard, ["one"]);
        assert!(chat.messages.is_empty());
        for part in ["/save FILE", "no such command", "(forgotten)", "Ctrl-D or /quit leaves"] {
            assert!(err.contains(part), "{part}\n{err}");
        }
    }

    #[test]
    fn failures_do_not_end_the_conversation() {
        let (out, err) = play(&mut Echo::default(), &["fail", "long", "/save", "go on"]);
        assert_eq!(out, "long\ngo on\n");
        assert!(err.contains("error: the prompt has 9 tokens\nhint: shorten it\n"), "{err}");
        assert!(err.contains("context is full") && err.contains("/save needs a file name"), "{err}");
    }

    #[test]
    fn conversations_are_saved_once() {
        let folder = tempfile::tempdir().unwrap();
        let [text, json] = ["a.txt", "a.json"].map(|name| folder.path().join(name).display().to_string());
        let (saving_text, saving_json) = (format!("/save {text}"), format!("/save {json}"));
        let (_, err) = play(&mut Echo::default(), &["hello", &saving_text, &saving_json, &saving_text]);
        assert_eq!(fs::read_to_string(text).unwrap(), "user: hello\n\n");
        let saved: serde_json::Value = serde_json::from_str(&fs::read_to_string(json).unwrap()).unwrap();
        assert_eq!(saved, serde_json::json!([{ "role": "user", "content": "hello" }]));
        assert!(err.contains("(saved 1 message ") && err.contains("cannot save"), "{err}");
    }

    #[test]
    fn a_file_that_cannot_be_filled_does_not_stay() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("talk.txt");
        let full = |file: &mut File| {
            file.write_all(b"half of")?;
            Err(io::Error::from(io::ErrorKind::StorageFull))
        };
        assert_eq!(new_file(&path, full).unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert!(!path.exists());
        new_file(&path, |file| file.write_all(b"all of it")).unwrap();
        assert_eq!(new_file(&path, full).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&path).unwrap(), b"all of it");
    }

    #[test]
    fn an_interrupt_stops_the_answer_only() {
        let interrupt = Interrupt::default();
        let answering = interrupt.answering();
        assert!(!answering.stopped());
        answering.stop();
        assert!(answering.stopped());
        drop(answering);
        assert!(!interrupt.answering().stopped());
    }

    #[test]
    fn a_closed_pipe_ends_the_conversation() {
        let (reader, mut writer) = io::pipe().unwrap();
        drop(reader);
        let mut script = Script([Line::Text("hello".to_owned()), Line::Text("again".to_owned())].into());
        let mut chat = Echo::default();
        let result = run(&mut chat, &mut script, &Interrupt::default(), &mut writer, &mut Vec::new());
        assert!(result.unwrap_err().is_closed_pipe());
        assert_eq!(chat.heard, ["hello"]);
    }
}
