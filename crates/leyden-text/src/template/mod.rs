//! Chat templates: from messages to the prompt that a model was trained on.
//!
//! The language is Jinja as Hugging Face's transformers runs it: block trimming, loop controls, the sandbox
//! in which nothing that a template is given can change, `raise_exception`, `strftime_now`, and a `tojson`
//! without HTML escapes. A tag, filter or function that no chat template needs is an error that names it.
//!
//! # Why an engine of its own
//!
//! A template comes with a model file from anywhere, so it must not be able to stop the process or take
//! its memory. Measured with minijinja 3.0.5: a template of 100 bytes that doubles a string thirty times
//! used 2.6 GB within a fuel of 2,000, and `{{ a.b.b.b… }}` of 400 kB overflowed the stack, which aborts. No
//! setting of it bounds either. Here every step, byte and level is counted (`budget`), and the tree of a
//! template is as deep as its brackets, which are bounded (`ast`).
//!
//! Strings also know which of their bytes came from messages and which from the template (`mixed`), through every
//! filter and method, so that `<|im_end|>` in a message stays text. Values of minijinja have no place for that.

mod ast;
mod budget;
mod clock;
mod continuation;
mod expression;
mod expression_parser;
mod filters;
mod format;
mod functions;
mod hf;
mod interpreter;
mod json_text;
mod lacks;
mod lexer;
mod methods;
mod mixed;
mod operators;
mod parser;
mod predicates;
mod print;
mod rendered;
mod scope;
mod sole;
mod stateful;
mod strings;
mod value;

use std::rc::Rc;
use std::time::SystemTime;

use leyden_tensor::Metadata;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};

use self::ast::Template;
use self::budget::{Budget, Failure};
pub use self::hf::NamedTemplate;
use self::interpreter::Interpreter;
pub use self::json_text::{JsonTextError, check_json_text};
use self::mixed::Mixed;
pub use self::rendered::Rendered;
pub use self::sole::SoleMessage;
use self::value::{Maker, Value};
use crate::error::{Error, ErrorKind};
use crate::tokenizer::Tokenizer;

const KEY: &str = "tokenizer.chat_template";
const TOOL_USE_KEY: &str = "tokenizer.chat_template.tool_use";

/// The longest source, in bytes: fifteen times the longest that is known.
const MAX_SOURCE_BYTES: usize = 256 << 10;

/// The stack for parsing and rendering; what they may nest is bounded so that this suffices without optimisation.
const STACK_BYTES: usize = 32 << 20;

/// One message of a conversation.
///
/// Beside role and content it may have whatever a template knows, such as `tool_calls` or `name`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// Who speaks: `system`, `user`, `assistant`, `tool`.
    pub role: String,
    /// What is said.
    #[serde(default)]
    pub content: String,
    /// Everything else.
    #[serde(flatten)]
    pub extra: Map<String, Json>,
}

impl Message {
    /// A message of text.
    pub fn new(role: impl Into<String>, content: impl Into<String>) -> Self {
        Message { role: role.into(), content: content.into(), extra: Map::new() }
    }
}

/// What a template is given beside the messages.
#[derive(Clone, Debug, Default)]
pub struct RenderOptions {
    /// Whether the prompt ends with the beginning of an answer.
    pub add_generation_prompt: bool,
    /// The tools that the model may call, as a JSON array of their descriptions.
    pub tools: Option<Json>,
    /// Further variables, which go before all others of the same name.
    pub extra: Map<String, Json>,
    /// The time that the template is told, in UTC; the present if `None`.
    pub now: Option<SystemTime>,
    /// Whether arguments of calls that are texts with JSON become what they say, as most templates want them.
    pub read_arguments: bool,
    /// Whether the prompt ends with the last message's text, for the model to go on with. Excludes
    /// [`add_generation_prompt`](Self::add_generation_prompt).
    pub continue_final_message: bool,
}

