//! `leyden transcribe`: speech to text.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

use leyden_kernels::topology::{Topology, default_threads};
use leyden_kernels::{Cpu, Tier};
use leyden_speech::{
    Audio, AudioLimits, Cues, Event, Format, Options, Precision, Timestamps, Transcription, Whisper,
    language_code,
};
use serde_json::json;

use super::arithmetic::Arithmetic;
use super::failure::Failure;
use super::interrupt::Interrupt;
use super::notes::Notes;
use super::obtain::Hub;
use super::progress::Progress;

/// Prints the transcript of an audio file: WAV, FLAC, MP3, Ogg Vorbis, or AAC in MP4. The duration and the real-time
/// factor (time of computing divided by the duration) go to standard error.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Model: a Hugging Face folder of a Whisper, a GGML file of whisper.cpp, or a name
    model: PathBuf,
    /// Audio file
    audio: PathBuf,
    /// Language of the audio, as a code such as de, or a name such as german; detected by default
    #[arg(long, value_name = "LANGUAGE")]
    language: Option<String>,
    /// Translate into English
    #[arg(long)]
    translate: bool,
    /// Timestamps: segment, word (times of words in verbose_json, srt and vtt) or none (windows of 30 seconds)
    #[arg(long, value_name = "UNIT", value_parser = timestamps)]
    timestamps: Option<Timestamps>,
    /// Format: text, json, srt, vtt or verbose_json; by default text, or as the output file's ending says
    #[arg(long, value_name = "FORMAT", value_parser = format, conflicts_with = "json")]
    format: Option<Format>,
    /// Print one JSON object with text, segments, model and speed
    #[arg(long)]
    json: bool,
    /// Write to this file instead of standard output
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Sampling temperature of the first attempt; repetitive or improbable results are tried again with higher ones
    #[arg(long, value_name = "T", default_value_t = 0.0)]
    temperature: f32,
    /// Text before the audio, with names or in a style to keep to
    #[arg(long, value_name = "TEXT")]
    prompt: Option<String>,
    /// Number of threads; by default one per available physical core
    #[arg(long, short, value_name = "T")]
    threads: Option<usize>,
    #[command(flatten)]
    arithmetic: Arithmetic,
    #[command(flatten)]
    hub: Hub,
    #[command(flatten)]
    notes: Notes,
}

fn timestamps(name: &str) -> Result<Timestamps, String> {
    match name {
        "none" => Ok(Timestamps::None),
        "segment" => Ok(Timestamps::Segment),
        "word" => Ok(Timestamps::Word),
        _ => Err("known: segment, word, none".to_owned()),
    }
}

fn format(name: &str) -> Result<Format, String> {
    let known = || Format::NAMES.map(|row| row.0).join(", ");
    Format::named(name).ok_or_else(|| format!("no such format; known: {}", known()))
}

impl From<leyden_speech::Error> for Failure {
    fn from(error: leyden_speech::Error) -> Failure {
        match error.kind() {
            leyden_speech::ErrorKind::Option(_) => Failure::usage(format!("--{error}")),
            leyden_speech::ErrorKind::Stopped => Failure::interrupted(),
            leyden_speech::ErrorKind::Audio(_) => Failure::new(&error)
                .hint("WAV, FLAC, MP3, Ogg Vorbis and AAC in MP4 are read; convert other files with ffmpeg"),
            _ => Failure::new(&error),
        }
    }
}

impl Args {
    /// Returns the format, from the option or the output file's ending.
    fn format(&self) -> Format {
        let ending = self.output.as_deref().and_then(Path::extension).and_then(|ending| ending.to_str());
        self.format.unwrap_or(match ending {
            Some("json") => Format::VerboseJson,
            Some(other) => Format::named(other).unwrap_or(Format::Text),
            None => Format::Text,
        })
    }

    fn options(&self) -> Result<Options, Failure> {
        if let Some(given) = &self.language
            && language_code(given).is_none()
        {
            return Err(Failure::usage(format!("--language: {given:?} is no language of Whisper"))
                .hint("use a code such as en, de or zh, or an English name"));
        }
        if !(0.0..=1.0).contains(&self.temperature) {
            return Err(Failure::usage(format!(
                "--temperature: {} is not between 0 and 1",
                self.temperature
            )));
        }
        let defaults = Options::default();
        let higher = defaults.temperatures.iter().copied().filter(|t| *t > self.temperature);
        Ok(Options {
            language: self.language.clone(),
            translate: self.translate,
            timestamps: self.timestamps.unwrap_or_default(),
            temperatures: std::iter::once(self.temperature).chain(higher).collect(),
            prompt: self.prompt.clone(),
            ..defaults
        })
    }
}

