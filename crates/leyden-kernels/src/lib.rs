//! How numbers are computed fast: instruction-set tiers, threads, packed weights, matrix products, attention.
//!
//! A [`Cpu`] carries the choices made once at start (tier, team of threads); everything takes it by
//! reference. Results are the same bits on every tier, at every number of threads, and for every batch a
//! token shares: integer sums are exact, and every floating-point reduction has one written order.
#![expect(unsafe_code, reason = "SIMD, thread-pool hand-over and anonymous memory live here")]
#![allow(
    clippy::needless_range_loop,
    reason = "lanes, rows and columns are indices; panel_runs arrays share one"
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
