//! Placement: the CPUs of each team and the NUMA nodes of the weights, decided from the topology.
//!
//! A replica is a team of threads with its own key-value cache; all replicas of a process share one copy of the
//! weights. [`placement`] is a pure function, so it is tested with stored topologies of other machines;
//! [`Cpu`](crate::context::Cpu) applies its result.
//!
//! * Threads: one per physical core, within affinity, cpuset and quota. A team smaller than the machine uses as few
//!   NUMA nodes as possible: all its memory is then local.
//! * Affinity: no narrower than a NUMA node, or than the third-level caches of a replica that has whole ones. A worker
//!   bound to a single core that another process keeps busy would stall its team.
//! * Weights: on the node of the only team; for a team over several nodes, each node has the rows that its members
//!   read; for replicas on several nodes, which all read the whole copy, pages are interleaved over the nodes, so that
//!   no node's memory serves all. A copy per node would be faster to read but take the model's size again.

use crate::cpu::topology::{Core, CpuList, NumaNode, Topology, default_threads};
use crate::memory::huge::Pages;
use crate::threads::pool::MemberGroup;
use serde::Serialize;
use std::fmt;
use std::str::FromStr;

/// Maximum number of replicas of a process, and of threads of a replica.
const MAX_COUNT: usize = 1024;

/// Requested number of replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replicas {
    /// One per NUMA node.
    Auto,
    /// This many, 1 to 1024.
    Count(usize),
}

impl Default for Replicas {
    fn default() -> Replicas {
        Replicas::Count(1)
    }
}

impl FromStr for Replicas {
    type Err = String;

    fn from_str(text: &str) -> Result<Replicas, String> {
        match text.parse() {
            _ if text == "auto" => Ok(Replicas::Auto),
            Ok(n @ 1..=MAX_COUNT) => Ok(Replicas::Count(n)),
            _ => Err(format!("neither `auto` nor a number from 1 to {MAX_COUNT}")),
        }
    }
}

impl fmt::Display for Replicas {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Replicas::Auto => f.write_str("auto"),
            Replicas::Count(n) => write!(f, "{n}"),
        }
    }
}

/// Request for a placement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlacementRequest {
    /// Number of replicas; one by default.
    pub replicas: Replicas,
    /// Threads per replica for steps of few tokens; by default its number of physical cores.
    pub threads: Option<usize>,
    /// Threads per replica for prompts; by default [`threads`](Self::threads), or its number of physical cores.
    pub threads_batch: Option<usize>,
}

/// Threads of a replica on one NUMA node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NodeShare {
    /// Number of the node in the kernel.
    pub node: u32,
    /// CPUs that the threads are bound to; `None` leaves them unbound.
    pub cpus: Option<CpuList>,
    /// Number of threads; at least one.
    pub threads: usize,
}

/// Team of threads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Replica {
    /// Number of threads for steps of few tokens.
    pub threads: usize,
    /// Number of threads for other steps.
    pub threads_batch: usize,
    /// Placement of its threads, as many as the larger number; at least one share.
    pub shares: Vec<NodeShare>,
}

impl Replica {
    /// Returns the member groups of a pool for this team.
    #[must_use]
    pub fn groups(&self) -> Vec<MemberGroup> {
        let group = |share: &NodeShare| MemberGroup { cpus: share.cpus.clone(), members: share.threads };
        self.shares.iter().map(group).collect()
    }
}

/// Placement of teams and weights.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Placement {
    /// Teams; at least one.
    pub replicas: Vec<Replica>,
    /// Placement of the weights' pages.
    pub weights: Pages,
}

/// Usable core, and the index of its third-level cache.
#[derive(Clone)]
struct UsableCore {
    cpus: CpuList,
    cache: Option<usize>,
}

/// NUMA node with usable cores, sorted by their caches.
struct UsableNode<'a> {
    node: &'a NumaNode,
    cores: Vec<UsableCore>,
}

impl UsableNode<'_> {
    fn cpus(&self) -> CpuList {
        self.cores.iter().flat_map(|core| core.cpus.iter()).collect()
    }
}

