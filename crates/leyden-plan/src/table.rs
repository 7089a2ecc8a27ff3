//! [`Table`]: cloud shapes and processors, each fact with its source.
//!
//! `data/machines.tsv` has a row per machine; a cell is `VALUE@SOURCE`, or `-` for a fact without a source. The sources
//! are the rows of `data/sources.tsv`, with address and date.

use crate::error::Error;
use crate::interval::{Band, Interval};
use crate::kernels::KernelClass;
use crate::machine::{Machine, Peaks};
use serde::Serialize;

const MACHINES: &str = include_str!("../data/machines.tsv");
const SOURCES: &str = include_str!("../data/sources.tsv");
const NAME: &str = "data/machines.tsv";

/// Multiply-adds of 8-bit integers per cycle and core of AMX: tiles of 16 by 16 by 64 in 16 cycles.
const AMX_PER_CYCLE: f64 = 1024.0;
/// Share of the bandwidth of the memory modules that a processor reads: lower limit, expected, upper limit.
const ACHIEVED: [f64; 3] = [0.65, 0.8, 0.92];
/// Cores of a socket where their number is not known.
const USUAL_SOCKET_CORES: f64 = 128.0;
/// Clock under load relative to the stated one, if there is no range.
const CLOCKS: Band = Band { low: 0.8, high: 1.1 };

/// Source of facts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Source {
    /// Name in the table.
    pub id: &'static str,
    /// Day on which the source was read, or its own date.
    pub date: &'static str,
    /// Address, or file of this repository.
    pub address: &'static str,
    /// Statement of the source.
    pub says: &'static str,
}

/// Fact with its source.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Fact {
    /// Value.
    pub value: f64,
    /// Source.
    pub source: Source,
}

/// Row of the table.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Name for `--on`.
    pub name: &'static str,
    /// Processor, and shape of the cloud.
    pub processor: &'static str,
    /// Class of kernels.
    pub class: KernelClass,
    /// Physical cores.
    pub cores: Option<Fact>,
    /// Physical cores that share the memory bandwidth.
    pub socket_cores: Option<Fact>,
    /// Bits of all vector units of a core together.
    pub simd_bits: Option<Fact>,
    /// Clock in GHz: base clock, or the only one.
    pub clock_ghz: Option<Fact>,
    /// Highest clock in GHz.
    pub clock_max_ghz: Option<Fact>,
    /// Bandwidth of the memory modules, 10^9 bytes per second.
    pub bandwidth_gb_s: Option<Fact>,
    /// Memory in GiB.
    pub memory_gib: Option<Fact>,
    /// Price in US dollars per hour.
    pub price_usd_h: Option<Fact>,
    /// Power in watts.
    pub watts: Option<Fact>,
}

/// Facts that the user states in place of the table's.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Stated {
    /// Cores.
    pub cores: Option<usize>,
    /// Clock in GHz.
    pub clock_ghz: Option<f64>,
    /// Bytes per second that the cores read.
    pub read_bytes: Option<f64>,
    /// Memory in bytes.
    pub memory_bytes: Option<u64>,
    /// Price in US dollars per hour.
    pub price_per_hour: Option<f64>,
    /// Power in watts.
    pub watts: Option<f64>,
}

/// All machines.
#[derive(Clone, Debug)]
pub struct Table {
    /// Rows, in the order of the file.
    pub rows: Vec<Row>,
    /// Sources.
    pub sources: Vec<Source>,
}

impl Table {
    /// Reads the table of this crate.
    ///
    /// # Errors
    /// A row is malformed, which a test excludes.
    pub fn read() -> Result<Table, Error> {
        let sources = SOURCES.lines().skip(1).map(source).collect::<Result<Vec<_>, _>>()?;
        let rows = MACHINES.lines().skip(1).map(|line| row(line, &sources)).collect::<Result<_, _>>()?;
        Ok(Table { rows, sources })
    }

    /// Returns the row of a name, in any case.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.name.eq_ignore_ascii_case(name))
    }
}

fn wrong(what: String) -> Error {
    Error::Table { table: NAME, what }
}

fn source(line: &'static str) -> Result<Source, Error> {
    match line.split('\t').collect::<Vec<_>>()[..] {
        [id, date, address, says] => Ok(Source { id, date, address, says }),
        _ => Err(wrong(format!("source without four cells: {line}"))),
    }
}

