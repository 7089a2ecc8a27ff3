//! [`grades`]: predictions of recorded measurements; [`Bands`]: intervals that follow from their errors.

use crate::error::Error;
use crate::interval::{Band, Interval};
use crate::kernels::KernelClass;
use crate::machine::Machine;
use crate::recorded::{self, EncoderTest, Test};
use crate::step::{StepLoad, step_time};
use leyden_kernels::attention::KvType;
use serde::Serialize;

/// Kind of a measurement, by the part of the model that it tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Prompt.
    Prefill,
    /// Generation of one sequence.
    Decode,
    /// Generation of several sequences together.
    Together,
    /// Texts of an encoder.
    Encoder,
}

/// Recorded measurement with its prediction.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Grade {
    /// Folder of the machine under `bench/results`.
    pub folder: &'static str,
    /// Class of the machine's kernels.
    pub class: KernelClass,
    /// Model.
    pub model: String,
    /// Types of its weights.
    pub types: String,
    /// Test, as in the results.
    pub test: String,
    /// Kind of the test.
    pub kind: Kind,
    /// Measured rate: tokens, or documents of an encoder, per second.
    pub measured: f64,
    /// Predicted rate.
    pub predicted: f64,
}

impl Grade {
    /// Returns predicted / measured - 1.
    #[must_use]
    pub fn error(&self) -> f64 {
        self.predicted / self.measured - 1.0
    }
}

/// Errors of several grades.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct GradeSummary {
    /// Number of measurements.
    pub count: usize,
    /// Median of the absolute errors.
    pub median_error: f64,
    /// Largest absolute error.
    pub worst_error: f64,
    /// True if the measurements are of the asked class of kernels; false if that has none, and those of all are taken.
    pub same_class: bool,
}

/// Returns all recorded measurements with their predictions.
///
/// # Errors
/// A table of this crate is malformed, which a test excludes.
pub fn grades() -> Result<Vec<Grade>, Error> {
    let mut all = Vec::new();
    for (folder, json) in recorded::RESULTS {
        for test in recorded::tests(json)? {
            all.push(grade(folder, &test)?);
        }
    }
    let (folder, tests) = recorded::encoder_tests()?;
    for test in &tests {
        all.push(grade_encoder(folder, test)?);
    }
    Ok(all)
}

/// Test of a result file, parsed.
#[derive(Debug, PartialEq)]
struct Parsed {
    kind: Kind,
    load: StepLoad,
    threads: Option<usize>,
}

/// Parses the name of a test: `pp512`, `pp512, 4 threads`, `tg16 @ d8192, f16 KV` or `8 sequences`.
fn parse(test: &str) -> Option<Parsed> {
    let (head, rest) = test.split_once([' ', ',']).map_or((test, ""), |(head, rest)| (head, rest.trim()));
    let mut load = StepLoad { sequences: 1, tokens: 1, depth: 0, outputs: 1, kv_type: KvType::F16 };
    let mut threads = None;
    for part in rest.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        match part.split_once(' ')? {
            ("@", depth) => load.depth = depth.strip_prefix('d')?.parse().ok()?,
            (kv_type, "KV") => load.kv_type = KvType::from_name(kv_type)?,
            (n, "thread" | "threads") => threads = Some(n.parse().ok()?),
            _ if part == "sequences" => {}
            _ => return None,
        }
    }
    let kind = if let Some(tokens) = head.strip_prefix("pp") {
        load.tokens = tokens.parse().ok()?;
        Kind::Prefill
    } else if let Some(tokens) = head.strip_prefix("tg") {
        load.depth += tokens.parse::<usize>().ok()? / 2;
        Kind::Decode
    } else {
        load.sequences = head.parse().ok()?;
        load.depth = 8;
        Kind::Together
    };
    Some(Parsed { kind, load, threads })
}

fn grade(folder: &'static str, test: &Test) -> Result<Grade, Error> {
    // `8 sequences` has no comma, so the word is dropped first.
    let name = test.test.strip_suffix(" sequences").unwrap_or(&test.test);
    let what = || format!("{folder}: test `{}`", test.test);
    let Parsed { kind, load, threads } =
        parse(name).ok_or_else(|| Error::Table { table: "bench/results", what: what() })?;
    let model = recorded::model(&test.model, &test.types)?;
    let mut machine = recorded::machine(folder, threads)?;
    let tokens = (load.sequences * load.tokens) as f64;
    if let (Kind::Decode, Some(share), Some("bandwidth")) = (kind, test.share, test.share_of.as_deref()) {
        // The bandwidth was measured before each repetition: on a shared machine it differs between the tests.
        let time = step_time(&model, &machine, &load);
        let bytes = time.reads * machine.read_bytes.value * machine.class.constants().read;
        machine.read_bytes = Interval::exact(bytes * test.leyden_ts / share);
    }
    let predicted = tokens / step_time(&model, &machine, &load).total;
    Ok(Grade {
        folder,
        class: machine.class,
        model: test.model.clone(),
        types: test.types.clone(),
        test: test.test.clone(),
        kind,
        measured: test.leyden_ts,
        predicted,
    })
}

