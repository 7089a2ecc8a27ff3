//! [`Decider`]: a promise with its thresholds; [`Decision`]: the answer for one text.

use super::answers::{choose, rows_for_error};
use super::binomial::{beta_quantile, upper_bound};
use super::conformal::{SetScore, groups, rank, rows_for_coverage, threshold};
use super::document::{Calibration, LabelKind, check_texts, labelled_rows, probabilities};
use super::error::{CalibrationError, fraction};
use super::promise::Promise;
use crate::order::ranked;

/// Share of calibrations whose coverage lies in the stated interval.
const INTERVAL: f64 = 0.95;

/// Rows on which a promise is based.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Basis {
    /// Coverage.
    Coverage {
        /// Number of threshold rows; per class that of the smallest group.
        rows: usize,
        /// Rank of the threshold among them.
        rank: usize,
        /// Interval of the coverage that 95 % of calibrations give.
        interval: (f64, f64),
    },
    /// Error rate of answers.
    MaxError {
        /// Number of threshold rows.
        rows: usize,
        /// Number of those that are answered; of texts with any number of labels, the sum of labels.
        answered: usize,
        /// Number of those that are wrong.
        wrong: usize,
        /// Upper bound of the error rate; of texts with any number of labels, the largest of a label.
        bound: f64,
    },
}

/// Kind of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// One label.
    Label,
    /// Set of labels.
    Set,
    /// None: the text is too hard for the promise.
    Abstain,
}

impl Answer {
    /// Returns the name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Answer::Label => "label",
            Answer::Set => "set",
            Answer::Abstain => "abstain",
        }
    }
}

/// Decision on a text.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// Kind.
    pub answer: Answer,
    /// Indices of the labels with their calibrated probabilities, the most probable first. An abstention has the set if
    /// the promise is about sets, else nothing.
    pub labels: Vec<(usize, f32)>,
}

/// Thresholds of labels.
#[derive(Clone, Debug)]
enum Rule {
    /// Maximum score of each label in a set.
    Sets(Vec<f32>),
    /// Minimum confidence of an answer, or of each label; `None` for a label that is never given.
    Answers(Vec<Option<f32>>),
}

/// Promise with its thresholds, which decides.
#[derive(Clone, Debug)]
pub struct Decider {
    kind: LabelKind,
    labels: usize,
    temperature: f64,
    score: SetScore,
    promise: Promise,
    rule: Rule,
    basis: Basis,
    max_set: usize,
    /// True if texts that are too long are truncated, and the number of tokens that stay.
    texts: (bool, usize),
    /// Labels that are never given, as too few rows have them.
    silent: Vec<usize>,
}

impl Decider {
    /// Returns the decider of a promise. A set with more than `max_set` labels is an abstention.
    ///
    /// # Errors
    /// There are too few rows for the promise, or no threshold keeps it.
    pub fn new(
        calibration: &Calibration,
        promise: Promise,
        max_set: Option<usize>,
    ) -> Result<Decider, CalibrationError> {
        promise.check()?;
        let (rule, basis, silent) = match promise {
            Promise::Coverage { coverage, per_class } => {
                let (thresholds, basis) = sets(calibration, promise, coverage, per_class)?;
                (Rule::Sets(thresholds), basis, Vec::new())
            }
            Promise::MaxError { max_error, confidence } => {
                answers(calibration, promise, (max_error, confidence))?
            }
        };
        Ok(Decider {
            kind: calibration.kind,
            labels: calibration.labels.len(),
            temperature: calibration.temperature,
            score: calibration.score,
            promise,
            rule,
            basis,
            max_set: max_set.unwrap_or(usize::MAX),
            texts: (calibration.made_for.truncate, calibration.made_for.max_tokens),
            silent,
        })
    }

    /// Returns the promise.
    #[must_use]
    pub fn promise(&self) -> Promise {
        self.promise
    }

    /// Returns the rows on which the promise is based.
    #[must_use]
    pub fn basis(&self) -> Basis {
        self.basis
    }

