//! [`Turn`]: the next answer of a conversation with tools, reasoning or a schema: its prompt, the rules for its tokens,
//! and the parser of its text.

use crate::chat_format::ChatFormat;
use crate::error::Error;
use crate::model::Model;
use crate::options::GenerateOptions;
use leyden_constrain::{CallCheck, Grammar, Guide, JsonForm, ToolRules};
use leyden_text::output::{BareCalls, CallWatch, OutputParser};
use leyden_text::{ErrorKind, Message, RenderOptions, Rendered, described, generic_tools};
use serde_json::{Map, Value};
use std::sync::Arc;

/// Calls that an answer may or must have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ToolChoice {
    /// Any number of calls: the model decides.
    #[default]
    Auto,
    /// No call.
    None,
    /// A call of any tool.
    Required,
    /// A call of the tool with this name.
    Named(String),
}

/// Options of a [`Turn`].
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ChatOptions {
    /// Tools that may be called: a JSON array of `{"type": "function", "function": {"name": …, "parameters": …}}`.
    pub tools: Option<Value>,
    /// Calls that the answer may or must have.
    pub tool_choice: ToolChoice,
    /// JSON grammar of an answer without a call.
    pub content: Option<Grammar>,
    /// Further variables of the chat template, such as `enable_thinking`.
    pub variables: Map<String, Value>,
    /// True if the answer continues the last message.
    pub continue_last: bool,
}

impl ChatOptions {
    /// Returns the defaults.
    #[must_use]
    pub fn new() -> ChatOptions {
        ChatOptions::default()
    }

    /// Returns the tools, if any may be called.
    fn callable(&self) -> Option<&Value> {
        let tools = self.tools.as_ref().filter(|tools| tools.as_array().is_some_and(|all| !all.is_empty()));
        tools.filter(|_| self.tool_choice != ToolChoice::None)
    }
}

/// Next answer of a conversation.
#[derive(Clone, Debug)]
pub struct Turn {
    /// Tokens of the prompt.
    pub prompt: Vec<u32>,
    /// Options of the answer, its grammar included.
    pub options: GenerateOptions,
    /// Parser of the answer's text into reasoning, content and calls.
    pub parser: OutputParser,
}

impl Model {
    /// Prepares the next answer of a conversation. The prompt and options are for a session, batch or service.
    ///
    /// A model whose template shows no tools gets them in its system message. If the template opens the answer's
    /// reasoning itself, an answer with a grammar skips the reasoning.
    ///
    /// # Errors
    /// The template refuses the conversation, a tool or a grammar is refused, or the text cannot be tokenized.
    ///
    /// ```
    /// use leyden::{ChatOptions, GenerateOptions, LoadOptions, Message, Model, SessionOptions};
    ///
    /// let model = Model::embedded(&LoadOptions::default())?;
    /// let said = [Message::new("user", "Once upon a time")];
    /// let turn = model.turn(&said, &ChatOptions::new(), &GenerateOptions::new().max_tokens(8))?;
    /// let mut session = model.session(&SessionOptions::default())?;
    /// let answer = session.generate(&turn.prompt, &turn.options, &mut |_| std::ops::ControlFlow::Continue(()))?;
    /// assert!(!answer.text.is_empty());
    /// # Ok::<(), leyden::Error>(())
    /// ```
    pub fn turn(
        &self,
        messages: &[Message],
        chat: &ChatOptions,
        options: &GenerateOptions,
    ) -> Result<Turn, Error> {
        let tools = chat.callable();
        if tools.is_none() && matches!(chat.tool_choice, ToolChoice::Required | ToolChoice::Named(_)) {
            let what = "a call is required, but there are no tools".to_owned();
            return Err(Error::Option { name: "tool_choice", what });
        }
        let format = self.chat_format();
        let rendered = self.rendered(format, messages, tools, chat)?;
        let prompt = self.tokenize_rendered(&rendered)?;
        let mut options = options.clone();
        options.visible = Arc::clone(&format.visible);
        self.set_rules(&mut options, tools, chat, rendered.text())?;
        // Under a grammar the answer has no reasoning.
        let end = if options.constraint.is_some() { "" } else { rendered.text() };
        if options.reasoning.is_none()
            && let Some((open, close)) = format.output.reasoning()
        {
            let begun = format.output.begins_reasoning(end);
            options.reasoning = Some((open.to_owned(), close.to_owned(), begun));
        }
        let mut parser = format.output.parser(end, tools);
        match (tools, &chat.tool_choice) {
            (Some(tools), ToolChoice::Auto) if chat.content.is_none() => {
                let check = CallCheck::new(tools)?;
                parser =
                    parser.with_bare_calls(BareCalls::new(move |name, given| check.fits(name, given), true));
            }
            (Some(_), ToolChoice::Required | ToolChoice::Named(_)) => parser = parser.with_call_required(),
            _ => {}
        }
        Ok(Turn { prompt, options, parser })
    }

