//! `leyden convert`: conversion between Hugging Face folders and GGUF.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use leyden_convert::{Error, Report, Sparse, to_folder, to_gguf, to_sparse_folder};
use leyden_tensor::DType;
use serde_json::json;

use super::failure::Failure;
use super::interrupt::Interrupt;
use super::notes::Notes;
use super::progress::Progress;
use super::text::bytes;
use super::{inputs, model_file};

/// Weights, configuration, tokenizer and chat template are converted. docs/convert.md lists the supported
/// architectures. The result is read back and checked before it replaces OUT; if the conversion fails, OUT is
/// unchanged.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Folder with config.json, safetensors and tokenizer.json, or GGUF file, or name of a pulled model
    #[arg(value_name = "IN")]
    model: PathBuf,
    /// GGUF file or folder to write
    out: PathBuf,
    /// Type of all matrices: f32, f16 or bf16; by default unchanged, but F16 for quantised matrices
    #[arg(long, visible_alias = "outtype", value_name = "TYPE", value_parser = float)]
    r#type: Option<DType>,
    /// Write matrices with many zeros sparse, into a folder that leyden alone reads: float, int8 or int4 values
    #[arg(long, value_name = "VALUES", value_parser = sparse, conflicts_with = "type")]
    sparse: Option<Sparse>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Template of the progress bar.
const BAR: &str = "converting {wide_bar} {percent} % {eta} left";

fn float(name: &str) -> Result<DType, String> {
    let known = [DType::F32, DType::F16, DType::BF16];
    let found = known.into_iter().find(|dtype| dtype.name().eq_ignore_ascii_case(name));
    found.ok_or_else(|| "the type must be f32, f16 or bf16; `leyden quantize` has smaller types".to_owned())
}

/// Reads the type of the values of sparse matrices.
pub(super) fn sparse(name: &str) -> Result<Sparse, String> {
    match name.to_ascii_lowercase().as_str() {
        "float" => Ok(Sparse::Float),
        "int8" => Ok(Sparse::Int8),
        "int4" => Ok(Sparse::Int4),
        _ => Err("want float, int8 or int4".to_owned()),
    }
}

/// Converts the model and prints a summary.
pub(super) fn execute(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    let mut err = io::stderr();
    let out = inputs::report_beside(Some(&args.out), out, &mut err);
    let path = model_file::locate(&args.model)?;
    if path.is_dir() {
        if args.sparse.is_some() {
            return Err(Failure::usage("--sparse: a GGUF file has no sparse matrices")
                .hint("convert the folder to a GGUF file first, and that file with --sparse"));
        }
        inputs::can_be_written(&args.out)?;
    }
    inputs::none_is(&args.out, inputs::of_model(&path).iter().map(PathBuf::as_path))?;
    let stop = Interrupt::install()?;
    let start = Instant::now();
    let report = match path.is_dir() {
        true => folder(&path, &args.out, args.r#type, &stop)?,
        false => {
            let bar = Progress::new(BAR);
            let mut watch = |done, all| bar.step(done, all, &stop);
            match args.sparse {
                Some(values) => to_sparse_folder(&path, &args.out, values, &mut watch),
                None => to_folder(&path, &args.out, args.r#type, &mut watch),
            }
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

/// Converts a folder to a GGUF file.
pub(super) fn folder(
    path: &Path,
    out: &Path,
    dtype: Option<DType>,
    stop: &Interrupt,
) -> Result<Report, Failure> {
    let bar = Progress::new(BAR);
    to_gguf(path, out, dtype, &mut |done, all| bar.step(done, all, stop)).map_err(failure)
}

/// Returns a failure of a conversion.
pub(super) fn failure(error: Error) -> Failure {
    match error {
        Error::File(error) => error.into(),
        Error::Text(error) => error.into(),
        Error::Stopped => Failure::interrupted(),
        error => Failure::new(error),
    }
}
