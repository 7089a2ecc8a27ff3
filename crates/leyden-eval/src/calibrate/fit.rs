//! [`fit`]: the calibration of scored rows.

use super::quality::quality;
use super::temperature::temperature;
use crate::stats::Random;
use leyden_tasks::best;
use leyden_tasks::calibration::{
    Calibration, Candidate, LabelKind, MadeFor, RowCounts, SetScore, candidates, probabilities, tuning_rows,
};

/// Logits of labelled rows.
#[derive(Clone, Copy, Debug)]
pub struct ScoredRows<'d> {
    /// Logits of all labels, by row.
    pub logits: &'d [Vec<f32>],
    /// Indices of the right labels, by row.
    pub labels: &'d [Vec<usize>],
    /// Number of labels of a text.
    pub kind: LabelKind,
}

/// Options of a fit.
#[derive(Clone, Debug)]
pub struct FitOptions {
    /// Model and settings.
    pub made_for: MadeFor,
    /// Names of the labels.
    pub labels: Vec<String>,
    /// Score of labels in sets.
    pub score: SetScore,
    /// Seed of the split.
    pub seed: u64,
}

/// Calibration of rows.
#[derive(Clone, Debug)]
pub struct Fit {
    /// Calibration.
    pub calibration: Calibration,
    /// False if the likelihood has no optimum, as where all rows are right: the temperature is then 1.
    pub has_temperature: bool,
}

impl<'d> ScoredRows<'d> {
    /// Returns rows with their labels.
    pub(super) fn each<'a>(
        &'a self,
        rows: &'a [usize],
    ) -> impl Iterator<Item = (&'d [f32], &'d [usize])> + Clone + use<'a, 'd> {
        rows.iter().map(|row| (&self.logits[*row][..], &self.labels[*row][..]))
    }
}

/// Returns the indices of rows in a random order.
pub(super) fn shuffled(rows: usize, random: &mut Random) -> Vec<usize> {
    let mut order: Vec<usize> = (0..rows).collect();
    for i in (1..rows).rev() {
        order.swap(i, random.below(i + 1));
    }
    order
}

/// Makes a calibration of all rows.
#[must_use]
pub fn fit(rows: &ScoredRows<'_>, options: &FitOptions) -> Fit {
    let order = shuffled(rows.logits.len(), &mut Random::new(options.seed));
    fit_in_order(rows, &order, options)
}

/// Makes a calibration of some rows, in a random order: the first are the tuning rows.
pub(super) fn fit_in_order(rows: &ScoredRows<'_>, order: &[usize], options: &FitOptions) -> Fit {
    let (tuning, thresholds) = order.split_at(tuning_rows(order.len()));
    let found = temperature(&rows.each(tuning), rows.kind);
    let temperature = found.unwrap_or(1.0);
    let all = |part: &[usize]| -> Vec<Vec<f64>> {
        rows.each(part).map(|(logits, _)| probabilities(logits, temperature, rows.kind)).collect()
    };
    let (of_tuning, of_thresholds) = (all(tuning), all(thresholds));
    let answers = match rows.kind {
        LabelKind::One => {
            let first = |part: &[usize], all: &[Vec<f64>]| -> Vec<(f32, bool)> {
                let answer = |((_, labels), p): ((_, &[usize]), &Vec<f64>)| {
                    let rounded: Vec<f32> = p.iter().map(|p| *p as f32).collect();
                    let top = best(&rounded).unwrap_or_default();
                    (rounded[top], labels.first() == Some(&top))
                };
                rows.each(part).zip(all).map(answer).collect()
            };
            vec![candidates(&first(tuning, &of_tuning), &first(thresholds, &of_thresholds))]
        }
        LabelKind::Any => (0..options.labels.len())
            .map(|label| -> Vec<Candidate> {
                let of = |part: &[usize], all: &[Vec<f64>]| -> Vec<(f32, bool)> {
                    let each = rows.each(part).zip(all);
                    each.map(|((_, labels), p)| (p[label] as f32, labels.contains(&label))).collect()
                };
                candidates(&of(tuning, &of_tuning), &of(thresholds, &of_thresholds))
            })
            .collect(),
    };
    let mut sets = vec![Vec::new(); options.labels.len()];
    for ((_, labels), p) in rows.each(thresholds).zip(&of_thresholds) {
        let scores = match rows.kind {
            LabelKind::One => options.score.of(p),
            LabelKind::Any => SetScore::Lac.of(p),
        };
        for label in labels {
            sets[*label].push(scores[*label]);
        }
    }
    sets.iter_mut().for_each(|scores: &mut Vec<f32>| scores.sort_by(f32::total_cmp));
    let (format, version) = Calibration::format();
    let calibration = Calibration {
        format,
        version,
        made_for: options.made_for.clone(),
        labels: options.labels.clone(),
        kind: rows.kind,
        rows: RowCounts { tuning: tuning.len(), thresholds: thresholds.len(), seed: options.seed },
        temperature,
        quality: quality(rows.each(thresholds), temperature, rows.kind),
        score: options.score,
        sets,
        answers,
    };
    Fit { calibration, has_temperature: found.is_some() }
}
