//! `leyden run`: an answer to a prompt, or a conversation.

mod chat;
mod constraint;
mod conversation;
mod editor;
mod interrupt;
mod request;
mod sampling;
mod summary;

use std::ffi::OsString;
use std::io::{self, IsTerminal, Read, Write};
use std::ops::ControlFlow;
use std::path::PathBuf;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use leyden::{KvType, LoadOptions, Model, SessionOptions};

use super::arithmetic::Arithmetic;
use super::failure::Failure;
use super::model_file;
use super::packs::{self, Packs};
use conversation::{Conversation, Mode};
use interrupt::{Idle, Interrupt};
use request::Input;

/// With a PROMPT, or with text piped to it, answers once; otherwise holds a conversation.
///
/// Without MODEL the storyteller inside this program answers, a toy. A single argument is taken for the MODEL if it
/// is a file's name, otherwise for the PROMPT. The prompt goes through the model's chat template, if it has one.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Model: a GGUF file, or a folder with config.json and safetensors
    #[arg(value_name = "MODEL")]
    first: Option<OsString>,
    /// Prompt; standard input is then not read
    #[arg(value_name = "PROMPT")]
    second: Option<OsString>,
    /// Model, as an option
    #[arg(long, short, value_name = "M")]
    model: Option<PathBuf>,
    /// Prompt, as an option
    #[arg(long, short, value_name = "P")]
    prompt: Option<String>,
    /// Instruction to the model that precedes the conversation
    #[arg(long, value_name = "TEXT", conflicts_with = "raw")]
    system: Option<String>,
    /// Continue the prompt as it is, without the chat template
    #[arg(long)]
    raw: bool,
    /// Let special tokens such as `<|im_end|>` that a message spells out be such; otherwise they are text, and only the
    /// chat template writes them
    #[arg(long, conflicts_with = "raw")]
    special_in_content: bool,
    /// Most tokens to generate; by default until the model ends or the context is full
    #[arg(short = 'n', long = "max-tokens", value_name = "N")]
    max_tokens: Option<usize>,
    /// Threads to generate with; by default one per physical core that may be used
    #[arg(long, short, value_name = "T")]
    threads: Option<usize>,
    /// Threads to read prompts with (also `-tb`); by default as many as to generate with
    #[arg(long, value_name = "T")]
    threads_batch: Option<usize>,
    /// Longest text in tokens, prompt and answer together; by default what the model was made for
    #[arg(long, value_name = "N")]
    ctx: Option<usize>,
    /// Storage of keys and values: f32, f16 or q8_0
    #[arg(long, value_name = "TYPE", default_value_t = KvType::default(), value_parser = kv_type)]
    kv_type: KvType,
    #[command(flatten)]
    arithmetic: Arithmetic,
    #[command(flatten)]
    packs: Packs,
    /// Print one JSON object instead of the text
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    constraint: constraint::Constraining,
    // Last, because its heading in the help holds for everything after it.
    #[command(flatten)]
    sampling: Box<sampling::Sampling>,
}

pub(super) fn kv_type(name: &str) -> Result<KvType, String> {
    let known = KvType::ALL.map(KvType::name).join(", ");
    KvType::from_name(name).ok_or_else(|| format!("no such type; known: {known}"))
}

