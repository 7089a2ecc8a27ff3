//! Energy counters in stored trees.

use super::write;
use leyden_kernels::topology::{EnergyMeter, SysFs};

const ROOT: &str = "sys/class/powercap";

#[test]
fn packages_and_their_memory_are_counted_once_and_come_round() {
    let dir = tempfile::tempdir().unwrap();
    let zone = |zone: &str, name: &str, energy: &str| {
        write(dir.path(), &format!("{ROOT}/{zone}/name"), &format!("{name}\n"));
        write(dir.path(), &format!("{ROOT}/{zone}/max_energy_range_uj"), "1000000000\n");
        write(dir.path(), &format!("{ROOT}/{zone}/energy_uj"), energy);
    };
    let moment = |package: &str, dram: &str, rest: &str| {
        zone("intel-rapl:0", "package-0", package);
        zone("intel-rapl:0:0", "core", rest);
        zone("intel-rapl:0:1", "dram", dram);
        zone("intel-rapl:1", "psys", rest);
        zone("intel-rapl:2", "package-1", "5000000\n");
    };
    moment("999000000\n", "10\n", "0\n");
    let meter = EnergyMeter::find(&SysFs::at(dir.path())).unwrap();
    let before = meter.read().unwrap();
    moment("2000000\n", "500010\n", "900000000\n");
    let after = meter.read().unwrap();
    // 1 J up to the end of the counter's range, 2 J after it, half a joule of memory.
    assert!((meter.joules(&before, &after) - 3.5).abs() < 1e-9);
    assert_eq!(meter.joules(&after, &after), 0.0);
    zone("intel-rapl:0", "package-0", "nonsense\n");
    assert_eq!(meter.read(), None);
}

#[test]
fn no_counters_no_meter() {
    let dir = tempfile::tempdir().unwrap();
    let sys = SysFs::at(dir.path());
    assert!(EnergyMeter::find(&sys).is_none());
    write(dir.path(), &format!("{ROOT}/intel-rapl:0/name"), "package-0\n");
    assert!(EnergyMeter::find(&sys).is_none(), "a zone without a counter");
    write(dir.path(), &format!("{ROOT}/intel-rapl:0/energy_uj"), "17\n");
    assert!(EnergyMeter::find(&sys).is_none(), "a counter without its range");
}