fn row(line: &'static str, sources: &[Source]) -> Result<Row, Error> {
    let cells: Vec<&'static str> = line.split('\t').collect();
    let &[name, processor, class, ref facts @ ..] = &cells[..] else {
        return Err(wrong(format!("row without cells: {line}")));
    };
    let class = KernelClass::from_name(class).ok_or_else(|| wrong(format!("{name}: class `{class}`")))?;
    let facts = facts.iter().map(|cell| fact(name, cell, sources)).collect::<Result<Vec<_>, _>>()?;
    let &[
        cores,
        socket_cores,
        simd_bits,
        clock_ghz,
        clock_max_ghz,
        bandwidth_gb_s,
        memory_gib,
        price_usd_h,
        watts,
    ] = &facts[..]
    else {
        return Err(wrong(format!("{name}: {} facts", facts.len())));
    };
    Ok(Row {
        name,
        processor,
        class,
        cores,
        socket_cores,
        simd_bits,
        clock_ghz,
        clock_max_ghz,
        bandwidth_gb_s,
        memory_gib,
        price_usd_h,
        watts,
    })
}

fn fact(name: &str, cell: &str, sources: &[Source]) -> Result<Option<Fact>, Error> {
    if cell == "-" {
        return Ok(None);
    }
    let (value, id) = cell.split_once('@').ok_or_else(|| wrong(format!("{name}: `{cell}` has no source")))?;
    let value: f64 = value.parse().map_err(|_| wrong(format!("{name}: `{value}` is no number")))?;
    let source =
        sources.iter().find(|s| s.id == id).ok_or_else(|| wrong(format!("{name}: source `{id}`")))?;
    Ok(Some(Fact { value, source: *source }))
}

