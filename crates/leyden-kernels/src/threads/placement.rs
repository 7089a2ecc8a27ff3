//! Which processors compute, and where the weights lie: decided from what the machine says about itself.
//!
//! A replica is a team of threads with a key-value cache of its own; all replicas of a process read one copy of the
//! weights. [`placement`] is a pure function, so stored trees of other machines prove its choices; what applies them
//! is a few lines in [`Cpu`](crate::context::Cpu).
//!
//! * Threads: one per physical core, within affinity, cpuset and quota. A team smaller than the machine stays on as
//!   few NUMA nodes as hold it: then everything it reads is near.
//! * Affinity: no narrower than a NUMA node, or than the third-level caches of a replica that has whole ones. A
//!   worker bound to a single core that somebody else keeps busy would hold its team.
//! * Weights: on the node of the only team there; of a team over several nodes, each node has the rows that its
//!   members read; where replicas on several nodes read all of the one copy, pages go over the nodes in turn, so
//!   that no node's memory serves everybody. A copy per node would read faster and cost the model's size again.

use crate::cpu::topology::{Core, CpuList, NumaNode, Topology, default_threads};
use crate::memory::huge::Pages;
use crate::threads::pool::MemberGroup;
use serde::Serialize;
use std::fmt;
use std::str::FromStr;

/// The most replicas of one process and threads of one replica.
const MOST: usize = 1024;

/// How many replicas are wanted.
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
            Ok(n @ 1..=MOST) => Ok(Replicas::Count(n)),
            _ => Err(format!("neither `auto` nor a number from 1 to {MOST}")),
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

/// What is wanted of a placement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlacementRequest {
    /// Replicas; one by default.
    pub replicas: Replicas,
    /// Threads of each replica for steps of few tokens; by default its physical cores.
    pub threads: Option<usize>,
    /// Threads of each replica for prompts; by default as many as [`threads`](Self::threads) says, or its physical
    /// cores.
    pub threads_batch: Option<usize>,
}

/// Threads of a replica on one NUMA node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NodeShare {
    /// The kernel's number of the node.
    pub node: u32,
    /// The CPUs they are bound to; `None` leaves them where the process may run.
    pub cpus: Option<CpuList>,
    /// How many they are; at least one.
    pub threads: usize,
}

/// One team.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Replica {
    /// Threads of a step of few tokens.
    pub threads: usize,
    /// Threads of other steps.
    pub threads_batch: usize,
    /// Where its threads run, as many as the larger count; at least one share.
    pub shares: Vec<NodeShare>,
}

impl Replica {
    /// The groups of a pool for this team.
    #[must_use]
    pub fn groups(&self) -> Vec<MemberGroup> {
        let group = |share: &NodeShare| MemberGroup { cpus: share.cpus.clone(), members: share.threads };
        self.shares.iter().map(group).collect()
    }
}

/// Who computes where, and where the weights lie.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Placement {
    /// The teams; at least one.
    pub replicas: Vec<Replica>,
    /// Where the one copy of the weights lies.
    pub weights: Pages,
}

/// A core that may be used, and the index of the third-level cache it reaches memory through.
#[derive(Clone)]
struct Seat {
    cpus: CpuList,
    cache: Option<usize>,
}

/// A NUMA node with cores that may be used, ordered by their caches.
struct Place<'a> {
    node: &'a NumaNode,
    seats: Vec<Seat>,
}

impl Place<'_> {
    fn cpus(&self) -> CpuList {
        self.seats.iter().flat_map(|seat| seat.cpus.iter()).collect()
    }
}

/// Decides for this machine. Numbers out of range are brought to the nearest in range.
#[must_use]
pub fn placement(topology: &Topology, request: &PlacementRequest) -> Placement {
    let places = places(topology);
    let budget = default_threads(topology).threads;
    let count = match request.replicas {
        // A replica without a CPU's worth of quota would only hold up the others.
        Replicas::Auto => places.len().min(budget),
        Replicas::Count(n) => n.clamp(1, MOST),
    };
    let slices = slices(&places, count);
    let cores: usize = slices.iter().flatten().map(|(_, seats)| seats.len()).sum();
    let mut before = 0;
    let mut replicas = Vec::with_capacity(count);
    for slice in &slices {
        let own: usize = slice.iter().map(|(_, seats)| seats.len()).sum();
        // One thread each, and of what the budget has beyond that, shares that add up to it.
        let rest = |cores_before: usize| budget.saturating_sub(count) * cores_before / cores.max(1);
        let share = if budget >= cores { own } else { 1 + rest(before + own) - rest(before) };
        before += own;
        let threads = request.threads.unwrap_or(share).clamp(1, MOST);
        let threads_batch = request.threads_batch.or(request.threads).unwrap_or(share).clamp(1, MOST);
        let shares = shares(&places, slice, threads.max(threads_batch));
        replicas.push(Replica { threads, threads_batch, shares });
    }
    let weights = weights(topology, &replicas);
    Placement { replicas, weights }
}

