//! [`Window`]: tokens of one window of encoded audio.

use super::rules::{Rules, log_sum_exp};
use crate::error::{Error, ErrorKind};
use crate::network::{Ask, Network, Texts, Work};
use crate::options::Thresholds;
use crate::vocabulary::Vocabulary;
use flate2::Compression;
use flate2::write::ZlibEncoder;
use leyden_kernels::Cpu;
use leyden_kernels::ops;
use std::io::Write;

/// Caches of a window, and the parts of the model that decode it.
pub(crate) struct Window<'a> {
    pub(crate) cpu: &'a Cpu,
    pub(crate) network: &'a Network,
    pub(crate) vocabulary: &'a Vocabulary,
    pub(crate) texts: &'a mut Texts,
    pub(crate) work: &'a mut Work,
    /// Tokens of earlier text, the start, language and task.
    pub(crate) prompt: &'a [u32],
    /// True if tokens of time are written.
    pub(crate) times: bool,
    pub(crate) seed: u64,
    /// Function that is called for each token; the work stops if it returns false.
    pub(crate) go_on: &'a mut dyn FnMut() -> bool,
}

/// Tokens of a window, and how sure the model is of them.
#[derive(Clone, Debug)]
pub(crate) struct Decoded {
    pub(crate) tokens: Vec<u32>,
    pub(crate) mean_log_probability: f64,
    pub(crate) no_speech: f64,
    pub(crate) compression_ratio: f64,
    pub(crate) temperature: f32,
}

/// Text in the making.
#[derive(Clone, Debug, Default)]
struct Candidate {
    tokens: Vec<u32>,
    log_probability: f64,
    ended: bool,
}

impl Candidate {
    /// Returns the mean over the tokens and the end.
    fn mean(&self) -> f64 {
        self.log_probability / (self.tokens.len() + 1) as f64
    }
}

impl Window<'_> {
    /// Decodes with the first temperature whose result is neither too repetitive nor too improbable; else with the last.
    pub(crate) fn decode(
        &mut self,
        temperatures: &[f32],
        best_of: usize,
        thresholds: &Thresholds,
    ) -> Result<Decoded, Error> {
        let mut temperatures = temperatures.iter().peekable();
        loop {
            let temperature = *temperatures.next().unwrap_or(&0.0);
            let n = if temperature > 0.0 { best_of } else { 1 };
            let decoded = self.at(temperature, n)?;
            let unlikely =
                thresholds.log_probability.is_some_and(|least| decoded.mean_log_probability < least);
            let repetitive =
                thresholds.compression_ratio.is_some_and(|most| decoded.compression_ratio > most);
            let silent = thresholds.no_speech.is_some_and(|most| decoded.no_speech > most);
            if temperatures.peek().is_none() || !(unlikely || repetitive) || (silent && unlikely) {
                return Ok(decoded);
            }
        }
    }

    /// Decodes `n` texts with a temperature; returns the most probable one.
    fn at(&mut self, temperature: f32, n: usize) -> Result<Decoded, Error> {
        let (size, tier) = (self.vocabulary.size, self.cpu.tier());
        let rules = Rules { vocabulary: self.vocabulary, times: self.times };
        let start = self.prompt.iter().position(|id| *id == self.vocabulary.start).unwrap_or_default();
        let each = self.prompt.len();
        let mut rows: Vec<usize> = (0..n).map(|text| text * each + each - 1).collect();
        rows.push(start);
        self.texts.restart(n);
        let mut logits = Vec::new();
        let prompts = vec![self.prompt; n];
        self.network.step(self.cpu, self.texts, &prompts, Ask::Rows(&rows), self.work, &mut logits);
        let of_start = &logits[n * size..];
        let no_speech = self
            .vocabulary
            .no_speech
            .map_or(0.0, |id| f64::from((of_start[id as usize] - log_sum_exp(tier, of_start)).exp()));
        let room = self.network.config().text_context;
        // As many tokens as OpenAI's code writes, so that there is room for as many of earlier text.
        let most = (room / 2).min(room - each);
        let mut all = vec![Candidate::default(); n];
        for step in 0..most {
            if !(self.go_on)() {
                return Err(Error::new(ErrorKind::Stopped));
            }
            let mut next = vec![None; n];
            let going = all.iter_mut().enumerate().filter(|(_, candidate)| !candidate.ended);
            for ((text, candidate), logits) in going.zip(logits.chunks_exact_mut(size)) {
                rules.apply(tier, &candidate.tokens, logits);
                let place = (self.seed, text as u64, step as u64);
                let (id, log_probability) = choose(tier, logits, temperature, place);
                candidate.log_probability += log_probability;
                match id == self.vocabulary.end {
                    true => candidate.ended = true,
                    false => candidate.tokens.push(id),
                }
                next[text] = (!candidate.ended).then_some(id);
            }
            if all.iter().all(|candidate| candidate.ended) || step + 1 == most {
                break;
            }
            let next: Vec<&[u32]> = next.iter().map(Option::as_slice).collect();
            self.network.step(self.cpu, self.texts, &next, Ask::Last, self.work, &mut logits);
        }
        let best = all.into_iter().reduce(|a, b| if b.mean() > a.mean() { b } else { a }).unwrap_or_default();
        let text = self.vocabulary.text(&best.tokens);
        Ok(Decoded {
            mean_log_probability: best.mean(),
            no_speech,
            compression_ratio: compression_ratio(text.trim()),
            temperature,
            tokens: best.tokens,
        })
    }
}

/// Chooses a token: the most probable one at temperature 0, else a random one. Returns it with the logarithm of its
/// probability at temperature 1. `place` keys the random number: seed, text and position.
fn choose(
    tier: leyden_kernels::Tier,
    logits: &[f32],
    temperature: f32,
    place: (u64, u64, u64),
) -> (u32, f64) {
    let (mut best, mut most) = (0, f32::NEG_INFINITY);
    for (id, logit) in logits.iter().enumerate() {
        if *logit > most {
            (best, most) = (id, *logit);
        }
    }
    let normaliser = log_sum_exp(tier, logits);
    if temperature > 0.0 {
        let mut weights: Vec<f32> = logits.iter().map(|x| (x - most) / temperature).collect();
        ops::exp(tier, &mut weights);
        let total: f64 = weights.iter().map(|w| f64::from(*w)).sum();
        let mut left = uniform(place) * total;
        for (id, weight) in weights.iter().enumerate().filter(|(_, weight)| **weight > 0.0) {
            best = id;
            left -= f64::from(*weight);
            if left < 0.0 {
                break;
            }
        }
    }
    (best as u32, f64::from(logits[best] - normaliser))
}

/// Returns a number from 0 to 1 that depends on the seed, the text and the position alone (SplitMix64).
fn uniform((seed, text, position): (u64, u64, u64)) -> f64 {
    let mut state = seed;
    for part in [text, position] {
        state =
            state.wrapping_add(0x9e37_79b9_7f4a_7c15).wrapping_add(part.wrapping_mul(0xd134_2543_de82_ef95));
        state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        state ^= state >> 31;
    }
    (state >> 11) as f64 / (1_u64 << 53) as f64
}

/// Returns how many times shorter a text becomes by zlib: repetitive texts have a high ratio.
fn compression_ratio(text: &str) -> f64 {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    let written = encoder.write_all(text.as_bytes()).and_then(|()| encoder.finish());
    // Writing to memory does not fail.
    written.map_or(1.0, |bytes| text.len() as f64 / bytes.len().max(1) as f64)
}