/// Returns the processor for speech: its tier, and threads on physical cores unless their number is given.
pub(super) fn processor(threads: Option<usize>, arithmetic: Arithmetic) -> Result<Cpu, Failure> {
    let tier = match arithmetic.isa {
        None => Cpu::default_tier().map_err(Failure::usage)?,
        Some(level) => Tier::available()
            .into_iter()
            .find(|tier| tier.level() == level)
            .ok_or_else(|| Failure::usage(format!("--isa: this machine has no {}", level.name())))?,
    };
    if threads == Some(0) {
        return Err(Failure::usage("--threads: at least 1 is needed"));
    }
    let threads = threads.unwrap_or_else(|| default_threads(&Topology::detect()).threads);
    let cpu = Cpu::new(tier, threads.max(1)).map_err(|error| Failure::new(error.to_string()))?;
    Ok(cpu.with_exact(arithmetic.exact))
}

/// Returns the types of weights that the options ask for.
pub(super) fn precision(arithmetic: Arithmetic) -> Precision {
    if arithmetic.int8 { Precision::Int8 } else { Precision::Stored }
}

/// Transcribes a file and prints the result.
pub(super) fn execute(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    let options = args.options()?;
    if let Some(path) = &args.output {
        leyden_files::check(path, leyden_files::OutputOptions::new())
            .map_err(|error| Failure::new(format!("{}: {error}", path.display())))?;
    }
    let audio = Audio::open(&args.audio, &AudioLimits::default())?;
    let path = args.hub.obtain(&args.model, args.notes)?;
    if !Whisper::is_at(&path) {
        let what =
            format!("{}: no Whisper: neither a Hugging Face folder of one nor a GGML file", path.display());
        return Err(Failure::new(what).hint("`leyden inspect` shows what a model is"));
    }
    let cpu = processor(args.threads, args.arithmetic)?;
    let model = Whisper::load(&cpu, &path, precision(args.arithmetic))?;
    let stop = Interrupt::install()?;
    let progress = Progress::new("{bar:30} {pos} of {len} s, {eta} left {msg}");
    let whole = audio.seconds().ceil() as usize;
    let begin = Instant::now();
    let done = model.transcribe(&cpu, &audio, &options, &mut |event| match event {
        Event::Progress(seconds) => progress.step(seconds as usize, whole, &stop).is_continue(),
        Event::Language(_) => progress.step(0, whole, &stop).is_continue(),
        Event::Segment(_) | Event::Token => !stop.is_set(),
    });
    drop(progress);
    let result = done?;
    let seconds = begin.elapsed().as_secs_f64();
    let text = if args.json { report(args, &result, seconds) } else { plain(args, &result) };
    match &args.output {
        Some(path) => leyden_files::write(path, text.as_bytes(), leyden_files::OutputOptions::new())
            .map_err(|error| Failure::new(format!("{}: {error}", path.display())))?,
        None => out.write_all(text.as_bytes())?,
    }
    let (duration, factor) = (result.duration, seconds / result.duration.max(0.01));
    args.notes.say(&format!(
        "{duration:.1} s of audio in {seconds:.2} s: real-time factor {factor:.4}, {} tokens, language {}",
        result.n_tokens, result.language
    ));
    Ok(())
}

fn plain(args: &Args, result: &Transcription) -> String {
    let cues = if args.timestamps == Some(Timestamps::Word) { Cues::Words } else { Cues::Segments };
    result.in_format(args.format(), cues, args.translate)
}

/// Returns the document of `--json`.
fn report(args: &Args, result: &Transcription, seconds: f64) -> String {
    let document = json!({
        "model": args.model.display().to_string(),
        "audio": args.audio.display().to_string(),
        "task": if args.translate { "translate" } else { "transcribe" },
        "language": result.language,
        "duration": result.duration,
        "seconds": seconds,
        "real_time_factor": seconds / result.duration.max(0.01),
        "tokens": result.n_tokens,
        "text": result.text,
        "segments": result.segments,
    });
    format!("{document:#}\n")
}
