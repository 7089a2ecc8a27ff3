//! Topology of the machine: processor, cores, caches, NUMA nodes, limits, memory.
//!
//! Everything here is read from `/proc`, `/sys` and the scheduler; nothing is measured or decided, with the one
//! exception of [`default_threads`], which derives a thread count from the facts and says why.
//!
//! All files are read through a [`SysFs`], whose root can be a stored tree in tests. Virtual machines and containers
//! hide, truncate or contradict parts of these files, so every fact is optional and a file that cannot be parsed counts
//! as absent: reading a topology never fails and never panics.

mod cache;
mod cgroup;
mod core;
mod cpu_list;
mod energy;
mod huge_pages;
mod memory;
mod numa;
mod processor;
mod sysfs;
mod threads;

pub use crate::cpu::topology::cache::{Cache, CacheKind};
pub use crate::cpu::topology::cgroup::{CpuQuota, MemoryLimit};
pub use crate::cpu::topology::core::Core;
pub use crate::cpu::topology::cpu_list::CpuList;
pub use crate::cpu::topology::energy::{EnergyMeter, EnergyReading};
pub use crate::cpu::topology::huge_pages::{HugePagePool, HugePages};
pub use crate::cpu::topology::memory::Memory;
pub use crate::cpu::topology::numa::NumaNode;
pub use crate::cpu::topology::processor::Processor;
pub use crate::cpu::topology::sysfs::SysFs;
pub use crate::cpu::topology::threads::{ThreadChoice, default_threads};

use serde::Serialize;

/// Topology of a machine.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Topology {
    /// Name, identification and instruction-set extensions of the processor.
    pub processor: Processor,
    /// CPUs that the kernel schedules on.
    pub online: CpuList,
    /// CPUs in this process's affinity mask.
    pub affinity: CpuList,
    /// CPUs of the control group's cpuset, if there is one.
    pub cpuset: Option<CpuList>,
    /// Physical cores, each with the CPUs (hardware threads) that share it.
    pub cores: Vec<Core>,
    /// True if the machine says which CPUs share a core. If not, every CPU is listed as a core of its own.
    pub cores_known: bool,
    /// Caches, one entry per level, kind and size; empty where the machine does not describe them.
    pub caches: Vec<Cache>,
    /// NUMA nodes with CPUs or memory; at least one.
    pub numa_nodes: Vec<NumaNode>,
    /// Smallest CPU quota on the way from this process's control group to the root.
    pub cpu_quota: Option<CpuQuota>,
    /// Main memory and its limits.
    pub memory: Memory,
    /// Settings of transparent huge pages and pools of explicit ones.
    pub huge_pages: HugePages,
    /// Size of a base page in bytes.
    pub page_bytes: usize,
}

impl Topology {
    /// Reads the topology of the running machine.
    ///
    /// The affinity mask is that of the calling thread, which threads started by it inherit.
    ///
    /// ```
    /// let topology = leyden_kernels::topology::Topology::detect();
    /// assert!(!topology.allowed().is_empty());
    /// ```
    pub fn detect() -> Self {
        let mut topology = Self::read(&SysFs::machine());
        if let Some(affinity) = scheduler_affinity() {
            topology.affinity = affinity;
        }
        topology
    }

    /// Reads a topology from the files below `sys`, without asking the kernel anything but its page size.
    pub fn read(sys: &SysFs) -> Self {
        let status_mask = sys
            .field("proc/self/status", "Cpus_allowed_list")
            .and_then(|list| CpuList::parse(&list))
            .filter(|list| !list.is_empty());
        let online = online_cpus(sys, status_mask.as_ref());
        let groups = cgroup::ControlGroups::read(sys);
        let (cores, cores_known) = core::read(sys, &online);
        let memory = memory::read(sys, &groups);
        Self {
            processor: processor::read(sys),
            affinity: status_mask.unwrap_or_else(|| online.clone()),
            cpuset: groups.cpuset(sys),
            cores,
            cores_known,
            caches: cache::read(sys, &online),
            numa_nodes: numa::read(sys, &online, &memory),
            cpu_quota: groups.cpu_quota(sys),
            memory,
            huge_pages: huge_pages::read(sys),
            page_bytes: rustix::param::page_size(),
            online,
        }
    }

    /// Returns the CPUs that this process may run on: online, in the affinity mask and in the cpuset.
    ///
    /// If these contradict each other (a cpuset file that shows the host's numbers inside a container), the affinity
    /// mask wins, because the kernel has already applied the cpuset to it.
    pub fn allowed(&self) -> CpuList {
        let online = self.affinity.intersection(&self.online);
        let mask = if online.is_empty() { self.affinity.clone() } else { online };
        match &self.cpuset {
            Some(cpuset) => {
                let both = mask.intersection(cpuset);
                if both.is_empty() { mask } else { both }
            }
            None => mask,
        }
    }

    /// Returns the cores with at least one CPU that this process may run on.
    pub fn allowed_cores(&self) -> impl Iterator<Item = &Core> {
        let allowed = self.allowed();
        self.cores.iter().filter(move |core| core.cpus.iter().any(|cpu| allowed.contains(cpu)))
    }

    /// Returns the number of processor packages (sockets) that the cores name; at least 1.
    pub fn packages(&self) -> usize {
        let mut packages: Vec<u32> = self.cores.iter().map(|core| core.package).collect();
        packages.sort_unstable();
        packages.dedup();
        packages.len().max(1)
    }

    /// Returns the cache of this level that holds data; the smallest one if cores differ.
    pub fn data_cache(&self, level: u32) -> Option<&Cache> {
        self.data_caches(level).min_by_key(|cache| cache.size_bytes)
    }

    /// Returns the caches of this level that hold data.
    pub fn data_caches(&self, level: u32) -> impl Iterator<Item = &Cache> {
        self.caches.iter().filter(move |cache| cache.level == level && cache.kind != CacheKind::Instruction)
    }
}

/// Returns the CPUs listed in `/sys`, else those in `cpuinfo`, else those of the affinity mask, else CPU 0.
fn online_cpus(sys: &SysFs, mask: Option<&CpuList>) -> CpuList {
    sys.list("sys/devices/system/cpu/online")
        .or_else(|| Some(processor::listed_cpus(sys)).filter(|list| !list.is_empty()))
        .or_else(|| mask.cloned())
        .unwrap_or_else(|| CpuList::from_iter([0]))
}

/// Returns the calling thread's affinity mask, or `None` if the kernel counts more CPUs than the call's fixed-size set.
#[cfg(target_os = "linux")]
fn scheduler_affinity() -> Option<CpuList> {
    use rustix::thread::{CpuSet, sched_getaffinity};
    let set = sched_getaffinity(None).ok()?;
    let list: CpuList = (0..CpuSet::MAX_CPU)
        .filter(|&cpu| set.is_set(cpu))
        .filter_map(|cpu| u32::try_from(cpu).ok())
        .collect();
    (!list.is_empty()).then_some(list)
}

/// Returns the CPUs that the standard library counts: other systems have no affinity mask to read.
#[cfg(not(target_os = "linux"))]
fn scheduler_affinity() -> Option<CpuList> {
    let n = std::thread::available_parallelism().ok()?.get();
    Some((0..n).filter_map(|cpu| u32::try_from(cpu).ok()).collect())
}
