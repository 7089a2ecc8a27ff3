//! `leyden batch`: a task over all rows of a file or folder.

mod args;
mod audit;
mod encode;
mod generate;
mod identity;
mod input;
mod openai;
mod requests;
mod setting;
mod template;
mod texts;
mod windows;

use std::io::Write;
use std::path::{Path, PathBuf};

use leyden::{LoadOptions, Model};
use leyden_batch::{Limits, Source};
use leyden_rows::{Journal, Output};
use serde_json::json;

use super::failure::Failure;
use super::inputs;
use super::interrupt::Interrupt;
use super::packs;
use super::rows::{self, Session, Sink};
use super::run::load;
use args::Task;
use identity::Identity;
use input::Input;
use requests::Tokens;
use setting::{Counts, Setting};

pub(crate) use args::Args;

/// Computes all rows and writes the output.
pub(super) fn execute(args: &Args, out: &mut (dyn Write + Send)) -> Result<(), Failure> {
    let output = output(args)?;
    let texts = args.texts()?;
    let schema = args.schema.as_deref().map(args::schema).transpose()?;
    let mut input = Input::open(args)?;
    let is_openai = args.task.is_none() || openai::is_request(input.first()?);
    let task = args.task.unwrap_or(Task::Chat);
    check(args, output, is_openai, &mut input)?;
    let path = args.model.as_deref().map(|model| args.hub.obtain(model, args.notes)).transpose()?;
    if let Some(path) = &path {
        inputs::none_is(&args.output, inputs::of_model(path).iter().map(PathBuf::as_path))?;
    }
    let identity = Identity::new(args, path.as_deref(), (&input, &texts, schema.as_ref()));
    // A run that cannot be continued is refused before the model is loaded.
    if args.restart {
        Journal::discard(&args.output)?;
    } else {
        identity.check()?;
    }
    let mut sink = Sink::file(&args.output, output, &identity.text())
        .map_err(|failure| identity.explain().unwrap_or(failure))?;
    let model = open(args, path.as_deref())?;
    let recorder = audit::recorder(args, &model, task)?;
    sink = sink.with_recorder(recorder);
    let stop = Interrupt::install()?;
    let limits = Limits::default().shard(args.shard);
    let session = Session { to_file: Some(&args.output), limits, notes: args.notes, stop: Some(&stop) };
    let name = input.name().to_owned();
    let setting = Setting { args, model: &model, session, stop: &stop, name: &name };
    let source: Box<dyn Source> = Box::new(input);
    let tokens = Tokens::default();
    let counts = if is_openai {
        requests::run(&setting, (source, &mut sink), &openai::Dialect::new(args), &tokens)?
    } else {
        match task {
            Task::Chat | Task::Complete => {
                let dialect = generate::Dialect::new(args, task, &texts, schema)?;
                requests::run(&setting, (source, &mut sink), &dialect, &tokens)?
            }
            task => encode::run(&setting, (source, &mut sink), task, &texts)?,
        }
    };
    report(&setting, &counts, &tokens, out)
}

/// Returns the format of the output, after checks of the file.
fn output(args: &Args) -> Result<Output, Failure> {
    let output = Output::of_path(&args.output)?;
    inputs::none_is(&args.output, [args.input.as_path()])?;
    inputs::can_be_written(&args.output)?;
    Ok(output)
}

/// Checks that options, input and output fit each other.
fn check(args: &Args, output: Output, is_openai: bool, input: &mut Input) -> Result<(), Failure> {
    let name = args.output.display();
    if is_openai && output != Output::JsonLines {
        return Err(Failure::usage(format!(
            "{name}: requests of OpenAI's batch format have responses as JSON lines"
        ))
        .hint("name an output that ends in .jsonl"));
    }
    if args.task.is_none()
        && input.first()?.is_some_and(|row| row.problem.is_none() && !openai::is_request(Some(row)))
    {
        let what = "--task is missing: the rows do not say what to compute";
        return Err(Failure::usage(what).hint(
            "--task chat, complete, embed, classify, extract or rerank; only rows with custom_id, url and body do without",
        ));
    }
    match (args.task, output) {
        _ if is_openai => {}
        (Some(Task::Embed), _)
        | (_, Output::Csv | Output::Tsv | Output::Json | Output::JsonLines | Output::Parquet) => {}
        (_, Output::Npy) => {
            return Err(Failure::usage(format!("{name}: a .npy file has vectors, of --task embed")));
        }
        (Some(Task::Chat | Task::Complete), _) => {
            return Err(Failure::usage(format!(
                "{name}: answers have line breaks, so they are not written to text lines"
            ))
            .hint("name an output that ends in .jsonl, .csv or .parquet"));
        }
        _ => {}
    }
    if args.window.is_some() {
        check_window(args, output, is_openai)?;
    }
    if args.row_timeout.is_some() && !is_openai && !matches!(args.task, Some(Task::Chat | Task::Complete)) {
        let what = "--row-timeout: a row of this task is one step, which cannot be ended";
        return Err(
            Failure::usage(what).hint("leave it out: the context of the model bounds the time of a row")
        );
    }
    Ok(())
}

/// Checks that the task and the output are ones for windows.
fn check_window(args: &Args, output: Output, is_openai: bool) -> Result<(), Failure> {
    if is_openai || !matches!(args.task, Some(Task::Classify | Task::Embed)) {
        return Err(Failure::usage("--window: only with --task classify and embed")
            .hint("extract and rerank read long texts in parts by themselves; for others cut the text: --prompt-template '{{ text[:2500] }}'"));
    }
    if args.task == Some(Task::Embed) && matches!(output, Output::Npy | Output::Text) {
        let name = args.output.display();
        return Err(Failure::usage(format!("{name}: a row has one vector for each window, with its place"))
            .hint("name an output that ends in .jsonl or .parquet"));
    }
    Ok(())
}

/// Loads the model.
fn open(args: &Args, path: Option<&Path>) -> Result<Model, Failure> {
    let options = LoadOptions::new()
        .threads(args.threads)
        .isa(args.arithmetic.isa)
        .exact(args.arithmetic.exact)
        .int8(args.arithmetic.int8)
        .packs(args.packs.cache());
    let model = match path {
        Some(path) => load(path, &options, args.notes)?,
        None => {
            args.notes
                .say("no --model given: the embedded storyteller answers, a toy of 4 million parameters");
            Model::embedded(&options)?
        }
    };
    packs::report(&model, args.notes);
    Ok(model)
}

/// Prints the counts of a run that is complete.
fn report(
    setting: &Setting<'_>,
    (summary, seconds, rate): &Counts,
    tokens: &Tokens,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let (prompt, completion) = tokens.get();
    if setting.args.json {
        let counts = json!({
            "output": setting.args.output, "read": summary.read, "done": summary.done, "failed": summary.failed,
            "skipped": summary.skipped, "kept": summary.kept, "seconds": seconds, "rows_per_second": rate,
            "prompt_tokens": prompt, "completion_tokens": completion, "first_error": summary.first_error,
        });
        writeln!(out, "{counts:#}")?;
        out.flush()?;
    } else if completion > 0 {
        let rate = completion as f64 / seconds.max(1e-6);
        setting
            .args
            .notes
            .say(&format!("{prompt} prompt tokens, {completion} generated, {rate:.1} tokens/s"));
    }
    if summary.skipped > 0 {
        setting.args.notes.say(&format!("{} rows belong to other shards", summary.skipped));
    }
    rows::verdict(summary, setting.name)
}
