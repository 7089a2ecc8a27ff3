//! Results in llama-bench's formats, and relative to the machine's peak rates.

use std::io::Write;

use leyden_kernels::Ceilings;
use leyden_kernels::topology::{Cache, Topology};
use serde::Serialize;
use serde_json::{Value, json};

use super::args::{Args, Format};
use super::measure::{Measured, mean_and_deviation, median};
use super::model::Loaded;
use super::test_case::Test;
use crate::cli::failure::Failure;
use crate::cli::pages;
use crate::cli::text::{Table, bytes, count};

/// Facts of a report beside the results.
pub(super) struct Report<'a> {
    pub(super) args: &'a Args,
    pub(super) model: &'a Loaded,
    /// Size of the last-level caches in bytes.
    pub(super) cached: usize,
}

/// One result under llama-bench's keys.
#[derive(Serialize)]
struct Row {
    build_commit: &'static str,
    build_number: u32,
    cpu_info: String,
    gpu_info: &'static str,
    backends: &'static str,
    model_filename: String,
    model_type: String,
    model_size: u64,
    model_n_params: u64,
    n_batch: usize,
    n_ubatch: usize,
    n_threads: usize,
    type_k: String,
    type_v: String,
    n_gpu_layers: u32,
    n_prompt: usize,
    n_gen: usize,
    n_depth: usize,
    test_time: String,
    avg_ns: u64,
    stddev_ns: u64,
    avg_ts: f64,
    stddev_ts: f64,
    samples_ns: Vec<u64>,
    samples_ts: Vec<f64>,
}

