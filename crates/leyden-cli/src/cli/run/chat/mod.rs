//! The interactive conversation: lines in, answers out, and commands.
//!
//! It knows neither terminal nor model, only [`Lines`] and [`Answerer`], so that tests can play both. Answers go to
//! standard output and everything else to standard error, as everywhere.

mod commands;
mod files;

use std::io::Write;
use std::ops::ControlFlow;

use leyden::Message;

pub(super) use commands::completions;

use super::interrupt::Interrupt;
use super::screen::Screen;
use super::settings::Settings;
use crate::cli::failure::Failure;
use crate::cli::text::{plural, printable};
use commands::Next;

/// Around a message of several lines.
const QUOTES: &str = "\"\"\"";

/// What of the context is kept free for an answer when the oldest turns are dropped: a quarter.
const FREE_SHARE: usize = 4;

/// Who answers.
pub(super) trait Answerer {
    /// Answers a conversation whose last message is a user's. `on_event` may stop the answer, and what came until then
    /// counts as the answer.
    fn answer(
        &mut self,
        messages: &[Message],
        settings: &Settings,
        on_event: &mut dyn FnMut(Heard<'_>) -> ControlFlow<()>,
    ) -> Result<Reply, Failure>;

    /// Tokens that the conversation takes.
    fn tokens(&self, messages: &[Message], settings: &Settings) -> Result<usize, Failure>;

    /// Tokens that there is room for.
    fn context(&self) -> usize;

    /// Whether it can be told how much to reason.
    fn can_think(&self) -> bool;

    /// Makes a context of so many tokens, or with `None` of as many as the model was made for. What was said is read again.
    fn set_context(&mut self, tokens: Option<usize>) -> Result<(), Failure>;
}

/// What is heard of an answer.
#[derive(Debug, Clone, Copy)]
pub(super) enum Heard<'a> {
    /// Time has passed.
    Nothing,
    /// More text, as the model writes it. The parts that follow say what of it is what.
    Raw(&'a str),
    /// More of what the model reasons before it answers.
    Reasoning(&'a str),
    /// More of the answer.
    Content(&'a str),
}

/// An answer.
#[derive(Debug, Clone)]
pub(super) struct Reply {
    pub(super) message: Message,
    /// Whether it ended because there was no room for more.
    pub(super) is_full: bool,
    /// How fast it was, in words.
    pub(super) speed: String,
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

/// Whether text begins quotes that it does not end.
pub(super) fn is_open(text: &str) -> bool {
    text.strip_prefix(QUOTES).is_some_and(|rest| !rest.contains(QUOTES))
}

/// A conversation as it stands.
#[derive(Debug, Clone)]
pub(super) struct Talk {
    /// The model, as the user named it.
    pub(super) model: String,
    /// What was said, without the system's instruction, as far as the model still sees it.
    pub(super) messages: Vec<Message>,
    /// What was said before, and dropped because the context was full.
    dropped: Vec<Message>,
    pub(super) settings: Settings,
    /// Texts that go before the next message.
    pub(super) attached: Vec<String>,
}

impl Talk {
    /// One in which nothing was said.
    pub(super) fn new(model: String, settings: Settings) -> Self {
        Self { model, messages: Vec::new(), dropped: Vec::new(), settings, attached: Vec::new() }
    }

    /// All messages, with the system's instruction first, those included that were dropped.
    pub(super) fn all_messages(&self) -> Vec<Message> {
        let system = self.settings.system.as_ref().map(|text| Message::new("system", text));
        system.into_iter().chain(self.dropped.iter().chain(&self.messages).cloned()).collect()
    }

    /// Forgets what was said.
    fn clear(&mut self) {
        self.messages.clear();
        self.dropped.clear();
        self.attached.clear();
    }

    /// Takes the messages of another conversation.
    pub(super) fn take_messages(&mut self, mut messages: Vec<Message>) {
        if messages.first().is_some_and(|message| message.role == "system") {
            self.settings.system = Some(messages.remove(0).content);
        }
        self.clear();
        self.messages = messages;
    }

    /// Drops the last question with its answer, and returns the question.
    fn drop_last_turn(&mut self) -> Option<Message> {
        let at = self.messages.iter().rposition(|message| message.role == "user")?;
        self.messages.drain(at..).next()
    }

    /// Drops the oldest turns until a quarter of the context is free, but never the last question. Returns how many turns
    /// went.
    fn trim(&mut self, answerer: &dyn Answerer) -> Result<usize, Failure> {
        let room = answerer.context() - answerer.context() / FREE_SHARE;
        let mut dropped = 0;
        while answerer.tokens(&self.messages, &self.settings)? > room {
            let next = self.messages.iter().skip(1).position(|message| message.role == "user");
            let Some(next) = next else { break };
            self.dropped.extend(self.messages.drain(..=next));
            dropped += 1;
        }
        Ok(dropped)
    }
}

/// What a conversation is held with.
pub(super) struct Stage<'a> {
    pub(super) answerer: &'a mut dyn Answerer,
    pub(super) lines: &'a mut dyn Lines,
    pub(super) interrupt: &'a Interrupt,
    /// Makes the screen for an answer.
    pub(super) screen: &'a dyn Fn() -> Screen,
    /// Told after every answer, to keep the conversation; whether it is a new one.
    pub(super) keep: &'a mut dyn FnMut(&Talk, bool),
    pub(super) out: &'a mut dyn Write,
    pub(super) err: &'a mut dyn Write,
}

/// Talks until the lines end.
pub(super) fn run(talk: &mut Talk, stage: &mut Stage<'_>) -> Result<(), Failure> {
    let mut begins = false;
    loop {
        let text = match message(stage)? {
            Line::End => return Ok(()),
            Line::Interrupt => {
                say(stage.err, "Ctrl-D or /bye leaves");
                continue;
            }
            Line::Text(text) => text,
        };
        if text.trim().is_empty() {
            continue;
        }
        // A blank before the slash makes it a message.
        let next = if text.starts_with('/') {
            commands::run(talk, stage.answerer, stage.err, text.trim())
        } else {
            let text = text
                .strip_prefix(QUOTES)
                .map_or(text.as_str(), |rest| rest.split(QUOTES).next().unwrap_or(""));
            let attached = std::mem::take(&mut talk.attached);
            let parts: Vec<&str> = attached.iter().map(String::as_str).chain([text]).collect();
            talk.messages.push(Message::new("user", parts.join("\n\n")));
            Ok(Next::Answer)
        };
        let result = next.and_then(|next| match next {
            Next::Go => Ok(ControlFlow::Continue(())),
            Next::Quit => Ok(ControlFlow::Break(())),
            Next::Begin => {
                begins = true;
                Ok(ControlFlow::Continue(()))
            }
            Next::Answer => {
                answer(talk, stage)?;
                (stage.keep)(talk, std::mem::take(&mut begins));
                Ok(ControlFlow::Continue(()))
            }
        });
        match result {
            Ok(ControlFlow::Continue(())) => {}
            Ok(ControlFlow::Break(())) => return Ok(()),
            Err(failure) if failure.is_closed_pipe() => return Err(failure),
            // A prompt that is too long or a file that cannot be written does not end the conversation.
            Err(failure) => failure.report(stage.err),
        }
    }
}

/// The next message or command, which between quotes has several lines.
fn message(stage: &mut Stage<'_>) -> Result<Line, Failure> {
    let mut line = stage.lines.next()?;
    while let Line::Text(text) = &mut line
        && is_open(text)
    {
        match stage.lines.next()? {
            Line::Text(more) => {
                text.push('\n');
                text.push_str(&more);
            }
            other => return Ok(other),
        }
    }
    Ok(line)
}

/// Answers the last message, which is a user's. If that fails, the message is not part of the conversation.
fn answer(talk: &mut Talk, stage: &mut Stage<'_>) -> Result<(), Failure> {
    let (reply, stopped) = spoken(talk, stage).inspect_err(|_| {
        talk.drop_last_turn();
    })?;
    talk.messages.push(reply.message);
    if talk.settings.verbose {
        say(stage.err, &format!("({})", reply.speed));
    }
    if stopped {
        say(stage.err, "(stopped)");
    } else if reply.is_full {
        let offer = if talk.settings.trim {
            ""
        } else {
            "; /trim drops the oldest turns, /set trim on does so always"
        };
        say(stage.err, &format!("(the context of {} tokens is full{offer})", stage.answerer.context()));
    }
    Ok(())
}

/// The answer and whether it was stopped.
fn spoken(talk: &mut Talk, stage: &mut Stage<'_>) -> Result<(Reply, bool), Failure> {
    let (context, tokens) =
        (stage.answerer.context(), stage.answerer.tokens(&talk.messages, &talk.settings)?);
    if talk.settings.trim && tokens > context - context / FREE_SHARE {
        let dropped = talk.trim(stage.answerer)?;
        if dropped > 0 {
            say(stage.err, &trimmed(dropped, talk, stage.answerer)?);
        }
    } else if tokens > context {
        let message = format!("the conversation has {tokens} tokens, and the context {context}");
        return Err(Failure::new(message)
            .hint("/trim drops the oldest turns, /set trim on does so always, /clear begins anew"));
    }
    let answering = stage.interrupt.answering();
    let mut screen = (stage.screen)();
    let mut lost = None;
    let out = &mut *stage.out;
    let reply = stage.answerer.answer(&talk.messages, &talk.settings, &mut |heard| {
        if let Err(error) = screen.hear(&heard, out) {
            lost = Some(error);
            return ControlFlow::Break(());
        }
        if answering.stopped() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    let stopped = answering.stopped();
    drop(answering);
    if let Some(error) = lost {
        return Err(error.into());
    }
    // The next question begins on a line of its own.
    screen.finish(out)?;
    Ok((reply?, stopped))
}

/// Messages of a conversation that goes on, of which the end is shown.
const RECALLED: usize = 4;
/// Characters of each of them.
const RECALLED_CHARACTERS: usize = 600;

/// Shows the last turns of a conversation that goes on.
pub(super) fn recall(messages: &[Message], err: &mut dyn Write) {
    let before = messages.len().saturating_sub(RECALLED);
    if before > 0 {
        say(err, &format!("... {} before", plural(before, "message")));
    }
    for message in &messages[before..] {
        let mark = if message.role == "user" { ">>> " } else { "" };
        let text = message.content.trim();
        let shown: String = text.chars().take(RECALLED_CHARACTERS).collect();
        let lines = shown.lines().map(|line| printable(line, RECALLED_CHARACTERS));
        let more = if shown.len() < text.len() { " ..." } else { "" };
        say(err, &format!("{mark}{}{more}", lines.collect::<Vec<_>>().join("\n")));
    }
}

/// Says what was dropped, and by which rule.
fn trimmed(dropped: usize, talk: &Talk, answerer: &dyn Answerer) -> Result<String, Failure> {
    let tokens = answerer.tokens(&talk.messages, &talk.settings)?;
    let context = answerer.context();
    Ok(format!(
        "(dropped the {} so that a quarter of the context is free: {tokens} of {context} tokens are used)",
        plural(dropped, "oldest turn")
    ))
}

fn say(err: &mut dyn Write, text: &str) {
    // Standard error may be closed; the conversation goes on.
    let _ = writeln!(err, "{text}");
}

#[cfg(test)]
mod tests;
