//! [`judge`]: a floor against measured data.
//!
//! Each floor is tested by itself at 5 %. A joint PASS needs every one, so the probability of a false joint PASS is at
//! most 5 % too, without a correction: it is an intersection-union test (Berger, 1982).

use crate::bounds::{CONFIDENCE, Decision, Studentised, Tally};
use crate::error::Error;
use crate::floor::{Floor, Metric};
use crate::verdict::Verdict;
use serde::{Deserialize, Serialize};

/// Number of draws for a tally, and of resamples for windows: the confidence is known within 0.5 %.
const DRAWS: usize = 20_000;
const RESAMPLES: usize = 10_000;
/// Minimum number of windows: the bootstrap-t says nothing about fewer.
const MIN_WINDOWS: usize = 10;

/// Numbers of questions by the correctness of the model's and the reference's answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pairs {
    /// Both are right.
    pub both: usize,
    /// Only the model is right.
    pub only_model: usize,
    /// Only the reference is right.
    pub only_reference: usize,
    /// Both are wrong. Without a reference, `only_model` and `neither` count the model's answers.
    pub neither: usize,
}

impl Pairs {
    /// Counts outcomes in the same order.
    #[must_use]
    pub fn count(outcomes: impl IntoIterator<Item = (bool, bool)>) -> Pairs {
        let mut pairs = Pairs::default();
        for outcome in outcomes {
            *match outcome {
                (true, true) => &mut pairs.both,
                (true, false) => &mut pairs.only_model,
                (false, true) => &mut pairs.only_reference,
                (false, false) => &mut pairs.neither,
            } += 1;
        }
        pairs
    }

    fn all(&self) -> usize {
        self.both + self.only_model + self.only_reference + self.neither
    }

    fn share(&self, right: usize) -> f64 {
        right as f64 / self.all().max(1) as f64
    }
}

/// Figures of the tokens of one text window.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct WindowFigures {
    /// Number of predicted tokens.
    pub tokens: usize,
    /// Mean negative log likelihood of the model.
    pub nll: f64,
    /// Mean negative log likelihood of the reference, if there is one.
    pub nll_reference: Option<f64>,
    /// Mean KL divergence from the reference.
    pub kld: f64,
    /// Share of positions with the same most probable token.
    pub same_top: f64,
}

/// Data of a floor.
#[derive(Clone, Debug)]
pub enum Measured {
    /// Outcomes of questions.
    Questions(Pairs),
    /// Figures of text windows.
    Windows(Vec<WindowFigures>),
}

/// Result for one floor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Judgement {
    /// Text of the floor.
    pub floor: String,
    /// Name of the data.
    pub data: String,
    /// Verdict.
    pub verdict: Verdict,
    /// Confidence in the verdict; of an inconclusive one, the larger of those in PASS and FAIL.
    pub confidence: f64,
    /// Value of the model.
    pub value: f64,
    /// Value of the reference.
    pub reference: Option<f64>,
    /// Name of the tested quantity, such as `accuracy - 0.95*ref`.
    pub quantity: String,
    /// Estimate of that quantity.
    pub estimate: f64,
    /// Lower and upper bound of that quantity, each with 95 % confidence; absent with too few data.
    pub bounds: Option<(f64, f64)>,
    /// Limit of that quantity.
    pub limit: f64,
    /// Number of questions or windows.
    pub samples: usize,
    /// `questions` or `windows`.
    pub unit: String,
    /// Counts of questions.
    pub pairs: Option<Pairs>,
    /// Number of samples with which an inconclusive verdict would be decided if the figures stay as they are; absent
    /// if a million are not enough.
    pub needed: Option<usize>,
}

/// Judges a floor by the data with this name.
///
/// # Errors
/// The data are of another kind than the metric, or lack the reference that it needs.
pub fn judge(floor: &Floor, data: &str, measured: &Measured, seed: u64) -> Result<Judgement, Error> {
    let wrong = |what: &str| Error::floor(&floor.to_string(), format!("{data}: {what}"));
    match measured {
        Measured::Questions(_) if floor.metric.is_of_text() => {
            Err(wrong("has questions, and the metric is of a text"))
        }
        Measured::Windows(_) if !floor.metric.is_of_text() => {
            Err(wrong("is a text, and the metric is of questions"))
        }
        Measured::Questions(pairs) => Ok(questions(floor, data, pairs, seed)),
        Measured::Windows(windows) => {
            if floor.needs_reference() && windows.iter().any(|window| window.nll_reference.is_none()) {
                return Err(wrong("was measured without a reference"));
            }
            Ok(text(floor, data, windows, seed))
        }
    }
}

fn verdict(decision: &Decision) -> (Verdict, f64) {
    match () {
        () if decision.pass >= CONFIDENCE => (Verdict::Pass, decision.pass),
        () if decision.fail >= CONFIDENCE => (Verdict::Fail, decision.fail),
        () => (Verdict::Inconclusive, decision.pass.max(decision.fail)),
    }
}

