//! Times of words: dynamic time warping over the attention of the decoder's heads that follow the audio (OpenAI,
//! `timing.py`).

use crate::decoding::log_sum_exp;
use crate::network::{Ask, Texts, Work};
use crate::transcript::{Segment, Word, hundredths};
use crate::vocabulary::{TIME_STEP, Vocabulary};
use crate::whisper::Whisper;
use leyden_kernels::Cpu;
use leyden_kernels::ops::{dot_rows, softmax};

/// Width of the median filter over positions of the audio.
const MEDIAN: usize = 7;

/// Longest usual duration of a word in seconds.
const LONGEST_MEDIAN: f64 = 0.7;

/// Marks at which a sentence ends.
const ENDS: &str = ".。!！?？";

/// Punctuation that belongs to the following word, and to the word before it.
const BEFORE_WORD: &str = "\"'“¿([{-";
const AFTER_WORD: &str = "\"'.。,，!！?？:：”)]}、";

/// Languages that put no spaces between words.
const WITHOUT_SPACES: [&str; 6] = ["zh", "ja", "th", "lo", "my", "yue"];

/// Parts of a model and of a window for its words.
pub(crate) struct Align<'a> {
    pub(crate) model: &'a Whisper,
    pub(crate) cpu: &'a Cpu,
    pub(crate) texts: &'a mut Texts,
    pub(crate) work: &'a mut Work,
    /// Start, language and task.
    pub(crate) start: &'a [u32],
    /// Encoder's output, `[audio_context][width]`.
    pub(crate) hidden: &'a [f32],
    /// Frames of the window that are audio.
    pub(crate) frames: usize,
    /// Time of the window in seconds.
    pub(crate) offset: f64,
}

impl Align<'_> {
    /// Adds words with times to the segments of a window.
    pub(crate) fn add_words(&mut self, segments: &mut [Segment]) {
        let v = &self.model.vocabulary;
        let text: Vec<u32> = segments
            .iter()
            .flat_map(|segment| &segment.tokens)
            .copied()
            .filter(|id| v.is_text(*id))
            .collect();
        let positions = self.frames / 2;
        // The text is at most half the context, the start has few tokens.
        if text.is_empty() || positions == 0 || text.len() + 8 > self.model.network.config().text_context {
            return;
        }
        let spaced = !self
            .start
            .iter()
            .any(|id| v.languages.iter().any(|(l, code)| l == id && WITHOUT_SPACES.contains(code)));
        let (times, probabilities) = self.times(&text, positions);
        let mut words = self.words(&text, spaced, &times, &probabilities);
        let usual = shorten(&mut words);
        join_punctuation(&mut words);
        let mut words = words.into_iter().peekable();
        for segment in segments {
            let mut left = segment.tokens.iter().filter(|id| v.is_text(**id)).count();
            while let Some(word) = words.next_if(|word| left > 0 && word.tokens <= left) {
                left -= word.tokens;
                if !word.text.is_empty() {
                    segment.words.push(Word {
                        word: word.text,
                        start: hundredths(self.offset + word.start),
                        end: hundredths(self.offset + word.end),
                        probability: word.probability,
                    });
                }
            }
            fit(segment, usual);
        }
    }

    /// Returns the time in seconds at which each token of a text begins, the end of the last one at the end, and the
    /// tokens' probabilities.
    fn times(&mut self, text: &[u32], positions: usize) -> (Vec<f64>, Vec<f64>) {
        let (v, network) = (&self.model.vocabulary, &self.model.network);
        let start: Vec<u32> = self.start.iter().copied().filter(|id| *id != v.no_times).collect();
        let tokens = [&start[..], &[v.no_times], text, &[v.end]].concat();
        let mut layers: Vec<usize> = self.model.alignment.iter().map(|(layer, _)| *layer).collect();
        layers.dedup();
        self.texts.watched = layers.iter().map(|layer| (*layer, Vec::new())).collect();
        self.texts.restart(1);
        let mut logits = Vec::new();
        // The token of no times stands before the first of the text.
        let rows: Vec<usize> = (start.len()..start.len() + text.len()).collect();
        network.step(self.cpu, self.texts, &[&tokens], Ask::Rows(&rows), self.work, &mut logits);
        let of = |(logits, id): (&[f32], &u32)| probability(self.cpu, &logits[..v.end as usize], *id);
        let probabilities = logits.chunks_exact(v.size).zip(text).map(of).collect();
        let weights = self.weights(tokens.len(), positions);
        // Rows of the token before the text and of the text.
        let first = start.len();
        let rows = &weights[first * positions..(tokens.len() - 1) * positions];
        let path = warp(rows, positions);
        let mut times = vec![0.0; text.len() + 1];
        let mut last = usize::MAX;
        for (token, position) in path {
            if token != last {
                times[token] = position as f64 * TIME_STEP;
                last = token;
            }
        }
        (times, probabilities)
    }

    /// Computes the mean of the filtered attention of the heads that follow the audio, `[token][position]`.
    fn weights(&mut self, tokens: usize, positions: usize) -> Vec<f32> {
        let config = self.model.network.config();
        let (width, dim) = (config.width, config.width / config.decoder.heads);
        let scale = (dim as f32).sqrt().recip();
        let tier = self.cpu.tier();
        let mut mean = vec![0.0; tokens * positions];
        let watched = std::mem::take(&mut self.texts.watched);
        for (layer, queries) in &watched {
            let keys = self.model.network.audio_keys(self.cpu, self.hidden, *layer, self.work);
            for (_, head) in self.model.alignment.iter().filter(|pair| pair.0 == *layer) {
                let mut scores = vec![0.0; tokens * positions];
                self.cpu.for_blocks(&mut scores, positions, 1, |token, row| {
                    let query = &queries[token * width + head * dim..][..dim];
                    dot_rows(tier, query, &keys[head * dim..], width, row);
                    row.iter_mut().for_each(|x| *x *= scale);
                    softmax(tier, row);
                });
                standardise(&mut scores, positions);
                self.cpu.for_blocks(&mut scores, positions, 1, |_, row| median(row));
                mean.iter_mut().zip(&scores).for_each(|(mean, x)| *mean += x);
            }
        }
        let heads = self.model.alignment.len().max(1) as f32;
        mean.iter_mut().for_each(|x| *x /= heads);
        mean
    }

    fn words(&self, text: &[u32], spaced: bool, times: &[f64], probabilities: &[f64]) -> Vec<Timed> {
        let (mut words, mut first) = (Vec::new(), 0);
        for (word, n) in split(&self.model.vocabulary, text, spaced) {
            let all = &probabilities[first..first + n];
            let probability = all.iter().sum::<f64>() / n as f64;
            words.push(Timed {
                text: word,
                tokens: n,
                start: times[first],
                end: times[first + n],
                probability,
            });
            first += n;
        }
        words
    }
}