/// The nodes with allowed cores; one that has all CPUs where the machine contradicts itself.
fn places(topology: &Topology) -> Vec<Place<'_>> {
    let allowed = topology.allowed();
    let caches: Vec<&CpuList> = topology.data_caches(3).flat_map(|cache| &cache.instances).collect();
    let seat = |core: &Core| {
        let cpus = core.cpus.intersection(&allowed);
        let cache = caches.iter().position(|cache| cpus.first().is_some_and(|cpu| cache.contains(cpu)));
        Seat { cpus, cache }
    };
    let mut seats: Vec<Seat> = topology.allowed_cores().map(seat).collect();
    if seats.is_empty() {
        // CPUs allowed but unknown to the machine's own list (a damaged tree) still run threads.
        seats = allowed.iter().map(|cpu| Seat { cpus: CpuList::from_iter([cpu]), cache: None }).collect();
    }
    let mut places: Vec<Place<'_>> = Vec::new();
    for (i, node) in topology.numa_nodes.iter().enumerate() {
        // A core that no node claims goes to the first.
        let claims = |n: &NumaNode, seat: &Seat| seat.cpus.first().is_some_and(|cpu| n.cpus.contains(cpu));
        let orphan = |seat: &Seat| i == 0 && !topology.numa_nodes.iter().any(|n| claims(n, seat));
        let mut seats: Vec<Seat> =
            seats.iter().filter(|seat| claims(node, seat) || orphan(seat)).cloned().collect();
        seats.sort_by_key(|seat| seat.cache);
        if !seats.is_empty() {
            places.push(Place { node, seats });
        }
    }
    places
}

/// The cores of one replica: places by their index, each with some of its cores.
type Slice = Vec<(usize, Vec<Seat>)>;

/// Deals the cores to `count` replicas: whole nodes while there are enough, then whole caches, then cores.
fn slices(places: &[Place<'_>], count: usize) -> Vec<Slice> {
    let whole =
        |range: std::ops::Range<usize>| -> Slice { range.map(|i| (i, places[i].seats.clone())).collect() };
    if count <= places.len() {
        let cut = |i: usize| i * places.len() / count;
        return (0..count).map(|i| whole(cut(i)..cut(i + 1))).collect();
    }
    let mut dealt = vec![0_usize; places.len()];
    for _ in 0..count {
        // The node with the most cores for one replica more (D'Hondt's rule); the first of equals.
        let most = (0..places.len())
            .max_by_key(|&i| ((places[i].seats.len() << 20) / (dealt[i] + 1), std::cmp::Reverse(i)));
        if let Some(most) = most {
            dealt[most] += 1;
        }
    }
    let mut slices = Vec::with_capacity(count);
    for (i, (place, &parts)) in places.iter().zip(&dealt).enumerate() {
        let caches: Vec<&[Seat]> = place.seats.chunk_by(|a, b| a.cache == b.cache).collect();
        for part in 0..parts {
            let cut = |n: usize| part * n / parts..(part + 1) * n / parts;
            let seats = if parts <= caches.len() {
                caches[cut(caches.len())].concat()
            } else if parts <= place.seats.len() {
                place.seats[cut(place.seats.len())].to_vec()
            } else {
                // More replicas than cores take turns on one each.
                vec![place.seats[part % place.seats.len()].clone()]
            };
            slices.push(vec![(i, seats)]);
        }
    }
    slices
}

/// Spreads `threads` over as few of the slice's nodes as have a core for each, in proportion to their cores.
fn shares(places: &[Place<'_>], slice: &Slice, threads: usize) -> Vec<NodeShare> {
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
    for (place, seats) in order.iter().map(|&i| &slice[i]) {
        let after = before + seats.len();
        let own = threads * after / cores - threads * before / cores;
        before = after;
        if own > 0 {
            let place = &places[*place];
            let cpus = bounds(place, seats, places.len());
            shares.push(NodeShare { node: place.node.id, cpus, threads: own });
        }
    }
    shares
}

/// What threads on these cores of a node are bound to.
fn bounds(place: &Place<'_>, seats: &[Seat], places: usize) -> Option<CpuList> {
    let within = |seat: &Seat| seats.iter().any(|own| own.cache == seat.cache);
    let reached = place.seats.iter().filter(|seat| within(seat)).count();
    // Whole caches, known, and not all of the node's.
    let caches = seats.iter().all(|seat| seat.cache.is_some()) && reached == seats.len();
    if caches && seats.len() < place.seats.len() {
        return Some(seats.iter().flat_map(|seat| seat.cpus.iter()).collect());
    }
    (places > 1).then(|| place.cpus())
}

/// Where the one copy of the weights lies.
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
        // One node, or none that is known to have memory: there is nothing to choose.
        _ if with_memory < 2 => Pages::AsTouched,
        [] => Pages::AsTouched,
        [(node, _)] => Pages::Node(node),
        _ if replicas.len() == 1 => Pages::Split(nodes),
        _ => Pages::Interleave(nodes.into_iter().map(|(node, _)| node).collect()),
    }
}
