//! Distribution and edge tests of the sampling steps.

use super::*;

mod masked;
mod mirostat;
mod propose;
mod reference;

fn sampler(params: SamplingParams, n: usize) -> Sampler {
    Sampler::new(params, 0, Tier::best(), n).unwrap()
}

fn open() -> SamplingParams {
    SamplingParams { temperature: 1.0, top_k: 0, top_p: 1.0, min_p: 0.0, ..SamplingParams::default() }
}

/// Observed frequencies over many positions.
fn frequencies(params: &SamplingParams, logits: &[f32]) -> Vec<f64> {
    let mut s = sampler(params.clone(), logits.len());
    let mut counts = vec![0.0; logits.len()];
    let n = 40_000;
    for position in 0..n {
        counts[s.sample(logits, position).unwrap() as usize] += 1.0 / n as f64;
    }
    counts
}

#[test]
fn draws_follow_the_softmax() {
    let logits = [1.0, 0.0, -1.0, 2.0];
    for temperature in [0.5, 1.0, 2.0] {
        let seen = frequencies(&SamplingParams { temperature, ..open() }, &logits);
        let e: Vec<f64> = logits.iter().map(|l| (f64::from(*l) / f64::from(temperature)).exp()).collect();
        let total: f64 = e.iter().sum();
        for (seen, e) in seen.iter().zip(e) {
            // Four standard deviations of 40,000 draws.
            assert!((seen - e / total).abs() < 0.01, "temperature {temperature}: {seen} {}", e / total);
        }
    }
}

#[test]
fn cuts_keep_what_they_say() {
    let logits: Vec<f32> = [0.4_f32, 0.3, 0.2, 0.1].iter().map(|p| p.ln()).collect();
    let kept = |p: SamplingParams| -> Vec<usize> {
        let f = frequencies(&p, &logits);
        (0..4).filter(|i| f[*i] > 0.0).collect()
    };
    assert_eq!(kept(open()), [0, 1, 2, 3]);
    assert_eq!(kept(SamplingParams { top_k: 2, ..open() }), [0, 1]);
    assert_eq!(kept(SamplingParams { top_k: 9, ..open() }), [0, 1, 2, 3]);
    assert_eq!(kept(SamplingParams { top_p: 0.65, ..open() }), [0, 1]);
    assert_eq!(kept(SamplingParams { top_p: 0.75, ..open() }), [0, 1, 2]);
    assert_eq!(kept(SamplingParams { top_p: 1e-6, ..open() }), [0]);
    assert_eq!(kept(SamplingParams { min_p: 0.6, ..open() }), [0, 1]);
    assert_eq!(kept(SamplingParams { min_p: 1.0, ..open() }), [0]);
}

#[test]
fn top_p_over_a_large_flat_vocabulary_sorts_as_far_as_needed() {
    let logits: Vec<f32> = (0..5000).map(|i| -(i as f32) * 1e-4).collect();
    let mut s = sampler(SamplingParams { top_p: 0.5, ..open() }, 5000);
    let left = s.distribution(&logits, 0).unwrap();
    let n = left.len();
    assert!((2000..2500).contains(&n), "{n}");
    assert!(left.iter().enumerate().all(|(i, (id, _))| *id as usize == i));
}

#[test]
fn greedy_ties_and_bias() {
    let mut s = sampler(SamplingParams::greedy(), 4);
    assert_eq!(s.sample(&[1.0, 3.0, 3.0, 2.0], 0).unwrap(), 1);
    let bias = vec![(1, f32::NEG_INFINITY), (3, 0.5)];
    let mut s = sampler(SamplingParams { logit_bias: bias, ..SamplingParams::greedy() }, 4);
    assert_eq!(s.sample(&[1.0, 3.0, 2.4, 2.0], 0).unwrap(), 3);
}

#[test]
fn penalties_follow_their_definitions() {
    let p = Penalties { repeat: 2.0, frequency: 0.25, presence: 0.5, window: 4 };
    let left = |penalties, history: &[u32], logits: &[f32]| {
        let mut s = sampler(SamplingParams { penalties, ..open() }, logits.len());
        s.accept(history);
        s.run(logits, None, 0).unwrap();
        s.candidates.items().to_vec()
    };
    let items =
        |logits: &[f32]| -> Vec<Item> { (0..).zip(logits).map(|(id, &logit)| Item { id, logit }).collect() };
    // The first token is outside the window.
    let got = left(p, &[2, 0, 0, 1, 1], &[4.0, -1.0, 1.0, 1.0]);
    assert_eq!(got, items(&[4.0 / 2.0 - 1.0, -2.0 - 1.0, 1.0, 1.0]));
    assert_eq!(left(Penalties { window: 0, ..p }, &[0, 1], &[1.0; 2]), items(&[1.0; 2]));
    // All of them, with the largest window.
    assert_eq!(
        left(Penalties { window: usize::MAX, ..p }, &[0; 9], &[8.0]),
        items(&[4.0 - 9.0 * 0.25 - 0.5])
    );
}

