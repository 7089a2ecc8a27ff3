//! Transcription of audio of any length, by windows that begin where the last complete segment ended.

use crate::audio::Audio;
use crate::decoding::{Decoded, Window};
use crate::error::{Error, ErrorKind};
use crate::languages::language_code;
use crate::mel::{FRAMES_PER_SECOND, Mel};
use crate::network::{Ask, Texts, Work};
use crate::options::{Options, Timestamps};
use crate::transcript::{Event, Segment, Transcription, hundredths};
use crate::vocabulary::TIME_STEP;
use crate::whisper::Whisper;
use leyden_kernels::Cpu;

/// Parts of a transcription in progress.
struct Run<'a> {
    model: &'a Whisper,
    cpu: &'a Cpu,
    options: &'a Options,
    mel: Mel,
    texts: Texts,
    work: Work,
    /// Start, language and task.
    start: Vec<u32>,
    /// Tokens of the prompt and of all segments.
    written: Vec<u32>,
    /// Index of the first of them that the next window sees.
    seen_from: usize,
    segments: Vec<Segment>,
    n_tokens: usize,
}

impl Whisper {
    /// Transcribes audio. `observer` is called with each [`Event`]; the work stops if it returns false.
    ///
    /// # Errors
    /// An option does not fit the model, memory is short, or the observer stopped the work.
    pub fn transcribe(
        &self,
        cpu: &Cpu,
        audio: &Audio,
        options: &Options,
        observer: &mut dyn FnMut(Event<'_>) -> bool,
    ) -> Result<Transcription, Error> {
        options.check(&self.vocabulary)?;
        let mel = Mel::new(cpu, audio.samples(), self.network.config().bins);
        let (texts, work) = (self.network.texts()?, Work::default());
        let (start, written) = (Vec::new(), Vec::new());
        let mut run = Run {
            model: self,
            cpu,
            options,
            mel,
            texts,
            work,
            start,
            written,
            seen_from: 0,
            segments: Vec::new(),
            n_tokens: 0,
        };
        if let Some(prompt) = &options.prompt {
            run.written = self.vocabulary.encode(&format!(" {}", prompt.trim()))?;
        }
        let given = run.written.len();
        let mut encoded = Some(run.encode(0)?);
        let language = run.language(encoded.as_deref().unwrap_or_default())?;
        run.start = run.start_tokens(&language)?;
        if !observer(Event::Language(&language)) {
            return Err(Error::new(ErrorKind::Stopped));
        }
        let mut seek = 0;
        while seek < run.mel.frames() {
            let hidden = match encoded.take() {
                Some(hidden) => hidden,
                None => run.encode(seek)?,
            };
            let known = run.segments.len();
            seek = run.window(seek, &hidden, observer)?;
            for segment in &run.segments[known..] {
                if !observer(Event::Segment(segment)) {
                    return Err(Error::new(ErrorKind::Stopped));
                }
            }
            let done = seek.min(run.mel.frames()) as f64 / FRAMES_PER_SECOND as f64;
            if !observer(Event::Progress(done)) {
                return Err(Error::new(ErrorKind::Stopped));
            }
        }
        let text = self.vocabulary.text(&run.written[given..]).trim().to_owned();
        let (segments, n_tokens) = (run.segments, run.n_tokens);
        Ok(Transcription { language, duration: audio.seconds(), text, segments, n_tokens })
    }
}

impl Run<'_> {
    /// Returns the frames of a window.
    fn window_frames(&self) -> usize {
        self.model.network.config().window_frames()
    }

    /// Encodes the window from frame `seek` on.
    fn encode(&mut self, seek: usize) -> Result<Vec<f32>, Error> {
        let network = &self.model.network;
        let hidden =
            network.encode_with(self.cpu, self.mel.window(seek, self.window_frames()), &mut self.work)?;
        network.hear(self.cpu, &hidden, &mut self.texts, &mut self.work);
        Ok(hidden)
    }

    /// Returns the language of the audio, whose first window was encoded last.
    fn language(&mut self, _encoded: &[f32]) -> Result<String, Error> {
        let vocabulary = &self.model.vocabulary;
        if let Some(given) = &self.options.language {
            return Ok(language_code(given).unwrap_or("en").to_owned());
        }
        if vocabulary.languages.is_empty() {
            return Ok("en".to_owned());
        }
        let mut logits = Vec::new();
        self.texts.restart(1);
        let network = &self.model.network;
        network.step(
            self.cpu,
            &mut self.texts,
            &[&[vocabulary.start]],
            Ask::Last,
            &mut self.work,
            &mut logits,
        );
        let of = |row: &&(u32, &str)| logits[row.0 as usize];
        let best = vocabulary.languages.iter().reduce(|a, b| if of(&b) > of(&a) { b } else { a });
        Ok(best.map_or("en", |row| row.1).to_owned())
    }

    fn start_tokens(&self, language: &str) -> Result<Vec<u32>, Error> {
        let v = &self.model.vocabulary;
        let mut tokens = vec![v.start];
        if !v.languages.is_empty() {
            tokens.push(v.language(language)?);
            tokens.push(if self.options.translate { v.translate } else { v.transcribe });
        }
        if self.options.timestamps == Timestamps::None {
            tokens.push(v.no_times);
        }
        Ok(tokens)
    }

    /// Returns the tokens before those of a window: earlier text, then the start.
    fn prompt(&self) -> Vec<u32> {
        let earlier = &self.written[self.seen_from.min(self.written.len())..];
        // Half the context, as in OpenAI's code.
        let room = (self.model.network.config().text_context / 2).saturating_sub(1);
        let earlier = &earlier[earlier.len() - earlier.len().min(room)..];
        let mut prompt = Vec::new();
        if !earlier.is_empty() {
            prompt.push(self.model.vocabulary.previous);
            prompt.extend_from_slice(earlier);
        }
        prompt.extend_from_slice(&self.start);
        prompt
    }

