//! Tests of the pool on threads of the operating system.

use super::pool::{MAX_MEMBERS, MemberGroup, Pool, ranges_of, spread};
use super::yielding;
use crate::cpu::topology::CpuList;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

#[test]
fn every_index_is_called_once_at_any_team_size() {
    for members in [1, 2, 3, 8] {
        let pool = Pool::new(members).unwrap();
        for n in [0, 1, 2, 7, 1000] {
            for _ in 0..50 {
                let hits: Vec<AtomicUsize> = (0..n).map(|_| AtomicUsize::new(0)).collect();
                pool.run(n, |i| {
                    hits[i].fetch_add(1, Ordering::Relaxed);
                });
                assert!(hits.iter().all(|h| h.load(Ordering::Relaxed) == 1));
            }
        }
    }
}

#[test]
fn a_job_inside_a_task_panics_instead_of_waiting_for_itself() {
    let (pool, other) = (Pool::new(2).unwrap(), Pool::new(2).unwrap());
    let nested = catch_unwind(AssertUnwindSafe(|| pool.run(4, |_| pool.run(4, |_| {}))));
    assert!(nested.is_err());
    let counted = AtomicUsize::new(0);
    let count = |_| {
        counted.fetch_add(1, Ordering::Relaxed);
    };
    pool.run(4, |_| other.run(4, count));
    assert_eq!(counted.into_inner(), 16);
}

#[test]
fn members_that_rest_leave_no_index_and_take_none_twice() {
    yielding::tests::ALWAYS.store(true, Ordering::Relaxed);
    let pool = Pool::new(4).unwrap();
    for n in [2, 40, 1000] {
        let hits: Vec<AtomicUsize> = (0..n).map(|_| AtomicUsize::new(0)).collect();
        pool.run(n, |i| {
            hits[i].fetch_add(1, Ordering::Relaxed);
        });
        assert!(hits.iter().all(|h| h.load(Ordering::Relaxed) == 1));
    }
    yielding::tests::ALWAYS.store(false, Ordering::Relaxed);
}

#[test]
fn a_panic_reaches_the_caller_and_the_team_goes_on() {
    let pool = Pool::new(3).unwrap();
    let r = catch_unwind(AssertUnwindSafe(|| pool.run(100, |i| assert!(i != 57, "index 57"))));
    assert!(r.is_err());
    let sum = AtomicUsize::new(0);
    pool.run(100, |i| {
        sum.fetch_add(i, Ordering::Relaxed);
    });
    assert_eq!(sum.load(Ordering::Relaxed), 4950);
}

#[test]
fn members_park_and_wake() {
    let pool = Pool::new(4).unwrap();
    for _ in 0..5 {
        thread::sleep(std::time::Duration::from_millis(5));
        let sum = AtomicUsize::new(0);
        pool.run(64, |i| {
            sum.fetch_add(i, Ordering::Relaxed);
        });
        assert_eq!(sum.load(Ordering::Relaxed), 2016);
    }
}

/// Members outside a view neither work nor delay its members, and the views take turns.
#[test]
fn a_limited_view_uses_the_first_members_alone() {
    let whole = Pool::new(6).unwrap();
    for members in [1, 2, 5, 6, 99] {
        let few = whole.limited(members);
        assert_eq!(few.members(), members.min(6));
        for _ in 0..50 {
            for pool in [&few, &whole] {
                let names = Mutex::new(std::collections::HashSet::new());
                let hits: Vec<AtomicUsize> = (0..40).map(|_| AtomicUsize::new(0)).collect();
                pool.run(40, |i| {
                    hits[i].fetch_add(1, Ordering::Relaxed);
                    let name = thread::current().name().unwrap_or_default().to_owned();
                    names.lock().unwrap().insert(name);
                });
                assert!(hits.iter().all(|h| h.load(Ordering::Relaxed) == 1));
                let names = names.into_inner().unwrap();
                let stranger = |n: &String| {
                    n.strip_prefix("leyden-").is_some_and(|n| n.parse::<usize>().unwrap() >= pool.members())
                };
                assert!(!names.iter().any(stranger), "{names:?} of {}", pool.members());
            }
        }
    }
    let last = whole.limited(2);
    drop(whole);
    last.run(10, |_| {});
}

#[test]
fn any_number_of_members_is_spread_over_the_groups() {
    let group = |members| MemberGroup { cpus: None, members };
    assert_eq!(spread(&[group(3)]), [0, 0, 0]);
    assert_eq!(spread(&[group(2), group(2)]), [0, 1, 0, 1]);
    assert_eq!(spread(&[group(4), group(2)]), [0, 0, 1, 0, 0, 1]);
    assert_eq!(spread(&[]), [0]);
    assert_eq!(spread(&[group(0), group(2)]), [1, 1]);
    assert_eq!(spread(&[group(usize::MAX), group(5)]).len(), MAX_MEMBERS);
    // Members of one group own neighbouring ranges.
    assert_eq!(*ranges_of(&[0, 1, 0, 1]), [0, 2, 1, 3]);
    assert_eq!(*ranges_of(&[0, 1, 0]), [0, 2, 1]);
}

#[test]
fn groups_bind_their_members() {
    let Some(cpu) = crate::cpu::topology::Topology::detect().allowed().first() else { return };
    let cpus = CpuList::from_iter([cpu]);
    let pool = Pool::grouped(&[MemberGroup { cpus: Some(cpus.clone()), members: 2 }]).unwrap();
    let own = thread::current().id();
    for _ in 0..20 {
        pool.run(100, |_| {
            if thread::current().id() != own && pool.unbound().is_none() {
                let now = crate::cpu::topology::Topology::detect().affinity;
                assert!(!cfg!(target_os = "linux") || now == cpus, "{now}");
            }
        });
    }
}

#[test]
fn two_callers_take_turns() {
    let pool = Pool::new(2).unwrap();
    let sum = AtomicUsize::new(0);
    thread::scope(|s| {
        for _ in 0..2 {
            s.spawn(|| {
                for _ in 0..200 {
                    pool.run(10, |i| {
                        sum.fetch_add(i, Ordering::Relaxed);
                    });
                }
            });
        }
    });
    assert_eq!(sum.load(Ordering::Relaxed), 2 * 200 * 45);
}