#[test]
fn penalties_have_the_scopes_of_vllm() {
    let left = |penalties, window, prompt: &[u32], generated: &[u32]| -> Vec<f32> {
        let penalties = Penalties { window, ..penalties };
        let mut s = sampler(SamplingParams { penalties, ..open() }, 4);
        s.accept_prompt(prompt);
        generated.iter().for_each(|id| s.accept(&[*id]));
        s.run(&[1.0; 4], None, prompt.len() + generated.len()).unwrap();
        s.candidates.items().iter().map(|i| i.logit).collect()
    };
    let neutral = Penalties::default();
    let presence = Penalties { presence: 0.5, ..neutral };
    let frequency = Penalties { frequency: 0.25, ..neutral };
    let repeat = Penalties { repeat: 2.0, ..neutral };
    for window in [64, usize::MAX] {
        assert_eq!(left(presence, window, &[0, 1], &[1, 2, 2]), [1.0, 0.5, 0.5, 1.0]);
        assert_eq!(left(frequency, window, &[0, 0, 1], &[1, 2, 2]), [1.0, 0.75, 0.5, 1.0]);
        assert_eq!(left(repeat, window, &[0, 1], &[1, 2, 2]), [0.5, 0.5, 0.5, 1.0]);
        assert_eq!(left(presence, window, &[0, 1, 2], &[]), [1.0; 4]);
        let both = Penalties { repeat: 2.0, presence: 0.5, ..neutral };
        assert_eq!(left(both, window, &[0], &[1]), [0.5, 0.0, 1.0, 1.0]);
    }
    // A window that ends within the prompt, and one within the answer.
    assert_eq!(left(repeat, 3, &[0, 1], &[2, 2]), [1.0, 0.5, 0.5, 1.0]);
    assert_eq!(left(frequency, 1, &[0], &[1, 2]), [1.0, 1.0, 0.75, 1.0]);
    assert_eq!(left(frequency, 9, &[0], &[1, 2]), [1.0, 0.75, 0.75, 1.0]);
}

#[test]
fn seeds_choices_and_positions_give_different_numbers() {
    let logits = vec![0.0; 1000];
    let draw = |seed, choice, position| {
        let p = SamplingParams { seed, ..open() };
        Sampler::new(p, choice, Tier::best(), 1000).unwrap().sample(&logits, position).unwrap()
    };
    assert_eq!(draw(1, 0, 0), draw(1, 0, 0));
    let all = [draw(1, 0, 0), draw(2, 0, 0), draw(1, 1, 0), draw(1, 0, 1)];
    assert!((1..4).all(|i| all[i] != all[0]), "{all:?}");
}