/// Returns the values of questions, the limit of their mean, and the name of that mean.
fn tally(floor: &Floor, pairs: &Pairs) -> (Tally, f64, String) {
    let (name, c) = (floor.metric.name(), floor.number);
    if floor.times_reference {
        // The difference `model - c * reference` of each question.
        let values = [
            (1.0 - c, pairs.both),
            (1.0, pairs.only_model),
            (-c, pairs.only_reference),
            (0.0, pairs.neither),
        ];
        (Tally::new(&values), 0.0, format!("{name} - {c}*ref"))
    } else {
        let right = pairs.both + pairs.only_model;
        (Tally::new(&[(1.0, right), (0.0, pairs.all() - right)]), c, name.to_owned())
    }
}

fn questions(floor: &Floor, data: &str, pairs: &Pairs, seed: u64) -> Judgement {
    let value = pairs.share(pairs.both + pairs.only_model);
    let reference = pairs.share(pairs.both + pairs.only_reference);
    let (tally, limit, quantity) = tally(floor, pairs);
    let decision = tally.at_least(limit, DRAWS, seed);
    let (verdict, confidence) = verdict(&decision);
    let needed = if verdict == Verdict::Inconclusive { tally.needed(limit, seed) } else { None };
    Judgement {
        floor: floor.to_string(),
        data: data.to_owned(),
        verdict,
        confidence,
        value,
        reference: floor.times_reference.then_some(reference),
        quantity,
        estimate: tally.mean(),
        bounds: Some(decision.bounds).filter(|_| pairs.all() > 0),
        limit,
        samples: pairs.all(),
        unit: "questions".to_owned(),
        pairs: Some(*pairs),
        needed,
    }
}

/// Returns each window's value of the tested quantity, and its name. Perplexities are tested as mean log likelihoods,
/// of which they are the exponentials.
fn values(floor: &Floor, windows: &[WindowFigures]) -> (Vec<f64>, &'static str) {
    let base = |window: &WindowFigures| window.nll_reference.unwrap_or_default();
    match &floor.metric {
        Metric::Kld => (windows.iter().map(|w| w.kld).collect(), "kld"),
        Metric::SameTop => (windows.iter().map(|w| w.same_top).collect(), "same_top"),
        _ if floor.times_reference => (windows.iter().map(|w| w.nll - base(w)).collect(), "perplexity / ref"),
        _ => (windows.iter().map(|w| w.nll).collect(), "perplexity"),
    }
}

/// Decides by at least [`MIN_WINDOWS`] windows whether their mean keeps a limit.
fn decide(floor: &Floor, windows: &[WindowFigures], found: &Studentised, limit: f64, seed: u64) -> Decision {
    match &floor.metric {
        Metric::SameTop => no_surer(found.at_least(limit), windows, limit, seed),
        metric if metric.is_share() => found.at_least(limit),
        _ => found.at_most(limit),
    }
}

fn text(floor: &Floor, data: &str, windows: &[WindowFigures], seed: u64) -> Judgement {
    let n = windows.len();
    let mean = |f: &dyn Fn(&WindowFigures) -> f64| windows.iter().map(f).sum::<f64>() / n.max(1) as f64;
    let is_perplexity = floor.metric == Metric::Perplexity;
    let shown = |x: f64| if is_perplexity { x.exp() } else { x };
    let (values, quantity) = values(floor, windows);
    let limit = if is_perplexity { floor.number.ln() } else { floor.number };
    let found = (n >= MIN_WINDOWS).then(|| Studentised::new(&values, RESAMPLES, seed));
    let unknown = Decision { pass: 0.0, fail: 0.0, bounds: (f64::NEG_INFINITY, f64::INFINITY) };
    let decision = found.as_ref().map_or(unknown, |found| decide(floor, windows, found, limit, seed));
    let (verdict, confidence) = verdict(&decision);
    let needed = match (&found, verdict) {
        (Some(found), Verdict::Inconclusive) => found.needed(limit, n),
        (None, _) => Some(MIN_WINDOWS),
        _ => None,
    };
    let reference = is_perplexity && floor.times_reference;
    Judgement {
        floor: floor.to_string(),
        data: data.to_owned(),
        verdict,
        confidence,
        value: match &floor.metric {
            Metric::Kld => mean(&|w| w.kld),
            Metric::SameTop => mean(&|w| w.same_top),
            _ => mean(&|w| w.nll).exp(),
        },
        reference: reference.then(|| mean(&|w| w.nll_reference.unwrap_or_default()).exp()),
        quantity: quantity.to_owned(),
        estimate: shown(values.iter().sum::<f64>() / n.max(1) as f64),
        bounds: found.is_some().then(|| (shown(decision.bounds.0), shown(decision.bounds.1))),
        limit: floor.number,
        samples: n,
        unit: "windows".to_owned(),
        pairs: None,
        needed,
    }
}