/// Computes the placement for a machine. Numbers out of range are clamped.
#[must_use]
pub fn placement(topology: &Topology, request: &PlacementRequest) -> Placement {
    let nodes = nodes(topology);
    let budget = default_threads(topology).threads;
    let count = match request.replicas {
        // A replica without a CPU's worth of quota would only delay the others.
        Replicas::Auto => nodes.len().min(budget),
        Replicas::Count(n) => n.clamp(1, MAX_COUNT),
    };
    let slices = slices(&nodes, count);
    let cores: usize = slices.iter().flatten().map(|(_, cores)| cores.len()).sum();
    let mut before = 0;
    let mut replicas = Vec::with_capacity(count);
    for slice in &slices {
        let own: usize = slice.iter().map(|(_, cores)| cores.len()).sum();
        // One thread each; the rest of the budget is divided in proportion to the cores, without remainder.
        let rest = |cores_before: usize| budget.saturating_sub(count) * cores_before / cores.max(1);
        let share = if budget >= cores { own } else { 1 + rest(before + own) - rest(before) };
        before += own;
        let threads = request.threads.unwrap_or(share).clamp(1, MAX_COUNT);
        let threads_batch = request.threads_batch.or(request.threads).unwrap_or(share).clamp(1, MAX_COUNT);
        let shares = shares(&nodes, slice, threads.max(threads_batch));
        replicas.push(Replica { threads, threads_batch, shares });
    }
    let weights = weights(topology, &replicas);
    Placement { replicas, weights }
}

/// Returns the nodes with allowed cores. If the topology is contradictory, one node has all CPUs.
fn nodes(topology: &Topology) -> Vec<UsableNode<'_>> {
    let allowed = topology.allowed();
    let caches: Vec<&CpuList> = topology.data_caches(3).flat_map(|cache| &cache.instances).collect();
    let core = |core: &Core| {
        let cpus = core.cpus.intersection(&allowed);
        let cache = caches.iter().position(|cache| cpus.first().is_some_and(|cpu| cache.contains(cpu)));
        UsableCore { cpus, cache }
    };
    let mut cores: Vec<UsableCore> = topology.allowed_cores().map(core).collect();
    if cores.is_empty() {
        // CPUs that are allowed but missing from the machine's own list (a damaged tree) still run threads.
        cores =
            allowed.iter().map(|cpu| UsableCore { cpus: CpuList::from_iter([cpu]), cache: None }).collect();
    }
    let mut nodes: Vec<UsableNode<'_>> = Vec::new();
    for (i, node) in topology.numa_nodes.iter().enumerate() {
        // A core that belongs to no node is assigned to the first.
        let claims =
            |n: &NumaNode, core: &UsableCore| core.cpus.first().is_some_and(|cpu| n.cpus.contains(cpu));
        let orphan = |core: &UsableCore| i == 0 && !topology.numa_nodes.iter().any(|n| claims(n, core));
        let mut cores: Vec<UsableCore> =
            cores.iter().filter(|core| claims(node, core) || orphan(core)).cloned().collect();
        cores.sort_by_key(|core| core.cache);
        if !cores.is_empty() {
            nodes.push(UsableNode { node, cores });
        }
    }
    nodes
}

/// Cores of one replica: (index of the node, some of its cores).
type Slice = Vec<(usize, Vec<UsableCore>)>;

