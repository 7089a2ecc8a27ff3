//! Steps of the decoder: layers of causal attention over the texts so far and of attention over the encoded audio.
//!
//! Keys and values of the audio are computed once per window, and shared by all texts that are decoded for it.

use super::config::Config;
use super::decoder::{Ask, MAX_TEXTS, Texts};
use super::encoder::slots;
use super::layers::{Projections, apply, resize};
use super::whole::Network;
use super::work::Work;
use crate::error::Error;
use leyden_kernels::Cpu;
use leyden_kernels::attention::{
    AttentionOptions, AttentionSpan, BLOCK_TOKENS, KvCache, KvShape, Mask, attention,
};
use leyden_kernels::gemm::Write;

impl Network {
    /// Returns empty caches.
    ///
    /// # Errors
    /// Memory is short.
    pub(crate) fn texts(&self) -> Result<Texts, Error> {
        let Config { audio_context, text_context, decoder, width, .. } = self.config;
        let shape = || {
            KvShape::uniform(decoder.layers, decoder.heads, width / decoder.heads, self.precision.kv_type())
        };
        let (audio, each) = (audio_context.div_ceil(BLOCK_TOKENS), text_context.div_ceil(BLOCK_TOKENS));
        let of_text = |text: usize| (text * each..(text + 1) * each).map(|block| block as u32).collect();
        Ok(Texts {
            own: KvCache::new(shape(), each * MAX_TEXTS)?,
            crossed: KvCache::new(shape(), audio)?,
            audio: (0..audio as u32).collect(),
            blocks: (0..MAX_TEXTS).map(of_text).collect(),
            lengths: vec![0],
            watched: Vec::new(),
        })
    }

    /// Computes keys and values of encoded audio, `[audio_context][width]`, and forgets all texts but an empty one.
    pub(crate) fn hear(&self, cpu: &Cpu, encoded: &[f32], texts: &mut Texts, work: &mut Work) {
        let Config { audio_context, width, .. } = self.config;
        assert_eq!(encoded.len(), audio_context * width, "encoded audio");
        let slots = slots(0, audio_context, 0);
        for (i, layer) in self.decoder.layers.iter().enumerate() {
            let Work { activations, keys, values, .. } = work;
            [&mut *keys, values].into_iter().for_each(|buffer| resize(buffer, encoded.len()));
            let Projections { key, value, .. } = &layer.crossed;
            apply(cpu, activations, encoded, Write::Set, &mut [(key, keys), (value, values)]);
            texts.crossed.append(cpu, i, &slots, keys, values);
        }
        texts.restart(1);
    }

    /// Computes the keys of the audio in one layer, `[audio_context][width]`.
    pub(crate) fn audio_keys(&self, cpu: &Cpu, encoded: &[f32], layer: usize, work: &mut Work) -> Vec<f32> {
        let mut keys = vec![0.0; encoded.len()];
        let Projections { key, .. } = &self.decoder.layers[layer].crossed;
        key.apply(cpu, &mut work.activations, encoded, &mut keys, Write::Set);
        keys
    }

    /// Computes the next tokens of the texts, and logits of the rows asked for, `[row][vocabulary]`.
    ///
    /// # Panics
    /// If a text is longer than the context, or a token is beyond the vocabulary.
    pub(crate) fn step(
        &self,
        cpu: &Cpu,
        texts: &mut Texts,
        tokens: &[&[u32]],
        ask: Ask<'_>,
        work: &mut Work,
        logits: &mut Vec<f32>,
    ) {
        let Config { width, audio_context, text_context, decoder, .. } = self.config;
        assert_eq!(tokens.len(), texts.lengths.len(), "tokens of every text");
        let count: usize = tokens.iter().map(|tokens| tokens.len()).sum();
        let (mut x, mut places) = (vec![0.0; count * width], Vec::with_capacity(count));
        let mut rows = x.chunks_exact_mut(width);
        for (text, tokens) in tokens.iter().enumerate() {
            let first = texts.lengths[text];
            assert!(first + tokens.len() <= text_context, "a text within the context");
            for (i, token) in tokens.iter().enumerate() {
                self.decoder.embed(
                    &self.config,
                    *token,
                    first + i,
                    rows.next().expect("a row for each token"),
                );
            }
            places.extend(slots(first, tokens.len(), texts.blocks[text][0] as usize));
        }
        let (mut spans, mut first) = (Vec::new(), 0);
        for (text, tokens) in tokens.iter().enumerate() {
            let (position, tokens) = (texts.lengths[text], tokens.len());
            let blocks = &texts.blocks[text];
            spans.push(AttentionSpan { first, tokens, position, stored: position + tokens, blocks });
            first += tokens;
        }
        let of_audio: Vec<AttentionSpan<'_>> = (0..count)
            .step_by(audio_context)
            .map(|first| {
                let tokens = (count - first).min(audio_context);
                AttentionSpan { first, tokens, position: 0, stored: audio_context, blocks: &texts.audio }
            })
            .collect();
        let options = AttentionOptions::causal(((width / decoder.heads) as f32).sqrt().recip());
        let over_audio = AttentionOptions { mask: Mask::Full, ..options };
        for (i, layer) in self.decoder.layers.iter().enumerate() {
            layer.own.norm.apply(cpu, &x, &mut work.normed);
            let Work { activations, normed, queries, keys, values, mixed, .. } = &mut *work;
            [&mut *queries, keys, values, mixed].into_iter().for_each(|buffer| resize(buffer, count * width));
            let Projections { query, key, value, out, .. } = &layer.own;
            apply(
                cpu,
                activations,
                normed,
                Write::Set,
                &mut [(query, queries), (key, keys), (value, values)],
            );
            texts.own.append(cpu, i, &places, keys, values);
            attention(cpu, &texts.own, i, &spans, queries, &options, mixed);
            out.apply(cpu, activations, mixed, &mut x, Write::Add);

            layer.crossed.norm.apply(cpu, &x, normed);
            let Projections { query, out, .. } = &layer.crossed;
            query.apply(cpu, activations, normed, queries, Write::Set);
            if let Some((_, kept)) = texts.watched.iter_mut().find(|watched| watched.0 == i) {
                kept.clone_from(queries);
            }
            attention(cpu, &texts.crossed, i, &of_audio, queries, &over_audio, mixed);
            out.apply(cpu, activations, mixed, &mut x, Write::Add);
            layer.feed_forward.add(cpu, &mut x, work);
        }
        for (length, tokens) in texts.lengths.iter_mut().zip(tokens) {
            *length += tokens.len();
        }
        self.output(cpu, &x, tokens, ask, work, logits);
    }

    /// Computes logits of the rows asked for.
    fn output(
        &self,
        cpu: &Cpu,
        x: &[f32],
        tokens: &[&[u32]],
        ask: Ask<'_>,
        work: &mut Work,
        logits: &mut Vec<f32>,
    ) {
        let width = self.config.width;
        let mut end = 0;
        let last = tokens.iter().filter(|tokens| !tokens.is_empty()).map(|tokens| {
            end += tokens.len();
            end - 1
        });
        let rows: Vec<usize> = match ask {
            Ask::All => (0..x.len() / width).collect(),
            Ask::Last => last.collect(),
            Ask::Rows(rows) => rows.to_vec(),
        };
        let wanted: Vec<f32> = rows.iter().flat_map(|row| &x[row * width..][..width]).copied().collect();
        self.decoder.norm.apply(cpu, &wanted, &mut work.normed);
        resize(logits, rows.len() * self.config.vocabulary);
        self.decoder.output.apply(cpu, &mut work.activations, &work.normed, logits, Write::Set);
    }
}