    /// Returns the indices of labels that are never given, as too few rows have them.
    #[must_use]
    pub fn silent(&self) -> &[usize] {
        &self.silent
    }

    /// Returns the number of labels that a text has.
    #[must_use]
    pub fn kind(&self) -> LabelKind {
        self.kind
    }

    /// Returns true if texts that are too long are truncated.
    #[must_use]
    pub fn truncates(&self) -> bool {
        self.texts.0
    }

    /// Checks that texts which are too long are treated as at the calibration.
    ///
    /// # Errors
    /// They are treated differently.
    pub fn check_texts(&self, truncate: bool, max_tokens: usize) -> Result<(), CalibrationError> {
        check_texts(self.texts, (truncate, max_tokens))
    }

    /// Decides on a text by its logits.
    ///
    /// # Errors
    /// They are not finite, or not one for each label.
    pub fn decide(&self, logits: &[f32]) -> Result<Decision, CalibrationError> {
        if logits.len() != self.labels || logits.iter().any(|z| !z.is_finite()) {
            return Err(CalibrationError::Scores);
        }
        let all = probabilities(logits, self.temperature, self.kind);
        let within: Vec<bool> = match &self.rule {
            Rule::Sets(thresholds) => {
                let scores = match self.kind {
                    LabelKind::One => self.score.of(&all),
                    LabelKind::Any => SetScore::Lac.of(&all),
                };
                scores.iter().zip(thresholds).map(|(score, most)| score <= most).collect()
            }
            Rule::Answers(least) if self.kind == LabelKind::Any => {
                let given = |(p, least): (&f64, &Option<f32>)| least.is_some_and(|least| *p as f32 >= least);
                all.iter().zip(least).map(given).collect()
            }
            Rule::Answers(least) => {
                let least = least.first().copied().flatten().unwrap_or(f32::INFINITY);
                let best = crate::order::best(&all.iter().map(|p| *p as f32).collect::<Vec<_>>());
                (0..all.len()).map(|i| Some(i) == best && all[i] as f32 >= least).collect()
            }
        };
        let ordered = ranked(all.iter().map(|p| *p as f32));
        let labels: Vec<(usize, f32)> = ordered.into_iter().filter(|(label, _)| within[*label]).collect();
        let answer = match (&self.rule, self.kind, labels.len()) {
            (_, _, n) if n > self.max_set => Answer::Abstain,
            // No label applies: this is an answer too.
            (Rule::Sets(_), LabelKind::Any, _) => Answer::Set,
            (_, _, 0) => Answer::Abstain,
            (_, LabelKind::One, 1) => Answer::Label,
            _ => Answer::Set,
        };
        Ok(Decision { answer, labels })
    }

    /// Returns the promise in a sentence, with the rows on which it is based.
    #[must_use]
    pub fn statement(&self) -> String {
        match (self.promise, self.basis) {
            (Promise::Coverage { coverage, per_class }, Basis::Coverage { rows, interval, .. }) => {
                let (what, each) = match (self.kind, per_class) {
                    (LabelKind::Any, _) => ("each right label is in the set", "of the rarest label"),
                    (LabelKind::One, true) => {
                        ("per class, the right label is in the set", "of the rarest class")
                    }
                    (LabelKind::One, false) => ("the right label is in the set", "in all"),
                };
                format!(
                    "coverage {}: {what} with at least this probability, if texts are like the {rows} labelled ones \
                     ({each}); 95 % of such calibrations cover {} to {}",
                    fraction(coverage),
                    rounded(interval.0),
                    rounded(interval.1)
                )
            }
            (
                Promise::MaxError { max_error, confidence },
                Basis::MaxError { rows, answered, wrong, bound },
            ) => {
                let what = if self.kind == LabelKind::One { "answers" } else { "given labels" };
                format!(
                    "max-error {}: at most this share of {what} is wrong, with {} confidence, if texts are like the \
                     {rows} labelled ones; {wrong} of {answered} were wrong, upper bound {}",
                    fraction(max_error),
                    fraction(confidence),
                    rounded(bound)
                )
            }
            (promise, _) => promise.to_string(),
        }
    }
}

