//! Sampling with a token mask.

use super::*;
use crate::schedule::verify;
use proptest::prelude::*;

fn words(allowed: &[bool]) -> Vec<u32> {
    let word = |part: &[bool]| part.iter().enumerate().fold(0, |w, (bit, a)| w | u32::from(*a) << bit);
    allowed.chunks(32).map(word).collect()
}

/// Sets of parameters that together run every step.
fn all_kinds(seed: u64) -> Vec<SamplingParams> {
    let mirostat = |version| Some(Mirostat { version, entropy: 2.0, rate: 0.5 });
    let base = SamplingParams { seed, ..open() };
    vec![
        base.clone(),
        SamplingParams { seed, ..SamplingParams::greedy() },
        SamplingParams { top_k: 5, top_p: 0.7, min_p: 0.1, typical: 0.8, top_n_sigma: 1.5, ..base.clone() },
        SamplingParams { xtc: Xtc { probability: 1.0, threshold: 0.02 }, temperature: 0.7, ..base.clone() },
        SamplingParams { mirostat: mirostat(MirostatVersion::V1), ..base.clone() },
        SamplingParams { mirostat: mirostat(MirostatVersion::V2), ..base.clone() },
        SamplingParams {
            penalties: Penalties { repeat: 1.5, frequency: 0.2, presence: 0.3, window: 16 },
            dry: Dry { multiplier: 2.0, ..Dry::default() },
            dynamic_temperature: DynamicTemperature { range: 0.3, exponent: 1.0 },
            ..base
        },
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// A mask of all tokens changes nothing; otherwise only allowed tokens are chosen, as from logits without the
    /// others.
    #[test]
    fn only_allowed_tokens_are_chosen(
        logits in prop::collection::vec(-8.0_f32..8.0, 2..200),
        allow in prop::collection::vec(any::<bool>(), 200),
        sure in any::<prop::sample::Index>(),
        seed in any::<u64>(),
    ) {
        let n = logits.len();
        let mut allowed = allow[..n].to_vec();
        allowed[sure.index(n)] = true;
        let some = words(&allowed);
        let all = vec![u32::MAX; n.div_ceil(32)];
        let removed: Vec<f32> =
            logits.iter().zip(&allowed).map(|(l, a)| if *a { *l } else { f32::NEG_INFINITY }).collect();
        for params in all_kinds(seed) {
            let (mut free, mut same, mut masked, mut plain) =
                (sampler(params.clone(), n), sampler(params.clone(), n), sampler(params.clone(), n), sampler(params, n));
            for position in 0..8 {
                let token = free.sample(&logits, position).unwrap();
                prop_assert_eq!(same.sample_masked(&logits, TokenSet::new(&all), position).unwrap(), token);
                free.accept(&[token]);
                same.accept(&[token]);
                let token = masked.sample_masked(&logits, TokenSet::new(&some), position).unwrap();
                prop_assert!(allowed[token as usize]);
                prop_assert_eq!(plain.sample(&removed, position).unwrap(), token);
                masked.accept(&[token]);
                plain.accept(&[token]);
            }
        }
    }
}

#[test]
fn an_empty_set_is_an_error() {
    for params in all_kinds(1) {
        let mut s = sampler(params, 40);
        for words in [&[][..], &[0], &[0, 0, u32::MAX]] {
            let e = s.sample_masked(&[0.0; 40], TokenSet::new(words), 0).unwrap_err();
            assert!(matches!(e.kind(), ErrorKind::NothingAllowed), "{e}");
        }
    }
    // The logit bias may forbid the tokens that the mask allows.
    let bias = vec![(3, f32::NEG_INFINITY)];
    let mut s = sampler(SamplingParams { logit_bias: bias, ..open() }, 4);
    let e = s.sample_masked(&[0.0; 4], TokenSet::new(&[8]), 0).unwrap_err();
    assert!(e.to_string().contains("both allowed"), "{e}");
    assert!(matches!(
        s.sample_masked(&[f32::NAN; 4], TokenSet::new(&[8]), 0).unwrap_err().kind(),
        ErrorKind::NotFinite
    ));
}

#[test]
fn drafts_do_not_change_a_constrained_text() {
    // Allowed are tokens that differ from the previous one by one; the draft is partly wrong.
    let set = |last: u32| [(1_u32 << ((last + 1) % 8)) | (1 << ((last + 7) % 8))];
    let logits: Vec<Vec<f32>> =
        (0..6).map(|row| (0..8).map(|i| ((row * 5 + i * 3) as f32).sin() * 3.0).collect()).collect();
    let params = SamplingParams { seed: 9, ..open() };
    let mut one = sampler(params.clone(), 8);
    let mut text = vec![0];
    for (position, row) in logits.iter().enumerate() {
        let token = one.sample_masked(row, TokenSet::new(&set(text[position])), position).unwrap();
        one.accept(&[token]);
        text.push(token);
    }
    let mut draft = text[1..].to_vec();
    draft[3] = (draft[3] + 1) % 8;
    let (mut s, mut last) = (sampler(params, 8), 0);
    let chosen = verify(&draft[..5], |i| {
        let token = s.sample_masked(&logits[i], TokenSet::new(&set(last)), i)?;
        s.accept(&[token]);
        last = token;
        Ok::<u32, Error>(token)
    });
    assert_eq!(chosen.unwrap(), text[1..5]);
}