/// Word of a window; times are relative to it.
#[derive(Clone, Debug)]
struct Timed {
    text: String,
    tokens: usize,
    start: f64,
    end: f64,
    probability: f64,
}

/// Splits tokens into words, each with its number of tokens. A token in the middle of a character joins the next.
fn split(vocabulary: &Vocabulary, text: &[u32], spaced: bool) -> Vec<(String, usize)> {
    let (mut words, mut first) = (Vec::<(String, usize)>::new(), 0);
    for end in 1..=text.len() {
        let bytes = vocabulary.bytes(&text[first..end]);
        let whole = std::str::from_utf8(&bytes).is_ok() || end == text.len();
        if !whole {
            continue;
        }
        let (piece, n) = (String::from_utf8_lossy(&bytes).into_owned(), end - first);
        first = end;
        let trimmed = piece.trim();
        let mark = !trimmed.is_empty() && trimmed.chars().all(|c| c.is_ascii_punctuation());
        match words.last_mut().filter(|_| spaced && !piece.starts_with(' ') && !mark) {
            Some((word, tokens)) => {
                word.push_str(&piece);
                *tokens += n;
            }
            None => words.push((piece, n)),
        }
    }
    words
}

/// Shortens words at the ends of sentences that are much longer than the median; returns the median.
fn shorten(words: &mut [Timed]) -> f64 {
    let mut durations: Vec<f64> = words.iter().map(|w| w.end - w.start).filter(|d| *d > 0.0).collect();
    durations.sort_by(f64::total_cmp);
    let median = match durations.len() {
        0 => 0.0,
        n if n % 2 == 1 => durations[n / 2],
        n => (durations[n / 2 - 1] + durations[n / 2]) / 2.0,
    };
    let usual = median.min(LONGEST_MEDIAN);
    let most = 2.0 * usual;
    let ends = |text: &str| !text.is_empty() && ENDS.contains(text);
    for i in 1..words.len() {
        if words[i].end - words[i].start > most {
            if ends(&words[i].text) {
                words[i].end = words[i].start + most;
            } else if ends(&words[i - 1].text) {
                words[i].start = words[i].end - most;
            }
        }
    }
    usual
}

/// Joins punctuation to the word that it belongs to; the joined piece keeps its tokens and an empty text.
fn join_punctuation(words: &mut [Timed]) {
    let mut next = words.len().saturating_sub(1);
    for i in (0..next).rev() {
        let text = &words[i].text;
        if text.starts_with(' ') && !text.trim().is_empty() && BEFORE_WORD.contains(text.trim()) {
            words[next].text = format!("{text}{}", words[next].text);
            words[next].start = words[i].start;
            words[i].text.clear();
        } else {
            next = i;
        }
    }
    let mut before = 0;
    for i in 1..words.len() {
        let text = words[i].text.clone();
        if !words[before].text.ends_with(' ') && !text.is_empty() && AFTER_WORD.contains(&text) {
            words[before].text.push_str(&text);
            words[i].text.clear();
        } else if !text.is_empty() {
            before = i;
        }
    }
}

