//! Causal attention over a paged key-value cache.
//!
//! A block holds 64 tokens of one layer. Keys lie `[head][4 groups][head_dim][16 tokens]`, so that a vector lane
//! belongs to one token and scores need no horizontal sums; quantised keys are panels of Q8_0 weights, 16 tokens
//! for 16 rows, and queries are quantised to the grid of such weights. Values lie `[head][64 tokens][head_dim]`, quantised
//! ones as `codes.rs` says.
//!
//! The result is defined tile by tile, a tile being the block at a fixed position: scores, their maximum, the
//! exponentials and their weighted values are computed within the tile, and tiles are merged in order of
//! position. What else is in the batch, how the prompt was cut into steps, and which threads did the tiles of a row
//! cannot change a bit of it.

mod cache;
pub(crate) mod codes;
mod kernel;
pub(crate) mod loops;
pub(crate) mod merge;

#[cfg(test)]
mod tests;

pub use cache::{BLOCK_TOKENS, KvCache, KvShape, KvType};
pub use kernel::{AttentionSpan, MAX_HEAD_DIM, attention};