/// The chat template of a model.
///
/// ```
/// use leyden_text::{ChatTemplate, Message, RenderOptions};
///
/// let source = "{% for m in messages %}<|{{ m.role }}|>{{ m.content | trim }}{{ eos_token }}{% endfor %}\
///               {% if add_generation_prompt %}<|assistant|>{% endif %}";
/// let template = ChatTemplate::new(source, "<s>", "</s>", "model.gguf")?;
/// let options = RenderOptions { add_generation_prompt: true, ..Default::default() };
/// let prompt = template.render(&[Message::new("user", " Hello ")], &options)?;
/// assert_eq!(prompt.text(), "<|user|>Hello</s><|assistant|>");
/// assert_eq!(prompt.content(), [8..13]);
/// # Ok::<(), leyden_text::Error>(())
/// ```
#[derive(Debug)]
pub struct ChatTemplate {
    default: Parsed,
    /// The template for conversations with tools, if that is another one.
    tool_use: Option<Parsed>,
    bos: String,
    eos: String,
    file: Box<str>,
}

/// A template and its source.
#[derive(Debug)]
struct Parsed {
    source: Box<str>,
    template: Template,
    /// The field that errors name.
    key: &'static str,
}

impl Parsed {
    fn new(source: &str, key: &'static str, file: &str) -> Result<Self, Error> {
        if source.len() > MAX_SOURCE_BYTES {
            let limit = format!("its source has {} bytes, {MAX_SOURCE_BYTES} are the most", source.len());
            return Err(Error::new(file, key, ErrorKind::TemplateLimit { line: 1, limit }));
        }
        let template = on_known_stack(file, || {
            parser::parse(source).map_err(|error| {
                let kind = ErrorKind::TemplateSyntax { line: error.line, message: error.message };
                Error::new(file, key, kind)
            })
        })?;
        Ok(Parsed { source: source.into(), template, key })
    }
}

impl ChatTemplate {
    /// Parses a template. `bos` and `eos` are the texts that it knows as `bos_token` and `eos_token`; `file`
    /// is named in errors.
    ///
    /// # Errors
    /// The source is too long or is not a template.
    pub fn new(source: &str, bos: &str, eos: &str, file: &str) -> Result<Self, Error> {
        let default = Parsed::new(source, KEY, file)?;
        Ok(ChatTemplate { default, tool_use: None, bos: bos.into(), eos: eos.into(), file: file.into() })
    }

    /// The same with another template for conversations with tools, as models have that come with several: the one called
    /// `tool_use`.
    ///
    /// # Errors
    /// As for [`new`](Self::new).
    pub fn with_tool_use(self, source: &str) -> Result<Self, Error> {
        let tool_use = Some(Parsed::new(source, TOOL_USE_KEY, &self.file)?);
        Ok(ChatTemplate { tool_use, ..self })
    }

    /// The source, as it stands in the file; of several templates that of the default one.
    pub fn source(&self) -> &str {
        &self.default.source
    }

    /// The source of the template for conversations with tools, if that is another one.
    pub fn tool_use_source(&self) -> Option<&str> {
        self.tool_use.as_ref().map(|template| &*template.source)
    }

    /// Returns whether any of its templates contains a text.
    pub fn mentions(&self, text: &str) -> bool {
        self.source().contains(text) || self.tool_use_source().is_some_and(|source| source.contains(text))
    }

    /// The template for a conversation with these tools.
    fn chosen(&self, options: &RenderOptions) -> &Parsed {
        let has_tools =
            options.tools.as_ref().and_then(Json::as_array).is_some_and(|tools| !tools.is_empty());
        self.tool_use.as_ref().filter(|_| has_tools).unwrap_or(&self.default)
    }

    /// The template of a GGUF file with the texts of its special tokens; `None` if it has none.
    ///
    /// # Errors
    /// As for [`new`](Self::new), or the metadata value is not a string.
    pub fn from_gguf(meta: &Metadata, tokenizer: &dyn Tokenizer, file: &str) -> Result<Option<Self>, Error> {
        let source = meta.opt_str(KEY).map_err(|error| Error::new(file, None, ErrorKind::Metadata(error)))?;
        let Some(source) = source else { return Ok(None) };
        let text = |id: Option<u32>| id.and_then(|id| tokenizer.token_bytes(id)).map(String::from_utf8_lossy);
        let (bos, eos) = (text(tokenizer.bos()), text(tokenizer.eos()));
        let template = Self::new(source, &bos.unwrap_or_default(), &eos.unwrap_or_default(), file)?;
        let tool_use =
            meta.opt_str(TOOL_USE_KEY).map_err(|error| Error::new(file, None, ErrorKind::Metadata(error)))?;
        Ok(Some(match tool_use {
            Some(source) => template.with_tool_use(source)?,
            None => template,
        }))
    }