/// Limits the confidence to that of as many independent tokens: windows that agree in every token have no spread, and
/// are no proof that all others do.
fn no_surer(decision: Decision, windows: &[WindowFigures], limit: f64, seed: u64) -> Decision {
    let tokens: usize = windows.iter().map(|window| window.tokens).sum();
    let same: f64 = windows.iter().map(|window| window.same_top * window.tokens as f64).sum();
    let same = (same.round() as usize).min(tokens);
    let exact = Tally::new(&[(1.0, same), (0.0, tokens - same)]).at_least(limit, DRAWS, seed);
    Decision {
        pass: decision.pass.min(exact.pass),
        fail: decision.fail.min(exact.fail),
        bounds: (decision.bounds.0.min(exact.bounds.0), decision.bounds.1.max(exact.bounds.1).min(1.0)),
    }
}

#[cfg(test)]
mod simulation;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::floor::Floors;
    use crate::random::Random;

    fn floor(text: &str) -> Floor {
        text.parse::<Floors>().unwrap().all()[0].clone()
    }

    fn judged(text: &str, pairs: Pairs) -> Judgement {
        judge(&floor(text), "rows", &Measured::Questions(pairs), 1).unwrap()
    }

    fn windows(n: usize, figures: impl Fn(f64) -> WindowFigures) -> Measured {
        let mut random = Random::new(5);
        Measured::Windows((0..n).map(|_| figures(random.unit())).collect())
    }

    #[test]
    fn questions_pass_fail_and_are_too_few() {
        let pairs =
            |both, only_model, only_reference, neither| Pairs { both, only_model, only_reference, neither };
        let all = "accuracy>=0.95*ref";
        for (text, pairs, verdict) in [
            (all, pairs(800, 10, 12, 178), Verdict::Pass),
            (all, pairs(700, 5, 110, 185), Verdict::Fail),
            (all, pairs(80, 1, 5, 14), Verdict::Inconclusive),
            // Ten right answers of both are no proof.
            (all, pairs(10, 0, 0, 0), Verdict::Inconclusive),
            (all, pairs(0, 0, 0, 0), Verdict::Inconclusive),
            ("accuracy>=0.8", pairs(0, 900, 0, 100), Verdict::Pass),
            ("accuracy>=0.8", pairs(0, 700, 0, 300), Verdict::Fail),
            ("accuracy>=0.8", pairs(0, 82, 0, 18), Verdict::Inconclusive),
        ] {
            let found = judged(text, pairs);
            assert_eq!(found.verdict, verdict, "{found:?}");
            assert_eq!(found.confidence >= CONFIDENCE, verdict != Verdict::Inconclusive, "{found:?}");
        }
        let found = judged(all, pairs(80, 1, 5, 14));
        assert_eq!((found.value, found.reference, found.samples), (0.81, Some(0.85), 100));
        assert!((found.estimate - (0.81 - 0.95 * 0.85)).abs() < 1e-12);
        assert!(found.needed.unwrap() > 1000, "{found:?}");
        let needed = judged(all, pairs(10, 0, 0, 0)).needed.unwrap();
        assert!((59..70).contains(&needed), "0.95^59 is below 5 %: {needed}");
    }

    #[test]
    fn texts_pass_fail_and_are_too_few() {
        let kld = |x: f64| WindowFigures {
            tokens: 100,
            kld: 0.04 + 0.01 * x,
            nll_reference: Some(3.0),
            nll: 3.0 + 0.02 * x,
            same_top: 0.9 + 0.02 * x,
        };
        for (text, n, verdict) in [
            ("kld<=0.05", 30, Verdict::Pass),
            ("kld<=0.04", 30, Verdict::Fail),
            ("kld<=0.045", 12, Verdict::Inconclusive),
            ("kld<=0.05", 9, Verdict::Inconclusive),
            ("perplexity<=1.02*ref", 30, Verdict::Pass),
            ("perplexity<=ref", 30, Verdict::Fail),
            ("perplexity<=21", 30, Verdict::Pass),
            ("perplexity<=20", 30, Verdict::Fail),
            ("same_top>=0.88", 30, Verdict::Pass),
            ("same_top>=0.95", 30, Verdict::Fail),
        ] {
            let found = judge(&floor(text), "text", &windows(n, kld), 1).unwrap();
            assert_eq!(found.verdict, verdict, "{found:?}");
        }
        let found = judge(&floor("kld<=0.05"), "text", &windows(9, kld), 1).unwrap();
        assert_eq!((found.bounds, found.needed), (None, Some(10)));
        let same = |_| WindowFigures {
            tokens: 20,
            same_top: 1.0,
            nll_reference: Some(1.0),
            ..WindowFigures::default()
        };
        let found = judge(&floor("same_top>=0.99"), "text", &windows(10, same), 1).unwrap();
        assert_eq!(found.verdict, Verdict::Inconclusive, "200 equal tokens: {found:?}");
    }

    #[test]
    fn data_of_another_kind_are_refused() {
        let windows = Measured::Windows(vec![WindowFigures::default(); 10]);
        for (text, measured, words) in [
            ("kld<=0.05", Measured::Questions(Pairs::default()), "kld<=0.05: d: has questions"),
            ("accuracy>=0.5", windows.clone(), "accuracy>=0.5: d: is a text"),
            ("kld<=0.05", windows, "without a reference"),
        ] {
            let told = judge(&floor(text), "d", &measured, 1).unwrap_err().to_string();
            assert!(told.contains(words), "{told}");
        }
    }
}
