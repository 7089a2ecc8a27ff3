//! Each recurrence compared with a plain loop in f64, with tokens cut at every place, on every tier and with any team.

use super::*;
use crate::cpu::isa::Tier;

fn numbers(n: usize, seed: u32, scale: f32) -> Vec<f32> {
    let number = |i: u32| {
        let x = i.wrapping_mul(747_796_405).wrapping_add(seed.wrapping_mul(2_891_336_453));
        let x = (x ^ (x >> 15)).wrapping_mul(2_246_822_519);
        ((x >> 8) as f32 / 8_388_608.0 - 1.0) * scale
    };
    (0..n as u32).map(number).collect()
}

/// Runs `step` on every tier and team for sequences of 7 and 5 tokens: each whole, then cut and mixed. Asserts that the
/// results, all rows of the first and then of the second sequence, are the same, and returns them. A step gets the rows
/// by sequence and token.
fn every_way(
    state: usize,
    out: usize,
    step: impl Fn(&Cpu, &[StateSpan], &mut [f32], &[(usize, usize)], &mut [f32]),
) -> Vec<f32> {
    let whole: &[&[(usize, usize)]] = &[&[(0, 7)], &[(1, 5)]];
    let cut: &[&[(usize, usize)]] = &[&[(0, 3)], &[(1, 2), (0, 1)], &[(0, 3), (1, 3)]];
    let mut wanted: Option<Vec<f32>> = None;
    for tier in Tier::available() {
        for (threads, steps) in [(1, whole), (3, whole), (1, cut), (3, cut)] {
            let cpu = Cpu::new(tier, threads).unwrap();
            let mut states = vec![9.0; 2 * state];
            let mut done = [0, 0];
            let mut results = [vec![0.0; 7 * out], vec![0.0; 5 * out]];
            for plan in steps {
                let (mut spans, mut rows) = (Vec::new(), Vec::new());
                for &(sequence, tokens) in *plan {
                    let fresh = done[sequence] == 0;
                    spans.push(StateSpan { first: rows.len(), tokens, slot: 1 - sequence, fresh });
                    rows.extend((done[sequence]..done[sequence] + tokens).map(|t| (sequence, t)));
                    done[sequence] += tokens;
                }
                let mut y = vec![0.0; rows.len() * out];
                step(&cpu, &spans, &mut states, &rows, &mut y);
                for (&(sequence, t), y) in rows.iter().zip(y.chunks(out)) {
                    results[sequence][t * out..(t + 1) * out].copy_from_slice(y);
                }
            }
            let results = results.concat();
            let wanted = wanted.get_or_insert(results.clone());
            let same = wanted.iter().zip(&results).all(|(a, b)| a.to_bits() == b.to_bits());
            assert!(same, "{} x{threads}, {} steps", tier.level(), steps.len());
        }
    }
    wanted.unwrap()
}

/// Returns the rows of `all`, of which the first seven belong to sequence 0, in the order of a step.
fn gather(all: &[f32], width: usize, rows: &[(usize, usize)]) -> Vec<f32> {
    rows.iter().flat_map(|&(s, t)| all[(s * 7 + t) * width..][..width].to_vec()).collect()
}

fn close(found: &[f32], wanted: &[f64]) {
    assert_eq!(found.len(), wanted.len());
    for (i, (f, w)) in found.iter().zip(wanted).enumerate() {
        assert!((f64::from(*f) - w).abs() < 2e-5 * (1.0 + w.abs()), "{i}: {f} {w}");
    }
}

#[test]
fn short_convolutions_join_the_last_tokens_of_each_channel() {
    const WIDTH: usize = 150;
    for (taps, biased) in [(4, true), (3, false), (1, true)] {
        let (weights, x) = (numbers(taps * WIDTH, 1, 1.0), numbers(12 * WIDTH, 2, 1.0));
        let bias = numbers(WIDTH, 3, 1.0);
        let bias = Some(&bias[..]).filter(|_| biased);
        let stride = (taps - 1) * WIDTH + 5;
        let found = every_way(stride, WIDTH, |cpu, spans, states, rows, out| {
            out.copy_from_slice(&gather(&x, WIDTH, rows));
            short_convolution(cpu, spans, (states, stride), &weights, bias, WIDTH, out);
        });
        let mut wanted = Vec::new();
        for row in 0..12 {
            let first = if row < 7 { 0 } else { 7 };
            for c in 0..WIDTH {
                let mut y = bias.map_or(0.0, |b| f64::from(b[c]));
                for j in 0..taps {
                    if let Some(at) = (row + j + 1).checked_sub(taps).filter(|at| *at >= first) {
                        y += f64::from(weights[j * WIDTH + c]) * f64::from(x[at * WIDTH + c]);
                    }
                }
                wanted.push(y);
            }
        }
        close(&found, &wanted);
    }
}

