//! Code shared by the tests of several crates: files beside the checkout, random numbers, damaged files, adapters, and
//! emulator limits. Depends on no other crate of the workspace, so that each may use it.
#![forbid(unsafe_code)]

mod adapter;
#[cfg(feature = "certificates")]
pub mod certificates;
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