fn rounded(share: f64) -> String {
    format!("{:.2} %", 100.0 * share)
}

/// Returns the threshold of each label in sets.
fn sets(
    calibration: &Calibration,
    promise: Promise,
    coverage: f64,
    per_class: bool,
) -> Result<(Vec<f32>, Basis), CalibrationError> {
    let rows: Vec<usize> = calibration.sets.iter().map(Vec::len).collect();
    let all: Vec<usize> = (0..rows.len()).collect();
    let groups = match calibration.kind {
        LabelKind::Any => all.into_iter().map(|label| vec![label]).collect(),
        LabelKind::One if per_class => groups(&rows, coverage),
        LabelKind::One => vec![all],
    };
    let mut thresholds = vec![f32::NEG_INFINITY; rows.len()];
    let mut fewest = usize::MAX;
    for group in groups {
        let mut scores: Vec<f32> =
            group.iter().flat_map(|label| calibration.sets[*label].iter().copied()).collect();
        scores.sort_by(f32::total_cmp);
        let Some(found) = threshold(&scores, coverage) else {
            let of = match (calibration.kind, &group[..]) {
                (LabelKind::Any, [label]) => format!(" that have the label `{}`", calibration.labels[*label]),
                _ => String::new(),
            };
            let least = rows_for_coverage(coverage);
            // Tuning rows are a fifth of all.
            let with_tuning = |rows: usize| rows + rows.div_ceil(4);
            let (needed, rows) = match calibration.kind {
                LabelKind::Any => (with_tuning(least), with_tuning(scores.len())),
                LabelKind::One => (labelled_rows(least), calibration.all_rows()),
            };
            return Err(CalibrationError::TooFew { promise: promise.to_string(), of, needed, rows });
        };
        group.iter().for_each(|label| thresholds[*label] = found);
        fewest = fewest.min(scores.len());
    }
    let k = rank(fewest, coverage);
    let quantile = |share| beta_quantile(k, fewest + 1 - k, share);
    let interval = (quantile((1.0 - INTERVAL) / 2.0), quantile((1.0 + INTERVAL) / 2.0));
    Ok((thresholds, Basis::Coverage { rows: fewest, rank: k, interval }))
}

/// Returns the minimum confidences of answers, and the labels without one.
fn answers(
    calibration: &Calibration,
    promise: Promise,
    limits: (f64, f64),
) -> Result<(Rule, Basis, Vec<usize>), CalibrationError> {
    let rows = calibration.rows.thresholds;
    let needed = rows_for_error(limits.0, limits.1);
    if rows < needed {
        return Err(CalibrationError::TooFew {
            promise: promise.to_string(),
            of: String::new(),
            needed: labelled_rows(needed),
            rows: calibration.all_rows(),
        });
    }
    let (mut least, mut silent, mut tried) = (Vec::new(), Vec::new(), (0, 0));
    let (mut answered, mut wrong, mut bound) = (0, 0, 0.0_f64);
    for (label, all) in calibration.answers.iter().enumerate() {
        let counts = |index: usize| (all[index].rows.0 as usize, all[index].rows.1 as usize);
        match choose(all, limits) {
            Ok(index) => {
                let (n, errors) = counts(index);
                (answered, wrong) = (answered + n, wrong + errors);
                bound = bound.max(upper_bound(errors, n, limits.1));
                least.push(Some(all[index].at_least));
            }
            Err(index) => {
                tried = index.map_or(tried, counts).max(tried);
                silent.push(label);
                least.push(None);
            }
        }
    }
    if least.iter().all(Option::is_none) {
        let (max_error, confidence) = limits;
        return Err(CalibrationError::NoThreshold {
            max_error,
            confidence,
            wrong: tried.1,
            answered: tried.0,
        });
    }
    if calibration.kind == LabelKind::One {
        silent.clear();
    }
    Ok((Rule::Answers(least), Basis::MaxError { rows, answered, wrong, bound }, silent))
}
