//! The paged key-value cache: storage of keys and values by block.

use crate::attention::block::{BLOCK_TOKENS, KEY_TOKENS, KvType};
use crate::attention::q8_values;
use crate::context::Cpu;
use crate::error::Error;
use crate::gemm::format::q8_0;
use crate::memory::disjoint::Disjoint;
use crate::memory::huge::HugeBuf;
use crate::simd::Simd;
use crate::simd::dispatch::dispatch;

/// What every layer of the cache holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KvShape {
    /// Layers.
    pub layers: usize,
    /// Key-value heads.
    pub heads: usize,
    /// Values per head; a multiple of 16, and of 32 for `q8_0`.
    pub head_dim: usize,
    /// Storage type.
    pub kv_type: KvType,
}

impl KvShape {
    /// Bytes of one head's keys in one block.
    #[inline]
    pub(crate) fn key_bytes(&self) -> usize {
        match self.kv_type {
            KvType::Q8_0 => BLOCK_TOKENS / KEY_TOKENS * q8_0::panel_bytes(self.head_dim),
            t => BLOCK_TOKENS * self.head_dim * t.value_bytes(),
        }
    }

    /// Bytes of one head's values in one block.
    #[inline]
    pub(crate) fn value_bytes(&self) -> usize {
        match self.kv_type {
            KvType::Q8_0 => self.head_dim / q8_values::VALUES * q8_values::BYTES,
            t => BLOCK_TOKENS * self.head_dim * t.value_bytes(),
        }
    }

    /// Bytes of one block in one layer: keys of all heads, then values of all heads.
    #[inline]
    fn block_bytes(&self) -> usize {
        self.heads * (self.key_bytes() + self.value_bytes())
    }

    /// Bytes that one token takes in all layers.
    #[must_use]
    pub fn token_bytes(&self) -> usize {
        self.layers * self.block_bytes() / BLOCK_TOKENS
    }
}

/// A layer's blocks from this size on lie on huge pages, so that the first token never commits more than a text
/// of some 2,000 tokens would. Smaller blocks come from narrow models, in which a page walk costs little.
const HUGE_BLOCK_BYTES: usize = 64 << 10;

/// Keys and values of all layers, in `blocks` blocks. Memory is committed as blocks are first written.
#[derive(Debug)]
pub struct KvCache {
    shape: KvShape,
    blocks: usize,
    layers: Vec<HugeBuf>,
}

impl KvCache {
    /// An empty cache of `blocks` blocks.
    ///
    /// # Errors
    /// No address space, or the size overflows.
    ///
    /// # Panics
    /// If the head size does not fit the storage type (the model loader checks it).
    pub fn new(shape: KvShape, blocks: usize) -> Result<KvCache, Error> {
        let unit = if shape.kv_type == KvType::Q8_0 { 32 } else { 16 };
        assert!(shape.head_dim.is_multiple_of(unit), "head size {} for {}", shape.head_dim, shape.kv_type);
        let at = "key-value cache";
        let bytes = shape.block_bytes().checked_mul(blocks).ok_or_else(|| Error::too_large(at))?;
        let huge = shape.block_bytes() >= HUGE_BLOCK_BYTES;
        let buffer = if huge { HugeBuf::zeroed } else { HugeBuf::zeroed_sparse };
        let layers = (0..shape.layers)
            .map(|_| buffer(bytes).map_err(|e| Error::memory(at, bytes, e)))
            .collect::<Result<_, _>>()?;
        Ok(KvCache { shape, blocks, layers })
    }

    /// What the cache holds.
    #[must_use]
    pub fn shape(&self) -> &KvShape {
        &self.shape
    }

    /// The number of blocks.
    #[must_use]
    pub fn blocks(&self) -> usize {
        self.blocks
    }

    /// Keys of one head in one block.
    #[inline]
    pub(crate) fn keys(&self, layer: usize, block: u32, head: usize) -> &[u8] {
        let n = self.shape.key_bytes();
        let at = block as usize * self.shape.block_bytes() + head * n;
        &self.layers[layer].as_slice()[at..at + n]
    }

    /// Values of one head in one block.
    #[inline]
    pub(crate) fn values(&self, layer: usize, block: u32, head: usize) -> &[u8] {
        let n = self.shape.value_bytes();
        let keys = self.shape.heads * self.shape.key_bytes();
        let at = block as usize * self.shape.block_bytes() + keys + head * n;
        &self.layers[layer].as_slice()[at..at + n]
    }

