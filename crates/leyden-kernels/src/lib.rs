//! Fast computation: instruction-set tiers, threads, packed weights, matrix products, attention.
//!
//! A [`Cpu`] holds the choices made at start (tier, team of threads) and is passed by reference. Results are the same
//! bits on every tier, with any number of threads, and whatever else is in the batch: integer sums are exact, and every
//! floating-point reduction has a defined order.
#![expect(unsafe_code, reason = "SIMD, thread-pool hand-over and anonymous memory live here")]
#![allow(
    clippy::needless_range_loop,
    reason = "lanes, rows and columns are indices; several arrays share one index"
)]

pub mod attention;
mod ceilings;
mod context;
mod cpu;
mod error;
pub mod gemm;
pub mod heap;
pub mod knobs;
pub mod memory;
pub mod ops;
mod prefetch;
mod quant;
mod simd;
mod threads;
mod types;

pub use ceilings::{Ceilings, Meter};
pub use context::{Cpu, FEW_TOKENS};
pub use cpu::{Level, Tier, topology};
pub use error::{Error, ErrorKind};
pub use quant::encode_weights::{decode_row, encode_row_weighted};
pub use quant::packed_a::PackedA;
pub use threads::pool::{MemberGroup, Pool};
pub use threads::{bind_thread, placement};
pub use types::{ActFormat, OutlierChannels};