#[test]
fn scans_of_a_state_space_are_the_recurrence() {
    let shape = SsmShape { heads: 6, head_dim: 5, state: 32, groups: 2 };
    let (x_width, group_width) = (30, 64);
    let width = x_width + 2 * group_width;
    let all = numbers(12 * width, 4, 1.0);
    let dt: Vec<f32> = numbers(12 * 6, 5, 0.5).iter().map(|x| x.abs() + 0.01).collect();
    let a: Vec<f32> = (1..=6_u8).map(|h| -0.3 * f32::from(h)).collect();
    let d = numbers(6, 6, 1.0);
    let (at, size) = (3, 6 * 5 * 32);
    let found = every_way(at + size, x_width, |cpu, spans, states, rows, out| {
        let (all, dt) = (gather(&all, width, rows), gather(&dt, 6, rows));
        let (x, b, c) = (&all[..], &all[x_width..], &all[x_width + group_width..]);
        let input = SsmInput { x, b, c, stride: width, dt: &dt, a: &a, d: &d };
        ssm_scan(cpu, spans, (states, at + size, at), shape, input, out);
    });
    let mut wanted = vec![0.0; 12 * x_width];
    for (h, p) in (0..30).map(|i| (i / 5, i % 5)) {
        let mut s = [0.0; 32];
        for row in 0..12 {
            if row == 7 {
                s = [0.0; 32];
            }
            let at = |i: usize| f64::from(all[row * width + i]);
            let (x, dt) = (at(h * 5 + p), f64::from(dt[row * 6 + h]));
            let mut y = f64::from(d[h]) * x;
            for (n, s) in s.iter_mut().enumerate() {
                let group = x_width + h / 3 * 32 + n;
                *s = *s * (dt * f64::from(a[h])).exp() + dt * x * at(group);
                y += *s * at(group + group_width);
            }
            wanted[row * x_width + h * 5 + p] = y;
        }
    }
    close(&found, &wanted);
}

#[test]
fn the_delta_rule_is_the_recurrence() {
    for round_robin in [false, true] {
        let shape = DeltaShape { heads: 4, key_heads: 2, key_dim: 8, value_dim: 20, round_robin };
        let width = 16 + 16 + 80;
        let all = numbers(12 * width, 7, 0.5);
        let decay: Vec<f32> = numbers(48, 8, 1.0).iter().map(|x| -x.abs()).collect();
        let beta: Vec<f32> = numbers(48, 9, 1.0).iter().map(|x| x.abs()).collect();
        let size = 4 * 8 * 20;
        let found = every_way(size, 80, |cpu, spans, states, rows, out| {
            let (decay, beta) = (gather(&decay, 4, rows), gather(&beta, 4, rows));
            let all = gather(&all, width, rows);
            let (queries, keys, values) = (&all[..], &all[16..], &all[32..]);
            let input = DeltaInput { queries, keys, values, stride: width, decay: &decay, beta: &beta };
            delta_rule(cpu, spans, (states, size, 0), shape, input, out);
        });
        let mut wanted = vec![0.0; 12 * 80];
        for h in 0..4 {
            let key_head = if round_robin { h % 2 } else { h / 2 };
            let mut s = [[0.0_f64; 20]; 8];
            for row in 0..12 {
                if row == 7 {
                    s = [[0.0; 20]; 8];
                }
                let at = |i: usize| f64::from(all[row * width + i]);
                let factor = f64::from(decay[row * 4 + h]).exp();
                s.iter_mut().flatten().for_each(|s| *s *= factor);
                for v in 0..20 {
                    let key = |k: usize| at(16 + key_head * 8 + k);
                    let known: f64 = (0..8).map(|k| s[k][v] * key(k)).sum();
                    let new = f64::from(beta[row * 4 + h]) * (at(32 + h * 20 + v) - known);
                    (0..8).for_each(|k| s[k][v] += key(k) * new);
                    wanted[row * 80 + h * 20 + v] = (0..8).map(|k| s[k][v] * at(key_head * 8 + k)).sum();
                }
            }
        }
        close(&found, &wanted);
    }
}
