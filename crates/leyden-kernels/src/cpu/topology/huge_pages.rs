//! Huge pages: transparent ones and reserved pools.

use serde::Serialize;

use crate::cpu::topology::sysfs::SysFs;

/// Settings of huge pages. A setting is the word in brackets in the kernel's file, such as `madvise`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HugePages {
    /// Use of transparent huge pages for anonymous memory: `always`, `madvise` or `never`.
    pub transparent: Option<String>,
    /// Effort of the kernel to allocate one on a page fault.
    pub defrag: Option<String>,
    /// Use of transparent huge pages for shared memory.
    pub shmem: Option<String>,
    /// Size of a transparent huge page in bytes.
    pub transparent_bytes: Option<u64>,
    /// Reserved pools, one per page size, in ascending order.
    pub pools: Vec<HugePagePool>,
}

/// Pages of one size that an administrator has reserved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HugePagePool {
    /// Size of a page in bytes.
    pub page_bytes: u64,
    /// Number of pages in the pool.
    pub total: u64,
    /// Number of unused pages.
    pub free: u64,
}

/// Reads the settings; absent ones stay `None`.
pub(super) fn read(sys: &SysFs) -> HugePages {
    let base = "sys/kernel/mm/transparent_hugepage";
    let choice = |name: &str| chosen(&sys.text(&format!("{base}/{name}"))?).map(str::to_owned);
    let pools = "sys/kernel/mm/hugepages";
    let mut found: Vec<HugePagePool> = sys
        .names(pools)
        .iter()
        .filter_map(|name| {
            let kib: u64 = name.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok()?;
            Some(HugePagePool {
                page_bytes: kib.checked_mul(1024)?,
                total: sys.number(&format!("{pools}/{name}/nr_hugepages"))?,
                free: sys.number(&format!("{pools}/{name}/free_hugepages"))?,
            })
        })
        .collect();
    found.sort_by_key(|pool| pool.page_bytes);
    HugePages {
        transparent: choice("enabled"),
        defrag: choice("defrag"),
        shmem: choice("shmem_enabled"),
        transparent_bytes: sys.number(&format!("{base}/hpage_pmd_size")),
        pools: found,
    }
}

/// Returns the word in brackets of `always [madvise] never`.
fn chosen(text: &str) -> Option<&str> {
    text.split_ascii_whitespace().find_map(|word| word.strip_prefix('[')?.strip_suffix(']'))
}
