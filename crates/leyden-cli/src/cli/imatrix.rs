//! `leyden imatrix`: importance matrices for quantisation.

use std::io::{self, Write};
use std::path::PathBuf;

use leyden::{BatchOptions, LoadOptions};
use leyden_compress::ImatrixWriter;
use serde_json::json;

use super::failure::Failure;
use super::interrupt::Interrupt;
use super::notes::Notes;
use super::progress::Progress;
use super::{inputs, model_file, run};

/// Number of windows that are computed together.
const TOGETHER: usize = 8;

/// Runs a model on calibration texts and records the sum of squared activations for each column of its matrices, in
/// llama.cpp's format, for `leyden quantize --imatrix` or llama-quantize. A few hundred windows of text similar to the
/// model's use are enough.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Model: a name, file or folder, preferably in F16 or BF16
    model: PathBuf,
    /// Files with calibration text
    #[arg(required = true, value_name = "TEXT")]
    texts: Vec<PathBuf>,
    /// File to write
    #[arg(
        short = 'o',
        long,
        value_name = "FILE",
        visible_alias = "output-file",
        default_value = "imatrix.gguf"
    )]
    output: PathBuf,
    /// Number of tokens in a window
    #[arg(short = 'c', long = "ctx", visible_alias = "ctx-size", value_name = "N", default_value_t = 512)]
    context: usize,
    /// Maximum number of windows; by default all of the texts
    #[arg(long, value_name = "N")]
    chunks: Option<usize>,
    /// Number of threads; by default one per available physical core
    #[arg(short = 't', long, value_name = "N")]
    threads: Option<usize>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Computes the matrix and writes it.
pub(super) fn execute(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    let mut err = io::stderr();
    let out = inputs::report_beside(Some(&args.output), out, &mut err);
    let path = model_file::locate(&args.model)?;
    let files = inputs::of_model(&path);
    inputs::can_be_written(&args.output)?;
    inputs::none_is(&args.output, files.iter().chain(&args.texts).map(PathBuf::as_path))?;
    let texts = args.texts.iter().map(|text| inputs::read_text(text)).collect::<Result<Vec<_>, _>>()?;
    let options = LoadOptions::new().threads(args.threads);
    let model = run::load(&path, &options, Notes::default())?;
    let begin = model.tokenize("")?.first().copied();
    let mut windows = Vec::new();
    for text in &texts {
        let tokens = model.tokenize(text)?;
        windows.extend(tokens.chunks_exact(args.context.max(1)).map(<[u32]>::to_vec));
    }
    windows.truncate(args.chunks.unwrap_or(usize::MAX));
    if windows.is_empty() {
        let message =
            format!("{}: fewer than {} tokens, the size of a window", args.texts[0].display(), args.context);
        return Err(Failure::new(message).hint("use a longer text, or a smaller --ctx"));
    }
    if let Some(begin) = begin {
        windows.iter_mut().for_each(|window| window[0] = begin);
    }
    let stop = Interrupt::install()?;
    let options =
        BatchOptions::new().context(args.context).cache_tokens(TOGETHER * args.context.next_multiple_of(64));
    let mut batch = model.batch(&options)?;
    let bar = Progress::new("importances {wide_bar} {pos}/{len} {eta} left");
    let names: Vec<String> = args.texts.iter().map(|text| text.display().to_string()).collect();
    let narrow = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    let mut writer = ImatrixWriter::new(&names, narrow(windows.len()), narrow(args.context));
    let mut all = leyden::ActivationSums::default();
    let mut done = 0;
    for group in windows.chunks(TOGETHER) {
        all.merge(&batch.activation_sums(group)?);
        done += group.len();
        if bar.step(done, windows.len(), &stop).is_break() {
            return Err(Failure::interrupted());
        }
    }
    drop(bar);
    let mut idle = Vec::new();
    for (name, sums) in all.iter() {
        if !sums.squares.iter().all(|x| x.is_finite()) {
            let message = format!("{}: {name}: activations are not finite", path.display());
            return Err(
                Failure::new(message).hint("the model file is damaged, or its weights overflow on this text")
            );
        }
        writer.add(name, &sums.squares, &sums.rows)?;
        idle.extend(sums.rows.contains(&0).then(|| name.to_owned()));
    }
    writer.write(&args.output)?;
    let matrices = all.iter().count();
    if args.json {
        let document = json!({
            "path": args.output.display().to_string(),
            "matrices": matrices,
            "windows": windows.len(),
            "ctx": args.context,
            "with_experts_never_chosen": idle,
        });
        serde_json::to_writer(&mut *out, &document)?;
        writeln!(out)?;
        return Ok(());
    }
    let of = super::text::plural(windows.len(), "window");
    writeln!(out, "{}: {matrices} matrices, {of} of {} tokens", args.output.display(), args.context)?;
    if !idle.is_empty() {
        writeln!(out, "{} matrices have experts that no token was routed to; use more text", idle.len())?;
    }
    Ok(())
}
