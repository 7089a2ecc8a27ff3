//! `leyden doctor`: the detected hardware, and the choices that follow from it.

use std::io::Write;

use leyden_kernels::placement::{Placement, PlacementRequest, Replicas, placement};
use leyden_kernels::topology::{Cache, CacheKind, Memory, ThreadChoice, Topology, default_threads};
use leyden_kernels::{Cpu, Level, Tier, knobs};
use leyden_plan::{Fitting, fitting};
use serde::Serialize;

use super::failure::Failure;
use super::text::{Facts, bytes, plural, printable};

/// Prints processor, caches, memory, limits and huge pages; the chosen instruction set and number of threads, with
/// reasons; and notes about settings that cost speed. Changes nothing.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Report {
    version: &'static str,
    tier: TierChoice,
    threads: ThreadChoice,
    /// Teams of threads and NUMA nodes of the weights: by default, and with one team per NUMA node.
    placement: Placement,
    placement_auto: Placement,
    memory_usable_bytes: Option<u64>,
    /// Well-known models that fit this memory.
    fits: Vec<Fitting>,
    topology: Topology,
    settings: Vec<Setting>,
    notes: Vec<String>,
}

/// Chosen instruction-set tier.
#[derive(Debug, Serialize)]
struct TierChoice {
    name: &'static str,
    reason: String,
    /// All tiers that this machine can run, slowest first.
    available: Vec<&'static str>,
}

/// An environment variable that leyden reads.
#[derive(Debug, Serialize)]
struct Setting {
    name: &'static str,
    value: Option<String>,
    help: &'static str,
}

/// Prints the report.
pub(super) fn execute(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    let topology = Topology::detect();
    let tier = choose_tier()?;
    let threads = default_threads(&topology);
    let request = |replicas| PlacementRequest { replicas, ..PlacementRequest::default() };
    let report = Report {
        placement: placement(&topology, &request(Replicas::default())),
        placement_auto: placement(&topology, &request(Replicas::Auto)),
        version: env!("CARGO_PKG_VERSION"),
        notes: notes(&topology, &tier),
        memory_usable_bytes: topology.memory.usable_bytes(),
        fits: topology.memory.usable_bytes().map(fitting).transpose()?.unwrap_or_default(),
        tier,
        threads,
        topology,
        settings: knobs::KNOBS
            .iter()
            .chain(super::knobs::KNOBS)
            .map(|knob| Setting { name: knob.name, value: knob.get(), help: knob.help })
            .collect(),
    };
    if args.json {
        serde_json::to_writer_pretty(&mut *out, &report)?;
        writeln!(out)?;
    } else {
        human(&report).write(out)?;
    }
    Ok(())
}

fn choose_tier() -> Result<TierChoice, Failure> {
    let chosen = Cpu::default_tier().map_err(Failure::usage)?.level();
    let available: Vec<&str> = Tier::available().iter().map(|tier| tier.level().name()).collect();
    let best = Tier::best().level();
    let next = Level::native().find(|level| *level > best);
    let reason = match (chosen == best, next) {
        (false, _) => format!("limited by {}; this machine can run {best}", knobs::MAX_ISA.name),
        (true, Some(next)) => format!("the best that this machine has; {next} needs {}", next.features()),
        (true, None) => format!("the best supported one; this machine has {}", best.features()),
    };
    Ok(TierChoice { name: chosen.name(), reason, available })
}

/// Returns advice about settings of the machine that cost speed.
fn notes(topology: &Topology, tier: &TierChoice) -> Vec<String> {
    let mut notes = Vec::new();
    if tier.name == Level::Scalar.name() {
        notes.push("no SIMD kernels for this processor: portable code is many times slower".to_owned());
    }
    let huge = &topology.huge_pages;
    if huge.transparent.as_deref() == Some("never") {
        notes.push(
            "transparent huge pages are off, which costs speed; to enable them, run as root: \
             echo madvise > /sys/kernel/mm/transparent_hugepage/enabled"
                .to_owned(),
        );
    }
    if let Some(quota) = &topology.cpu_quota
        && quota.cpus() < topology.allowed_cores().count() as f64
    {
        notes.push(format!(
            "a quota of {:.2} CPUs: all threads stop for the rest of each {} ms period when it is used up",
            quota.cpus(),
            quota.period_us / 1000
        ));
    }
    if topology.memory.swap_total_bytes.is_some_and(|total| {
        topology.memory.swap_free_bytes.is_some_and(|free| total > 0 && free < total / 2)
    }) {
        notes.push("more than half of the swap space is in use: there is too little memory".to_owned());
    }
    if topology.numa_nodes.iter().filter(|node| !node.cpus.is_empty()).count() > 1 {
        notes.push(
            "several NUMA nodes: each thread stays on its node, and each node has the weights that its threads read; \
             if the cores of one node suffice for the threads, they use one node"
                .to_owned(),
        );
    }
    if topology.processor.virtual_machine {
        notes.push(
            "a virtual machine: the host decides which cores, caches and speed it shows and provides"
                .to_owned(),
        );
    }
    notes
}

