//! Huge pages: transparent ones and reserved pools.

use serde::Serialize;

use crate::cpu::topology::sysfs::SysFs;

/// Settings of huge pages. A setting is the word that the kernel marks as chosen, such as `madvise`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HugePages {
    /// When anonymous memory gets transparent huge pages: `always`, `madvise` or `never`.
    pub transparent: Option<String>,
    /// How hard the kernel works for one on a page fault.
    pub defrag: Option<String>,
    /// The same choice for shared memory.
    pub shmem: Option<String>,
    /// Size of a transparent huge page.
    pub transparent_bytes: Option<u64>,
    /// Reserved pools, one per page size, in ascending order.
    pub pools: Vec<HugePagePool>,
}

/// Pages of one size that an administrator has set aside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HugePagePool {
    /// Size of a page.
    pub page_bytes: u64,
    /// Pages in the pool.
    pub total: u64,
    /// Pages that nobody has taken.
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

/// The bracketed word of `always [madvise] never`.
fn chosen(text: &str) -> Option<&str> {
    text.split_ascii_whitespace().find_map(|word| word.strip_prefix('[')?.strip_suffix(']'))
}
