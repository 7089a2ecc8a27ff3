//! Paged key-value cache: storage of keys and values by block.

use crate::attention::block::{BLOCK_TOKENS, KEY_TOKENS, KvType};
use crate::attention::q8_values;
use crate::context::Cpu;
use crate::error::Error;
use crate::gemm::format::q8_0;
use crate::memory::disjoint::Disjoint;
use crate::memory::huge::HugeBuf;
use crate::simd::Simd;
use crate::simd::dispatch::dispatch;

/// Shape of one layer of the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KvLayer {
    /// Number of key-value heads.
    pub heads: usize,
    /// Head dimension of keys: a multiple of 16, and of 32 for `q8_0`.
    pub key_dim: usize,
    /// Head dimension of values: a multiple of 16, and of 32 for `q8_0`.
    pub value_dim: usize,
    /// True if the layer uses a sliding window, so that blocks before the window need not be kept.
    pub windowed: bool,
    /// Number of values of a recurrent state per sequence, instead of or beside keys and values.
    pub state: usize,
}

/// Shape of the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KvShape {
    /// Shapes of the layers, which may differ.
    pub layers: Vec<KvLayer>,
    /// Storage type.
    pub kv_type: KvType,
}

impl KvShape {
    /// Returns the shape of `layers` equal layers whose keys and values have the same head dimension.
    #[must_use]
    pub fn uniform(layers: usize, heads: usize, head_dim: usize, kv_type: KvType) -> KvShape {
        let layer = KvLayer { heads, key_dim: head_dim, value_dim: head_dim, windowed: false, state: 0 };
        KvShape { layers: vec![layer; layers], kv_type }
    }

    /// Returns the bytes of one token in all layers, at least 1.
    #[must_use]
    pub fn token_bytes(&self) -> usize {
        (self.layers.iter().map(|layer| layer.block_bytes(self.kv_type)).sum::<usize>() / BLOCK_TOKENS).max(1)
    }

    /// Returns the bytes of one sequence's recurrent states in all layers; independent of its length.
    #[must_use]
    pub fn state_bytes(&self) -> usize {
        self.layers.iter().map(|layer| layer.state * size_of::<f32>()).sum()
    }
}

impl KvLayer {
    /// Returns the bytes of one head's keys in one block.
    #[inline]
    pub(crate) fn key_bytes(&self, kv_type: KvType) -> usize {
        match kv_type {
            KvType::Q8_0 => BLOCK_TOKENS / KEY_TOKENS * q8_0::panel_bytes(self.key_dim),
            t => BLOCK_TOKENS * self.key_dim * t.value_bytes(),
        }
    }

    /// Returns the bytes of one head's values in one block.
    #[inline]
    pub(crate) fn value_bytes(&self, kv_type: KvType) -> usize {
        match kv_type {
            KvType::Q8_0 => self.value_dim / q8_values::VALUES * q8_values::BYTES,
            t => BLOCK_TOKENS * self.value_dim * t.value_bytes(),
        }
    }

    /// Returns the bytes of one block: keys of all heads, then values of all heads.
    #[inline]
    fn block_bytes(&self, kv_type: KvType) -> usize {
        self.heads * (self.key_bytes(kv_type) + self.value_bytes(kv_type))
    }
}

/// Block size in bytes from which a layer's blocks lie on huge pages, so that the first token never commits more memory
/// than about 2,000 tokens would. Smaller blocks come from narrow models, for which a page walk costs little.
const HUGE_BLOCK_BYTES: usize = 64 << 10;

/// Keys and values of all layers, in `blocks` blocks. Memory is committed when a block is first written.
#[derive(Debug)]
pub struct KvCache {
    shape: KvShape,
    blocks: usize,
    layers: Vec<HugeBuf>,
    /// Recurrent states of each layer, one sequence after the other; they grow with the number of sequences.
    states: Vec<Vec<f32>>,
    /// Slot of each block in layers with a window, if these have fewer slots than there are blocks.
    slots: Option<Vec<u32>>,
}

impl KvCache {
    /// Creates an empty cache of `blocks` blocks.
    ///
    /// # Errors
    /// If there is no address space for it, or its size overflows.
    ///
    /// # Panics
    /// If the head dimension does not fit the storage type (the model loader checks it).
    pub fn new(shape: KvShape, blocks: usize) -> Result<KvCache, Error> {
        KvCache::with_slots(shape, blocks, None)
    }

