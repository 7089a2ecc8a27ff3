//! Model and session of a conversation.

use std::ops::ControlFlow;

use leyden::{Event, Finish, Generation, KvType, Message, Model, Rendered, Session, SessionOptions};
use leyden_text::RenderOptions;
use leyden_text::output::{OutputEvent, OutputFormat};

use super::answer::{Answerer, Heard, Reply};
use super::settings::Settings;
use super::summary::{Summary, speed};
use super::think::Think;
use crate::cli::failure::Failure;

/// Number of tokens at a prompt's end in which it may open the reasoning.
const PROMPT_END: usize = 64;

/// Form of messages in the prompt.
#[derive(Debug, Clone, Copy)]
pub(super) enum Mode {
    /// Turns in the model's chat template.
    Chat {
        /// True to recognise special tokens in messages.
        special_in_content: bool,
    },
    /// Texts to continue, joined without separator.
    Raw,
}

/// Model, session and form of messages.
pub(super) struct Conversation<'a> {
    model: &'a Model,
    session: Session,
    kv_type: KvType,
    mode: Mode,
    format: OutputFormat,
    summary: Summary,
}

impl<'a> Conversation<'a> {
    /// Creates a conversation without messages.
    pub(super) fn new(
        model: &'a Model,
        (session, kv_type): (Session, KvType),
        mode: Mode,
        seed: u64,
    ) -> Self {
        let template = model.chat_template().filter(|_| matches!(mode, Mode::Chat { .. }));
        let format = template.map_or_else(OutputFormat::plain, |template| OutputFormat::detect(template));
        // A session's text has no special tokens, and so no marks of harmony.
        let format = if format.is_harmony() { OutputFormat::plain() } else { format };
        Self { model, session, kv_type, mode, format, summary: Summary::new(model, seed) }
    }

    /// Returns times and sizes so far.
    pub(super) fn summary(&self) -> &Summary {
        &self.summary
    }

    /// Generates an answer, and returns it with its figures.
    pub(super) fn respond(
        &mut self,
        messages: &[Message],
        settings: &Settings,
        on_event: &mut dyn FnMut(Heard<'_>) -> ControlFlow<()>,
    ) -> Result<(Generation, Message), Failure> {
        let prompt = self.prompt(messages, settings)?;
        let end = self.text_of_end(&prompt);
        let mut options = settings.generate.clone();
        options.reasoning = self.reasoning(&end, &settings.generate.stop);
        let mut parser = self.format.parser(&end, None);
        let mut parts = Parts::default();
        let answer = self.session.generate(&prompt, &options, &mut |event| match event {
            Event::Prompt(..) => on_event(Heard::Nothing),
            Event::Text(text) => match on_event(Heard::Raw(text)) {
                ControlFlow::Continue(()) => parts.take(parser.push(text), on_event),
                stopped => stopped,
            },
        })?;
        // The answer is complete, so the return value of the callback does not matter.
        let _ = parts.take(parser.finish(), on_event);
        self.summary.add(&answer);
        let mut message = Message::new("assistant", parts.content);
        if !parts.reasoning.is_empty() {
            message.extra.insert("reasoning_content".to_owned(), parts.reasoning.trim().into());
        }
        Ok((answer, message))
    }

    /// Returns the end of the prompt as text, which shows whether the prompt opens the reasoning.
    fn text_of_end(&self, prompt: &[u32]) -> String {
        let tokenizer = self.model.tokenizer();
        let tail = prompt[prompt.len().saturating_sub(PROMPT_END)..].iter();
        let bytes: Vec<u8> = tail.filter_map(|id| tokenizer.token_bytes(*id)).flatten().copied().collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Returns the marks around the model's reasoning and whether the prompt opens it; `None` without stop strings.
    fn reasoning(&self, end: &str, stop: &[String]) -> Option<(String, String, bool)> {
        let (open, close) = self.format.reasoning().filter(|_| !stop.is_empty())?;
        Some((open.to_owned(), close.to_owned(), self.format.begins_reasoning(end)))
    }

    fn prompt(&self, messages: &[Message], settings: &Settings) -> Result<Vec<u32>, Failure> {
        let Mode::Chat { special_in_content } = self.mode else {
            let text: String = messages.iter().map(|message| message.content.as_str()).collect();
            return Ok(self.model.tokenize(&text)?);
        };
        let system = settings.system.as_ref().map(|text| Message::new("system", text));
        let messages: Vec<Message> = system.into_iter().chain(messages.iter().cloned()).collect();
        let mut prompt = self.rendered(&messages, settings.think)?;
        if special_in_content {
            prompt = prompt.with_special_in_content();
        }
        Ok(self.model.tokenize_rendered(&prompt)?)
    }

    fn rendered(&self, messages: &[Message], think: Option<Think>) -> Result<Rendered, Failure> {
        let (Some(template), Some(think)) = (self.model.chat_template(), think) else {
            return Ok(self.model.render_chat(messages)?);
        };
        let extra = think.variables();
        let options = RenderOptions { add_generation_prompt: true, extra, ..RenderOptions::default() };
        Ok(template.render(messages, &options)?)
    }
}

/// Splitter of an answer into reasoning and content.
#[derive(Default)]
struct Parts {
    content: String,
    reasoning: String,
}

impl Parts {
    fn take(
        &mut self,
        events: Vec<OutputEvent>,
        on_event: &mut dyn FnMut(Heard<'_>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        for event in events {
            match event {
                OutputEvent::Reasoning(text) => {
                    self.reasoning += &text;
                    on_event(Heard::Reasoning(&text))?;
                }
                OutputEvent::Content(text) => {
                    self.content += &text;
                    on_event(Heard::Content(&text))?;
                }
                // Without tools, calls are not parsed.
                _ => {}
            }
        }
        ControlFlow::Continue(())
    }
}

impl Answerer for Conversation<'_> {
    fn answer(
        &mut self,
        messages: &[Message],
        settings: &Settings,
        on_event: &mut dyn FnMut(Heard<'_>) -> ControlFlow<()>,
    ) -> Result<Reply, Failure> {
        let (answer, message) = self.respond(messages, settings, on_event)?;
        // The end of the context is reported, a limit set by the user is not.
        let is_full =
            answer.finish == Finish::Length && settings.generate.max_tokens != Some(answer.tokens.len());
        Ok(Reply { message, is_full, speed: speed(&answer) })
    }

    fn tokens(&self, messages: &[Message], settings: &Settings) -> Result<usize, Failure> {
        Ok(self.prompt(messages, settings)?.len())
    }

    fn context(&self) -> usize {
        self.session.context()
    }

    fn set_context(&mut self, tokens: Option<usize>) -> Result<(), Failure> {
        let options = SessionOptions::new().context(tokens).kv_type(self.kv_type);
        self.session = self.model.session(&options)?;
        Ok(())
    }

    fn can_think(&self) -> bool {
        let source = self.model.chat_template().map_or("", |template| template.source());
        Think::VARIABLES.iter().any(|name| source.contains(name))
    }
}
