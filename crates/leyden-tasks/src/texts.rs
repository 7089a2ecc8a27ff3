//! Tokens of a request's texts: the prompt before them, their form as messages, and truncation.

use crate::error::{Error, ErrorKind, Place};
use crate::model::{TaskModel, check_tokens};
use crate::truncation::{Truncation, encode_within};
use leyden_models::Prompts;
use leyden_text::{Bounds, RenderOptions, SoleMessage, encode_whole_within};
use std::borrow::Cow;

/// Text of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TextInput<'a> {
    /// Characters.
    Text(Cow<'a, str>),
    /// Tokens.
    Tokens(Vec<u32>),
}

impl<'a, T: AsRef<str> + ?Sized> From<&'a T> for TextInput<'a> {
    fn from(text: &'a T) -> TextInput<'a> {
        TextInput::Text(Cow::Borrowed(text.as_ref()))
    }
}

impl From<String> for TextInput<'_> {
    fn from(text: String) -> Self {
        TextInput::Text(Cow::Owned(text))
    }
}

/// Prompt before each text of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Preface {
    /// Words before the text; possibly none.
    Words(String),
    /// System message, possibly empty, before the message that the text becomes.
    System(String),
}

impl Preface {
    /// Returns an empty prompt.
    #[must_use]
    pub fn none() -> Preface {
        Preface::Words(String::new())
    }

    /// Returns the model's prompt with this name, or the default prompt without a name.
    ///
    /// # Errors
    /// The model has no prompt with this name.
    pub fn named(prompts: &Prompts, name: Option<&str>) -> Result<Preface, ErrorKind> {
        let Some(prompt) = prompts.get(name) else {
            let known: Vec<&str> = prompts.names().collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            let name = name.unwrap_or_default().to_owned();
            return Err(ErrorKind::UnknownPrompt { name, known });
        };
        let prompt = prompt.to_owned();
        Ok(match prompts.message() {
            Some(_) => Preface::System(prompt),
            None => Preface::Words(prompt),
        })
    }
}

/// Treatment of the texts of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextOptions {
    /// Prompt before each text.
    pub preface: Preface,
    /// Treatment of a text with too many tokens.
    pub truncation: Truncation,
}

/// Tokenizes texts with the prompt before each, and truncates them. Tokens in the request get no prompt.
///
/// # Errors
/// A text cannot be tokenized, is empty, or has too many tokens; the model has no template for its messages.
pub fn encode_texts<'t>(
    model: &TaskModel<'_>,
    inputs: impl IntoIterator<Item = TextInput<'t>>,
    options: &TextOptions,
) -> Result<Vec<Vec<u32>>, Error> {
    let preface = &options.preface;
    let truncation = options.truncation.resolved(model.tokenizer);
    let mut rendering = RenderOptions::default();
    let mut message = None;
    let mut tail = 0;
    if let Preface::System(system) = preface {
        let (Some(form), Some(template)) = (model.prompts.message(), model.template) else {
            return Err(ErrorKind::NoTemplate.into());
        };
        rendering.add_generation_prompt = form.add_generation_prompt;
        rendering.extra.clone_from(&form.variables);
        let sole = SoleMessage { template, in_parts: form.in_parts, system, options: &rendering };
        if form.keep_tail && matches!(truncation, Truncation::End(_)) {
            tail = sole.tail(model.tokenizer).map_err(ErrorKind::Text)?;
        }
        message = Some(sole);
    }
    let refuses = truncation == Truncation::Refuse && !model.counts_excess;
    let max_tokens = refuses.then_some(model.max_tokens);
    let encode = |text: &str| {
        encode_within(
            model.tokenizer,
            text,
            max_tokens,
            model.stop,
            |tokenizer, text, bounds: &Bounds<'_>| match (&message, preface) {
                (Some(sole), _) => sole.encode_within(tokenizer, text, bounds),
                (None, Preface::Words(words)) if !words.is_empty() => {
                    encode_whole_within(tokenizer, &format!("{words}{text}"), bounds)
                }
                _ => encode_whole_within(tokenizer, text, bounds),
            },
        )
    };
    let tokens = |(number, input): (usize, TextInput<'_>)| {
        let at = |kind: ErrorKind| kind.at(Place::Text(number));
        let mut tokens = match input {
            TextInput::Text(text) => encode(&text).map_err(at)?,
            TextInput::Tokens(tokens) => tokens,
        };
        truncation.cut(model.tokenizer, &mut tokens, model.max_tokens, tail);
        check_tokens(tokens.len(), model.max_tokens).map_err(at)?;
        Ok(tokens)
    };
    inputs.into_iter().enumerate().map(tokens).collect()
}
