//! Main memory: total, free, and the limit of this process.

use serde::Serialize;

use crate::cpu::topology::cgroup::{ControlGroups, MemoryLimit};
use crate::cpu::topology::sysfs::{SysFs, field_in, kib_value};

/// Main memory and its limits, in bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Memory {
    /// Total memory of the machine.
    pub total_bytes: Option<u64>,
    /// Memory available to a program without swapping, by the kernel's estimate.
    pub available_bytes: Option<u64>,
    /// Unused memory, not even in use by the page cache.
    pub free_bytes: Option<u64>,
    /// Size of the swap space.
    pub swap_total_bytes: Option<u64>,
    /// Free swap space.
    pub swap_free_bytes: Option<u64>,
    /// Smallest memory limit of the control groups above this process.
    pub limit: Option<MemoryLimit>,
}

impl Memory {
    /// Returns the memory that this process can still take: the memory available on the machine, or less if a limit
    /// leaves less.
    pub fn usable_bytes(&self) -> Option<u64> {
        let below_limit =
            self.limit.as_ref().map(|limit| limit.bytes.saturating_sub(limit.used_bytes.unwrap_or(0)));
        match (self.available_bytes, below_limit) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }
}

/// Reads `meminfo` and the memory limits of the control groups.
pub(super) fn read(sys: &SysFs, groups: &ControlGroups) -> Memory {
    let text = sys.text("proc/meminfo").unwrap_or_default();
    let value = |key: &str| kib_value(field_in(&text, key)?);
    let total_bytes = value("MemTotal");
    Memory {
        total_bytes,
        available_bytes: value("MemAvailable"),
        free_bytes: value("MemFree"),
        swap_total_bytes: value("SwapTotal"),
        swap_free_bytes: value("SwapFree"),
        // Version 1 writes "no limit" as a number near 2^63; a limit above the machine's memory limits nothing.
        limit: groups.memory_limit(sys).filter(|limit| total_bytes.is_none_or(|total| limit.bytes < total)),
    }
}
