//! Perplexity and KL divergence.

use std::io::Write;
use std::path::Path;
use std::time::Instant;

use leyden::Model;
use leyden_eval::{Divergence, Estimate, LogitsFile, Perplexity, Reference, Run, Verdict, Windows};
use serde_json::{Value, json};

use super::super::failure::Failure;
use super::super::{inputs, model_file, pages, text};
use super::args::Args;
use super::watcher::Watcher;
use super::words;

/// Default number of tokens in a window.
const CONTEXT: usize = 512;

/// Measures the text and prints the figures.
pub(super) fn execute(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    let needs = [
        ("--floor", args.floor.is_some() && !args.kld),
        ("--reference", args.reference.is_some() && !args.kld),
        ("--state", args.state.is_some()),
        ("--limit", args.limit.is_some()),
        ("--output", args.output.output.is_some()),
        ("--format", args.format.is_some()),
    ];
    if let Some((option, _)) = needs.iter().find(|(_, missing)| *missing) {
        let hint =
            "--floor and --reference need --kld, --task or --data; other options need --task or --data";
        return Err(Failure::usage(format!("{option} does not apply to --perplexity alone")).hint(hint));
    }
    let run = Run::new(args.kv_type, args.seed);
    let text = args.perplexity.as_deref().map(inputs::read_text).transpose()?;
    let reference = args.reference.as_deref().filter(|_| args.kld);
    let mut file = match reference.filter(|path| LogitsFile::is_one(path)) {
        Some(path) => Some(LogitsFile::open(path)?),
        None => None,
    };
    if file.is_some() && text.is_some() {
        return Err(Failure::usage("--perplexity: the file of --reference already contains a text")
            .hint("remove --perplexity, or use a model as --reference"));
    }
    if args.kld && file.is_none() && text.is_none() {
        return Err(Failure::usage("--kld needs a text")
            .hint("add --perplexity FILE, or use a file of --save-logits as --reference"));
    }
    if let (Some(file), Some(asked)) = (&file, args.context)
        && file.header().context != asked
    {
        let (path, has) = (file.path().display(), file.header().context);
        return Err(Failure::usage(format!("--ctx {asked}: {path} has windows of {has} tokens"))
            .hint("remove --ctx, or make the file again by --save-logits with this --ctx"));
    }
    let model = args.load(&args.model)?;
    let windows = match (&file, &text) {
        (Some(file), _) => Windows::of_file(&model, file, args.chunks)?,
        (None, Some(text)) => cut(args, &model, text)?,
        (None, None) => return Err(Failure::usage("--perplexity: which text?")),
    };
    let watcher = Watcher::new()?;
    let mut watch = |progress: leyden_eval::Progress<'_>| watcher.hear(&progress);
    let mut start = Instant::now();
    let mut report = Report { args, windows: &windows, seconds: 0.0 };
    if let Some(path) = &args.save_logits {
        leyden_eval::save_logits(&model, &windows, &run, path, &mut watch)?;
        report.seconds = start.elapsed().as_secs_f64();
        return report.saved(path, out);
    }
    if !args.kld {
        let found = leyden_eval::perplexity(&model, &windows, &run, &mut watch)?;
        report.seconds = start.elapsed().as_secs_f64();
        return report.perplexity(&found, out);
    }
    let other = match reference.filter(|_| file.is_none()) {
        Some(path) => Some(args.load(path)?),
        None => None,
    };
    // The time does not include loading.
    start = Instant::now();
    let mut reference = match (&mut file, &other) {
        (Some(file), _) => Reference::File(file),
        (None, Some(model)) => Reference::Model(model),
        (None, None) => return Err(Failure::usage("--reference: missing")),
    };
    let found = leyden_eval::divergence(&model, &windows, &mut reference, &run, &mut watch)?;
    report.seconds = start.elapsed().as_secs_f64();
    report.divergence(&found, out)
}

fn cut(args: &Args, model: &Model, text: &str) -> Result<Windows, Failure> {
    let file = args.perplexity.as_deref().unwrap_or(Path::new("")).display();
    Windows::of_text(model, text, args.context.unwrap_or(CONTEXT), args.chunks).map_err(|error| match error {
        leyden_eval::Error::Usage(what) if what.contains("do not fill") => {
            Failure::new(format!("{file}: {what}")).hint("use a longer text, or a smaller --ctx")
        }
        error => error.into(),
    })
}

/// Key, label, value, digits and unit of a figure.
type Row = (&'static str, &'static str, Estimate, usize, f64);

/// Report of the figures.
struct Report<'a> {
    args: &'a Args,
    windows: &'a Windows,
    seconds: f64,
}

