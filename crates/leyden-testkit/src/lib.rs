//! What the tests of several crates share: files beside the checkout, random numbers, damaged files, adapters, and what an
//! emulator changes. Knows no other crate, so that each may use it.
#![forbid(unsafe_code)]

mod adapter;
mod damage;
mod emulator;
mod knobs;
pub mod protobuf;
mod random;
mod shared;

pub use adapter::storyteller_adapter;
pub use damage::{boundary_values, json_tokens, overwrite};
pub use emulator::{emulated, patience};
pub use random::random;
pub use shared::{shared, skip};