    /// Creates an empty cache whose layers with a window have `slots` slots for the `blocks` blocks. Before a block is
    /// first written, [`place`](Self::place) must assign it a slot.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    ///
    /// # Panics
    /// As [`new`](Self::new).
    pub fn with_windows(shape: KvShape, blocks: usize, slots: usize) -> Result<KvCache, Error> {
        KvCache::with_slots(shape, blocks, Some(slots))
    }

    fn with_slots(shape: KvShape, blocks: usize, slots: Option<usize>) -> Result<KvCache, Error> {
        let unit = if shape.kv_type == KvType::Q8_0 { 32 } else { 16 };
        let buffer = |layer: &KvLayer| {
            for dim in [layer.key_dim, layer.value_dim] {
                assert!(dim.is_multiple_of(unit), "head size {dim} for {}", shape.kv_type);
            }
            let at = "key-value cache";
            let block = layer.block_bytes(shape.kv_type);
            let blocks = slots.filter(|_| layer.windowed).unwrap_or(blocks);
            let bytes = block.checked_mul(blocks).ok_or_else(|| Error::too_large(at))?;
            let buffer = if block >= HUGE_BLOCK_BYTES { HugeBuf::zeroed } else { HugeBuf::zeroed_sparse };
            buffer(bytes).map_err(|e| Error::memory(at, bytes, e))
        };
        let layers = shape.layers.iter().map(buffer).collect::<Result<_, _>>()?;
        let states = vec![Vec::new(); shape.layers.len()];
        Ok(KvCache { shape, blocks, layers, states, slots: slots.map(|_| vec![0; blocks]) })
    }

    /// Returns the shape of the cache.
    #[must_use]
    pub fn shape(&self) -> &KvShape {
        &self.shape
    }

    /// Returns the number of blocks.
    #[must_use]
    pub fn blocks(&self) -> usize {
        self.blocks
    }

    /// Assigns the block a slot in the layers with a window.
    ///
    /// # Panics
    /// If there is no such block.
    pub fn place(&mut self, block: u32, slot: u32) {
        if let Some(slots) = &mut self.slots {
            slots[block as usize] = slot;
        }
    }

    /// Makes room for the recurrent states of `sequences` sequences. New states are zero.
    ///
    /// # Errors
    /// If memory is short.
    pub fn reserve_states(&mut self, sequences: usize) -> Result<(), Error> {
        for (layer, states) in self.shape.layers.iter().zip(&mut self.states) {
            let wanted = layer.state.saturating_mul(sequences);
            if let Some(more) = wanted.checked_sub(states.len()) {
                let short = |_| {
                    let bytes = wanted.saturating_mul(size_of::<f32>());
                    Error::memory("states of sequences", bytes, std::io::ErrorKind::OutOfMemory.into())
                };
                states.try_reserve_exact(more).map_err(short)?;
                states.resize(wanted, 0.0);
            }
        }
        Ok(())
    }

    /// Returns the recurrent states of a layer, and the number of values per sequence.
    pub fn states(&mut self, layer: usize) -> (&mut [f32], usize) {
        (&mut self.states[layer], self.shape.layers[layer].state)
    }

    /// Returns the slot of a block in a layer.
    #[inline]
    fn slot(&self, layer: usize, block: u32) -> usize {
        match &self.slots {
            Some(slots) if self.shape.layers[layer].windowed => slots[block as usize] as usize,
            _ => block as usize,
        }
    }

    /// Returns the keys of one head in one block.
    #[inline]
    pub(crate) fn keys(&self, layer: usize, block: u32, head: usize) -> &[u8] {
        let (shape, kv_type) = (&self.shape.layers[layer], self.shape.kv_type);
        let n = shape.key_bytes(kv_type);
        let at = self.slot(layer, block) * shape.block_bytes(kv_type) + head * n;
        &self.layers[layer].as_slice()[at..at + n]
    }

    /// Returns the values of one head in one block.
    #[inline]
    pub(crate) fn values(&self, layer: usize, block: u32, head: usize) -> &[u8] {
        let (shape, kv_type) = (&self.shape.layers[layer], self.shape.kv_type);
        let n = shape.value_bytes(kv_type);
        let keys = shape.heads * shape.key_bytes(kv_type);
        let at = self.slot(layer, block) * shape.block_bytes(kv_type) + keys + head * n;
        &self.layers[layer].as_slice()[at..at + n]
    }