impl Report<'_> {
    fn format(&self) -> Option<Format> {
        (!self.args.json).then_some(self.args.output)
    }

    fn row(&self, m: &Measured) -> Row {
        let rates = m.rates();
        let (avg_ts, stddev_ts) = mean_and_deviation(&rates);
        let times: Vec<f64> = m.nanoseconds.iter().map(|ns| *ns as f64).collect();
        let (avg_ns, stddev_ns) = mean_and_deviation(&times);
        Row {
            build_commit: env!("CARGO_PKG_VERSION"),
            build_number: 0,
            cpu_info: Topology::detect().processor.brand,
            gpu_info: "",
            backends: "CPU",
            model_filename: self.model.file.clone(),
            model_type: self.model.kind.clone(),
            model_size: self.model.bytes,
            model_n_params: self.model.parameters,
            n_batch: m.test.batch,
            n_ubatch: m.test.batch,
            n_threads: self.threads(&m.test),
            type_k: self.args.kv_type.to_string(),
            type_v: self.args.kv_type.to_string(),
            n_gpu_layers: 0,
            n_prompt: m.test.prompt * m.test.users(),
            n_gen: m.test.generate * m.test.users(),
            n_depth: m.test.depth,
            test_time: m.time.clone(),
            avg_ns: avg_ns as u64,
            stddev_ns: stddev_ns as u64,
            avg_ts,
            stddev_ts,
            samples_ns: m.nanoseconds.clone(),
            samples_ts: rates,
        }
    }

    /// Returns the threads of each replica: those for prefill if the test only has a prompt.
    fn threads(&self, test: &Test) -> usize {
        let threads = self.model.threads(test);
        if test.generate == 0 { threads.prompt } else { threads.generate }
    }

    /// Writes the text before the first result.
    pub(super) fn begin(&self, out: &mut dyn Write) -> Result<(), Failure> {
        if self.format() == Some(Format::Json) {
            write!(out, "[")?;
        }
        Ok(())
    }

    /// Writes the `i`-th result, for formats with one result at a time.
    pub(super) fn add(&self, out: &mut dyn Write, m: &Measured, i: usize) -> Result<(), Failure> {
        match self.format() {
            Some(Format::Json) => {
                write!(out, "{}\n  ", if i == 0 { "" } else { "," })?;
                serde_json::to_writer(&mut *out, &self.row(m))?;
            }
            Some(Format::Jsonl) => {
                serde_json::to_writer(&mut *out, &self.row(m))?;
                writeln!(out)?;
            }
            Some(Format::Csv) => self.csv(out, m, i == 0)?,
            Some(Format::Md) | None => {}
        }
        out.flush()?;
        Ok(())
    }

    /// Writes the text after the last result.
    pub(super) fn end(&self, out: &mut dyn Write, results: &[Measured]) -> Result<(), Failure> {
        match self.format() {
            Some(Format::Json) => writeln!(out, "\n]")?,
            Some(Format::Md) => self.table(out, results)?,
            Some(Format::Jsonl | Format::Csv) => {}
            None => {
                serde_json::to_writer_pretty(&mut *out, &self.document(results)?)?;
                writeln!(out)?;
            }
        }
        Ok(())
    }

    fn csv(&self, out: &mut dyn Write, m: &Measured, head: bool) -> Result<(), Failure> {
        let Value::Object(row) = serde_json::to_value(self.row(m))? else { return Ok(()) };
        let cells = row.iter().filter(|(key, _)| !key.starts_with("samples"));
        let quoted = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
        if head {
            let keys: Vec<&str> = cells.clone().map(|(key, _)| key.as_str()).collect();
            writeln!(out, "{}", keys.join(","))?;
        }
        let values: Vec<String> = cells
            .map(|(_, value)| quoted(&value.as_str().map_or_else(|| value.to_string(), str::to_owned)))
            .collect();
        writeln!(out, "{}", values.join(","))?;
        Ok(())
    }

    /// Returns the share of a peak rate that a test reaches: the median of its repetitions.
    fn share(&self, m: &Measured) -> Option<(f64, &'static str)> {
        let (_, of) = self.share_of(&m.test, median(&m.rates()), &medians(&m.ceilings)?)?;
        let each = m.rates().into_iter().zip(&m.ceilings);
        let shares: Vec<f64> = each
            .filter_map(|(rate, c)| self.share_of(&m.test, rate, c))
            .filter_map(|(share, what)| (what == of).then_some(share))
            .collect();
        Some((median(&shares), of))
    }

    /// Returns the share of a peak rate: of the bandwidth for decode, of the products for prefill.
    fn share_of(&self, test: &Test, rate: f64, c: &Ceilings) -> Option<(f64, &'static str)> {
        let macs = c.macs(self.model.grid);
        if test.prompt > 0 && test.generate == 0 {
            // Every step computes the logits of its last token.
            let outputs = test.prompt.div_ceil(test.batch);
            let needed = self.model.step_macs(test.prompt, outputs)? as f64 / test.prompt as f64;
            return Some((rate * needed / macs, "of products"));
        }
        if test.prompt > 0 {
            return None;
        }
        let weights = self.model.step_bytes(test.parallel)?;
        let kept = (test.depth + test.generate / 2) * self.model.kv_token_bytes(self.args.kv_type)?;
        // Each replica reads the weights.
        let steps = rate / test.parallel as f64;
        let read = steps * (weights + kept * test.parallel) as f64 / c.read_bytes;
        let made = steps * self.model.step_macs(test.parallel, test.parallel)? as f64 / macs;
        if weights < self.cached && read > made {
            // The weights fit the caches, so memory bandwidth is no limit.
            return None;
        }
        Some(if read >= made { (read, "of bandwidth") } else { (made, "of products") })
    }

    /// Returns the columns with values in these results.
    fn columns<'s>(&'s self, results: &[Measured]) -> Vec<Column<'s>> {
        let any = |differs: &dyn Fn(&Measured) -> bool| results.iter().any(differs);
        let mean = |m: &Measured| mean_and_deviation(&m.rates()).0;
        let mut columns = Vec::new();
        if any(&|m| m.test.replicas > 1) {
            columns.push(Column::number("replicas", |m| m.test.replicas.to_string()));
        }
        columns.push(Column::number("threads", |m| self.threads(&m.test).to_string()));
        if any(&|m| m.test.batch != results[0].test.batch) {
            columns.push(Column::number("batch", |m| m.test.batch.to_string()));
        }
        columns.push(Column { name: "test", right: false, cell: Box::new(|m| m.test.name()) });
        columns.push(Column::number("t/s", move |m| format!("{:.2}", mean(m))));
        columns.push(Column::number("+-", |m| format!("{:.2}", mean_and_deviation(&m.rates()).1)));
        if any(&|m| m.test.users() > 1) {
            let per_user = move |m: &Measured| format!("{:.2}", mean(m) / m.test.users() as f64);
            columns.push(Column::number("per user", per_user));
        }
        if any(&|m| m.joules_per_token().is_some()) {
            let joules = |m: &Measured| m.joules_per_token().map_or(String::new(), |j| format!("{j:.3}"));
            columns.push(Column::number("J/token", joules));
        }
        let share = move |m: &Measured| {
            let share = self.share(m);
            share.map_or(String::new(), |(share, of)| format!("{:.0} % {of}", share * 100.0))
        };
        columns.push(Column { name: "share", right: false, cell: Box::new(share) });
        columns
    }

    fn table(&self, out: &mut dyn Write, results: &[Measured]) -> Result<(), Failure> {
        writeln!(
            out,
            "{}: {}, {}, {} parameters; {}, keys and values {}\n",
            self.model.name(),
            self.model.kind,
            bytes(self.model.bytes),
            count(self.model.parameters),
            self.model.tier.level(),
            self.args.kv_type,
        )?;
        let versus = results.iter().any(|m| !m.versus.is_empty());
        let columns = self.columns(results);
        let mut head: Vec<&str> = columns.iter().map(|column| column.name).collect();
        let mut right: Vec<usize> = (0..columns.len()).filter(|&i| columns[i].right).collect();
        if versus {
            right.extend(head.len()..head.len() + 4);
            head.extend(["other t/s", "ratio", "lowest", "highest"]);
        }
        let mut table = Table::new(&head, &right);
        for m in results {
            let mut row: Vec<String> = columns.iter().map(|column| (column.cell)(m)).collect();
            if let Some(c) = Comparison::of(m) {
                row.extend([c.other, c.ratio, c.lowest, c.highest].map(|x| format!("{x:.2}")));
            }
            table.add(row);
        }
        table.write(out)?;
        if let Some(c) = medians(results.iter().flat_map(|m| &m.ceilings)) {
            writeln!(
                out,
                "\nat most, medians of this run: {:.1} GB/s read, {:.0} G products/s of int8, {:.0} G of f32, {:.0} G of \
                 bf16",
                c.read_bytes / 1e9,
                c.int8_macs / 1e9,
                c.f32_macs / 1e9,
                c.bf16_macs / 1e9
            )?;
        }
        if versus {
            writeln!(
                out,
                "ratio of the medians, with the lowest and highest ratio of a pair; programs run in turns"
            )?;
        }
        Ok(())
    }

    /// Returns the JSON of the results.
    pub(super) fn document(&self, results: &[Measured]) -> Result<Value, Failure> {
        let ceilings = medians(results.iter().flat_map(|m| &m.ceilings)).map(|c| {
            json!({
                "read_bytes_per_second": c.read_bytes,
                "int8_products_per_second": c.int8_macs,
                "f32_products_per_second": c.f32_macs,
                "bf16_products_per_second": c.bf16_macs,
            })
        });
        let mut tests = Vec::new();
        for m in results {
            let mut value = serde_json::to_value(self.row(m))?;
            let (mean, _) = mean_and_deviation(&m.rates());
            value["parallel"] = json!(m.test.parallel);
            value["replicas"] = json!(m.test.replicas);
            value["threads_batch"] = json!(self.model.threads(&m.test).prompt);
            value["per_user_ts"] = json!(mean / m.test.users() as f64);
            value["joules_per_token"] = json!(m.joules_per_token());
            value["tier"] = json!(self.model.tier.level().name());
            if let Some((share, of)) = self.share(m) {
                value["share"] = json!(share);
                value["share_of"] = json!(of.trim_start_matches("of "));
            }
            if let Some(c) = Comparison::of(m) {
                value["versus"] = json!({
                    "samples_ts": m.versus,
                    "median_ts": c.other,
                    "ratio": c.ratio,
                    "lowest_ratio": c.lowest,
                    "highest_ratio": c.highest,
                });
            }
            tests.push(value);
        }
        Ok(json!({
            "version": env!("CARGO_PKG_VERSION"),
            "about": pages::about(),
            "ceilings": ceilings,
            "tests": tests,
        }))
    }
}

