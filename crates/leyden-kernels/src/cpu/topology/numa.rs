//! NUMA nodes: the CPUs and the memory of each.

use serde::Serialize;

use crate::cpu::topology::cpu_list::CpuList;
use crate::cpu::topology::memory::Memory;
use crate::cpu::topology::sysfs::{SysFs, kib_value};

/// NUMA node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NumaNode {
    /// Number of the node in the kernel.
    pub id: u32,
    /// Online CPUs of the node; empty for memory without CPUs.
    pub cpus: CpuList,
    /// Memory of the node in bytes.
    pub memory_total_bytes: Option<u64>,
    /// Unused memory of the node in bytes; page cache counts as used.
    pub memory_free_bytes: Option<u64>,
    /// Relative cost of reaching each node's memory, in the order of node numbers; 10 is local.
    pub distances: Vec<u32>,
}

/// Reads the nodes; a machine without NUMA files has one node.
pub(super) fn read(sys: &SysFs, online: &CpuList, memory: &Memory) -> Vec<NumaNode> {
    let base = "sys/devices/system/node";
    let nodes: Vec<NumaNode> = sys
        .numbered(base, "node")
        .into_iter()
        .filter_map(|id| {
            let dir = format!("{base}/node{id}");
            let cpus = CpuList::parse(&sys.text(&format!("{dir}/cpulist"))?)?.intersection(online);
            let meminfo = sys.text(&format!("{dir}/meminfo")).unwrap_or_default();
            let value = |key: &str| {
                // `Node 0 MemTotal:  123 kB`
                let prefix = format!("Node {id} {key}:");
                meminfo.lines().find_map(|line| kib_value(line.trim().strip_prefix(&prefix)?))
            };
            let distances = sys.text(&format!("{dir}/distance")).unwrap_or_default();
            Some(NumaNode {
                id,
                cpus,
                memory_total_bytes: value("MemTotal"),
                memory_free_bytes: value("MemFree"),
                distances: distances.split_ascii_whitespace().map_while(|d| d.parse().ok()).collect(),
            })
        })
        .filter(|node| !node.cpus.is_empty() || node.memory_total_bytes.is_some_and(|bytes| bytes > 0))
        .collect();
    if nodes.iter().any(|node| !node.cpus.is_empty()) {
        return nodes;
    }
    vec![NumaNode {
        id: 0,
        cpus: online.clone(),
        memory_total_bytes: memory.total_bytes,
        memory_free_bytes: memory.free_bytes,
        distances: Vec::new(),
    }]
}
