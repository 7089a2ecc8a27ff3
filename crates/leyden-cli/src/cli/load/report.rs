//! Report of a load as text and as JSON (`docs/load.md` has the schema).

use std::io::{self, Write};

use leyden_load::{Arrivals, Endpoint, Percentiles, Run, Source, Summary, Target, Verdict, Workload};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::args::Args;
use super::progress::Generator;
use crate::cli::failure::Failure;
use crate::cli::pages;
use crate::cli::text::{Facts, Table, plural, printable};

/// Workload, server and arguments of a load.
pub(super) struct Report<'a> {
    pub(super) args: &'a Args,
    pub(super) target: &'a Target,
    pub(super) workload: &'a Workload,
    /// True for a search for the number of users, which is then not part of the workload.
    pub(super) search: bool,
}

impl Report<'_> {
    /// Returns labels and texts that describe the load.
    pub(super) fn facts(&self) -> Vec<(String, String)> {
        let (w, target) = (self.workload, self.target);
        let mut facts = vec![
            ("server".to_owned(), target.server().base().to_string()),
            ("model".to_owned(), printable(target.model(), 100)),
            ("load".to_owned(), arrivals(w, self.search)),
        ];
        let calibration = target.calibration();
        let source = match calibration.source {
            Source::Tokenize => "by /tokenize",
            Source::Usage => "by usage",
            Source::Assumed => "assumed: the server does not report it",
        };
        if !matches!(w.arrivals, Arrivals::Trace { .. }) {
            let prefix =
                w.prefix.map(|p| format!(" behind a prefix of {} ({} of requests)", p.tokens, p.share));
            let eos = if self.args.ignore_eos { ", exactly" } else { " at most" };
            let lengths = format!("{}{}; answers {}{eos}", w.prompt, prefix.unwrap_or_default(), w.output);
            facts.push(("tokens".to_owned(), format!("prompts {lengths}")));
        }
        let words = format!(
            "{:.2} tokens ({source}), {:.0} more around a prompt",
            calibration.tokens_per_word, calibration.overhead
        );
        facts.push(("a word".to_owned(), words));
        facts.push(("seed".to_owned(), w.seed.to_string()));
        facts
    }

    /// Writes the description of the load as text.
    pub(super) fn head(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut facts = Facts::default();
        for (label, text) in self.facts() {
            facts.add(&label, text);
        }
        facts.write(out)?;
        writeln!(out)
    }

    /// Returns the JSON of the load: its description, and `parts`.
    pub(super) fn document(&self, kind: &str, parts: &[(&str, Value)]) -> Result<Value, Failure> {
        let mut object = Map::new();
        object.insert("kind".into(), kind.into());
        object.insert("about".into(), pages::about());
        object.insert("server".into(), server(self.target)?);
        object.insert("workload".into(), self.workload());
        for (name, value) in parts {
            object.insert((*name).to_owned(), value.clone());
        }
        Ok(Value::Object(object))
    }

    /// Writes the page, if one is asked for: of the document, with drawings of the run.
    pub(super) fn page(&self, document: &Value, run: &Run) -> Result<(), Failure> {
        let Some(path) = &self.args.report else { return Ok(()) };
        pages::write(path, document, |page| {
            if let Some(first) = page.sections.first_mut() {
                first.blocks.extend(leyden_load::plots(run, self.args.slo.as_ref()));
            }
        })
    }

    fn workload(&self) -> Value {
        let w = self.workload;
        let arrivals = match &w.arrivals {
            Arrivals::Users(..) if self.search => json!({ "users": null }),
            Arrivals::Users(n, _) => json!({ "users": n }),
            Arrivals::Rate(rate) => json!({ "rate": rate }),
            Arrivals::Trace { trace, scale, length_scale } => {
                let path = self.args.trace.as_ref().map(|path| path.display().to_string());
                json!({ "trace": path, "requests": trace.arrivals().len(), "scale": scale, "length_scale": length_scale })
            }
        };
        let endpoint = if self.args.endpoint == Endpoint::Chat { "chat" } else { "completions" };
        json!({
            "endpoint": endpoint,
            "arrivals": arrivals,
            "prompt_tokens": w.prompt.to_string(),
            "output_tokens": w.output.to_string(),
            "ignore_eos": self.args.ignore_eos,
            "shared_prefix": w.prefix.map(|prefix| json!({ "tokens": prefix.tokens, "share": prefix.share })),
            "duration_s": w.duration.map(|time| time.as_secs_f64()),
            "requests": w.requests,
            "warmup_s": w.warmup.as_secs_f64(),
            "ramp_s": w.ramp.as_secs_f64(),
            "drain_s": w.drain.as_secs_f64(),
            "timeout_s": w.timeout.as_secs_f64(),
            "retry": w.retry,
            "seed": w.seed,
            "slo": self.args.slo.as_ref().map(ToString::to_string),
        })
    }
}