/// Returns the medians of the peak rates; `None` if there are none.
fn medians<'c>(all: impl IntoIterator<Item = &'c Ceilings>) -> Option<Ceilings> {
    let all: Vec<&Ceilings> = all.into_iter().collect();
    let of = |what: fn(&Ceilings) -> f64| median(&all.iter().map(|c| what(c)).collect::<Vec<_>>());
    (!all.is_empty()).then(|| Ceilings {
        read_bytes: of(|c| c.read_bytes),
        int8_macs: of(|c| c.int8_macs),
        f32_macs: of(|c| c.f32_macs),
        bf16_macs: of(|c| c.bf16_macs),
    })
}

/// Column of the table.
struct Column<'s> {
    name: &'static str,
    /// True for a column of numbers, aligned to the right.
    right: bool,
    cell: Box<dyn Fn(&Measured) -> String + 's>,
}

impl<'s> Column<'s> {
    fn number(name: &'static str, cell: impl Fn(&Measured) -> String + 's) -> Column<'s> {
        Column { name, right: true, cell: Box::new(cell) }
    }
}

/// Returns the bytes of all last-level caches: an upper bound of the weights that stay there between two tokens.
pub(in crate::cli) fn cache_bytes() -> usize {
    let caches = Topology::detect().caches;
    let last = caches.iter().map(|c| c.level).max().unwrap_or(0);
    let bytes = |c: &Cache| c.size_bytes.saturating_mul(c.instances.len() as u64);
    let sum: u64 = caches.iter().filter(|c| c.level == last).map(bytes).sum();
    usize::try_from(sum).unwrap_or(usize::MAX)
}

/// Comparison with the other program.
struct Comparison {
    other: f64,
    ratio: f64,
    lowest: f64,
    highest: f64,
}

impl Comparison {
    fn of(m: &Measured) -> Option<Comparison> {
        if m.versus.is_empty() {
            return None;
        }
        let ours = m.rates();
        let pairs: Vec<f64> = ours.iter().zip(&m.versus).map(|(a, b)| a / b).collect();
        let other = median(&m.versus);
        Some(Comparison {
            other,
            ratio: median(&ours) / other,
            lowest: pairs.iter().copied().fold(f64::INFINITY, f64::min),
            highest: pairs.iter().copied().fold(0.0, f64::max),
        })
    }
}