/// Answers.
pub(super) fn execute(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    let request = request::resolve(args)?;
    // Read before the model, which may take long.
    let grammar = args.constraint.grammar()?;
    let interactive = request.input == Input::Standard && io::stdin().is_terminal();
    if interactive && args.json {
        return Err(Failure::usage("--json needs a PROMPT or text on standard input"));
    }
    // The line editor asks the terminal where the cursor is through one of them and draws on the other.
    let edited = interactive && io::stdout().is_terminal() && io::stderr().is_terminal();
    let interrupt = Interrupt::install(if edited { Idle::Stay } else { Idle::Exit })?;
    let options = LoadOptions {
        threads: args.threads,
        threads_batch: args.threads_batch,
        isa: args.arithmetic.isa,
        exact: args.arithmetic.exact,
        packs: args.packs.cache(),
        ..LoadOptions::default()
    };
    let model = match &request.model {
        Some(model) => load(&model_file::locate(model)?, &options)?,
        None => {
            note(
                "no model named: the embedded storyteller answers, a toy of 4 million parameters that continues old \
                 stories. For real answers: leyden run MODEL.gguf \"your question\"",
            );
            Model::embedded(&options)?
        }
    };
    packs::tell(&model);
    if let Some(unplaced) = model.unplaced() {
        note(unplaced);
    }
    let session = model.session(&SessionOptions { context: args.ctx, kv_type: args.kv_type })?;
    interrupt.ready();
    let mode = if args.raw {
        Mode::Raw
    } else {
        Mode::Chat { system: args.system.clone(), special_in_content: args.special_in_content }
    };
    if !args.raw && !model.has_chat_template() {
        note("the model has no chat template: messages are joined and continued");
    }
    let mut options = args.sampling.options(args.max_tokens);
    options.constraint =
        grammar.map(|grammar| model.compile(&grammar)).transpose()?.map(|compiled| compiled.start());
    let mut conversation = Conversation::new(&model, session, mode, options);

    if interactive {
        let name = request
            .model
            .as_deref()
            .map_or_else(|| leyden::EMBEDDED.to_owned(), |path| path.display().to_string());
        note(&format!(
            "{name}, context of {} tokens; /help lists the commands, Ctrl-D ends",
            conversation.context()
        ));
        let mut lines: Box<dyn chat::Lines> =
            if edited { Box::new(editor::Editor::new()) } else { Box::new(editor::Plain) };
        chat::run(&mut conversation, lines.as_mut(), &interrupt, out, &mut io::stderr())?;
        note(&conversation.summary().line());
        return Ok(());
    }
    let prompt = match request.input {
        Input::Prompt(prompt) => prompt,
        Input::Standard => standard_input(args.raw)?,
    };
    once(args, &mut conversation, &prompt, &interrupt, out)
}

/// One answer.
fn once(
    args: &Args,
    conversation: &mut Conversation<'_>,
    prompt: &str,
    interrupt: &Interrupt,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let mut lost = None;
    let mut ended = true;
    let answering = interrupt.answering();
    let answer = conversation.respond(prompt, &mut |piece| {
        if let Some(text) = piece
            && !args.json
        {
            ended = text.ends_with('\n');
            if let Err(error) = out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
                lost = Some(error);
                return ControlFlow::Break(());
            }
        }
        if answering.stopped() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    let stopped = answering.stopped();
    drop(answering);
    if let Some(error) = lost {
        return Err(error.into());
    }
    // What follows should stand on a line of its own. In a file or a pipe the text is all there is.
    if !ended && io::stdout().is_terminal() {
        writeln!(out)?;
    } else if !ended {
        note("");
    }
    out.flush()?;
    let answer = answer?;
    let summary = conversation.summary();
    if args.json {
        serde_json::to_writer(&mut *out, &summary.json(&answer))?;
        writeln!(out)?;
        out.flush()?;
    }
    note(&summary.line());
    if stopped { Err(Failure::interrupted()) } else { Ok(()) }
}

/// Loads a model file, with a bar on the terminal while it takes its time.
pub(super) fn load(path: &std::path::Path, options: &LoadOptions) -> Result<Model, Failure> {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
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

/// All of standard input. `echo` and editors end a text with a line break that nobody means as part of a question.
fn standard_input(raw: bool) -> Result<String, Failure> {
    let mut bytes = Vec::new();
    io::stdin()
        .lock()
        .read_to_end(&mut bytes)
        .map_err(|error| Failure::new(format!("standard input: cannot read: {error}")))?;
    let mut text = String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        Failure::new(format!("standard input: not UTF-8 text: byte {at}"))
    })?;
    if !raw && text.ends_with('\n') {
        text.pop();
        if text.ends_with('\r') {
            text.pop();
        }
    }
    Ok(text)
}

/// A line for people, on standard error.
pub(super) fn note(text: &str) {
    // Nobody is left to tell if this fails.
    let _ = writeln!(io::stderr(), "{text}");
}