    /// Renders the prompt of [`turn`](Self::turn).
    ///
    /// # Errors
    /// The template refuses the conversation.
    pub fn render_turn(&self, messages: &[Message], chat: &ChatOptions) -> Result<Rendered, Error> {
        self.rendered(self.chat_format(), messages, chat.callable(), chat)
    }

    /// Sets the grammar of the answer, or the rules of its calls.
    fn set_rules(
        &self,
        options: &mut GenerateOptions,
        tools: Option<&Value>,
        chat: &ChatOptions,
        prompt: &str,
    ) -> Result<(), Error> {
        let format = &self.chat_format().output;
        let syntax = format.calls();
        let Some(tools) = tools else {
            if let Some(content) = &chat.content {
                options.constraint = Some(self.compile(content)?.start());
            }
            return Ok(());
        };
        let several = ToolRules { parallel: true, ..ToolRules::default() };
        let only = match &chat.tool_choice {
            ToolChoice::Named(name) => Some(name.as_str()),
            _ => None,
        };
        let is_auto = chat.tool_choice == ToolChoice::Auto;
        let grammar = match (&chat.content, syntax) {
            (Some(content), _) if is_auto => Grammar::tools_or(content, syntax, tools, several)?,
            (None, _) if is_auto => {
                let name = |tool: &Value| tool["function"]["name"].as_str().map(str::to_owned);
                let names: Vec<String> = tools.as_array().into_iter().flatten().filter_map(name).collect();
                let watch = CallWatch::new(format, prompt, &names);
                let grammar = Arc::new(self.compile(&Grammar::opened_tools(syntax, tools, several)?)?);
                options.calls = Some(Guide::new(grammar, watch, syntax.is_none())?);
                return Ok(());
            }
            (_, Some(syntax)) => Grammar::tools(syntax, tools, only, ToolRules::default())?,
            (_, None) => Grammar::harmony_tools(tools, only, JsonForm::default())?,
        };
        let grammar = self.compile(&grammar)?;
        match syntax {
            Some(_) => options.constraint = Some(grammar.start()),
            None => options.calls = Some(Guide::harmony(Arc::new(grammar))?),
        }
        Ok(())
    }

    /// Renders a conversation with its tools.
    fn rendered(
        &self,
        format: &ChatFormat,
        messages: &[Message],
        tools: Option<&Value>,
        chat: &ChatOptions,
    ) -> Result<Rendered, Error> {
        let written =
            format.generic_tools.then(|| generic_tools::written(messages, tools, format.shows_calls));
        let (messages, tools) = match &written {
            Some(written) => (written.as_slice(), None),
            None => (messages, tools),
        };
        let Some(template) = self.chat_template() else { return Ok(leyden_text::join_messages(messages)) };
        let mut options = RenderOptions {
            add_generation_prompt: !chat.continue_last,
            continue_final_message: chat.continue_last,
            tools: tools.map(described),
            extra: chat.variables.clone(),
            read_arguments: true,
            ..RenderOptions::default()
        };
        let error = match template.render(messages, &options) {
            Ok(rendered) => return Ok(rendered),
            Err(error) => error,
        };
        // Some templates require arguments as JSON text, others have no system role.
        if matches!(error.kind(), ErrorKind::TemplateRender { .. }) {
            options.read_arguments = false;
            if let Ok(rendered) = template.render(messages, &options) {
                return Ok(rendered);
            }
        }
        let merged = written.as_deref().and_then(generic_tools::without_system);
        Ok(merged.and_then(|merged| template.render(&merged, &options).ok()).ok_or(error)?)
    }
}
