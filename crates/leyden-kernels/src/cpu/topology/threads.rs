//! Default number of threads.

use serde::Serialize;

use crate::cpu::topology::Topology;

/// Thread count and the facts it follows from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ThreadChoice {
    /// Number of compute threads; at least 1.
    pub threads: usize,
    /// Reason, in one line for people.
    pub reason: String,
}

/// Returns one thread per physical core that this process may use, at most as many as its CPU quota covers.
///
/// Threads beyond the cores compete for the same multipliers and the same memory channels. Threads beyond the quota are
/// worse: once the quota is spent the kernel stops all of them for the rest of the period, in the middle of a matrix
/// product that the others wait for. So a fractional quota is rounded down.
pub fn default_threads(topology: &Topology) -> ThreadChoice {
    let allowed = topology.allowed();
    let cores = topology.allowed_cores().count();
    // CPUs that are allowed but missing from the machine's own list (a damaged tree) still run threads.
    let cores = if cores == 0 { allowed.len().max(1) } else { cores };
    let mut reason = if topology.cores_known {
        match (cores, allowed.len()) {
            (1, 1) => "1 physical core".to_owned(),
            (cores, cpus) if cpus > cores => {
                format!("{} with {cpus} hardware threads", count(cores, "physical core"))
            }
            (cores, _) => count(cores, "physical core"),
        }
    } else {
        format!("{}; the machine does not say which share a core", count(cores, "CPU"))
    };
    if allowed.len() < topology.online.len() {
        reason += &format!(", in the CPUs {allowed} that this process may use");
    }
    let mut threads = cores;
    if let Some(quota) = &topology.cpu_quota
        && quota.whole_cpus() < threads
    {
        threads = quota.whole_cpus();
        reason += &format!(", limited by a quota of {:.2} CPUs ({})", quota.cpus(), quota.group);
    }
    ThreadChoice { threads, reason }
}

fn count(n: usize, thing: &str) -> String {
    if n == 1 { format!("1 {thing}") } else { format!("{n} {thing}s") }
}