fn grade_encoder(folder: &'static str, test: &EncoderTest) -> Result<Grade, Error> {
    let model = recorded::model(&test.model, test.types)?;
    let machine: Machine = recorded::machine(folder, Some(test.threads))?;
    let &EncoderTest { sequences, tokens, .. } = test;
    let load = StepLoad { sequences, tokens, depth: 0, outputs: tokens, kv_type: KvType::F32 };
    Ok(Grade {
        folder,
        class: machine.class,
        model: test.model.clone(),
        types: test.types.to_owned(),
        test: format!("{sequences} x {tokens} tokens, {} threads", test.threads),
        kind: Kind::Encoder,
        measured: test.per_second,
        predicted: sequences as f64 / step_time(&model, &machine, &load).total,
    })
}

/// Returns the grades of a kind nearest to a class of kernels: of the class, or of all if it has none.
fn nearest(all: &[Grade], class: KernelClass, kind: Kind) -> (Vec<&Grade>, bool) {
    let of_kind = all.iter().filter(|grade| grade.kind == kind);
    let same: Vec<&Grade> = of_kind.clone().filter(|grade| grade.class == class).collect();
    if same.is_empty() { (of_kind.collect(), false) } else { (same, true) }
}

/// Returns the errors of the grades of a kind nearest to a class of kernels.
#[must_use]
pub fn summary(all: &[Grade], class: KernelClass, kind: Kind) -> Option<GradeSummary> {
    let (near, same_class) = nearest(all, class, kind);
    let mut errors: Vec<f64> = near.iter().map(|grade| grade.error().abs()).collect();
    errors.sort_by(f64::total_cmp);
    Some(GradeSummary {
        count: errors.len(),
        median_error: *errors.get(errors.len() / 2)?,
        worst_error: *errors.last()?,
        same_class,
    })
}

/// Widest band that grades of another class give: kernels of the class were never measured.
const UNGRADED: Band = Band { low: 0.5, high: 1.6 };
/// Narrowest band: runs on a shared machine differ by as much.
const NARROWEST: Band = Band { low: 0.9, high: 1.1 };

/// Returns the band of a kind of prediction for a class of kernels: 10th to 90th percentile of measured / predicted.
#[must_use]
pub fn band(all: &[Grade], class: KernelClass, kind: Kind) -> Band {
    let (near, same_class) = nearest(all, class, kind);
    let mut ratios: Vec<f64> = near.iter().map(|grade| grade.measured / grade.predicted).collect();
    ratios.sort_by(f64::total_cmp);
    let at = |share: f64| {
        let place = (share * (ratios.len().saturating_sub(1)) as f64).round() as usize;
        ratios.get(place).copied().unwrap_or(1.0)
    };
    let Band { low, high } = NARROWEST;
    let found = Band { low: at(0.1).min(low), high: at(0.9).max(high) };
    if same_class { found } else { found.and(UNGRADED) }
}

/// Bands of all kinds of predictions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bands {
    pub(crate) prefill: Band,
    pub(crate) decode: Band,
    pub(crate) together: Band,
    pub(crate) encoder: Band,
}

impl Bands {
    /// Returns the bands of a class of kernels.
    pub(crate) fn of(class: KernelClass) -> Bands {
        let all = grades().unwrap_or_default();
        let of = |kind| band(&all, class, kind);
        Bands {
            prefill: of(Kind::Prefill),
            decode: of(Kind::Decode),
            together: of(Kind::Together),
            encoder: of(Kind::Encoder),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_tests_are_parsed() {
        let of = |name: &str| {
            let Parsed { kind, load, threads } = parse(name)?;
            Some((kind, load.sequences, load.tokens, load.depth, load.kv_type, threads))
        };
        assert_eq!(of("pp512"), Some((Kind::Prefill, 1, 512, 0, KvType::F16, None)));
        assert_eq!(of("pp512, 1 thread"), Some((Kind::Prefill, 1, 512, 0, KvType::F16, Some(1))));
        assert_eq!(of("pp512 @ d8192, q8_0 KV"), Some((Kind::Prefill, 1, 512, 8192, KvType::Q8_0, None)));
        assert_eq!(of("tg16 @ d8192, f16 KV"), Some((Kind::Decode, 1, 1, 8200, KvType::F16, None)));
        assert_eq!(of("8"), Some((Kind::Together, 8, 1, 8, KvType::F16, None)));
        for name in ["", "pp", "ppx", "tg16 @ 8192", "pp512, f17 KV", "pp512 quickly"] {
            assert_eq!(of(name), None, "{name}");
        }
    }
}
