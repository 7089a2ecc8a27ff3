//! Attention over a paged key-value cache: causal, to all tokens, or to a sliding window.
//!
//! A block holds 64 tokens of one layer. Keys lie `[head][4 groups][head_dim][16 tokens]`, so that a vector lane
//! belongs to one token and scores need no horizontal sums; quantised keys are panels of Q8_0 weights, 16 tokens
//! for 16 rows, and queries are quantised to the activation format of such weights. Values lie `[head][64 tokens][head_dim]`, quantised
//! ones as `quantised values.rs` says.
//!
//! The result is defined tile by tile, a tile being the block at a fixed position: scores, their maximum, the
//! exponentials and their weighted values are computed within the tile, and tiles are merged in order of
//! position; tiles that no row of a task sees are passed over, which is what a row does anyhow with those that it does not
//! see. What else is in the batch, how the prompt was cut into steps, and which threads did the tiles of a row
//! cannot change a bit of it.

mod block;
mod driver;
mod kv_cache;
mod mask;
mod online_softmax;
mod options;
mod q8_values;
mod scores;
mod simd;
mod softmax;
mod split_kv;
mod whole_softmax;
mod whole_texts;

#[cfg(test)]
mod tests;

pub use block::{BLOCK_TOKENS, KvType};
pub use driver::{MAX_HEAD_DIM, attention};
pub use kv_cache::{KvCache, KvLayer, KvShape};
pub use mask::Mask;
pub use options::{AttentionOptions, AttentionSpan};
pub use whole_texts::{WholeTexts, attention_of_texts};
