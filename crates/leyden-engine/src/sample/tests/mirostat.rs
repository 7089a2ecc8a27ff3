//! Mirostat: the surprisal that it reaches, and its memory.

use super::*;

fn params(version: MirostatVersion, entropy: f32, seed: u64) -> SamplingParams {
    let mirostat = Some(Mirostat { version, entropy, rate: 0.1 });
    SamplingParams { mirostat, seed, ..open() }
}

/// Returns a distribution by Zipf's law, which Mirostat assumes.
fn zipf(n: usize) -> Vec<f32> {
    (1..=n).map(|rank| -1.1 * (rank as f32).ln()).collect()
}

#[test]
fn the_surprise_stays_near_the_target() {
    let logits = zipf(20_000);
    for version in [MirostatVersion::V1, MirostatVersion::V2] {
        for entropy in [2.0, 4.0, 6.0] {
            let mut s = sampler(params(version, entropy, 11), logits.len());
            let (mut sum, n) = (0.0, 600);
            for position in 0..n {
                let left = s.distribution(&logits, position).unwrap();
                let token = s.sample(&logits, position).unwrap();
                let share = left.iter().find(|x| x.0 == token).unwrap().1;
                if position >= 100 {
                    sum -= share.log2() / f64::from(n as u32 - 100);
                }
            }
            assert!((sum - f64::from(entropy)).abs() < 0.15, "{version:?} {entropy}: {sum}");
        }
    }
}

#[test]
fn computing_again_gives_the_same_tokens() {
    let rows: Vec<Vec<f32>> =
        (0..30).map(|k| zipf(500).into_iter().map(|l| l * (1.0 + k as f32 * 0.03)).collect()).collect();
    for version in [MirostatVersion::V1, MirostatVersion::V2] {
        let mut s = sampler(params(version, 3.0, 5), 500);
        let want: Vec<u32> = (0..30).map(|k| s.sample(&rows[k], k).unwrap()).collect();
        // Samples a position again, as after a preemption or a rejected draft, without telling the sampler.
        for back in [29, 20, 3, 0] {
            let again: Vec<u32> = (back..30).map(|k| s.sample(&rows[k], k).unwrap()).collect();
            assert_eq!(again, want[back..], "{version:?} from {back}");
        }
    }
}

#[test]
fn the_bound_follows_the_error() {
    let m = Mirostat { entropy: 3.0, rate: 0.5, ..Mirostat::default() };
    let mut bounds = crate::sample::mirostat::Bounds::default();
    assert_eq!(bounds.at(7, &m), 6.0);
    // A surprisal of 5 bits, 2 above the target.
    bounds.drawn(7, 6.0, 1.0 / 32.0, &m);
    assert!((bounds.at(8, &m) - 5.0).abs() < 1e-12);
    assert_eq!(bounds.at(7, &m), 6.0);
}

#[test]
fn it_takes_the_place_of_the_truncating_steps() {
    let p = SamplingParams { top_k: 1, min_p: 0.9, typical: 0.1, ..params(MirostatVersion::V2, 5.0, 1) };
    let n = sampler(p, 500).distribution(&zipf(500), 0).unwrap().len();
    assert!(n > 100, "{n}");
    let p = SamplingParams { temperature: 0.0, ..params(MirostatVersion::V1, 5.0, 1) };
    assert_eq!(sampler(p, 500).sample(&zipf(500), 0).unwrap(), 0);
}
