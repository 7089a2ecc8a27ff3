//! `leyden convert`: a model in the other layout.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use leyden_convert::{Error, Report, to_folder, to_gguf};
use leyden_tensor::DType;
use serde_json::json;

use super::failure::Failure;
use super::interrupt::Interrupt;
use super::notes::Notes;
use super::progress::Progress;
use super::text::bytes;
use super::{inputs, model_file};

/// Writes a folder from the Hugging Face hub as a GGUF file, or a GGUF file as such a folder, with tokenizer and chat template.
/// docs/convert.md lists the architectures. Under OUT there is the whole model, read back and checked, or what was there before.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A folder with config.json, safetensors and tokenizer.json, or a GGUF file; or the name of a pulled model
    #[arg(value_name = "IN")]
    model: PathBuf,
    /// The GGUF file to write, or the folder to make
    out: PathBuf,
    /// Type of all matrices: f32, f16 or bf16; by default the one they have, and F16 for quantised ones
    #[arg(long, visible_alias = "outtype", value_name = "TYPE", value_parser = float)]
    r#type: Option<DType>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Template of the progress bar.
const BAR: &str = "converting {wide_bar} {percent} % {eta} left";

fn float(name: &str) -> Result<DType, String> {
    let known = [DType::F32, DType::F16, DType::BF16];
    let found = known.into_iter().find(|dtype| dtype.name().eq_ignore_ascii_case(name));
    found.ok_or_else(|| "want f32, f16 or bf16; `leyden quantize` makes smaller types".to_owned())
}

/// Converts.
pub(super) fn execute(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    let mut err = io::stderr();
    let out = inputs::report_beside(Some(&args.out), out, &mut err);
    let path = model_file::locate(&args.model)?;
    if path.is_dir() {
        inputs::can_be_written(&args.out)?;
    }
    inputs::none_is(&args.out, inputs::of_model(&path).iter().map(PathBuf::as_path))?;
    let stop = Interrupt::install()?;
    let start = Instant::now();
    let report = match path.is_dir() {
        true => folder(&path, &args.out, args.r#type, &stop)?,
        false => {
            let bar = Progress::new(BAR);
            to_folder(&path, &args.out, args.r#type, &mut |done, all| bar.step(done, all, &stop))
                .map_err(failure)?
        }
    };
    let seconds = start.elapsed().as_secs_f64();
    if args.json {
        let document = json!({
            "path": args.out.display().to_string(),
            "tensors": report.tensors,
            "bytes": report.bytes,
            "pre_tokenizer": report.rule,
            "chat_template": report.template,
            "note": report.note,
            "seconds": seconds,
        });
        serde_json::to_writer(&mut *out, &document)?;
        writeln!(out)?;
        return Ok(());
    }
    if let Some(note) = &report.note {
        Notes::default().say(&format!("note: {note}"));
    }
    writeln!(
        out,
        "{}: {} tensors, {}, texts cut as {} does, {} chat template, {seconds:.1} s",
        args.out.display(),
        report.tensors,
        bytes(report.bytes as u64),
        report.rule,
        if report.template { "with its" } else { "no" }
    )?;
    Ok(())
}

/// A folder as a GGUF file.
pub(super) fn folder(
    path: &Path,
    out: &Path,
    dtype: Option<DType>,
    stop: &Interrupt,
) -> Result<Report, Failure> {
    let bar = Progress::new(BAR);
    to_gguf(path, out, dtype, &mut |done, all| bar.step(done, all, stop)).map_err(failure)
}

fn failure(error: Error) -> Failure {
    match error {
        Error::File(error) => error.into(),
        Error::Text(error) => error.into(),
        Error::Stopped => Failure::interrupted(),
        error => Failure::new(error),
    }
}