    /// Stores the keys and values of new tokens. `slots[i]` is token i's (block, place in the block); row i of `keys`
    /// and `values` holds its heads one after the other.
    ///
    /// # Panics
    /// If a block is out of range, two tokens share a slot, or a length does not fit.
    pub fn append(&mut self, cpu: &Cpu, layer: usize, slots: &[(u32, u8)], keys: &[f32], values: &[f32]) {
        let (shape, kv_type) = (self.shape.layers[layer], self.shape.kv_type);
        let KvLayer { heads, key_dim, value_dim, windowed, state: _ } = shape;
        assert_eq!(keys.len(), slots.len() * heads * key_dim, "keys of {} tokens", slots.len());
        assert_eq!(values.len(), slots.len() * heads * value_dim, "values of {} tokens", slots.len());
        let (kn, vn) = (shape.key_bytes(kv_type), shape.value_bytes(kv_type));
        let of_layer = if windowed { self.slots.as_deref() } else { None };
        let buffer = Disjoint::new(self.layers[layer].as_mut_slice());
        let work = |head: usize| {
            for (i, &(block, place)) in slots.iter().enumerate() {
                let slot = of_layer.map_or(block, |slots| slots[block as usize]);
                let start = slot as usize * shape.block_bytes(kv_type);
                // SAFETY: each task has its own head, whose bytes in a block no other head shares.
                let k = unsafe { buffer.range(start + head * kn, kn) };
                // SAFETY: as above; values follow the keys of all heads.
                let v = unsafe { buffer.range(start + heads * kn + head * vn, vn) };
                let at = i * heads + head;
                let key = &keys[at * key_dim..(at + 1) * key_dim];
                let value = &values[at * value_dim..(at + 1) * value_dim];
                store_on(cpu.tier(), kv_type, usize::from(place), key, value, k, v);
            }
        };
        if keys.len() < 16 << 10 { (0..heads).for_each(work) } else { cpu.pool().run(heads, work) }
    }
}

#[inline(always)]
fn store<I: Simd>(isa: I, t: KvType, place: usize, key: &[f32], value: &[f32], k: &mut [u8], v: &mut [u8]) {
    let (dim, values) = (key.len(), value.len());
    let (group, lane) = (place / KEY_TOKENS, place % KEY_TOKENS);
    // Byte offset of dimension d of the key, for elements of `size` bytes.
    let key_at = |d: usize, size: usize| ((group * dim + d) * KEY_TOKENS + lane) * size;
    match t {
        KvType::F32 => {
            for (d, x) in key.iter().enumerate() {
                k[key_at(d, 4)..][..4].copy_from_slice(&x.to_le_bytes());
            }
            for (d, x) in value.iter().enumerate() {
                v[(place * values + d) * 4..][..4].copy_from_slice(&x.to_le_bytes());
            }
        }
        KvType::F16 => {
            for (c, key) in key.as_chunks::<16>().0.iter().enumerate() {
                let halves = isa.f32_to_f16(&in_range(key));
                for (i, x) in halves.iter().enumerate() {
                    k[key_at(c * 16 + i, 2)..][..2].copy_from_slice(&x.to_le_bytes());
                }
            }
            for (c, value) in value.as_chunks::<16>().0.iter().enumerate() {
                let halves = isa.f32_to_f16(&in_range(value));
                for (i, x) in halves.iter().enumerate() {
                    v[(place * values + c * 16 + i) * 2..][..2].copy_from_slice(&x.to_le_bytes());
                }
            }
        }
        KvType::Q8_0 => {
            let panel = q8_0::panel_bytes(dim);
            let panel = &mut k[group * panel..][..panel];
            let mut quants = [0_i8; 32];
            for (b, key) in key.as_chunks::<32>().0.iter().enumerate() {
                let s = quantise(isa, key, &mut quants);
                q8_0::pack_block(panel, dim, b, lane, s.to_le_bytes(), &quants);
            }
            for (b, value) in value.as_chunks::<32>().0.iter().enumerate() {
                let s = quantise(isa, value, &mut quants);
                q8_values::store(&mut v[b * q8_values::BYTES..][..q8_values::BYTES], place, &quants, s);
            }
        }
    }
}

/// Clamps values to the range of a half. An infinity in one token would turn the zero weight that an earlier token
/// gives it into NaN, so that a result would depend on how the prompt was cut into steps.
#[inline(always)]
fn in_range(x: &[f32; 16]) -> [f32; 16] {
    x.map(|v| v.clamp(-65504.0, 65504.0))
}

/// Quantises 32 values; returns the scale as half-precision bits.
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
