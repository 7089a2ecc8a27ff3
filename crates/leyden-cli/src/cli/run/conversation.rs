//! A conversation with a model: the messages so far, and the session that has them in its cache.

use std::ops::ControlFlow;

use leyden::{Event, Finish, GenerateOptions, Generation, Message, Model, Session};
use leyden_text::output::OutputFormat;

use super::chat::{Chat, Reply};
use super::summary::Summary;
use crate::cli::failure::Failure;

/// Tokens at a prompt's end in which it may open the model's reasoning.
const PROMPT_END: usize = 64;

/// What a message becomes.
#[derive(Debug, Clone)]
pub(super) enum Mode {
    /// A turn in the model's chat template.
    Chat {
        system: Option<String>,
        /// Whether special tokens that messages spell out are such.
        special_in_content: bool,
    },
    /// Text to continue, right behind all text before it.
    Raw,
}

/// A model, what was said, and how to go on.
pub(super) struct Conversation<'a> {
    model: &'a Model,
    session: Session,
    mode: Mode,
    options: GenerateOptions,
    messages: Vec<Message>,
    summary: Summary,
}

impl<'a> Conversation<'a> {
    /// A conversation in which nothing was said.
    pub(super) fn new(model: &'a Model, session: Session, mode: Mode, options: GenerateOptions) -> Self {
        let summary = Summary::new(model, options.sampling.seed);
        let mut conversation = Self { model, session, mode, options, messages: Vec::new(), summary };
        conversation.clear();
        conversation
    }

    /// The longest text in tokens.
    pub(super) fn context(&self) -> usize {
        self.session.context()
    }

    /// Times and sizes so far.
    pub(super) fn summary(&self) -> &Summary {
        &self.summary
    }

    /// Answers a message. `on_event` gets every piece of text, and nothing where the prompt has advanced; it may
    /// stop the answer. Message and answer become part of the conversation unless the answer fails.
    pub(super) fn respond(
        &mut self,
        message: &str,
        on_event: &mut dyn FnMut(Option<&str>) -> ControlFlow<()>,
    ) -> Result<Generation, Failure> {
        self.messages.push(Message::new("user", message));
        let answer = self.prompt().and_then(|prompt| {
            self.options.reasoning = self.reasoning(&prompt);
            let event = &mut |event: Event<'_>| match event {
                Event::Text(text) => on_event(Some(text)),
                Event::Prompt(..) => on_event(None),
            };
            Ok(self.session.generate(&prompt, &self.options, event)?)
        });
        match answer {
            Ok(answer) => {
                self.messages.push(Message::new("assistant", &answer.text));
                self.summary.add(&answer);
                Ok(answer)
            }
            Err(failure) => {
                self.messages.pop();
                Err(failure)
            }
        }
    }

    /// What stands around the model's reasoning, and whether the prompt opens it, where stop texts must know.
    fn reasoning(&self, prompt: &[u32]) -> Option<(String, String, bool)> {
        let is_chat = matches!(self.mode, Mode::Chat { .. });
        let template = self.model.chat_template().filter(|_| is_chat && !self.options.stop.is_empty())?;
        let format = OutputFormat::detect(template);
        let (open, close) = format.reasoning()?;
        let tokenizer = self.model.shared_tokenizer();
        let tail = prompt[prompt.len().saturating_sub(PROMPT_END)..].iter();
        let bytes: Vec<u8> = tail.filter_map(|id| tokenizer.token_bytes(*id)).flatten().copied().collect();
        let begun = format.begins_reasoning(&String::from_utf8_lossy(&bytes));
        Some((open.to_owned(), close.to_owned(), begun))
    }

    fn prompt(&self) -> Result<Vec<u32>, Failure> {
        Ok(match self.mode {
            Mode::Chat { special_in_content, .. } => {
                let mut prompt = self.model.render_chat(&self.messages)?;
                if special_in_content {
                    prompt = prompt.with_special_in_content();
                }
                self.model.tokenize_rendered(&prompt)?
            }
            Mode::Raw => {
                let text: String = self.messages.iter().map(|message| message.content.as_str()).collect();
                self.model.tokenize(&text)?
            }
        })
    }
}

impl Chat for Conversation<'_> {
    fn answer(
        &mut self,
        message: &str,
        on_event: &mut dyn FnMut(Option<&str>) -> ControlFlow<()>,
    ) -> Result<Reply, Failure> {
        let answer = self.respond(message, on_event)?;
        // The session ends at the last token that fits; a limit of the user's is no surprise.
        let full = answer.finish == Finish::Length && self.options.max_tokens != Some(answer.tokens.len());
        Ok(if full { Reply::ContextFull } else { Reply::Done })
    }

    fn clear(&mut self) {
        self.messages.clear();
        if let Mode::Chat { system: Some(system), .. } = &self.mode {
            self.messages.push(Message::new("system", system));
        }
    }

    fn messages(&self) -> &[Message] {
        &self.messages
    }
}