/// Makes the times of a segment and of its first and last word agree: a word that is far longer than the segment says
/// is cut, else the segment follows its words.
fn fit(segment: &mut Segment, usual: f64) {
    let (start, end) = (segment.start, segment.end);
    if let Some(first) = segment.words.first_mut() {
        if start < first.end && start - 0.5 > first.start {
            first.start = hundredths((first.end - usual).min(start).max(0.0));
        } else {
            segment.start = first.start;
        }
    }
    if let Some(last) = segment.words.last_mut() {
        if end > last.start && end + 0.5 < last.end {
            last.end = hundredths((last.start + usual).max(end));
        } else {
            segment.end = last.end;
        }
    }
}

/// Subtracts the mean of each position over the tokens, and divides by the deviation.
fn standardise(scores: &mut [f32], positions: usize) {
    let n = (scores.len() / positions) as f64;
    for position in 0..positions {
        let column = || scores.iter().skip(position).step_by(positions).map(|x| f64::from(*x));
        let mean = column().sum::<f64>() / n;
        let deviation = (column().map(|x| (x - mean) * (x - mean)).sum::<f64>() / n).sqrt();
        let factor = if deviation > 0.0 { 1.0 / deviation } else { 0.0 };
        for x in scores.iter_mut().skip(position).step_by(positions) {
            *x = ((f64::from(*x) - mean) * factor) as f32;
        }
    }
}

/// Replaces each value by the median of [`MEDIAN`] values around it; the row is mirrored at its ends.
fn median(row: &mut [f32]) {
    let half = (MEDIAN / 2) as isize;
    let n = row.len() as isize;
    if n <= half {
        return;
    }
    let from = row.to_vec();
    let mirrored = |i: isize| {
        if i < 0 {
            -i
        } else if i >= n {
            2 * (n - 1) - i
        } else {
            i
        }
    };
    for (i, x) in row.iter_mut().enumerate() {
        let mut window: [f32; MEDIAN] =
            std::array::from_fn(|j| from[mirrored(i as isize + j as isize - half) as usize]);
        window.sort_by(f32::total_cmp);
        *x = window[MEDIAN / 2];
    }
}

/// Finds the path of the largest sum through rows of `positions` values that goes forward in rows and positions
/// (dynamic time warping); returns pairs of row and position, in order.
fn warp(rows: &[f32], positions: usize) -> Vec<(usize, usize)> {
    let n = rows.len() / positions;
    let width = positions + 1;
    let mut cost = vec![f64::INFINITY; width];
    cost[0] = 0.0;
    let mut steps = vec![0_u8; (n + 1) * width];
    for i in 1..=n {
        let mut new = vec![f64::INFINITY; width];
        for j in 1..width {
            let (both, row, position) = (cost[j - 1], cost[j], new[j - 1]);
            let (least, step) = match () {
                () if both < row && both < position => (both, 0),
                () if row < both && row < position => (row, 1),
                () => (position, 2),
            };
            new[j] = least - f64::from(rows[(i - 1) * positions + j - 1]);
            steps[i * width + j] = step;
        }
        cost = new;
    }
    let (mut i, mut j, mut path) = (n, positions, Vec::new());
    while i > 0 && j > 0 {
        path.push((i - 1, j - 1));
        match steps[i * width + j] {
            0 => (i, j) = (i - 1, j - 1),
            1 => i -= 1,
            _ => j -= 1,
        }
    }
    // The path begins at the first position of the first row.
    while i > 1 {
        i -= 1;
        path.push((i - 1, 0));
    }
    path.reverse();
    path
}

/// Returns the probability of a token from logits.
fn probability(cpu: &Cpu, logits: &[f32], id: u32) -> f64 {
    f64::from(logits[id as usize] - log_sum_exp(cpu.tier(), logits)).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warp_follows_the_diagonal_of_large_values() {
        let (n, positions) = (4, 12);
        let rows: Vec<f32> =
            (0..n * positions).map(|i| if i % positions / 3 == i / positions { 1.0 } else { -1.0 }).collect();
        let path = warp(&rows, positions);
        assert_eq!((path[0], path[path.len() - 1]), ((0, 0), (3, 11)));
        let starts: Vec<usize> = (0..n).map(|t| path.iter().find(|p| p.0 == t).unwrap().1).collect();
        assert_eq!(starts, [0, 3, 6, 9]);
    }

    #[test]
    fn median_removes_single_peaks() {
        let mut row = [0.0, 0.0, 9.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0, 1.0];
        median(&mut row);
        assert_eq!(row, [0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]);
    }

    #[test]
    fn punctuation_joins_its_word() {
        let word =
            |text: &str| Timed { text: text.into(), tokens: 1, start: 0.0, end: 1.0, probability: 1.0 };
        let mut words = [" \"", "Hello", ",", " world", "!", "\""].map(word);
        join_punctuation(&mut words);
        assert_eq!(words.map(|w| w.text), ["", " \"Hello,", "", " world!\"", "", ""]);
    }
}