fn human(report: &Report) -> Facts {
    let topology = &report.topology;
    let mut facts = Facts::default();
    facts.add("leyden", report.version);
    let processor = &topology.processor;
    facts.add(
        "processor",
        [Some(printable(&processor.brand, 100)), Some(processor.arch.clone()), processor.model.clone()]
            .into_iter()
            .flatten()
            .collect::<Vec<_>>()
            .join(", "),
    );
    let features =
        if processor.features.is_empty() { "none known".to_owned() } else { processor.features.join(" ") };
    facts.add("extensions", features);
    facts.add("kernels", format!("{}: {}", report.tier.name, report.tier.reason));
    facts.add(
        "cores",
        format!(
            "{}{}, {} online, {}",
            if topology.cores_known { "" } else { "unknown, counted as " },
            plural(topology.cores.len(), "core"),
            plural(topology.online.len(), "CPU"),
            plural(topology.packages(), "package"),
        ),
    );
    facts.add("may use", may_use(topology));
    facts.add("threads", format!("{}: {}", report.threads.threads, report.threads.reason));
    facts.add("replicas", format!("1; `auto` is {}", report.placement_auto.replicas.len()));
    let caches: Vec<String> = topology.caches.iter().map(cache).collect();
    facts.add("caches", if caches.is_empty() { "not described".to_owned() } else { caches.join("\n") });
    let nodes: Vec<String> = topology
        .numa_nodes
        .iter()
        .map(|node| {
            let memory = node.memory_total_bytes.map_or(String::new(), |total| format!(", {}", bytes(total)));
            let cpus =
                if node.cpus.is_empty() { "no CPUs".to_owned() } else { format!("CPUs {}", node.cpus) };
            format!("node {}: {cpus}{memory}", node.id)
        })
        .collect();
    facts.add("NUMA", nodes.join("\n"));
    facts.add("memory", memory(&topology.memory, report.memory_usable_bytes));
    if report.memory_usable_bytes.is_some() {
        facts.add("fits", fits(&report.fits));
    }
    facts.add("huge pages", huge_pages(topology));
    for setting in &report.settings {
        let value = setting.value.as_deref().map_or("not set".to_owned(), |value| printable(value, 60));
        facts.add("setting", format!("{} {value} ({})", setting.name, setting.help));
    }
    for note in &report.notes {
        facts.add("note", note);
    }
    facts
}

fn may_use(topology: &Topology) -> String {
    let mut text = format!("CPUs {}", topology.allowed());
    if let Some(quota) = &topology.cpu_quota {
        text += &format!(", {:.2} CPUs of time (quota of {})", quota.cpus(), printable(&quota.group, 100));
    } else {
        text += ", no quota";
    }
    text
}

fn cache(cache: &Cache) -> String {
    let kind = match cache.kind {
        CacheKind::Data => "data",
        CacheKind::Instruction => "instructions",
        CacheKind::Unified => "",
    };
    let sharers = cache.instances.iter().map(|cpus| cpus.len()).max().unwrap_or(1);
    let shared = if sharers > 1 { format!(", each shared by {sharers} CPUs") } else { String::new() };
    let name = format!("L{} {kind}", cache.level);
    format!("{name:16}{} x {}{shared}", cache.instances.len(), bytes(cache.size_bytes))
}

fn memory(memory: &Memory, usable: Option<u64>) -> String {
    let size = |n: Option<u64>| n.map_or("unknown".to_owned(), bytes);
    let mut text = format!("{}, {} available", size(memory.total_bytes), size(memory.available_bytes));
    if let Some(limit) = &memory.limit {
        let used = limit.used_bytes.map_or(String::new(), |used| format!(" with {} used", bytes(used)));
        text += &format!(", limited to {}{used} ({})", bytes(limit.bytes), printable(&limit.group, 100));
        text += &format!(", {} left for leyden", size(usable));
    }
    match memory.swap_total_bytes {
        None | Some(0) => text += ", no swap",
        Some(total) => text += &format!(", swap {} of {} free", size(memory.swap_free_bytes), bytes(total)),
    }
    text
}

/// Returns the models that fit the memory, each with its largest types of weights.
fn fits(fits: &[Fitting]) -> String {
    let of = |f: &Fitting| format!("{} in {}, {} of context", f.model, f.types, plural(f.context, "token"));
    let models: Vec<String> = fits.iter().map(of).collect();
    match &models[..] {
        [] => "no model of 1 B parameters; leyden plan MODEL tells what one needs".to_owned(),
        models => format!("{}; leyden plan MODEL tells about others", models.join("; ")),
    }
}

fn huge_pages(topology: &Topology) -> String {
    let huge = &topology.huge_pages;
    let word = |setting: &Option<String>| setting.as_deref().unwrap_or("unknown").to_owned();
    let mut text = format!(
        "transparent: {} (defrag {}, shared memory {})",
        word(&huge.transparent),
        word(&huge.defrag),
        word(&huge.shmem)
    );
    if let Some(size) = huge.transparent_bytes {
        text += &format!(", {} (normal pages: {})", bytes(size), bytes(topology.page_bytes as u64));
    }
    for pool in huge.pools.iter().filter(|pool| pool.total > 0) {
        text +=
            &format!("\nreserved: {} of {} pages of {} free", pool.free, pool.total, bytes(pool.page_bytes));
    }
    text
}
