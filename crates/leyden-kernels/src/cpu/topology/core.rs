//! Physical cores and the CPUs that share them.

use serde::Serialize;

use crate::cpu::topology::cpu_list::CpuList;
use crate::cpu::topology::sysfs::SysFs;

/// Physical core.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Core {
    /// Package (socket) of the core.
    pub package: u32,
    /// CPUs of this core; more than one means simultaneous multithreading.
    pub cpus: CpuList,
}

/// Groups the online CPUs by core. Also returns whether the machine says which CPUs share a core; if it does not, each
/// CPU is a core.
pub(super) fn read(sys: &SysFs, online: &CpuList) -> (Vec<Core>, bool) {
    let mut cores: Vec<Core> = Vec::new();
    let mut seen = std::collections::HashSet::new();
    let mut known = true;
    for cpu in online.iter() {
        if seen.contains(&cpu) {
            continue;
        }
        let dir = format!("sys/devices/system/cpu/cpu{cpu}/topology");
        let siblings = sys
            .list(&format!("{dir}/core_cpus_list"))
            // Name of the file before Linux 5.3.
            .or_else(|| sys.list(&format!("{dir}/thread_siblings_list")))
            .filter(|list| list.contains(cpu));
        known &= siblings.is_some();
        // An offline sibling does no work, and one that was already counted belongs to another core.
        let cpus: CpuList = siblings
            .unwrap_or_else(|| CpuList::from_iter([cpu]))
            .intersection(online)
            .iter()
            .filter(|sibling| !seen.contains(sibling))
            .collect();
        seen.extend(cpus.iter());
        // Firmware without package numbers reports -1, which does not parse: one package then.
        let package = sys.number(&format!("{dir}/physical_package_id")).unwrap_or(0);
        cores.push(Core { package, cpus });
    }
    (cores, known)
}