/// Prints a document.
pub(super) fn print(document: &Value, out: &mut dyn Write) -> Result<(), Failure> {
    serde_json::to_writer_pretty(&mut *out, document)?;
    writeln!(out)?;
    Ok(())
}

/// Returns a server as JSON.
pub(super) fn server(target: &Target) -> Result<Value, Failure> {
    Ok(json!({
        "url": target.server().base().to_string(),
        "model": target.model(),
        "calibration": value(&target.calibration())?,
    }))
}

/// Returns figures as JSON.
pub(super) fn value(figures: &impl Serialize) -> Result<Value, Failure> {
    Ok(serde_json::to_value(figures)?)
}

fn arrivals(w: &Workload, search: bool) -> String {
    let mut text = match &w.arrivals {
        Arrivals::Users(..) if search => "maximum of users".to_owned(),
        Arrivals::Users(n, _) => plural(*n as usize, "user"),
        Arrivals::Rate(rate) => format!("{rate} requests/s, random arrivals"),
        Arrivals::Trace { trace, scale, length_scale } => {
            let lengths =
                if *length_scale == 1.0 { String::new() } else { format!(", lengths times {length_scale}") };
            format!("trace of {}, {scale} times as fast{lengths}", plural(trace.arrivals().len(), "request"))
        }
    };
    if let Some(n) = w.requests {
        text += &format!(", {}", plural(usize::try_from(n).unwrap_or(usize::MAX), "request"));
    }
    if let Some(duration) = w.duration {
        text += &format!(", {} s", duration.as_secs_f64());
    }
    let before = (w.warmup + w.ramp).as_secs_f64();
    if before > 0.0 { format!("{text} after {before} s") } else { text }
}