    /// Stores keys and values of new tokens. `slots[i]` is token i's (block, place in the block); row i of
    /// `keys` and `values` holds its heads one after the other.
    ///
    /// # Panics
    /// If a block is out of range, two tokens share a slot, or a length does not fit.
    pub fn append(&mut self, cpu: &Cpu, layer: usize, slots: &[(u32, u8)], keys: &[f32], values: &[f32]) {
        let shape = self.shape;
        let width = shape.heads * shape.head_dim;
        assert_eq!(keys.len(), slots.len() * width, "keys of {} tokens", slots.len());
        assert_eq!(values.len(), keys.len(), "as many values as keys");
        let (kn, vn) = (shape.key_bytes(), shape.value_bytes());
        let buffer = Disjoint::new(self.layers[layer].as_mut_slice());
        let work = |head: usize| {
            for (i, &(block, place)) in slots.iter().enumerate() {
                let start = block as usize * shape.block_bytes();
                // SAFETY: each task has its own head, whose bytes in a block no other head shares.
                let k = unsafe { buffer.range(start + head * kn, kn) };
                // SAFETY: as above; values lie behind the keys of all heads.
                let v = unsafe { buffer.range(start + shape.heads * kn + head * vn, vn) };
                let at = i * width + head * shape.head_dim;
                let row = at..at + shape.head_dim;
                store_on(
                    cpu.tier(),
                    shape.kv_type,
                    usize::from(place),
                    &keys[row.clone()],
                    &values[row],
                    k,
                    v,
                );
            }
        };
        if slots.len() * width < 16 << 10 {
            (0..shape.heads).for_each(work)
        } else {
            cpu.pool().run(shape.heads, work)
        }
    }
}

#[inline(always)]
fn store<I: Simd>(isa: I, t: KvType, place: usize, key: &[f32], value: &[f32], k: &mut [u8], v: &mut [u8]) {
    let dim = key.len();
    let (group, lane) = (place / KEY_TOKENS, place % KEY_TOKENS);
    // Byte offset of the key's value d, for elements of `size` bytes.
    let key_at = |d: usize, size: usize| ((group * dim + d) * KEY_TOKENS + lane) * size;
    match t {
        KvType::F32 => {
            for d in 0..dim {
                k[key_at(d, 4)..][..4].copy_from_slice(&key[d].to_le_bytes());
                v[(place * dim + d) * 4..][..4].copy_from_slice(&value[d].to_le_bytes());
            }
        }
        KvType::F16 => {
            for (c, (key, value)) in key.as_chunks::<16>().0.iter().zip(value.as_chunks::<16>().0).enumerate()
            {
                let (key, value) = (isa.f32_to_f16(&in_range(key)), isa.f32_to_f16(&in_range(value)));
                for i in 0..16 {
                    let d = c * 16 + i;
                    k[key_at(d, 2)..][..2].copy_from_slice(&key[i].to_le_bytes());
                    v[(place * dim + d) * 2..][..2].copy_from_slice(&value[i].to_le_bytes());
                }
            }
        }
        KvType::Q8_0 => {
            let panel = q8_0::panel_bytes(dim);
            let panel = &mut k[group * panel..][..panel];
            for (b, (key, value)) in key.as_chunks::<32>().0.iter().zip(value.as_chunks::<32>().0).enumerate()
            {
                let mut quants = [0_i8; 32];
                let s = quantise(isa, key, &mut quants);
                q8_0::pack_block(panel, dim, b, lane, s.to_le_bytes(), &quants);
                let s = quantise(isa, value, &mut quants);
                q8_values::store(&mut v[b * q8_values::BYTES..][..q8_values::BYTES], place, &quants, s);
            }
        }
    }
}

/// Values held to what a half can represent. An infinity in one token would turn the zero weight that an
/// earlier token gives it into NaN, and so make a result depend on how the prompt was cut into steps.
#[inline(always)]
fn in_range(x: &[f32; 16]) -> [f32; 16] {
    x.map(|v| v.clamp(-65504.0, 65504.0))
}

/// Quantised values of 32 values; returns the half-precision scale.
#[inline(always)]
fn quantise<I: Simd>(isa: I, x: &[f32; 32], quants: &mut [i8; 32]) -> u16 {
    let mut scale = [0.0; 16];
    scale[0] = crate::quant::quantize::quantise_group(isa, x, quants);
    isa.f32_to_f16(&scale)[0]
}

dispatch! {
    fn store_on => store(
        t: KvType, place: usize, key: &[f32], value: &[f32], k: &mut [u8], v: &mut [u8])
}
