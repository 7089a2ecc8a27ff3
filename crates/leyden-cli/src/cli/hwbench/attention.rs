//! Timing of attention with one type of KV cache on one tier.

use leyden_kernels::attention::{
    AttentionOptions, AttentionSpan, BLOCK_TOKENS, KvCache, KvShape, KvType, attention,
};
use leyden_kernels::{ActFormat, Cpu, Level};
use serde::Serialize;

use super::args::{Args, Heads};
use super::machine::Machine;
use super::samples::{random, sampled};
use crate::cli::failure::Failure;

/// Number of cached tokens for the scalar path, which is tens of times slower.
const PLAIN_DEPTH: usize = 256;
const PLAIN_TOKENS: usize = 8;
/// Number of different cached tokens, which are repeated.
const DIFFERENT: usize = 61;

/// Keys and values of one type, in several copies (one per layer).
#[derive(Debug)]
pub(super) struct Cached {
    cache: KvCache,
    blocks: Vec<u32>,
}

/// Measurement of attention.
#[derive(Debug, Serialize)]
pub(super) struct Attended {
    pub(super) kv_type: &'static str,
    pub(super) tier: &'static str,
    /// True if the dispatcher chooses this tier.
    pub(super) picked: bool,
    pub(super) query_heads: usize,
    pub(super) kv_heads: usize,
    pub(super) head_dim: usize,
    /// Number of cached tokens, and of new tokens, which also attend to the new tokens before them.
    pub(super) depth: usize,
    pub(super) tokens: usize,
    /// Bytes of keys and values in one copy, and number of copies.
    pub(super) kv_bytes: usize,
    pub(super) copies: usize,
    /// True if the copies together exceed the caches.
    pub(super) beyond_caches: bool,
    pub(super) samples: usize,
    pub(super) median_seconds: f64,
    /// Multiply-accumulates per second: queries times keys, and attention weights times values.
    pub(super) macs_per_second: f64,
    pub(super) kv_bytes_per_second: f64,
    /// Share of the bandwidth of all threads; `None` if all copies fit the caches.
    pub(super) bandwidth_share: Option<f64>,
    /// Share of the tier's peak rate of float products, or for a quantised cache of integer products.
    pub(super) products_share: f64,
}

impl Cached {
    /// Creates random keys and values of `args.depth + tokens` tokens, in copies of `bytes` in all, at least one copy.
    pub(super) fn new(
        cpu: &Cpu,
        kv_type: KvType,
        args: &Args,
        tokens: usize,
        bytes: usize,
    ) -> Result<Cached, Failure> {
        let Heads { kv: heads, .. } = args.heads;
        let shape = |layers| KvShape::uniform(layers, heads, args.head_dim, kv_type);
        let layers = bytes.div_ceil(shape(1).token_bytes() * (args.depth + tokens)).max(1);
        let blocks = (args.depth + tokens).div_ceil(BLOCK_TOKENS);
        let blocks_u32 = u32::try_from(blocks).map_err(|_| Failure::usage("`--depth` is too large"))?;
        let mut cache = KvCache::new(shape(layers), blocks).map_err(Failure::new)?;
        let mut state = 3_u32;
        let width = heads * args.head_dim;
        let different: Vec<f32> = (0..DIFFERENT * width).map(|_| random(&mut state)).collect();
        let row = |token: usize| &different[token % DIFFERENT * width..][..width];
        for block in 0..blocks_u32 {
            let slots: Vec<(u32, u8)> = (0..BLOCK_TOKENS as u8).map(|place| (block, place)).collect();
            let first = block as usize * BLOCK_TOKENS;
            let keys: Vec<f32> = (first..first + BLOCK_TOKENS).flat_map(row).copied().collect();
            for layer in 0..layers {
                cache.append(cpu, layer, &slots, &keys, &keys);
            }
        }
        Ok(Cached { cache, blocks: (0..blocks_u32).collect() })
    }

    /// Times attention of `tokens` new tokens on the tier of `cpu`.
    pub(super) fn time(&self, cpu: &Cpu, tokens: usize, args: &Args, machine: &Machine) -> Attended {
        let (level, shape) = (cpu.tier().level(), self.cache.shape());
        let plain = level == Level::Scalar;
        let (depth, tokens) = if plain {
            (args.depth.min(PLAIN_DEPTH), tokens.min(PLAIN_TOKENS))
        } else {
            (args.depth, tokens)
        };
        let (dim, heads) = (args.head_dim, args.heads.query);
        let mut state = 4_u32;
        let queries: Vec<f32> = (0..tokens * heads * dim).map(|_| random(&mut state)).collect();
        let mut out = vec![0.0; queries.len()];
        let stored = depth + tokens;
        let span = AttentionSpan { first: 0, tokens, position: depth, stored, blocks: &self.blocks };
        let options = AttentionOptions::causal(1.0 / (dim as f32).sqrt());
        let (samples, seconds) = sampled(args.repetitions, |turn| {
            attention(cpu, &self.cache, turn % shape.layers.len(), &[span], &queries, &options, &mut out);
        });
        let kv_bytes = shape.token_bytes() / shape.layers.len() * (depth + tokens);
        let beyond_caches = kv_bytes.saturating_mul(shape.layers.len()) > crate::cli::bench::cache_bytes();
        // A new token attends to itself and all tokens before it.
        let seen = tokens * depth + tokens * (tokens + 1) / 2;
        let macs = (2 * heads * dim * seen) as f64 / seconds;
        let read = kv_bytes as f64 / seconds;
        let grid = if shape.kv_type == KvType::Q8_0 { ActFormat::Q8Block32 } else { ActFormat::F32 };
        Attended {
            kv_type: shape.kv_type.name(),
            tier: level.name(),
            picked: false,
            query_heads: heads,
            kv_heads: args.heads.kv,
            head_dim: dim,
            depth,
            tokens,
            kv_bytes,
            copies: shape.layers.len(),
            beyond_caches,
            samples,
            median_seconds: seconds,
            macs_per_second: macs,
            kv_bytes_per_second: read,
            bandwidth_share: beyond_caches.then(|| read / machine.read_bytes()),
            products_share: macs / machine.macs(level, grid),
        }
    }
}
