//! `leyden run`: a single answer, or a conversation.

mod answer;
mod args;
mod chat;
mod constraint;
mod conversation;
mod editor;
mod interrupt;
mod lines;
mod markdown;
mod request;
mod sampling;
mod screen;
mod settings;
mod summary;
mod think;

use std::io::{self, IsTerminal, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use leyden::{LoadOptions, Message, Model, SessionOptions};
use leyden_hub::Store;

use super::chats::Chats;
use super::failure::Failure;
use super::notes::Notes;
use super::packs;
use super::terminal;
use answer::Answerer;
use chat::{Stage, Talk};
use conversation::{Conversation, Mode};
use interrupt::{Idle, Interrupt};
use request::Input;
use screen::Screen;
use settings::Settings;

pub(crate) use args::Args;
pub(super) use args::kv_type;
pub(super) use sampling::Sampling;

/// Answers a prompt, or runs a conversation.
pub(super) fn execute(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    let notes = args.notes;
    let mut request = request::resolve(args)?;
    // The text is read before the model, whose loading may take long.
    let grammar = args.constraint.grammar()?;
    let mut generate = args.sampling.options(args.max_tokens.and_then(|limit| limit.0))?;
    let resumed = args.resume.as_ref().map(|name| Chats::open()?.find(name)).transpose()?;
    if let (None, Some(chat)) = (&request.model, &resumed) {
        request.model = chat.model.as_ref().map(PathBuf::from);
    }
    let interactive = request.input == Input::Standard && args.file.is_empty() && io::stdin().is_terminal();
    if interactive && args.json {
        return Err(Failure::usage("--json needs a PROMPT or text on standard input"));
    }
    // The line editor needs both: it queries the cursor through standard output and draws on standard error.
    let edited = interactive && io::stdout().is_terminal() && io::stderr().is_terminal();
    let interrupt = Interrupt::install(if edited { Idle::Stay } else { Idle::Exit })?;
    let model = open(args, request.model.as_deref())?;
    let context = args.ctx.filter(|n| *n > 0);
    let session = model.session(
        &SessionOptions::new().context(context).kv_type(args.kv_type).speculation(!args.no_speculation),
    )?;
    interrupt.ready();
    let special_in_content = args.special_in_content;
    let mode = if args.raw { Mode::Raw } else { Mode::Chat { special_in_content } };
    if !args.raw && !model.has_chat_template() {
        notes.say("the model has no chat template: the contents of messages are joined and continued");
    }
    generate.constraint =
        grammar.map(|grammar| model.compile(&grammar)).transpose()?.map(|compiled| compiled.start());
    let mut conversation = Conversation::new(&model, (session, args.kv_type), mode, generate.sampling.seed);
    if args.think.is_some() && !conversation.can_think() {
        notes.say("--think is ignored: this model's chat template has no setting for reasoning");
    }

    let name = request.model.as_deref().map(|path| path.display().to_string());
    let shown = name.clone().unwrap_or_else(|| leyden::EMBEDDED.to_owned());
    // A model named by the user may have a system message.
    let named = name.as_deref().and_then(|name| Store::from_env().ok()?.find_named(name).ok()?);
    let system = named.and_then(|named| named.defaults.system);
    let settings = Settings {
        system: args.system.clone().or(system.filter(|_| !args.raw)),
        think: args.think,
        verbose: args.verbose,
        trim: args.trim,
        context,
        generate,
    };
    let mut talk = Talk::new(shown, settings);
    // Conversations of --raw are not saved.
    let chats = Chats::if_any().filter(|_| !args.raw);
    let mut keeper = Keeper::new(chats, name, resumed.as_ref().map(|chat| chat.name.clone()), notes);
    if let Some(chat) = resumed {
        talk.take_messages(chat.messages);
        talk.settings.system = args.system.clone().or(talk.settings.system);
    }
    if interactive {
        return converse(args, &mut talk, &mut conversation, &interrupt, &mut keeper, edited, out);
    }
    let prompt = request::text(&request.input, &args.file, args.raw, notes)?;
    talk.messages.push(Message::new("user", prompt));
    once(args, &mut talk, &mut conversation, &interrupt, &mut keeper, out)
}

/// Loads the model.
fn open(args: &Args, model: Option<&Path>) -> Result<Model, Failure> {
    let notes = args.notes;
    let options = LoadOptions::new()
        .threads(args.threads)
        .threads_batch(args.threads_batch)
        .isa(args.arithmetic.isa)
        .exact(args.arithmetic.exact)
        .int8(args.arithmetic.int8)
        .packs(args.packs.cache());
    let draft = args.draft.as_deref().map(|draft| args.hub.obtain(draft, notes)).transpose()?;
    let options = args.lora.of(options).draft(draft);
    let model = match model {
        Some(model) => load(&args.hub.obtain(model, notes)?, &options, notes)?,
        None => {
            notes.say(
                "no MODEL given: the embedded toy model answers (4 million parameters, stories only). For real answers, run \
                 `leyden run smollm2 \"your question\"`, which downloads 1 GB; `leyden models` lists other models",
            );
            Model::embedded(&options)?
        }
    };
    packs::report(&model, notes);
    if let Some(unplaced) = model.unplaced() {
        notes.say(unplaced);
    }
    Ok(model)
}

/// Runs a conversation.
fn converse(
    args: &Args,
    talk: &mut Talk,
    conversation: &mut Conversation<'_>,
    interrupt: &Interrupt,
    keeper: &mut Keeper,
    edited: bool,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let said = match talk.messages.len() {
        0 => String::new(),
        n => format!(", {n} messages so far"),
    };
    args.notes.say(&format!(
        "{}, context of {} tokens{said}; /help lists the commands, Ctrl-D ends",
        talk.model,
        conversation.context()
    ));
    if !args.notes.is_quiet() {
        chat::recall(&talk.messages, &mut terminal::errors());
    }
    let mut lines: Box<dyn lines::Lines> =
        if edited { Box::new(editor::Editor::new()) } else { Box::new(editor::Plain) };
    let mut stage = Stage {
        answerer: conversation,
        lines: lines.as_mut(),
        interrupt,
        screen: &|| Screen::new(args.plain || args.raw),
        keep: &mut |talk, begins| keeper.keep(talk, begins),
        out,
        err: &mut terminal::errors(),
    };
    chat::run(talk, &mut stage)?;
    if talk.settings.verbose {
        args.notes.say(&conversation.summary().line());
    }
    Ok(())
}

/// Prints a single answer.
fn once(
    args: &Args,
    talk: &mut Talk,
    conversation: &mut Conversation<'_>,
    interrupt: &Interrupt,
    keeper: &mut Keeper,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let mut lost = None;
    let mut screen = Screen::new(args.plain || args.raw);
    let answering = interrupt.answering();
    let answer = conversation.respond(&talk.messages, &talk.settings, &mut |heard| {
        if !args.json
            && let Err(error) = screen.hear(&heard, out)
        {
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
    // The output ends with a line break: the shell's prompt is on a new line, and line readers get the last line.
    screen.finish(out)?;
    out.flush()?;
    let (answer, message) = answer?;
    let summary = conversation.summary();
    if args.json {
        serde_json::to_writer(&mut *out, &summary.json(&answer))?;
        writeln!(out)?;
        out.flush()?;
    }
    if args.resume.is_some() {
        talk.messages.push(message);
        keeper.keep(talk, false);
    }
    if args.verbose {
        args.notes.say(&summary.line());
    }
    if stopped { Err(Failure::interrupted()) } else { Ok(()) }
}

/// Saves a conversation after each answer.
struct Keeper {
    chats: Option<Chats>,
    /// Name of the saved conversation, after the first save.
    name: Option<String>,
    model: Option<String>,
    notes: Notes,
}

impl Keeper {
    fn new(chats: Option<Chats>, model: Option<String>, name: Option<String>, notes: Notes) -> Self {
        // The conversation may be resumed from another folder, so the path must be absolute.
        let absolute = |model: String| match std::fs::canonicalize(&model) {
            Ok(path) => path.display().to_string(),
            Err(_) => model,
        };
        Self { chats, name, model: model.map(absolute), notes }
    }

    fn keep(&mut self, talk: &Talk, begins: bool) {
        let Some(chats) = &self.chats else { return };
        let name = self.name.take().filter(|_| !begins).unwrap_or_else(|| chats.new_name());
        match chats.keep(&name, self.model.as_deref(), talk.all_messages()) {
            Ok(()) => self.name = Some(name),
            Err(error) => {
                self.notes.say(&format!("the conversation cannot be saved: {error}"));
                self.chats = None;
            }
        }
    }
}

/// Loads a model file, with a progress bar on a terminal.
pub(super) fn load(path: &Path, options: &LoadOptions, notes: Notes) -> Result<Model, Failure> {
    let target = if notes.is_quiet() { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
    let bar = ProgressBar::with_draw_target(None, target);
    if let Ok(style) = ProgressStyle::with_template("loading {wide_bar} {bytes} of {total_bytes}") {
        bar.set_style(style);
    }
    let model = Model::open_with(path, options, &mut |done, all| {
        bar.set_length(all);
        bar.set_position(done);
    });
    bar.finish_and_clear();
    Ok(model?)
}
