//! Energy counters of processor packages and their memory (RAPL), where the machine exposes them.
//!
//! The counters cover the whole machine, all processes included, and many systems let only the administrator read them.

use crate::cpu::topology::sysfs::SysFs;

const ROOT: &str = "sys/class/powercap";

/// Readable energy counters.
#[derive(Debug, Clone)]
pub struct EnergyMeter {
    sys: SysFs,
    zones: Vec<Zone>,
}

/// Counter: its file, and the value after which it wraps around.
#[derive(Debug, Clone)]
struct Zone {
    file: String,
    most: u64,
}

/// Values of all counters at one moment, in microjoules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnergyReading(Vec<u64>);

impl EnergyMeter {
    /// Finds the counters of packages and their memory; `None` if there are none or they cannot be read.
    pub fn find(sys: &SysFs) -> Option<Self> {
        let named = |zone: &str, wanted: &dyn Fn(&str) -> bool| {
            sys.word(&format!("{ROOT}/{zone}/name")).is_some_and(|name| wanted(&name))
        };
        let mut zones = Vec::new();
        for package in sys.numbered(ROOT, "intel-rapl:") {
            let package = format!("intel-rapl:{package}");
            // A zone of the whole platform would count the packages twice.
            if !named(&package, &|name| name.starts_with("package")) {
                continue;
            }
            zones.extend(Zone::read(sys, &format!("{ROOT}/{package}")));
            // Cores and graphics are part of their package; memory is not.
            for part in sys.numbered(ROOT, &format!("{package}:")) {
                let part = format!("{package}:{part}");
                if named(&part, &|name| name == "dram") {
                    zones.extend(Zone::read(sys, &format!("{ROOT}/{part}")));
                }
            }
        }
        (!zones.is_empty()).then(|| Self { sys: sys.clone(), zones })
    }

    /// Reads the counters; `None` if one can no longer be read.
    pub fn read(&self) -> Option<EnergyReading> {
        self.zones.iter().map(|zone| self.sys.number(&zone.file)).collect::<Option<_>>().map(EnergyReading)
    }

    /// Returns the joules from `before` to `after`, if no counter wrapped more than once: a package of 200 watts wraps
    /// in about twenty minutes.
    pub fn joules(&self, before: &EnergyReading, after: &EnergyReading) -> f64 {
        let counters = self.zones.iter().zip(before.0.iter().zip(&after.0));
        let used = counters.map(|(zone, (&before, &after))| match after.checked_sub(before) {
            Some(used) => used,
            None => zone.most.saturating_sub(before).saturating_add(after),
        });
        used.map(|microjoules| microjoules as f64 / 1e6).sum()
    }
}

impl Zone {
    fn read(sys: &SysFs, folder: &str) -> Option<Zone> {
        let file = format!("{folder}/energy_uj");
        sys.number::<u64>(&file)?;
        let most = sys.number(&format!("{folder}/max_energy_range_uj"))?;
        Some(Zone { file, most })
    }
}