impl Report<'_> {
    /// Returns the fields of every JSON report.
    fn document(&self) -> Value {
        let path = model_file::locate(&self.args.model).unwrap_or_else(|_| self.args.model.clone());
        json!({
            "about": pages::about(),
            "model": path.display().to_string(),
            "file": self.args.perplexity.as_ref().map(|file| file.display().to_string()),
            "ctx": self.windows.context(),
            "windows": self.windows.count(),
            "seconds": self.seconds,
            "tokens_per_second": self.rate(),
        })
    }

    fn rate(&self) -> f64 {
        (self.windows.count() * self.windows.context()) as f64 / self.seconds
    }

    fn print(document: &Value, out: &mut dyn Write) -> Result<(), Failure> {
        serde_json::to_writer(&mut *out, document)?;
        writeln!(out)?;
        Ok(())
    }

    fn how(&self, tokens: usize) -> String {
        format!(
            "{} of {} tokens, {tokens} scored, {:.1} s, {:.0} t/s",
            text::plural(self.windows.count(), "window"),
            self.windows.context(),
            self.seconds,
            self.rate()
        )
    }

    fn saved(&self, path: &Path, out: &mut dyn Write) -> Result<(), Failure> {
        let bytes = std::fs::metadata(path).map_or(0, |meta| meta.len());
        if self.args.json {
            let mut document = self.document();
            document["path"] = json!(path.display().to_string());
            document["bytes"] = json!(bytes);
            return Report::print(&document, out);
        }
        let windows = text::plural(self.windows.count(), "window");
        writeln!(out, "{}: log probabilities of {windows}, {}", path.display(), text::bytes(bytes))?;
        Ok(())
    }

    fn perplexity(&self, found: &Perplexity, out: &mut dyn Write) -> Result<(), Failure> {
        let (low, high) = found.interval;
        let mut document = self.document();
        document["tokens"] = json!(found.tokens);
        document["perplexity"] = json!(found.value);
        document["standard_error"] = json!(found.error);
        document["interval"] = json!([low, high]);
        if let Some(file) = &self.args.report {
            pages::write(file, &document, |_| {})?;
        }
        if self.args.json {
            return Report::print(&document, out);
        }
        writeln!(out, "perplexity {:.4} ± {:.4}, 95 % {low:.2} to {high:.2}", found.value, found.error)?;
        writeln!(out, "{}", self.how(found.tokens))?;
        writeln!(out, "{}", words::of_perplexity(found))?;
        Ok(())
    }

    fn divergence(&self, found: &Divergence, out: &mut dyn Write) -> Result<(), Failure> {
        let rows: [Row; 7] = [
            ("mean_kld", "mean KLD", found.kld, 6, 1.0),
            ("same_top", "same best token, %", found.same_top, 3, 100.0),
            ("p_diff_rms", "RMS of Δp, %", found.p_diff_rms, 3, 100.0),
            ("p_diff", "mean Δp, %", found.p_diff, 3, 100.0),
            ("perplexity", "perplexity", found.perplexity, 4, 1.0),
            ("perplexity_reference", "perplexity of the reference", found.perplexity_reference, 4, 1.0),
            ("perplexity_ratio", "ratio of perplexities", found.perplexity_ratio, 5, 1.0),
        ];
        let verdict = self.args.floor.map(|floor| {
            // A single window has no interval.
            let whole = (0.0, 1.0);
            let interval = if self.windows.count() > 1 { found.same_top.interval } else { whole };
            let verdict = Verdict::of(floor, interval);
            let word = match verdict {
                Verdict::Reached => " reached",
                Verdict::Missed => " missed",
                Verdict::Inconclusive => ": too few windows for a verdict",
            };
            let (low, high) = (100.0 * interval.0, 100.0 * interval.1);
            let (floor, same) = (100.0 * floor, 100.0 * found.same_top.value);
            let words = format!(
                "floor of {floor:.2} %{word}: the same best token at {same:.2} %, 95 % {low:.2} to {high:.2}"
            );
            (verdict, words)
        });
        let mut document = self.differences(found, &rows);
        if let (Some(floor), Some((verdict, _))) = (self.args.floor, &verdict) {
            document["floor"] = json!(floor);
            document["verdict"] = json!(verdict.name());
        }
        if let Some(file) = &self.args.report {
            pages::write(file, &document, |_| {})?;
        }
        if self.args.json {
            Report::print(&document, out)?;
        } else {
            self.report(&rows, found, out)?;
        }
        match verdict {
            Some((Verdict::Missed, words)) => Err(Failure::new(words)),
            Some((Verdict::Inconclusive, words)) => {
                Err(Failure::inconclusive(words).hint("use more windows, or another floor"))
            }
            Some((Verdict::Reached, words)) if !self.args.json => Ok(writeln!(out, "{words}")?),
            None if !self.args.json => Ok(writeln!(out, "{}", words::of_divergence(found))?),
            _ => Ok(()),
        }
    }

    /// Returns the JSON of the differences from the reference.
    fn differences(&self, found: &Divergence, rows: &[Row]) -> Value {
        let estimate = |e: &Estimate| json!({ "value": e.value, "standard_error": e.error, "interval": [e.interval.0, e.interval.1] });
        let pairs = |all: &[(f64, f64)]| -> Value {
            all.iter().map(|(share, value)| json!([share, value])).collect()
        };
        let mut document = self.document();
        document["reference"] = json!(self.args.reference.as_ref().map(|r| r.display().to_string()));
        document["tokens"] = json!(found.tokens);
        for (key, _, figure, ..) in rows {
            document[*key] = estimate(figure);
        }
        document["kld_percentiles"] = pairs(&found.kld_percentiles);
        document["p_diff_percentiles"] = pairs(&found.p_diff_percentiles);
        document
    }

    fn report(&self, rows: &[Row], found: &Divergence, out: &mut dyn Write) -> Result<(), Failure> {
        for (_, label, figure, digits, unit) in rows {
            let (low, high) = figure.interval;
            let number = |x: f64| format!("{:.digits$}", unit * x);
            let (value, error) = (number(figure.value), number(figure.error));
            writeln!(out, "{label:<28} {value:>10} ± {error}, 95 % {} to {}", number(low), number(high))?;
        }
        for (label, all) in [("KLD", &found.kld_percentiles), ("Δp", &found.p_diff_percentiles)] {
            let shown: Vec<String> =
                all.iter().map(|(share, value)| format!("{:.1} %: {value:.4}", 100.0 * share)).collect();
            writeln!(out, "percentiles of {label}: {}", shown.join(", "))?;
        }
        writeln!(out, "{}", self.how(found.tokens))?;
        Ok(())
    }
}
