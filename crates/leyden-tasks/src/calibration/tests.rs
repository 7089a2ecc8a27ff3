use super::*;

/// A SplitMix generator (Steele et al., 2014).
struct Random(u64);

impl Random {
    /// Returns a number above 0 and below 1.
    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (((z ^ (z >> 31)) >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    }
}

fn made_for() -> MadeFor {
    MadeFor { sha256: "ab".repeat(32), int8: false, exact: false, truncate: false, max_tokens: 128 }
}

/// A calibration of these scores of right labels, and these answers of tuning and threshold rows.
fn made(sets: Vec<Vec<f32>>, tuning: &[(f32, bool)], rows: &[(f32, bool)]) -> Calibration {
    let (format, version) = Calibration::format();
    let thresholds = sets.iter().map(Vec::len).sum();
    Calibration {
        format,
        version,
        made_for: made_for(),
        labels: (0..sets.len()).map(|i| format!("l{i}")).collect(),
        kind: LabelKind::One,
        rows: RowCounts { tuning: tuning.len(), thresholds, seed: 0 },
        temperature: 1.0,
        quality: Quality { accuracy: 0.9, ece: (0.1, 0.05), nll: (0.5, 0.4) },
        score: SetScore::Lac,
        sets,
        answers: vec![candidates(tuning, rows)],
    }
}

fn three() -> Calibration {
    let scores: Vec<f32> = (0..40).map(|i| i as f32 / 80.0).collect();
    let answers: Vec<(f32, bool)> = (0..120).map(|i| (1.0 - i as f32 / 240.0, i % 30 != 29)).collect();
    let tuning: Vec<(f32, bool)> = answers.iter().step_by(4).copied().collect();
    made(vec![scores.clone(), scores.clone(), scores], &tuning, &answers)
}

fn coverage(coverage: f64) -> Promise {
    Promise::Coverage { coverage, per_class: false }
}

/// Logits with these probabilities.
fn logits(probabilities: [f64; 3]) -> Vec<f32> {
    probabilities.iter().map(|p| p.ln() as f32).collect()
}

#[test]
fn a_text_gets_a_label_a_set_or_nothing() {
    let decider = Decider::new(&three(), coverage(0.9), None).unwrap();
    // The threshold is the 109th of 120 scores: 36 / 80.
    let decide = |p| decider.decide(&logits(p)).unwrap();
    let sure = decide([0.04, 0.95, 0.01]);
    assert_eq!((sure.answer, sure.labels[0].0, sure.labels.len()), (Answer::Label, 1, 1));
    assert!((sure.labels[0].1 - 0.95).abs() < 1e-6);
    let none = decide([0.4, 0.35, 0.25]);
    assert_eq!(none, Decision { answer: Answer::Abstain, labels: Vec::new() });
    let wide = Decider::new(&three(), coverage(0.99), None).unwrap();
    let set = wide.decide(&logits([0.52, 0.47, 0.01])).unwrap();
    assert_eq!(set.answer, Answer::Label, "{set:?}");
    let scores: Vec<f32> = (0..120).map(|i| i as f32 / 150.0).collect();
    let low = made(vec![scores, Vec::new(), Vec::new()], &[(0.5, true)], &[(0.5, true)]);
    let wide = Decider::new(&low, coverage(0.95), None).unwrap();
    let set = wide.decide(&logits([0.3, 0.65, 0.05])).unwrap();
    assert_eq!((set.answer, set.labels[0].0, set.labels[1].0), (Answer::Set, 1, 0));
    let narrow = Decider::new(&low, coverage(0.95), Some(1)).unwrap();
    let too_many = narrow.decide(&logits([0.3, 0.65, 0.05])).unwrap();
    assert_eq!((too_many.answer, too_many.labels.len()), (Answer::Abstain, 2));
}

#[test]
fn an_error_rate_is_kept_by_a_threshold() {
    let promise = |max_error| Promise::MaxError { max_error, confidence: 0.9 };
    let decider = Decider::new(&three(), promise(0.1), None).unwrap();
    let Basis::MaxError { answered, wrong, bound, .. } = decider.basis() else { panic!("{decider:?}") };
    assert!((answered, wrong) == (120, 4) && bound < 0.1, "{answered} {wrong} {bound}");
    let few = Decider::new(&three(), promise(0.01), None).unwrap_err();
    let text = few.to_string();
    assert!(text.contains("max-error 1 % with 90 % confidence needs at least 288 labelled rows"), "{text}");
    let wrong: Vec<(f32, bool)> = (0..120).map(|i| (i as f32 / 120.0, false)).collect();
    let sets = three().sets;
    let all_wrong = made(sets.clone(), &wrong[..30], &wrong);
    let error = Decider::new(&all_wrong, promise(0.1), None).unwrap_err();
    assert!(matches!(error, CalibrationError::NoThreshold { .. }), "{error}");
    let right: Vec<(f32, bool)> = wrong.iter().map(|(c, _)| (*c, true)).collect();
    let decider = Decider::new(&made(sets, &right[..30], &right), promise(0.1), None).unwrap();
    let answer = decider.decide(&logits([0.34, 0.33, 0.33])).unwrap();
    assert_eq!((answer.answer, answer.labels[0].0), (Answer::Label, 0));
    for (promise, name) in [
        (coverage(1.0), "coverage"),
        (coverage(0.0), "coverage"),
        (coverage(f64::NAN), "coverage"),
        (promise(1.0), "max-error"),
        (Promise::MaxError { max_error: 0.1, confidence: 0.2 }, "confidence"),
    ] {
        let error = Decider::new(&three(), promise, None).unwrap_err().to_string();
        assert!(error.starts_with(name), "{error}");
    }
}

#[test]
fn labels_without_rows_and_scores_without_numbers() {
    let error = Decider::new(&three(), coverage(0.999), None).unwrap_err().to_string();
    assert_eq!(error, "coverage 99.9 % needs at least 1249 labelled rows, and the calibration has 150");
    // Per class, the third label has no rows and shares the threshold of the second.
    let mut calibration = three();
    let spare = calibration.sets.pop().unwrap();
    calibration.sets[0].extend(spare);
    calibration.sets[0].sort_by(f32::total_cmp);
    calibration.sets.push(Vec::new());
    let per_class = Promise::Coverage { coverage: 0.95, per_class: true };
    let decider = Decider::new(&calibration, per_class, None).unwrap();
    assert!(matches!(decider.basis(), Basis::Coverage { rows: 40, rank: 39, .. }), "{:?}", decider.basis());
    assert!(decider.statement().contains("per class"), "{}", decider.statement());
    for bad in [vec![0.1, f32::NAN, 0.2], vec![f32::INFINITY, 0.0, 0.0], vec![0.0; 2], vec![]] {
        assert_eq!(decider.decide(&bad), Err(CalibrationError::Scores));
    }
}

#[test]
fn texts_with_any_number_of_labels() {
    let mut calibration = three();
    calibration.kind = LabelKind::Any;
    calibration.rows = RowCounts { tuning: 120, thresholds: 480, seed: 0 };
    // Above 0.6 the label applies, and below it never does.
    let sure: Vec<(f32, bool)> = (0..480).map(|i| (i as f32 / 480.0, i >= 288)).collect();
    let tuning: Vec<(f32, bool)> = sure.iter().step_by(4).copied().collect();
    let all = candidates(&tuning, &sure);
    let none: Vec<(f32, bool)> = vec![(0.9, false); 30];
    calibration.answers = vec![all.clone(), all, candidates(&none, &none)];
    let text = calibration.to_json();
    assert_eq!(Calibration::from_json(text.as_bytes()).unwrap(), calibration);
    let odds = |p: [f64; 3]| p.map(|p: f64| (p / (1.0 - p)).ln() as f32).to_vec();
    let decider = Decider::new(&calibration, coverage(0.9), None).unwrap();
    let set = decider.decide(&odds([0.9, 0.7, 0.2])).unwrap();
    assert_eq!((set.answer, set.labels.len()), (Answer::Set, 2));
    assert_eq!(decider.decide(&odds([0.1, 0.1, 0.2])).unwrap().answer, Answer::Set, "no label is an answer");
    let promise = Promise::MaxError { max_error: 0.1, confidence: 0.9 };
    let decider = Decider::new(&calibration, promise, None).unwrap();
    assert_eq!(decider.silent(), [2]);
    let set = decider.decide(&odds([0.99, 0.3, 0.99])).unwrap();
    assert_eq!(set.labels.iter().map(|l| l.0).collect::<Vec<_>>(), [0]);
    assert_eq!(decider.decide(&odds([0.1, 0.1, 0.9])).unwrap().answer, Answer::Abstain);
    calibration.sets[1].truncate(3);
    let error = Decider::new(&calibration, coverage(0.95), None).unwrap_err().to_string();
    assert!(error.contains("24 labelled rows that have the label `l1`"), "{error}");
}

#[test]
fn documents_are_checked() {
    let good = three();
    let text = good.to_json();
    assert_eq!(Calibration::from_json(text.as_bytes()).unwrap(), good);
    let swap = |from: &str, to: &str| {
        assert!(text.contains(from), "{from}");
        Calibration::from_json(text.replacen(from, to, 1).as_bytes()).unwrap_err().to_string()
    };
    for (from, to, wanted) in [
        ("leyden-calibration", "other", "format: not `leyden-calibration`"),
        ("\"version\":1", "\"version\":2", "version: this program reads version 1"),
        ("\"l1\"", "\"l0\"", "labels: one occurs twice"),
        ("\"l1\",", "", "sets: 3 for 2 labels"),
        ("\"temperature\":1.0", "\"temperature\":0", "temperature: 0, not between"),
        ("\"temperature\":1.0", "\"temperature\":1e999", "number out of range"),
        ("abab", "xyxy", "made_for.sha256"),
        ("\"thresholds\":120", "\"thresholds\":121", "rows.thresholds is 121"),
        ("\"at_least\":1.0", "\"at_least\":-1.0", "answers[0]: `at_least`"),
        ("\"seed\":0", "\"seed\":0,\"more\":1", "unknown field `more`"),
        ("\"expected\":0.0", "\"expected\":-1", "answers[0]: `expected`"),
        ("\"sets\":[[0.0,", "\"sets\":[[0.5,", "sets[0]: not numbers from 0 in ascending order"),
        ("\"sets\":[[0.0,", "\"sets\":[[null,", "invalid type: null"),
        ("\"rows\":[", "\"rows\":[4000000000,", ""),
        ("}", "", ""),
    ] {
        let told = swap(from, to);
        assert!(told.contains(wanted), "{from} {to}: {told}");
    }
    let deep = format!("{{\"format\":{}", "[".repeat(100_000));
    for hostile in ["", "null", "[]", "{}", "{\"format\":7}", "\u{feff}{}", &deep] {
        assert!(matches!(Calibration::from_json(hostile.as_bytes()), Err(CalibrationError::Document(_))));
    }
}

/// 1,000 calibrations of 380 threshold rows: the coverage of each has its beta distribution.
#[test]
fn coverage_has_the_stated_distribution() {
    let mut random = Random(1);
    let (runs, n) = (1000, 380);
    let (mut sum, mut inside) = (0.0, 0);
    for _ in 0..runs {
        let mut scores: Vec<f32> = (0..n).map(|_| random.unit() as f32).collect();
        scores.sort_by(f32::total_cmp);
        // Scores are uniform, so the threshold is the coverage.
        let threshold = f64::from(conformal::threshold(&scores, 0.95).unwrap());
        let calibration = made(vec![scores], &[(0.5, true)], &[(0.5, true)]);
        let decider = Decider::new(&calibration, coverage(0.95), None).unwrap();
        let Basis::Coverage { interval, .. } = decider.basis() else { panic!("{decider:?}") };
        inside += usize::from((interval.0..=interval.1).contains(&threshold));
        sum += threshold;
    }
    let mean = sum / f64::from(runs);
    assert!((mean - 362.0 / 381.0).abs() < 0.002, "{mean}");
    assert!((930..=970).contains(&inside), "{inside}");
}

/// 1,000 calibrations at 95 % confidence, with texts whose answers are the less sure the more errors they have: the true
/// error rate is above the limit in at most 5 % of them.
#[test]
fn the_error_rate_is_above_its_limit_as_seldom_as_stated() {
    let mut random = Random(2);
    let limit = 0.05;
    // An answer of confidence s is wrong with the probability 0.3 (1 - s)^2, one above s with 0.1 (1 - s)^2.
    let mut row = || {
        let s = random.unit();
        (s as f32, random.unit() > 0.3 * (1.0 - s) * (1.0 - s))
    };
    let (mut above, mut found, mut answered) = (0, 0, 0.0);
    for _ in 0..1000 {
        let tuning: Vec<(f32, bool)> = (0..150).map(|_| row()).collect();
        let rows: Vec<(f32, bool)> = (0..600).map(|_| row()).collect();
        let all = candidates(&tuning, &rows);
        if let Ok(chosen) = answers::choose(&all, (limit, 0.95)) {
            let at = f64::from(all[chosen].at_least);
            (found, answered) = (found + 1, answered + 1.0 - at);
            above += usize::from(0.1 * (1.0 - at) * (1.0 - at) > limit);
        }
    }
    // The ideal threshold answers 71 % of the texts.
    let mean = answered / f64::from(found);
    assert!(above <= 65, "{above} above the limit");
    assert!(found > 600 && mean > 0.4, "{found} {mean}");
}

#[test]
fn another_model_or_setting_is_named() {
    use leyden_models::{ClassifierConfig, Labelled, Pooling, Scores};
    let calibration = three();
    let classifier = |labels: &[&str], scores| ClassifierConfig {
        labels: labels.iter().map(|label| (*label).to_owned()).collect(),
        of: Labelled::Text(Pooling::Mean),
        dense: None,
        scores,
        prompt: None,
    };
    let names = ["l0", "l1", "l2"];
    assert_eq!(calibration.check_labels(&classifier(&names, Scores::Softmax)), Ok(()));
    for (labels, scores, wanted) in [
        (
            &names[..2],
            Scores::Softmax,
            "3 labels, number 2 of them `l2`, and this is 2 labels, number 2 of them none",
        ),
        (&["l0", "x", "l2"], Scores::Softmax, "number 1 of them `l1`"),
        (&names, Scores::Sigmoid, "texts with one label, and this is texts with any number"),
        (&names, Scores::Raw, "a regression"),
        (&names, Scores::YesNo, "a reranker"),
    ] {
        let told = calibration.check_labels(&classifier(labels, scores)).unwrap_err().to_string();
        assert!(told.contains(wanted), "{told}");
    }
    assert_eq!(calibration.check_model(&made_for()), Ok(()));
    for (found, wanted) in [
        (MadeFor { sha256: "cd".repeat(32), ..made_for() }, "model: the calibration is for SHA-256 abab"),
        (MadeFor { int8: true, ..made_for() }, "a model without --int8, and this is a model with --int8"),
        (MadeFor { exact: true, ..made_for() }, "with --exact"),
        (MadeFor { truncate: true, ..made_for() }, "this is texts truncated to 128 tokens"),
    ] {
        let told = calibration.check_model(&found).unwrap_err().to_string();
        assert!(told.contains(wanted), "{told}");
    }
    assert_eq!(calibration.check_model(&MadeFor { max_tokens: 5, ..made_for() }), Ok(()));
}
