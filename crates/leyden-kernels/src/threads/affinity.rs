//! Where threads may run.

use crate::cpu::topology::CpuList;
use std::io;

/// Lets the calling thread, and threads that it starts afterwards, run on these CPUs alone.
///
/// # Errors
/// The operating system refuses, or knows no such thing.
#[cfg(target_os = "linux")]
pub fn bind_thread(cpus: &CpuList) -> io::Result<()> {
    use rustix::thread::{CpuSet, sched_setaffinity};
    let mut set = CpuSet::new();
    for cpu in cpus.iter().map(|cpu| cpu as usize) {
        if cpu >= CpuSet::MAX_CPU {
            let what = format!("CPU {cpu} is beyond the {} that can be named", CpuSet::MAX_CPU);
            return Err(io::Error::new(io::ErrorKind::Unsupported, what));
        }
        set.set(cpu);
    }
    Ok(sched_setaffinity(None, &set)?)
}

/// Lets the calling thread, and threads that it starts afterwards, run on these CPUs alone.
///
/// # Errors
/// Always: this system binds no threads.
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
