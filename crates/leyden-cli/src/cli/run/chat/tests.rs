//! Conversations between a script and an echo.

use super::super::answer::Heard;
use super::super::settings::Settings;
use super::*;
use std::collections::VecDeque;
use std::fs;

use crate::cli::run::settings;

/// Answers each message with its letters, one piece each, and a full context to "long". A message is a token for each
/// letter, and there is room for 40.
#[derive(Default)]
struct Echo {
    heard: Vec<String>,
    seeds: Vec<u64>,
}

impl Answerer for Echo {
    fn answer(
        &mut self,
        messages: &[Message],
        settings: &Settings,
        on_event: &mut dyn FnMut(Heard<'_>) -> ControlFlow<()>,
    ) -> Result<Reply, Failure> {
        let message = messages.last().unwrap().content.clone();
        self.heard
            .push(messages.iter().map(|message| message.content.as_str()).collect::<Vec<_>>().join("|"));
        self.seeds.push(settings.generate.sampling.seed);
        if message == "fail" {
            return Err(Failure::new("the prompt has 9 tokens").hint("shorten it"));
        }
        let mut said = String::new();
        if on_event(Heard::Nothing).is_continue() {
            for letter in message.chars() {
                said.push(letter);
                if on_event(Heard::Raw(&letter.to_string())).is_break() {
                    break;
                }
            }
        }
        let is_full = message == "long";
        Ok(Reply { message: Message::new("assistant", said), is_full, speed: "fast".to_owned() })
    }

    fn tokens(&self, messages: &[Message], settings: &Settings) -> Result<usize, Failure> {
        let system = settings.system.as_ref().map_or(0, String::len);
        Ok(system + messages.iter().map(|message| message.content.len()).sum::<usize>())
    }

    fn context(&self) -> usize {
        40
    }

    fn can_think(&self) -> bool {
        false
    }

    fn set_context(&mut self, tokens: Option<usize>) -> Result<(), Failure> {
        match tokens {
            Some(n) if n > 40 => Err(Failure::new("no room")),
            _ => Ok(()),
        }
    }
}

struct Script(VecDeque<Line>);

impl Lines for Script {
    fn next(&mut self) -> Result<Line, Failure> {
        Ok(self.0.pop_front().unwrap_or(Line::End))
    }
}

struct Played {
    out: String,
    err: String,
    echo: Echo,
    talk: Talk,
    /// The number of messages, and whether a conversation began, each time it was to be kept.
    kept: Vec<(usize, bool)>,
}

fn play(lines: &[&str]) -> Played {
    let lines = lines.iter().map(|&line| match line {
        "^C" => Line::Interrupt,
        text => Line::Text(text.to_owned()),
    });
    let (mut out, mut err, mut echo, mut kept) = (Vec::new(), Vec::new(), Echo::default(), Vec::new());
    let mut talk = Talk::new("echo".to_owned(), settings::for_tests());
    talk.settings.generate.sampling.seed = 1;
    run(
        &mut talk,
        &mut Stage {
            answerer: &mut echo,
            lines: &mut Script(lines.collect()),
            interrupt: &Interrupt::default(),
            screen: &|| Screen::Plain { at_start: true },
            keep: &mut |talk, begins| kept.push((talk.messages.len(), begins)),
            out: &mut out,
            err: &mut err,
        },
    )
    .unwrap();
    let [out, err] = [out, err].map(|bytes| String::from_utf8(bytes).unwrap());
    Played { out, err, echo, talk, kept }
}

#[test]
fn answers_stand_on_lines_of_their_own() {
    let played = play(&["hello", "", "  ", "ends\n", " /help is a message"]);
    assert_eq!((played.out.as_str(), played.err.as_str()), ("hello\nends\n /help is a message\n", ""));
    assert_eq!(played.kept, [(2, false), (4, false), (6, false)]);
}

#[test]
fn commands_do_not_reach_the_model() {
    let played = play(&["/help", "/?", "/nonsense", "one", "/clear", "^C", "two", "/bye", "never"]);
    assert_eq!(played.out, "one\ntwo\n");
    assert_eq!(played.echo.heard, ["one", "two"]);
    assert_eq!(played.kept, [(2, false), (2, true)]);
    for part in ["/save FILE", "no command /nonsense;", "(forgotten)", "Ctrl-D or /bye leaves"] {
        assert!(played.err.contains(part), "{part}\n{}", played.err);
    }
    for quit in ["/exit", "/quit"] {
        assert_eq!(play(&[quit, "never"]).out, "");
    }
}

#[test]
fn failures_do_not_end_the_conversation() {
    let played = play(&["fail", "long", "/save", "go on", "/set colour red"]);
    assert_eq!(played.out, "long\ngo on\n");
    assert_eq!(played.echo.heard[2], "long|long|go on", "what failed was not said");
    let err = &played.err;
    assert!(err.contains("error: the prompt has 9 tokens\nhint: shorten it\n"), "{err}");
    assert!(err.contains("(the context of 40 tokens is full; /trim drops the oldest turns"), "{err}");
    assert!(
        err.contains("/save needs a file name\nhint: /save story.txt") && err.contains("no setting `colour`"),
        "{err}"
    );
}

#[test]
fn messages_may_have_several_lines() {
    let played =
        play(&["\"\"\"one", "two", "three\"\"\"", "\"\"\"four\"\"\"", "\"\"\"given up", "^C", "five"]);
    assert_eq!(played.out, "one\ntwo\nthree\nfour\nfive\n");
}

#[test]
fn answers_are_taken_back_and_made_anew() {
    let played = play(&["/undo", "/regen", "one", "two", "/regen", "/undo", "three", "/retry"]);
    assert_eq!(played.echo.heard, ["one", "one|one|two", "one|one|two", "one|one|three", "one|one|three"]);
    assert_eq!(played.echo.seeds, [1, 1, 2, 2, 3]);
    assert_eq!(played.talk.messages.len(), 4);
    assert!(
        played.err.contains("(there are no messages yet)\n(there are no messages yet)\n(removed: two)\n"),
        "{}",
        played.err
    );
}

#[test]
fn a_full_context_loses_its_oldest_turns_if_that_is_wished() {
    // Each turn has 16 letters.
    let turns = ["turn one", "turn two", "turn six"];
    let played = play(&[&turns[..], &["turn ten", "/trim", "turn ten"]].concat());
    assert!(
        played.err.contains("error: the conversation has 56 tokens, but the context 40\nhint: /trim"),
        "{}",
        played.err
    );
    let rule =
        "(dropped the 2 oldest turns so that a quarter of the context is free: 16 of 40 tokens are used)";
    assert!(played.err.contains(rule), "{}", played.err);
    assert_eq!(played.echo.heard[3], "turn six|turn six|turn ten");
    let played = play(&[&["/set trim on", "/set system stay"][..], &turns].concat());
    assert_eq!(played.echo.heard[2], "turn two|turn two|turn six");
    assert!(played.err.contains("(dropped the 1 oldest turn so"), "{}", played.err);
    assert_eq!(played.talk.settings.system.as_deref(), Some("stay"));
    assert_eq!(played.talk.all_messages().len(), 7, "what was dropped is kept and saved all the same");
    // A single question is never dropped.
    let played = play(&["/set trim on", "a question that is far too long to be answered"]);
    assert_eq!(played.echo.heard.len(), 1);
}

#[test]
fn settings_are_changed_and_shown() {
    let played = play(&["/set verbose", "/set temperature 0.5", "/set think off", "one", "/show", "/set"]);
    assert_eq!(played.talk.settings.generate.sampling.temperature, 0.5);
    for part in ["(fast)\n", "has no setting for reasoning", "2 messages, 6 of 40 tokens", "(now: 0.5)"] {
        assert!(played.err.contains(part), "{part}\n{}", played.err);
    }
}

#[test]
fn conversations_are_saved_once_and_loaded() {
    let folder = tempfile::tempdir().unwrap();
    let [text, json, note] =
        ["a.txt", "a.json", "n.txt"].map(|name| folder.path().join(name).display().to_string());
    fs::write(&note, "a note").unwrap();
    let [save_text, save_json, load, read] =
        [format!("/save {text}"), format!("/save {json}"), format!("/load {json}"), format!("/read {note}")];
    let played =
        play(&["/set system Be kind.", "hello", &save_text, &save_json, &save_text, &load, &read, "more"]);
    assert_eq!(fs::read_to_string(&text).unwrap(), "system: Be kind.\n\nuser: hello\n\nassistant: hello\n\n");
    let saved: serde_json::Value = serde_json::from_str(&fs::read_to_string(&json).unwrap()).unwrap();
    assert_eq!(saved[1], serde_json::json!({ "role": "user", "content": "hello" }));
    for part in ["(saved 3 messages ", "cannot save", "(loaded 3 messages)", "(6 characters; put before"] {
        assert!(played.err.contains(part), "{part}\n{}", played.err);
    }
    assert_eq!(played.echo.heard[1], "hello|hello|a note\n\nmore");
    assert_eq!(played.talk.settings.system.as_deref(), Some("Be kind."));
    let played = play(&[&format!("/load {note}"), "/load /nonexistent", "/read"]);
    for part in ["not a conversation in JSON", "/nonexistent: cannot read", "/read needs a file name"] {
        assert!(played.err.contains(part), "{part}\n{}", played.err);
    }
}

#[test]
fn commands_settings_and_files_are_completed() {
    assert_eq!(completions("/re"), (0, vec!["/read".to_owned(), "/regen".to_owned(), "/retry".to_owned()]));
    assert_eq!(completions("/set te"), (5, vec!["temperature".to_owned()]));
    assert_eq!(completions("/bye x"), (5, Vec::new()));
    let (start, names) = completions("/read Cargo.t");
    assert_eq!((start, names), (6, vec!["Cargo.toml".to_owned()]));
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
    let (reader, mut writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut script = Script([Line::Text("hello".to_owned()), Line::Text("again".to_owned())].into());
    let mut echo = Echo::default();
    let mut talk = Talk::new("echo".to_owned(), settings::for_tests());
    let mut stage = Stage {
        answerer: &mut echo,
        lines: &mut script,
        interrupt: &Interrupt::default(),
        screen: &|| Screen::Plain { at_start: true },
        keep: &mut |_, _| {},
        out: &mut writer,
        err: &mut Vec::new(),
    };
    assert!(run(&mut talk, &mut stage).unwrap_err().is_closed_pipe());
    assert_eq!(echo.heard, ["hello"]);
}