#[test]
fn bad_parameters_and_logits_are_named() {
    let dry = |multiplier, base| Dry { multiplier, base, ..Dry::default() };
    let mirostat = |entropy, rate| Some(Mirostat { entropy, rate, ..Mirostat::default() });
    let dynamic = |range, exponent| DynamicTemperature { range, exponent };
    let xtc = |probability, threshold| Xtc { probability, threshold };
    let cases: [(&str, SamplingParams); 19] = [
        ("typical", SamplingParams { typical: 0.0, ..open() }),
        ("top_nsigma", SamplingParams { top_n_sigma: f32::NAN, ..open() }),
        ("xtc_probability", SamplingParams { xtc: xtc(1.5, 0.1), ..open() }),
        ("xtc_threshold", SamplingParams { xtc: xtc(0.5, -0.1), ..open() }),
        ("dynatemp_range", SamplingParams { dynamic_temperature: dynamic(-1.0, 1.0), ..open() }),
        ("dynatemp_exp", SamplingParams { dynamic_temperature: dynamic(1.0, 0.0), ..open() }),
        ("dry_multiplier", SamplingParams { dry: dry(-1.0, 1.75), ..open() }),
        ("dry_base", SamplingParams { dry: dry(1.0, 0.5), ..open() }),
        ("mirostat_ent", SamplingParams { mirostat: mirostat(-1.0, 0.1), ..open() }),
        ("mirostat_lr", SamplingParams { mirostat: mirostat(5.0, f32::INFINITY), ..open() }),
        ("samplers", SamplingParams { order: vec![SamplingStep::TopK; 2], ..open() }),
        (
            "presence_penalty",
            SamplingParams { penalties: Penalties { presence: f32::NAN, ..Penalties::default() }, ..open() },
        ),
        ("temperature", SamplingParams { temperature: -1.0, ..open() }),
        ("temperature", SamplingParams { temperature: f32::NAN, ..open() }),
        ("top_p", SamplingParams { top_p: 0.0, ..open() }),
        ("min_p", SamplingParams { min_p: 1.5, ..open() }),
        (
            "repeat_penalty",
            SamplingParams { penalties: Penalties { repeat: 0.0, ..Penalties::default() }, ..open() },
        ),
        ("logit_bias", SamplingParams { logit_bias: vec![(4, 0.0)], ..open() }),
        ("logit_bias", SamplingParams { logit_bias: vec![(0, f32::NAN)], ..open() }),
    ];
    for (name, params) in cases {
        let e = Sampler::new(params, 0, Tier::best(), 4).unwrap_err().to_string();
        assert!(e.starts_with(name), "{e}");
    }
    for bad in [f32::NAN, f32::INFINITY] {
        let mut s = sampler(open(), 2);
        assert!(matches!(s.sample(&[0.0, bad], 0).unwrap_err().kind(), ErrorKind::NotFinite));
    }
    let e = sampler(open(), 2).sample(&[f32::NEG_INFINITY; 2], 0).unwrap_err();
    assert!(matches!(e.kind(), ErrorKind::NotFinite), "{e}");
    let bias = vec![(0, f32::NEG_INFINITY), (1, f32::NEG_INFINITY)];
    let mut s = sampler(SamplingParams { logit_bias: bias, ..open() }, 2);
    assert!(s.sample(&[0.0, 0.0], 0).unwrap_err().to_string().starts_with("logit_bias: every token"));
}

#[test]
fn xtc_acts_as_often_as_it_should() {
    // 0.4, 0.3 and 0.2 reach the threshold, so the first two are dropped; 0.2 and 0.1 remain.
    let logits: Vec<f32> = [0.4_f32, 0.3, 0.2, 0.1].iter().map(|p| p.ln()).collect();
    let p = SamplingParams { xtc: Xtc { probability: 0.25, threshold: 0.15 }, ..open() };
    let seen = frequencies(&p, &logits);
    let want = [0.75 * 0.4, 0.75 * 0.3, 0.75 * 0.2 + 0.25 * 2.0 / 3.0, 0.75 * 0.1 + 0.25 / 3.0];
    for (seen, want) in seen.iter().zip(want) {
        assert!((seen - want).abs() < 0.01, "{seen} {want}");
    }
}

#[test]
fn draws_follow_the_distribution_of_every_step() {
    let logits: Vec<f32> = (0..12).map(|i| (i as f32 * 1.7).sin() * 2.0).collect();
    let dynamic_temperature = DynamicTemperature { range: 0.5, exponent: 1.5 };
    let cases = [
        SamplingParams { typical: 0.6, ..open() },
        SamplingParams { top_n_sigma: 1.0, ..open() },
        SamplingParams { dynamic_temperature, ..open() },
        SamplingParams { xtc: Xtc { probability: 1.0, threshold: 0.1 }, ..open() },
        SamplingParams {
            order: vec![SamplingStep::Temperature, SamplingStep::TopK],
            top_k: 5,
            temperature: 2.0,
            ..open()
        },
        SamplingParams { order: Vec::new(), ..open() },
    ];
    for p in cases {
        let seen = frequencies(&p, &logits);
        let mut want = vec![0.0; 12];
        sampler(p.clone(), 12)
            .distribution(&logits, 0)
            .unwrap()
            .iter()
            .for_each(|x| want[x.0 as usize] = x.1);
        for (seen, want) in seen.iter().zip(&want) {
            assert!((seen - want).abs() < 0.01, "{p:?}: {seen} {want}");
        }
    }
}

#[test]
fn orders_are_read_from_names() {
    let text = "penalties;dry;top_n_sigma;top_k;typ_p;top_p;min_p;xtc;temperature";
    assert_eq!(SamplingStep::parse_order(text).unwrap(), SamplingStep::ALL);
    assert_eq!(SamplingStep::parse_order("").unwrap(), []);
    let e = SamplingStep::parse_order("top_k;topp").unwrap_err();
    assert!(e.contains("`topp`") && e.contains("top_n_sigma, top_k, typ_p"), "{e}");
    assert!(SamplingStep::parse_order("top_k;top_k").unwrap_err().contains("twice"));
    assert!(SamplingStep::parse_order(";").is_err());
}
