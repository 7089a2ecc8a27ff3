//! [`Identity`] of a run: whether an interrupted run can be continued, and the reason if not.

use super::args::Args;
use super::input::Input;
use super::texts::Texts;
use crate::cli::failure::Failure;
use crate::cli::inputs;
use serde_json::Value;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::xxh3_64;

/// Maximum length of the first line of a journal in bytes.
const MAX_HEAD: u64 = 1 << 12;

/// Input, model and settings of a run, as hashes.
pub(super) struct Identity {
    output: PathBuf,
    /// Names and values in the order of the journal's first line.
    parts: [(&'static str, String); 3],
}

impl Identity {
    /// Returns the identity of the run that the arguments ask for.
    pub(super) fn new(
        args: &Args,
        model: Option<&Path>,
        (input, texts, schema): (&Input, &Texts, Option<&Value>),
    ) -> Identity {
        let model =
            model.map_or_else(|| "embedded".to_owned(), |path| format!("{:016x}", inputs::identity(path)));
        let Args { task, format, system, max_tokens, labels, top, aggregation, threshold, nested, .. } = args;
        let Args { pooling, dimensions, no_normalize, prompt_name, query, truncate, window, .. } = args;
        let Args { shard, arithmetic, ctx, kv_type, .. } = args;
        let generation = args.sampling.options(None).map_or_else(
            |_| String::new(),
            |mut options| {
                options.sampling.seed = args.sampling.given_seed().unwrap_or(0);
                format!("{:?} {:?} {:?}", options.sampling, options.sequence_breakers, options.stop)
            },
        );
        let described = labels.described().ok();
        let settings = format!(
            "{} {task:?} {format:?} {system:?} {max_tokens:?} {described:?} {top} {aggregation} {threshold} {nested} {pooling:?} \
             {dimensions:?} {no_normalize} {prompt_name:?} {query:?} {truncate} {window:?} {shard:?} {arithmetic:?} {ctx:?} {kv_type:?} {} {schema:?} \
             {generation} {:?}",
            env!("CARGO_PKG_VERSION"),
            texts.identity(),
            args.row_timeout,
        );
        let hash = |text: &str| format!("{:016x}", xxh3_64(text.as_bytes()));
        let parts =
            [("input", format!("{:016x}", input.hash())), ("model", model), ("settings", hash(&settings))];
        Identity { output: args.output.clone(), parts }
    }

    /// Returns the text of the journal's first line.
    pub(super) fn text(&self) -> String {
        let parts: Vec<String> = self.parts.iter().map(|(name, value)| format!("{name}={value}")).collect();
        format!("batch {}", parts.join(" "))
    }

    fn journal(&self) -> PathBuf {
        let mut path = self.output.as_os_str().to_owned();
        path.push(".unfinished");
        path.into()
    }

    /// Checks that there is no output yet, unless an interrupted run is to write it.
    ///
    /// # Errors
    /// There is one.
    pub(super) fn check(&self) -> Result<(), Failure> {
        let is_file = self.output.metadata().is_ok_and(|meta| meta.is_file());
        if is_file && !self.journal().exists() {
            return Err(Failure::new(format!("{}: this file is there already", self.output.display()))
                .hint("use --restart to compute it anew, or name another output"));
        }
        self.explain().map_or(Ok(()), Err)
    }

    /// Returns the reason why the interrupted run beside the output cannot be continued by this one.
    pub(super) fn explain(&self) -> Option<Failure> {
        let (path, mut head) = (self.journal(), String::new());
        let file = File::open(&path).ok()?;
        BufReader::new(file.take(MAX_HEAD)).read_line(&mut head).ok()?;
        let of_then =
            |name: &str| head.split_whitespace().find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
        let differs = |(name, now): &&(&'static str, String)| of_then(name).is_some_and(|then| then != now);
        let names: Vec<&str> = self.parts.iter().filter(differs).map(|(name, _)| *name).collect();
        if names.is_empty() {
            return None;
        }
        let what = format!("{}: an interrupted run had other {}", path.display(), names.join(", "));
        Some(Failure::new(what).hint(
            "give the same input, model and options to continue it, use --restart to begin anew, or name another output",
        ))
    }
}
