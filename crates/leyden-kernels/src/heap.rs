//! Settings of the C library's heap: how much freed memory it keeps.
//!
//! By default glibc creates a heap for each thread that finds another one in use, up to eight per processor, and each
//! heap keeps the most memory that its threads ever needed. In a server whose requests run on any thread, that adds up
//! to several times the memory in use. Other C libraries have no such heaps; there nothing is done.

/// Number of heaps: two, so that the threads of requests do not wait for those of the computation.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const HEAPS: libc::c_int = 2;
/// Block size in bytes from which a block has a mapping of its own, released when it is freed. Without a fixed
/// threshold glibc raises it with the largest block so far, up to 32 MiB. It is larger than a step's allocation for a
/// row of logits.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const OWN_MAPPING_BYTES: libc::c_int = 4 << 20;
/// Free bytes at a heap's end from which they are returned to the system.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const TRIM_BYTES: libc::c_int = 8 << 20;

/// Makes the C library keep little freed memory. For long-running processes; call it before threads are started,
/// because existing heaps stay.
pub fn keep_little() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    for (parameter, value) in [
        (libc::M_ARENA_MAX, HEAPS),
        (libc::M_MMAP_THRESHOLD, OWN_MAPPING_BYTES),
        (libc::M_TRIM_THRESHOLD, TRIM_BYTES),
    ] {
        // A refused setting keeps its default, which costs memory only.
        // SAFETY: mallopt takes two integers, may be called at any time by any thread, and does not touch allocations.
        let _ = unsafe { libc::mallopt(parameter, value) };
    }
}

/// Returns free heap memory to the system. Scans all heaps while allocating threads wait, so call it when nothing is
/// computed.
pub fn give_back() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: malloc_trim takes an integer, may be called at any time by any thread, and does not touch allocations.
    let _ = unsafe { libc::malloc_trim(0) };
}

#[cfg(test)]
mod tests {
    #[test]
    fn what_is_allocated_stays() {
        let before: Vec<Vec<u8>> = (0..100_usize).map(|i| vec![7; i * 1000]).collect();
        super::keep_little();
        let after = vec![8_u8; 16 << 20];
        super::give_back();
        assert!(before.iter().enumerate().all(|(i, v)| v.len() == i * 1000 && v.iter().all(|b| *b == 7)));
        assert!(after.iter().all(|b| *b == 8));
    }
}
