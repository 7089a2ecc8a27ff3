//! Drafts do not change the distribution of sampled tokens; shares of accepted draft tokens.

use super::super::*;
use crate::schedule::verify;
use leyden_kernels::Tier;

/// Number of positions that are sampled.
const POSITIONS: usize = 2_000;

/// Returns random numbers with a mean of 0 and a variance of 1: sums of uniform ones.
fn noise(n: usize, seed: u64) -> Vec<f32> {
    let uniform = |i: usize, part: u64| Random { seed, choice: part, position: i as u64 }.of_token(0) - 0.5;
    (0..n).map(|i| (0..12).map(|part| uniform(i, part)).sum::<f64>() as f32).collect()
}

/// Logits of a model, and of a draft model that differs from it by so much noise.
fn logits(n: usize, width: f32, difference: f32) -> (Vec<f32>, Vec<f32>) {
    let target: Vec<f32> = noise(n, 1).iter().map(|x| x * width).collect();
    let draft = target.iter().zip(noise(n, 2)).map(|(t, x)| t + x * difference).collect();
    (target, draft)
}

fn sampler(params: &SamplingParams, n: usize) -> Sampler {
    Sampler::new(params.clone(), 0, Tier::best(), n).unwrap()
}

/// Shares of accepted tokens: of drafts with the same random numbers, of the draft model's best token, and at most (the
/// overlap of both distributions, which rejection sampling reaches).
fn shares(params: &SamplingParams, (target, draft): &(Vec<f32>, Vec<f32>)) -> [f64; 3] {
    let (mut s, mut d) = (sampler(params, target.len()), sampler(params, target.len()));
    let q = d.distribution(draft, 0).unwrap();
    let p = s.distribution(target, 0).unwrap();
    let of =
        |all: &[(u32, f64)], id: u32| all.iter().find(|(other, _)| *other == id).map_or(0.0, |(_, p)| *p);
    let overlap: f64 = p.iter().map(|(id, p)| p.min(of(&q, *id))).sum();
    let best = of(&p, q[0].0);
    let right = (0..POSITIONS)
        .filter(|at| d.propose(draft, *at).unwrap().token == s.sample(target, *at).unwrap())
        .count();
    [right as f64 / POSITIONS as f64, best, overlap]
}

#[test]
fn sampled_tokens_have_the_models_distribution_whatever_is_drafted() {
    let plain =
        SamplingParams { temperature: 1.0, top_k: 0, top_p: 1.0, min_p: 0.0, ..SamplingParams::default() };
    let (target, draft) = logits(12, 1.0, 1.0);
    let want = sampler(&plain, 12).distribution(&target, 0).unwrap();
    // The first token after a position, and the one after an accepted draft token.
    let mut counts = [[0.0; 12]; 2];
    let mut totals = [0.0; 2];
    let (mut s, mut d) = (sampler(&plain, 12), sampler(&plain, 12));
    for at in (0..20 * POSITIONS).step_by(2) {
        let drafted = [d.propose(&draft, at).unwrap().token];
        let tokens = verify(&drafted, |i| s.sample(&target, at + i)).unwrap();
        for (i, token) in tokens.iter().enumerate() {
            counts[i][*token as usize] += 1.0;
            totals[i] += 1.0;
        }
        // The same tokens as without a draft.
        assert_eq!(tokens[0], s.sample(&target, at).unwrap());
    }
    for (counts, total) in counts.iter().zip(totals) {
        assert!(total > 3000.0, "{total}");
        let squares: f64 =
            want.iter().map(|(id, p)| (counts[*id as usize] - p * total).powi(2) / (p * total)).sum();
        // Chi-square with 11 degrees of freedom exceeds 31.3 once in a thousand.
        assert!(squares < 31.3, "{squares}");
    }
}

#[test]
fn common_random_numbers_are_nearly_as_good_as_rejection() {
    let plain =
        SamplingParams { temperature: 1.0, top_k: 0, top_p: 1.0, min_p: 0.0, ..SamplingParams::default() };
    for (params, width) in
        [(&plain, 3.0), (&plain, 1.5), (&SamplingParams::default(), 3.0), (&SamplingParams::default(), 1.5)]
    {
        for difference in [0.2, 0.5, 1.0] {
            let [same, best, overlap] = shares(params, &logits(500, width, difference));
            // The bound of the coupling (Daliri, Musco and Suresh, 2024), less the error of the sample.
            let least = overlap / (2.0 - overlap) - 0.03;
            assert!(
                (least..=overlap + 0.03).contains(&same) && same + 0.03 >= best,
                "width {width}, difference {difference}: {same} {best} {overlap}"
            );
        }
    }
}

#[test]
fn a_greedy_proposal_knows_its_probability() {
    let mut s = sampler(&SamplingParams::greedy(), 4);
    let got = s.propose(&[0.0, 2.0, 1.0, f32::NEG_INFINITY], 3).unwrap();
    let want = 2.0_f64.exp() / (1.0 + 1.0_f64.exp() + 2.0_f64.exp());
    assert!(got.token == 1 && (got.probability.unwrap() - want).abs() < 1e-6, "{got:?}");
    assert_eq!(s.propose(&[f32::NAN; 4], 0), None);
    let mut drawn = sampler(&SamplingParams::default(), 4);
    assert_eq!(drawn.propose(&[0.0; 4], 0).unwrap().probability, None);
}
