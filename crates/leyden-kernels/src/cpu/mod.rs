//! The processor: instruction-set levels and their detection, vendor, permission for AMX, topology.

#[cfg(target_arch = "x86_64")]
mod amx_permission;
pub(crate) mod isa;
pub mod topology;
mod vendor;

pub use isa::{Level, Tier};
