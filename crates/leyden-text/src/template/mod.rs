//! Chat templates: rendering of messages to the prompt format that a model was trained on.
//!
//! The language is Jinja as Hugging Face's transformers configures it: block trimming, loop controls, the immutable
//! sandbox, `raise_exception`, `strftime_now`, and a `tojson` without HTML escapes. An unsupported tag, filter or
//! function is an error that names it.
//!
//! # Reasons for an own engine
//!
//! A template comes with an untrusted model file, so it must not be able to stop the process or exhaust its memory.
//! Measured with minijinja 3.0.5: a template of 100 bytes that doubles a string thirty times used 2.6 GB within a
//! fuel of 2,000, and `{{ a.b.b.b… }}` of 400 kB overflowed the stack, which aborts. No setting of it limits
//! either. Here every step, byte and level is counted (`budget`), and the tree of a template is as deep as its
//! brackets, which are limited (`ast`).
//!
//! Strings also record which of their bytes came from messages and which from the template (`mixed`), through every
//! filter and method, so that `<|im_end|>` in a message stays text. Minijinja's values cannot record this.

mod arguments;
mod ast;
mod budget;
mod clock;
mod continuation;
mod escape;
mod expression;
mod expression_parser;
mod filters;
mod format;
mod functions;
mod hf;
mod interpreter;
mod json_text;
mod lexer;
mod lookup;
mod messages;
mod methods;
mod mixed;
mod name_uses;
mod operators;
mod parser;
mod predicates;
mod print;
mod rendered;
mod runtime;
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

/// Maximum length of a source in bytes: fifteen times the longest known one.
const MAX_SOURCE_BYTES: usize = 256 << 10;

/// Stack size for parsing and rendering; their nesting is limited so that it suffices in unoptimized builds.
const STACK_BYTES: usize = 32 << 20;

/// One message of a conversation.
///
/// Besides role and content it may have any field that a template reads, such as `tool_calls` or `name`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// Role: `system`, `user`, `assistant`, `tool`.
    pub role: String,
    /// Text of the message.
    #[serde(default)]
    pub content: String,
    /// All other fields.
    #[serde(flatten)]
    pub extra: Map<String, Json>,
}

impl Message {
    /// Creates a message of text.
    pub fn new(role: impl Into<String>, content: impl Into<String>) -> Self {
        Message { role: role.into(), content: content.into(), extra: Map::new() }
    }
}

/// Variables and settings of a rendering besides the messages.
#[derive(Clone, Debug, Default)]
pub struct RenderOptions {
    /// True if the prompt ends with the beginning of an answer.
    pub add_generation_prompt: bool,
    /// Callable tools, as a JSON array of their descriptions.
    pub tools: Option<Json>,
    /// Further variables, which take precedence over others of the same name.
    pub extra: Map<String, Json>,
    /// Time that the template can query, in UTC; the current time if `None`.
    pub now: Option<SystemTime>,
    /// True if call arguments that are JSON texts are parsed, as most templates expect.
    pub read_arguments: bool,
    /// True if the prompt ends with the last message's text, for the model to continue. Excludes
    /// [`add_generation_prompt`](Self::add_generation_prompt).
    pub continue_final_message: bool,
}

/// Chat template of a model.
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
    /// Template for conversations with tools, if a separate one exists.
    tool_use: Option<Parsed>,
    bos: String,
    eos: String,
    file: Box<str>,
}

/// Template with its source.
#[derive(Debug)]
struct Parsed {
    source: Box<str>,
    template: Template,
    /// Metadata key for error messages.
    key: &'static str,
}

impl Parsed {
    fn new(source: &str, key: &'static str, file: &str) -> Result<Self, Error> {
        if source.len() > MAX_SOURCE_BYTES {
            let limit = format!("its source has {} bytes, the maximum is {MAX_SOURCE_BYTES}", source.len());
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
    /// Parses a template. `bos` and `eos` are the texts of `bos_token` and `eos_token`; `file` is named in errors.
    ///
    /// # Errors
    /// The source is too long or malformed.
    pub fn new(source: &str, bos: &str, eos: &str, file: &str) -> Result<Self, Error> {
        let default = Parsed::new(source, KEY, file)?;
        Ok(ChatTemplate { default, tool_use: None, bos: bos.into(), eos: eos.into(), file: file.into() })
    }

    /// Sets a separate template for conversations with tools, as in models with several templates: the one named
    /// `tool_use`.
    ///
    /// # Errors
    /// As for [`new`](Self::new).
    pub fn with_tool_use(self, source: &str) -> Result<Self, Error> {
        let tool_use = Some(Parsed::new(source, TOOL_USE_KEY, &self.file)?);
        Ok(ChatTemplate { tool_use, ..self })
    }

    /// Returns the source as it is in the file; of several templates that of the default one.
    pub fn source(&self) -> &str {
        &self.default.source
    }

    /// Returns the source of the template for conversations with tools, if a separate one exists.
    pub fn tool_use_source(&self) -> Option<&str> {
        self.tool_use.as_ref().map(|template| &*template.source)
    }

    /// Returns whether any of the templates contains a text.
    pub fn mentions(&self, text: &str) -> bool {
        self.source().contains(text) || self.tool_use_source().is_some_and(|source| source.contains(text))
    }

    /// Returns the template for a conversation with these tools.
    fn chosen(&self, options: &RenderOptions) -> &Parsed {
        let has_tools =
            options.tools.as_ref().and_then(Json::as_array).is_some_and(|tools| !tools.is_empty());
        self.tool_use.as_ref().filter(|_| has_tools).unwrap_or(&self.default)
    }

    /// Reads the template of a GGUF file with the texts of its special tokens; `None` if it has none.
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

    /// Renders the prompt of a conversation.
    ///
    /// # Errors
    /// The template refuses the messages, fails on them, or exceeds a limit of time, memory or depth.
    pub fn render(&self, messages: &[Message], options: &RenderOptions) -> Result<Rendered, Error> {
        let messages = messages.iter().map(|message| {
            let mut map = message.extra.clone();
            map.insert("role".into(), Json::from(message.role.as_str()));
            map.insert("content".into(), Json::from(message.content.as_str()));
            Json::Object(map)
        });
        self.render_json(&Json::Array(messages.collect()), options)
    }

    /// Renders the prompt of a conversation whose messages are any JSON, for content that is not text.
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

/// Runs a closure on a thread with a stack large enough for templates: the caller's may be small.
fn on_known_stack<T: Send>(file: &str, run: impl FnOnce() -> Result<T, Error> + Send) -> Result<T, Error> {
    let builder = std::thread::Builder::new().name("chat-template".into()).stack_size(STACK_BYTES);
    let result = std::thread::scope(|scope| {
        let thread = builder.spawn_scoped(scope, run)?;
        Ok(thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    });
    result.unwrap_or_else(|error| Err(Error::new(file, None, ErrorKind::Thread(error))))
}

/// Returns the prompt for a model without a template: the contents of the messages, one per line.
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
