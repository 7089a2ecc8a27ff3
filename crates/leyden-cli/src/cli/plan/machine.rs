//! Machine of a plan: this one, measured in about a second, or a row of the table.

use leyden_kernels::topology::{Topology, default_threads};
use leyden_kernels::{Ceilings, Cpu, Meter};
use leyden_plan::{Band, Interval, KernelClass, Machine, Peaks, Row, Stated, Table};

use super::args::{Args, Facts};
use crate::cli::bench::cache_bytes;
use crate::cli::failure::Failure;
use crate::cli::text::printable;

/// Most cores that may be stated: far beyond any machine, low enough to notice a slip.
const MAX_CORES: usize = 4096;

/// Returns the machine that the arguments name.
pub(super) fn machine(args: &Args) -> Result<Machine, Failure> {
    check(&args.facts)?;
    match &args.on {
        Some(name) => {
            let table = Table::read()?;
            Ok(row(&table, name)?.machine(&stated(&args.facts))?)
        }
        None => here(&args.facts),
    }
}

/// Returns a row of the table.
pub(super) fn row<'t>(table: &'t Table, name: &str) -> Result<&'t Row, Failure> {
    table.find(name).ok_or_else(|| {
        let names: Vec<&str> = table.rows.iter().map(|row| row.name).collect();
        Failure::usage(format!("`{}`: no machine of the table has this name", printable(name, 80)))
            .hint(format!("known: {}; leyden plan --machines shows their facts", names.join(", ")))
    })
}

/// Returns the stated facts.
pub(super) fn stated(facts: &Facts) -> Stated {
    Stated {
        cores: facts.cores,
        clock_ghz: facts.clock,
        read_bytes: facts.bandwidth.map(|n| n * 1e9),
        memory_bytes: facts.memory,
        price_per_hour: facts.price_per_hour,
        watts: facts.watts,
    }
}

/// Checks the stated facts.
pub(super) fn check(facts: &Facts) -> Result<(), Failure> {
    if facts.cores.is_some_and(|n| !(1..=MAX_CORES).contains(&n)) {
        return Err(Failure::usage(format!("`--cores` takes 1 to {MAX_CORES} cores")));
    }
    Ok(())
}

/// Factor on the bandwidth of memory from which reads are taken to come from a cache.
const FROM_CACHE: f64 = 1.5;

/// Returns the bytes of the last-level caches, at most twice those that are read again at the speed of a cache: other
/// machines of the same processor take part of its cache.
fn usable_cache(meter: &Meter, read_bytes: f64) -> usize {
    let mut cache = cache_bytes();
    while cache > 0 && meter.rate(cache / 2) < FROM_CACHE * read_bytes {
        cache /= 2;
    }
    cache
}

/// Measures this machine.
fn here(facts: &Facts) -> Result<Machine, Failure> {
    let topology = Topology::detect();
    let cores = facts.cores.unwrap_or_else(|| default_threads(&topology).threads);
    let tier = Cpu::default_tier().map_err(Failure::usage)?;
    let cpu = Cpu::new(tier, cores)
        .map_err(|error| Failure::new(format!("cannot start {cores} threads: {error}")))?;
    let (measured, cache) = match facts.bandwidth {
        Some(n) => (Ceilings { read_bytes: n * 1e9, ..Ceilings::products(&cpu) }, cache_bytes()),
        None => {
            let meter = Meter::new(cpu).map_err(|error| {
                Failure::new(error).hint("--bandwidth states it, so that it is not measured")
            })?;
            let measured = meter.measure();
            let cache = usable_cache(&meter, measured.read_bytes);
            (measured, cache)
        }
    };
    Ok(Machine {
        name: printable(&topology.processor.brand, 80),
        class: KernelClass::of(tier.level(), topology.processor.vendor.as_deref()),
        cores,
        read_bytes: Interval::exact(measured.read_bytes),
        peaks: Peaks { int8: measured.int8_macs, f32: measured.f32_macs, bf16: measured.bf16_macs },
        products: Band::EXACT,
        measured: true,
        memory_bytes: facts.memory.or(topology.memory.usable_bytes()),
        cache_bytes: cache as u64,
        price_per_hour: facts.price_per_hour,
        watts: facts.watts,
    })
}
