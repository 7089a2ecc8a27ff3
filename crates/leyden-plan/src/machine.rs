//! [`Machine`]: facts about a machine that a prediction needs.

use crate::interval::{Band, Interval};
use crate::kernels::{KernelClass, PeakKind};
use serde::Serialize;

/// Peak multiply-adds per second of all cores together.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Peaks {
    /// Multiply-adds of 8-bit integers.
    pub int8: f64,
    /// Multiply-adds of 32-bit floats.
    pub f32: f64,
    /// Multiply-adds of bfloat16.
    pub bf16: f64,
}

/// Machine, measured or from the table.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Machine {
    /// Name.
    pub name: String,
    /// Class of its kernels.
    pub class: KernelClass,
    /// Number of physical cores that compute.
    pub cores: usize,
    /// Bytes per second that all cores together read from memory.
    pub read_bytes: Interval,
    /// Peaks of all cores.
    pub peaks: Peaks,
    /// Factors on the peaks: exact if they were measured.
    pub products: Band,
    /// True if bandwidth and peaks were measured, false if they follow from specifications.
    pub measured: bool,
    /// Memory for the model, in bytes, if known.
    pub memory_bytes: Option<u64>,
    /// Bytes of the last-level caches; 0 if not known.
    pub cache_bytes: u64,
    /// Price in US dollars per hour, if known.
    pub price_per_hour: Option<f64>,
    /// Power under load in watts, if known.
    pub watts: Option<f64>,
}

impl Machine {
    /// Returns a peak of all cores.
    pub(crate) fn peak(&self, kind: PeakKind) -> f64 {
        match kind {
            PeakKind::Int8 => self.peaks.int8,
            PeakKind::F32 => self.peaks.f32,
            PeakKind::Bf16 => self.peaks.bf16,
        }
    }
}