/// Writes the figures of a run as text.
pub(super) fn figures(out: &mut dyn Write, s: &Summary, generator: Option<&Generator>) -> io::Result<()> {
    let mut facts = Facts::default();
    let c = &s.requests;
    let warmup = if c.warmup > 0 { format!(", {} before that", c.warmup) } else { String::new() };
    let again = if c.rejections > 0 { format!(", {} sent again", c.rejections) } else { String::new() };
    let cut = if s.interrupted { ", interrupted" } else { "" };
    let counts = format!("{} complete, {} failed{again}{warmup}", c.completed, c.failed);
    facts.add("requests", format!("{counts}, in {:.1} s{cut}", s.seconds));
    facts.add(
        "rates",
        format!(
            "{} output t/s, {} input t/s, {} requests/s",
            rate(s.output_tps),
            rate(s.input_tps),
            rate(s.requests_per_s)
        ),
    );
    if let Some(user) = s.user_tps {
        let slow = format!("95 of 100 at least {}", rate(user.p5));
        facts.add("per user", format!("{} t/s in the median, {slow}", rate(user.p50)));
    }
    if let Some(share) = s.cached_share.filter(|share| *share > 0.0) {
        facts.add("cached", format!("{:.1} % of the prompt tokens", share * 100.0));
    }
    if let Some(per_event) = s.tokens_per_event.filter(|n| (n - 1.0).abs() > 0.02) {
        facts.add("events", format!("{per_event:.2} tokens each, so inter-token times are between events"));
    }
    if let Some(share) = s.together_share.filter(|share| *share > 0.05) {
        facts.add(
            "together",
            format!("{:.0} % of events arrived together with the previous one, 0 s after it", share * 100.0),
        );
    }
    if s.short_answers > 0 {
        facts.add("short", format!("{} with fewer tokens than requested", plural(s.short_answers, "answer")));
    }
    let lag = s.send_lag_s.map_or(0.0, |lag| lag.p99);
    let cpu = generator.map(|g| format!(", {:.2} processors busy", g.share())).unwrap_or_default();
    facts.add("generator", format!("requests sent late by {} (p99){cpu}", seconds(lag)));
    facts.write(out)?;
    writeln!(out)?;

    let mut table =
        Table::new(&["", "mean", "p50", "p90", "p95", "p99", "max", "samples"], &[1, 2, 3, 4, 5, 6, 7]);
    let mut row = |name: &str, percentiles: Option<Percentiles>, show: fn(f64) -> String| {
        let Some(p) = percentiles else { return };
        let cells = [p.mean, p.p50, p.p90, p.p95, p.p99, p.max].map(show);
        let count = p.count.to_string();
        table.add([name.to_owned()].into_iter().chain(cells).chain([count]).collect());
    };
    row("time to first token", s.ttft_s, seconds);
    row("inter-token", s.itl_s, seconds);
    row("end to end", s.e2e_s, seconds);
    row("prompt tokens", s.prompt_tokens, rate);
    row("output tokens", s.output_tokens, rate);
    table.write(out)?;

    if !s.errors.is_empty() {
        writeln!(out)?;
        let mut table = Table::new(&["failure", "requests", "example"], &[1]);
        for row in &s.errors {
            table.add(vec![row.class.name().into(), row.count.to_string(), printable(&row.example, 200)]);
        }
        table.write(out)?;
    }
    let Some(slo) = &s.slo else { return Ok(()) };
    writeln!(out)?;
    let mut table = Table::new(&["promise", "measured", "samples", "verdict"], &[1, 2]);
    for outcome in &slo.limits {
        let tps = outcome.limit.starts_with("user_tps");
        let value = outcome
            .value
            .map_or("never".to_owned(), |v| if tps { format!("{} t/s", rate(v)) } else { seconds(v) });
        table.add(vec![
            outcome.limit.clone(),
            value,
            outcome.count.to_string(),
            word(outcome.verdict).into(),
        ]);
    }
    table.write(out)?;
    writeln!(out, "goodput {:.1} % of requests, {} requests/s", slo.goodput * 100.0, rate(slo.goodput_per_s))
}

/// Returns a verdict as text.
pub(super) fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Pass => "PASS",
        Verdict::Fail => "FAIL",
        Verdict::Unsure => "too few samples",
    }
}

/// Prints warnings about figures that may be misleading.
pub(super) fn warn(s: &Summary) {
    if s.is_late() {
        let lag = s.send_lag_s.map_or(0.0, |lag| lag.p99);
        // Errors of standard error cannot be reported.
        let _ = writeln!(
            io::stderr(),
            "warning: the generator itself sent requests {} late (p99): it lacks processor time or threads, and \
             latencies are in doubt",
            seconds(lag)
        );
    }
}

/// Formats a rate with three digits.
pub(super) fn rate(n: f64) -> String {
    let digits = if n >= 99.95 || n == 0.0 { 0 } else { 1 + usize::from(n < 9.995) };
    format!("{n:.digits$}")
}

/// Formats seconds in a suitable unit.
pub(super) fn seconds(s: f64) -> String {
    if s >= 0.9995 {
        format!("{} s", rate(s))
    } else if s >= 0.001 || s == 0.0 {
        format!("{} ms", rate(s * 1e3))
    } else {
        format!("{} µs", rate(s * 1e6))
    }
}
