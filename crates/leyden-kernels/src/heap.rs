//! The C library's heap: how much of what was freed it keeps.
//!
//! By default glibc makes a heap for each thread that meets another one there, up to eight for each processor, and each
//! keeps what its threads once needed at most. In a server whose requests come on any thread that adds up to several
//! times what is in use. Other C libraries have no such heaps; there nothing is done.

/// Heaps: so that the threads of requests do not wait for those of the computation.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const HEAPS: libc::c_int = 2;
/// Blocks of so many bytes have a mapping of their own, which goes when they are freed. Without a fixed bound it would
/// grow with the largest block so far, up to 32 MiB. It is above what a step allocates for a row of logits.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const OWN_MAPPING_BYTES: libc::c_int = 4 << 20;
/// Free bytes at a heap's end from which on they are given back.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const TRIM_BYTES: libc::c_int = 8 << 20;

/// Has the C library keep little of what is freed. For a process that runs for long; before it starts threads, because
/// heaps that exist stay.
pub fn keep_little() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    for (parameter, value) in [
        (libc::M_ARENA_MAX, HEAPS),
        (libc::M_MMAP_THRESHOLD, OWN_MAPPING_BYTES),
        (libc::M_TRIM_THRESHOLD, TRIM_BYTES),
    ] {
        // What is refused stays as it was, which costs memory and nothing else.
        // SAFETY: mallopt takes two numbers, may be called at any time by any thread, and leaves what is allocated alone.
        let _ = unsafe { libc::mallopt(parameter, value) };
    }
}

/// Gives the system back what is free within the heaps. It looks at all of them, and those who allocate meanwhile wait: for
/// moments in which nothing is computed.
pub fn give_back() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: malloc_trim takes a number, may be called at any time by any thread, and leaves what is allocated alone.
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
