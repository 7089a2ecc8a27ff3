//! The interactive conversation: lines in, answers out, and commands.
//!
//! Terminal and model are behind the traits [`Lines`] and [`Answerer`], so that tests can replace both. Answers go to
//! standard output and everything else to standard error.

mod commands;
mod files;
mod talk;

use std::io::Write;
use std::ops::ControlFlow;

use leyden::Message;

pub(super) use commands::completions;
pub(super) use talk::Talk;

use super::answer::{Answerer, Reply};
use super::interrupt::Interrupt;
use super::lines::{Line, Lines, QUOTES, is_open};
use super::screen::Screen;
use crate::cli::failure::Failure;
use crate::cli::text::{plural, printable};
use commands::Next;
use talk::{FREE_SHARE, say, trimmed};

/// Model, keyboard and outputs of a conversation.
pub(super) struct Stage<'a> {
    pub(super) answerer: &'a mut dyn Answerer,
    pub(super) lines: &'a mut dyn Lines,
    pub(super) interrupt: &'a Interrupt,
    /// Function that creates the screen for an answer.
    pub(super) screen: &'a dyn Fn() -> Screen,
    /// Function that saves the conversation after every answer; the flag is true for a new one.
    pub(super) keep: &'a mut dyn FnMut(&Talk, bool),
    pub(super) out: &'a mut dyn Write,
    pub(super) err: &'a mut dyn Write,
}

/// Runs the conversation until the input ends.
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
        // With a space before the slash, the line is a message.
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
            // Failures, such as a prompt that is too long, do not end the conversation.
            Err(failure) => failure.report(stage.err),
        }
    }
}

/// Reads the next message or command; in quotes it may have several lines.
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

/// Answers the last message, a user's. If that fails, removes the message.
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

/// Generates an answer. Returns it, and true if it was stopped.
fn spoken(talk: &mut Talk, stage: &mut Stage<'_>) -> Result<(Reply, bool), Failure> {
    let (context, tokens) =
        (stage.answerer.context(), stage.answerer.tokens(&talk.messages, &talk.settings)?);
    if talk.settings.trim && tokens > context - context / FREE_SHARE {
        let dropped = talk.trim(stage.answerer)?;
        if dropped > 0 {
            say(stage.err, &trimmed(dropped, talk, stage.answerer)?);
        }
    } else if tokens > context {
        let message = format!("the conversation has {tokens} tokens, but the context {context}");
        return Err(Failure::new(message).hint(
            "/trim drops the oldest turns, /set trim on does so always, /clear starts a new conversation",
        ));
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
    // The next question begins on a new line.
    screen.finish(out)?;
    Ok((reply?, stopped))
}

/// Number of last messages shown of a resumed conversation.
const RECALLED: usize = 4;
/// Maximum number of characters shown of each message.
const RECALLED_CHARACTERS: usize = 600;

/// Shows the last turns of a resumed conversation.
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

#[cfg(test)]
mod tests;