impl Row {
    /// Returns all facts with the names of their columns.
    #[must_use]
    pub fn facts(&self) -> [(&'static str, Option<Fact>); 9] {
        [
            ("cores", self.cores),
            ("socket_cores", self.socket_cores),
            ("simd_bits", self.simd_bits),
            ("clock_ghz", self.clock_ghz),
            ("clock_max_ghz", self.clock_max_ghz),
            ("bandwidth_gb_s", self.bandwidth_gb_s),
            ("memory_gib", self.memory_gib),
            ("price_usd_h", self.price_usd_h),
            ("watts", self.watts),
        ]
    }

    /// Returns the machine, with the stated facts in place of the table's.
    ///
    /// # Errors
    /// A fact that the prediction needs is neither in the table nor stated.
    pub fn machine(&self, stated: &Stated) -> Result<Machine, Error> {
        let unknown = |fact, option| Error::Unknown { machine: self.name.to_owned(), fact, option };
        let value = |fact: Option<Fact>| fact.map(|fact| fact.value);
        let cores = stated.cores.or(value(self.cores).map(|n| n as usize)).filter(|n| *n > 0);
        let cores = cores.ok_or_else(|| unknown("the number of physical cores", "--cores"))?;
        let bits = value(self.simd_bits).ok_or_else(|| unknown("the width of the vector units", "--on"))?;
        let (clock, products) = self.clock(stated).ok_or_else(|| unknown("the clock", "--clock"))?;
        let read_bytes = match stated.read_bytes {
            Some(bytes) => Interval::exact(bytes),
            None => self.read_bytes(cores).ok_or_else(|| unknown("the memory bandwidth", "--bandwidth"))?,
        };
        let core = clock * 1e9 * cores as f64;
        let int8 = match self.class {
            KernelClass::Amx => AMX_PER_CYCLE,
            // A matrix product has twice the multiplications of a dot product of the same width.
            KernelClass::I8mm => bits / 4.0,
            _ => bits / 8.0,
        };
        let pairs = matches!(self.class, KernelClass::Avx512Amd);
        let peaks = Peaks {
            int8: core * int8,
            f32: core * bits / 32.0,
            bf16: core * bits / if pairs { 16.0 } else { 32.0 },
        };
        let gib = |n: f64| (n * f64::from(1 << 30)) as u64;
        Ok(Machine {
            name: self.name.to_owned(),
            class: self.class,
            cores,
            read_bytes,
            peaks,
            products,
            measured: false,
            memory_bytes: stated.memory_bytes.or(value(self.memory_gib).map(gib)),
            cache_bytes: 0,
            price_per_hour: stated.price_per_hour.or(value(self.price_usd_h)),
            watts: stated.watts.or(value(self.watts)),
        })
    }

    /// Returns the clock under load in GHz, and the band of it.
    fn clock(&self, stated: &Stated) -> Option<(f64, Band)> {
        if let Some(clock) = stated.clock_ghz {
            return Some((clock, Band::EXACT));
        }
        let base = self.clock_ghz?.value;
        let Some(max) = self.clock_max_ghz else { return Some((base, CLOCKS)) };
        let clock = (base * max.value).sqrt();
        Some((clock, Band { low: base * 0.9 / clock, high: max.value / clock }))
    }

    /// Returns the bytes per second that `cores` cores read: at least their share of the socket's bandwidth, at most all
    /// of it or the most that these cores can read, and between the two the geometric mean.
    fn read_bytes(&self, cores: usize) -> Option<Interval> {
        let whole = self.bandwidth_gb_s?.value * 1e9;
        let alone = self.class.core_read_bytes(self.simd_bits?.value) * cores as f64;
        let socket = self.socket_cores.map_or(USUAL_SOCKET_CORES, |socket| socket.value);
        let share = (cores as f64 / socket).min(1.0);
        let [low, usual, high] = ACHIEVED.map(|achieved| whole * achieved);
        let value = ((usual * share).min(alone) * usual.min(alone)).sqrt();
        Some(Interval { value, low: (low * share).min(alone).min(value), high: high.min(alone).max(value) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every fact has a source with address and date, or is explicitly empty; every source is used.
    #[test]
    fn every_fact_has_a_source() {
        let table = Table::read().unwrap();
        assert!(table.rows.len() >= 15);
        for source in &table.sources {
            let own = source.address.starts_with("bench/results/");
            assert!(source.address.starts_with("https://") || own, "{}", source.id);
            if own {
                let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../");
                assert!(std::fs::metadata(format!("{file}{}", source.address)).is_ok(), "{}", source.id);
            }
            let date: Vec<&str> = source.date.split('-').collect();
            assert!(date.len() == 3 && source.date.len() == 10 && !source.says.is_empty(), "{}", source.id);
            let used =
                |row: &Row| row.facts().iter().any(|(_, f)| f.is_some_and(|f| f.source.id == source.id));
            assert!(table.rows.iter().any(used), "{} is not used", source.id);
        }
        let mut names: Vec<&str> = table.rows.iter().map(|row| row.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), table.rows.len());
        for row in &table.rows {
            for (name, fact) in row.facts() {
                assert!(fact.is_none_or(|f| f.value > 0.0 && f.value.is_finite()), "{}: {name}", row.name);
            }
        }
    }

    /// A machine of the table is complete, or names the option that completes it.
    #[test]
    fn a_missing_fact_is_asked_for() {
        let table = Table::read().unwrap();
        let all =
            Stated { cores: Some(8), clock_ghz: Some(3.0), read_bytes: Some(1e11), ..Stated::default() };
        for row in &table.rows {
            if let Err(error) = row.machine(&Stated::default()) {
                let Error::Unknown { option, .. } = error else { panic!("{error}") };
                assert!(["--cores", "--clock", "--bandwidth"].contains(&option), "{}: {option}", row.name);
            }
            let machine = row.machine(&all).unwrap();
            assert!(machine.peaks.int8 > machine.peaks.f32 && machine.peaks.f32 > 0.0);
        }
        let a2 = table.find("OCI-A2-16").unwrap().machine(&Stated::default()).unwrap_err();
        assert_eq!(a2.to_string(), "oci-a2-16: the memory bandwidth is not known");
    }

    /// A part of a socket reads at least its share, and at most what its cores can read.
    #[test]
    fn a_part_of_a_socket_has_a_wide_interval() {
        let table = Table::read().unwrap();
        let whole = table.find("c8g.metal-24xl").unwrap().machine(&Stated::default()).unwrap().read_bytes;
        let part = table.find("c8g.xlarge").unwrap().machine(&Stated::default()).unwrap().read_bytes;
        assert!(whole.low < whole.value && whole.value < whole.high && whole.high < 536.7e9);
        assert!(part.low < whole.low / 20.0 && part.value < whole.value && part.value > part.low);
    }
}