/// Divides the cores among `count` replicas: whole nodes while there are enough, then whole caches, then cores.
fn slices(nodes: &[UsableNode<'_>], count: usize) -> Vec<Slice> {
    let whole =
        |range: std::ops::Range<usize>| -> Slice { range.map(|i| (i, nodes[i].cores.clone())).collect() };
    if count <= nodes.len() {
        let cut = |i: usize| i * nodes.len() / count;
        return (0..count).map(|i| whole(cut(i)..cut(i + 1))).collect();
    }
    let mut dealt = vec![0_usize; nodes.len()];
    for _ in 0..count {
        // The node with the most cores per replica when given one more (D'Hondt method); the first of equal ones.
        let most = (0..nodes.len())
            .max_by_key(|&i| ((nodes[i].cores.len() << 20) / (dealt[i] + 1), std::cmp::Reverse(i)));
        if let Some(most) = most {
            dealt[most] += 1;
        }
    }
    let mut slices = Vec::with_capacity(count);
    for (i, (node, &parts)) in nodes.iter().zip(&dealt).enumerate() {
        let caches: Vec<&[UsableCore]> = node.cores.chunk_by(|a, b| a.cache == b.cache).collect();
        for part in 0..parts {
            let cut = |n: usize| part * n / parts..(part + 1) * n / parts;
            let cores = if parts <= caches.len() {
                caches[cut(caches.len())].concat()
            } else if parts <= node.cores.len() {
                node.cores[cut(node.cores.len())].to_vec()
            } else {
                // With more replicas than cores, each replica gets one core, in turn.
                vec![node.cores[part % node.cores.len()].clone()]
            };
            slices.push(vec![(i, cores)]);
        }
    }
    slices
}

/// Distributes `threads` over as few of the slice's nodes as have a core per thread, in proportion to their cores.
fn shares(nodes: &[UsableNode<'_>], slice: &Slice, threads: usize) -> Vec<NodeShare> {
    let mut order: Vec<usize> = (0..slice.len()).collect();
    order.sort_by_key(|&i| std::cmp::Reverse(slice[i].1.len()));
    let mut cores = 0;
    order.retain(|&i| {
        let wanted = cores < threads;
        cores += if wanted { slice[i].1.len() } else { 0 };
        wanted
    });
    order.sort_unstable();
    let mut before = 0;
    let mut shares = Vec::new();
    for (node, own_cores) in order.iter().map(|&i| &slice[i]) {
        let after = before + own_cores.len();
        let own = threads * after / cores - threads * before / cores;
        before = after;
        if own > 0 {
            let node = &nodes[*node];
            let cpus = bounds(node, own_cores, nodes.len());
            shares.push(NodeShare { node: node.node.id, cpus, threads: own });
        }
    }
    shares
}

/// Returns the CPUs to which threads on these cores of a node are bound; `None` if they stay unbound.
fn bounds(node: &UsableNode<'_>, cores: &[UsableCore], nodes: usize) -> Option<CpuList> {
    let within = |core: &UsableCore| cores.iter().any(|own| own.cache == core.cache);
    let reached = node.cores.iter().filter(|core| within(core)).count();
    // True for whole, known caches.
    let caches = cores.iter().all(|core| core.cache.is_some()) && reached == cores.len();
    if caches && cores.len() < node.cores.len() {
        return Some(cores.iter().flat_map(|core| core.cpus.iter()).collect());
    }
    (nodes > 1).then(|| node.cpus())
}

/// Returns the placement of the weights' pages.
fn weights(topology: &Topology, replicas: &[Replica]) -> Pages {
    let has_memory =
        |id: u32| topology.numa_nodes.iter().any(|node| node.id == id && node.memory_total_bytes != Some(0));
    let with_memory = topology.numa_nodes.iter().filter(|node| has_memory(node.id)).count();
    let mut nodes: Vec<(u32, usize)> = Vec::new();
    for share in replicas.iter().flat_map(|replica| &replica.shares).filter(|share| has_memory(share.node)) {
        match nodes.iter_mut().find(|(node, _)| *node == share.node) {
            Some((_, threads)) => *threads += share.threads,
            None => nodes.push((share.node, share.threads)),
        }
    }
    match nodes[..] {
        // With one node, or none known to have memory, there is no choice.
        _ if with_memory < 2 => Pages::AsTouched,
        [] => Pages::AsTouched,
        [(node, _)] => Pages::Node(node),
        _ if replicas.len() == 1 => Pages::Split(nodes),
        _ => Pages::Interleave(nodes.into_iter().map(|(node, _)| node).collect()),
    }
}