    /// Decodes the window at frame `seek`, whose encoder's output is `hidden`; returns the first frame of the next.
    fn window(
        &mut self,
        seek: usize,
        hidden: &[f32],
        observer: &mut dyn FnMut(Event<'_>) -> bool,
    ) -> Result<usize, Error> {
        let options = self.options;
        let length = self.window_frames().min(self.mel.frames() - seek);
        let prompt = self.prompt();
        let decoded = Window {
            cpu: self.cpu,
            network: &self.model.network,
            vocabulary: &self.model.vocabulary,
            texts: &mut self.texts,
            work: &mut self.work,
            prompt: &prompt,
            times: options.timestamps != Timestamps::None,
            seed: options.seed.wrapping_add(seek as u64),
            go_on: &mut || observer(Event::Token),
        }
        .decode(&options.temperatures, options.best_of, &options.thresholds)?;
        self.n_tokens += decoded.tokens.len();
        let sure =
            options.thresholds.log_probability.is_some_and(|least| decoded.mean_log_probability > least);
        if options.thresholds.no_speech.is_some_and(|most| decoded.no_speech > most) && !sure {
            return Ok(seek + length);
        }
        let (pieces, next) = self.pieces(&decoded.tokens, length);
        let first = self.segments.len();
        for (tokens, start, end) in pieces {
            self.add(&decoded, tokens, (seek, start, end));
        }
        let mut next = seek + next;
        if options.timestamps == Timestamps::Word {
            let found = self.time_words(first, seek, length, hidden);
            // Times of words are finer than those of segments.
            if let Some(end) = found.filter(|_| next < seek + length) {
                let end = (end * FRAMES_PER_SECOND as f64).round() as usize;
                next = if end > seek { end } else { next };
            }
        }
        // Segments without text, or without duration, are no segments.
        let mut kept = self.segments.split_off(first);
        kept.retain(|segment| segment.end > segment.start && !segment.text.trim().is_empty());
        for (id, mut segment) in (first..).zip(kept) {
            segment.id = id;
            self.written.extend_from_slice(&segment.tokens);
            self.segments.push(segment);
        }
        // Text of a high temperature may be wrong: it shall not lead on.
        if !options.condition_on_previous || decoded.temperature > 0.5 {
            self.seen_from = self.written.len();
        }
        Ok(if next > seek { next } else { seek + length })
    }

    /// Cuts the tokens of a window of `length` frames at pairs of times: tokens with start and end in seconds within the
    /// window. Returns the pieces, and the frame of the window at which the next begins.
    fn pieces(&self, tokens: &[u32], length: usize) -> (Vec<(Vec<u32>, f64, f64)>, usize) {
        let v = &self.model.vocabulary;
        let time = |id: u32| f64::from(id - v.first_time) * TIME_STEP;
        let is_time = |i: usize| tokens.get(i).is_some_and(|id| v.is_time(*id));
        let whole = length as f64 / FRAMES_PER_SECOND as f64;
        let n = tokens.len();
        let single_end = n >= 2 && is_time(n - 1) && !is_time(n - 2);
        let mut cuts: Vec<usize> = (1..n).filter(|i| is_time(i - 1) && is_time(*i)).collect();
        if cuts.is_empty() {
            let last =
                tokens.iter().rfind(|id| v.is_time(**id)).map(|id| time(*id)).filter(|last| *last > 0.0);
            return (vec![(tokens.to_vec(), 0.0, last.unwrap_or(whole).min(whole.max(TIME_STEP)))], length);
        }
        if single_end {
            cuts.push(n);
        }
        let (mut pieces, mut first) = (Vec::new(), 0);
        for cut in &cuts {
            let piece = &tokens[first..*cut];
            let at = |id: Option<&u32>| id.filter(|id| v.is_time(**id)).map_or(0.0, |id| time(*id));
            pieces.push((piece.to_vec(), at(piece.first()), at(piece.last())));
            first = *cut;
        }
        // After the last pair, speech goes on into the next window.
        let next = match single_end {
            true => length,
            false => (time(tokens[first - 1]) * FRAMES_PER_SECOND as f64).round() as usize,
        };
        (pieces, next.min(length))
    }

    fn add(&mut self, decoded: &Decoded, tokens: Vec<u32>, (seek, start, end): (usize, f64, f64)) {
        let offset = seek as f64 / FRAMES_PER_SECOND as f64;
        let text = self.model.vocabulary.text(&tokens);
        self.segments.push(Segment {
            id: self.segments.len(),
            seek,
            start: hundredths(offset + start),
            end: hundredths(offset + end),
            text,
            tokens,
            temperature: decoded.temperature,
            avg_logprob: decoded.mean_log_probability,
            compression_ratio: decoded.compression_ratio,
            no_speech_prob: decoded.no_speech,
            words: Vec::new(),
        });
    }

    /// Adds words with times to the segments from `first` on; returns the end of the last word in seconds.
    fn time_words(&mut self, first: usize, seek: usize, length: usize, hidden: &[f32]) -> Option<f64> {
        let mut align = crate::timing::Align {
            model: self.model,
            cpu: self.cpu,
            texts: &mut self.texts,
            work: &mut self.work,
            start: &self.start,
            hidden,
            frames: length,
            offset: seek as f64 / FRAMES_PER_SECOND as f64,
        };
        align.add_words(&mut self.segments[first..]);
        self.segments[first..].iter().rev().find_map(|segment| segment.words.last()).map(|word| word.end)
    }
}
