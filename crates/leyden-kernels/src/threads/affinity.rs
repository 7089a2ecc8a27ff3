//! CPU affinity of threads.

use crate::cpu::topology::CpuList;
use std::io;

/// Restricts the calling thread, and threads that it starts afterwards, to these CPUs.
///
/// # Errors
/// If the operating system refuses, or a CPU number is out of range.
#[cfg(target_os = "linux")]
pub fn bind_thread(cpus: &CpuList) -> io::Result<()> {
    use rustix::thread::{CpuSet, sched_setaffinity};
    let mut set = CpuSet::new();
    for cpu in cpus.iter().map(|cpu| cpu as usize) {
        if cpu >= CpuSet::MAX_CPU {
            let what = format!("CPU {cpu} is out of range: at most {} CPUs are supported", CpuSet::MAX_CPU);
            return Err(io::Error::new(io::ErrorKind::Unsupported, what));
        }
        set.set(cpu);
    }
    Ok(sched_setaffinity(None, &set)?)
}

/// Restricts the calling thread, and threads that it starts afterwards, to these CPUs.
///
/// # Errors
/// Always: this system cannot bind threads.
#[cfg(not(target_os = "linux"))]
pub fn bind_thread(_cpus: &CpuList) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use crate::cpu::topology::Topology;

    #[test]
    fn a_thread_is_bound_and_its_children_with_it() {
        let before = Topology::detect().affinity;
        let one: CpuList = before.first().into_iter().collect();
        let wanted = one.clone();
        let bound = std::thread::spawn(move || {
            bind_thread(&wanted).unwrap();
            let child = std::thread::spawn(|| Topology::detect().affinity).join().unwrap();
            (Topology::detect().affinity, child)
        });
        assert_eq!(bound.join().unwrap(), (one.clone(), one));
        assert_eq!(Topology::detect().affinity, before, "other threads stay where they were");
        assert!(bind_thread(&CpuList::from_iter([8000])).is_err());
    }
}