    /// The prompt for a conversation.
    ///
    /// # Errors
    /// The template refuses the messages, fails on them, or needs too much time, memory or depth.
    pub fn render(&self, messages: &[Message], options: &RenderOptions) -> Result<Rendered, Error> {
        let messages = messages.iter().map(|message| {
            let mut map = message.extra.clone();
            map.insert("role".into(), Json::from(message.role.as_str()));
            map.insert("content".into(), Json::from(message.content.as_str()));
            Json::Object(map)
        });
        self.render_json(&Json::Array(messages.collect()), options)
    }

    /// The prompt for a conversation whose messages are any JSON, for content that is not text.
    ///
    /// # Errors
    /// As for [`render`](Self::render).
    pub fn render_json(&self, messages: &Json, options: &RenderOptions) -> Result<Rendered, Error> {
        if !options.continue_final_message {
            return on_known_stack(&self.file, || self.render_here(messages, options));
        }
        let nothing = |what| Error::new(&self.file, KEY, ErrorKind::NothingToContinue(what));
        if options.add_generation_prompt {
            return Err(nothing("the prompt cannot also end with the beginning of another message"));
        }
        let messages =
            continuation::marked(messages).ok_or_else(|| nothing("the final message has no text"))?;
        let rendered = on_known_stack(&self.file, || self.render_here(&messages, options))?;
        continuation::cut(rendered)
            .ok_or_else(|| nothing("the chat template does not write the end of the final message"))
    }

    fn render_here(&self, messages: &Json, options: &RenderOptions) -> Result<Rendered, Error> {
        let maker = Maker(Rc::new(Budget::new()));
        let chosen = self.chosen(options);
        let now = options.now.unwrap_or_else(SystemTime::now);
        let mut interpreter = Interpreter::new(&chosen.template, &maker, now);
        let rendered = self.define(&mut interpreter, &maker, messages, options).and_then(|()| {
            maker.0.fix();
            interpreter.run()
        });
        rendered.map(Rendered::from).map_err(|failure| {
            let line = interpreter.line;
            let kind = match failure {
                Failure::Error(message) => ErrorKind::TemplateRender { line, message },
                Failure::Raised(message) => ErrorKind::TemplateRaised(message),
                Failure::Limit(limit) => ErrorKind::TemplateLimit { line, limit: limit.into() },
            };
            Error::new(&self.file, chosen.key, kind)
        })
    }

    fn define(
        &self,
        interpreter: &mut Interpreter<'_>,
        maker: &Maker,
        messages: &Json,
        options: &RenderOptions,
    ) -> budget::Result<()> {
        interpreter.define("documents", Value::None);
        interpreter
            .define("tools", options.tools.as_ref().map_or(Ok(Value::None), |tools| maker.json(tools))?);
        interpreter.define("messages", maker.messages(messages, options.read_arguments)?);
        interpreter.define("add_generation_prompt", Value::Bool(options.add_generation_prompt));
        interpreter.define("bos_token", maker.own(&self.bos)?);
        interpreter.define("eos_token", maker.own(&self.eos)?);
        for (name, value) in &options.extra {
            interpreter.define(name, maker.json(value)?);
        }
        Ok(())
    }
}

/// Runs something on a thread with as much stack as templates may need: the caller's may be small.
fn on_known_stack<T: Send>(file: &str, run: impl FnOnce() -> Result<T, Error> + Send) -> Result<T, Error> {
    let builder = std::thread::Builder::new().name("chat-template".into()).stack_size(STACK_BYTES);
    let result = std::thread::scope(|scope| {
        let thread = builder.spawn_scoped(scope, run)?;
        Ok(thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    });
    result.unwrap_or_else(|error| Err(Error::new(file, None, ErrorKind::Thread(error))))
}

/// The prompt for a model without a template: the contents of the messages, one to a line.
pub fn join_messages(messages: &[Message]) -> Rendered {
    let mut joined = Mixed::default();
    for (i, message) in messages.iter().enumerate() {
        if i > 0 {
            joined.push_own("\n");
        }
        joined.push_content(&message.content);
    }
    joined.into()
}
