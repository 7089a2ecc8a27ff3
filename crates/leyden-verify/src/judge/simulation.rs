//! 1,000 simulated verifications each, with the true value at the floor: a false PASS is at most as frequent as promised.

use super::{Pairs, decide, tally, values};
use crate::bounds::{CONFIDENCE, Studentised};
use crate::floor::{Floor, Floors};
use crate::judge::WindowFigures;
use crate::random::Random;

const RUNS: usize = 1000;
/// Draws and resamples of each run: fewer than the program's, and the same in expectation.
const DRAWS: usize = 1000;
/// Maximum number of false passes: 5 % and three standard errors of a share of 1,000.
const MAX_FALSE: usize = 50 + 21;

fn floor(text: &str) -> Floor {
    text.parse::<Floors>().unwrap().all()[0].clone()
}

/// Number of runs that pass or fail with questions of these probabilities: both right, only the model, only the
/// reference.
fn of_questions(text: &str, n: usize, probabilities: [f64; 3]) -> (usize, usize) {
    let floor = floor(text);
    let [both, model, reference] = probabilities;
    let (mut passed, mut failed) = (0, 0);
    for run in 0..RUNS {
        let mut random = Random::new(run as u64 ^ 0x5eed);
        let pairs = Pairs::count((0..n).map(|_| {
            let at = random.unit();
            (at < both + model, at < both || (both + model..both + model + reference).contains(&at))
        }));
        let (tally, limit, _) = tally(&floor, &pairs);
        let decision = tally.at_least(limit, DRAWS, run as u64);
        passed += usize::from(decision.pass >= CONFIDENCE);
        failed += usize::from(decision.fail >= CONFIDENCE);
    }
    (passed, failed)
}

/// Probabilities with accuracy `reference` of the reference and `c * reference` of the model, where `alone` is the
/// probability of questions that only the model answers right.
fn at_the_floor(c: f64, reference: f64, alone: f64) -> [f64; 3] {
    let both = c * reference - alone;
    [both, alone, reference - both]
}

#[test]
fn accuracy_at_the_floor_passes_in_5_of_100_runs_at_most() {
    for (text, n, probabilities) in [
        ("accuracy>=0.95*ref", 60, at_the_floor(0.95, 0.9, 0.01)),
        ("accuracy>=0.95*ref", 60, at_the_floor(0.95, 1.0, 0.0)),
        ("accuracy>=0.95*ref", 400, at_the_floor(0.95, 0.6, 0.08)),
        ("accuracy>=0.98*ref", 600, at_the_floor(0.98, 0.92, 0.002)),
        ("accuracy>=0.99*ref", 2000, at_the_floor(0.99, 0.92, 0.01)),
        ("accuracy>=ref", 300, at_the_floor(1.0, 0.7, 0.03)),
        ("accuracy>=0.8", 100, [0.0, 0.8, 0.0]),
        ("accuracy>=0.97", 100, [0.0, 0.97, 0.0]),
    ] {
        let (passed, failed) = of_questions(text, n, probabilities);
        eprintln!("{text}, {n} questions: {passed} passed, {failed} failed of {RUNS}");
        assert!(passed <= MAX_FALSE && failed <= MAX_FALSE, "{text} {n}: {passed} {failed}");
    }
}

/// A model above its floor is found to be so.
#[test]
fn accuracy_above_the_floor_passes() {
    let (passed, failed) = of_questions("accuracy>=0.95*ref", 1000, at_the_floor(0.98, 0.9, 0.01));
    assert!(passed > 950 && failed == 0, "{passed} {failed}");
}

/// Number of runs that pass with windows whose values are `draw`n; the mean of these is the floor of 0.05.
fn of_windows(n: usize, draw: impl Fn(&mut Random) -> f64) -> (usize, usize) {
    let floor = floor("kld<=0.05");
    let (mut passed, mut failed) = (0, 0);
    for run in 0..RUNS {
        let mut random = Random::new(run as u64 ^ 0xf1005);
        let windows: Vec<WindowFigures> = (0..n)
            .map(|_| WindowFigures {
                kld: 0.05 * draw(&mut random),
                nll_reference: Some(1.0),
                ..WindowFigures::default()
            })
            .collect();
        let (values, _) = values(&floor, &windows);
        let found = Studentised::new(&values, DRAWS, run as u64);
        let decision = decide(&floor, &windows, &found, 0.05, run as u64);
        passed += usize::from(decision.pass >= CONFIDENCE);
        failed += usize::from(decision.fail >= CONFIDENCE);
    }
    (passed, failed)
}

/// The spread of windows of 512 tokens is about a fifth of their mean, and skewed.
#[test]
fn divergence_at_the_floor_passes_in_5_of_100_runs_at_most() {
    for (n, sigma) in [(10, 0.2), (20, 0.2), (60, 0.2), (20, 0.4), (60, 0.4)] {
        // A log-normal value with mean 1.
        let (passed, failed) = of_windows(n, |random| (sigma * random.normal() - sigma * sigma / 2.0).exp());
        eprintln!("kld<=0.05, {n} windows, log-normal {sigma}: {passed} passed, {failed} failed of {RUNS}");
        assert!(passed <= MAX_FALSE && failed <= MAX_FALSE, "{n} {sigma}: {passed} {failed}");
    }
    let (passed, failed) = of_windows(25, |random| random.gamma(4) / 4.0);
    eprintln!("kld<=0.05, 25 windows, gamma 4: {passed} passed, {failed} failed of {RUNS}");
    assert!(passed <= MAX_FALSE && failed <= MAX_FALSE, "{passed} {failed}");
}
