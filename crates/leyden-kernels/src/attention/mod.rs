//! Attention over a paged key-value cache, with causal, bidirectional and sliding-window masks.
//!
//! A block holds 64 tokens of one layer. Keys are `[head][4 groups][head_dim][16 tokens]`, so that each vector lane
//! holds one token and scores need no horizontal sums; quantised keys are panels of Q8_0 weights, with 16 tokens as the
//! 16 rows, and queries are quantised to the activation format of such weights. Values are
//! `[head][64 tokens][head_dim]`; `q8_values.rs` describes quantised ones.
//!
//! The result is defined tile by tile, a tile being the block at a fixed position: scores, their maximum, the
//! exponentials and the weighted values are computed within the tile, and tiles are merged in order of position. A row
//! is not changed by tiles that it does not attend to, so tiles that no row of a task attends to are skipped. The bits
//! of a result therefore do not depend on the rest of the batch, on how the prompt was cut into steps, or on the
//! threads that computed the tiles.

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
