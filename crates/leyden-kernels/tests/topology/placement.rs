//! Placement of replicas and weights on stored topologies.

use super::{read, tree, write};
use leyden_kernels::memory::Pages;
use leyden_kernels::placement::{Placement, PlacementRequest, Replicas, placement};
use leyden_kernels::topology::{SysFs, Topology, default_threads};
use proptest::prelude::*;

fn want(replicas: Replicas) -> PlacementRequest {
    PlacementRequest { replicas, ..PlacementRequest::default() }
}

fn threads(replicas: usize, threads: usize) -> PlacementRequest {
    PlacementRequest { threads: Some(threads), ..want(Replicas::Count(replicas)) }
}

/// Formats one line per replica: threads, and per node its threads and CPUs.
fn shown(p: &Placement) -> Vec<String> {
    p.replicas
        .iter()
        .map(|r| {
            let mut line = format!("{}/{}", r.threads, r.threads_batch);
            for s in &r.shares {
                let cpus = s.cpus.as_ref().map_or("any".to_owned(), ToString::to_string);
                line += &format!(" {}*n{}@{cpus}", s.threads, s.node);
            }
            line
        })
        .collect()
}

fn check(name: &str, request: &PlacementRequest, replicas: &[&str], weights: Pages) {
    let p = placement(&read(name), request);
    assert_eq!(
        (shown(&p), p.weights),
        (replicas.iter().map(ToString::to_string).collect(), weights),
        "{name}"
    );
}

#[test]
fn one_node_binds_nothing_but_to_whole_caches() {
    let name = "one-node-four-caches";
    check(name, &want(Replicas::Auto), &["8/8 8*n0@any"], Pages::AsTouched);
    check(name, &threads(1, 3), &["3/3 3*n0@any"], Pages::AsTouched);
    let two = ["4/4 4*n0@0-3,8-11", "4/4 4*n0@4-7,12-15"];
    check(name, &want(Replicas::Count(2)), &two, Pages::AsTouched);
    // Whole caches: one, one and two.
    let three = ["2/2 2*n0@0-1,8-9", "2/2 2*n0@2-3,10-11", "4/4 4*n0@4-7,12-15"];
    check(name, &want(Replicas::Count(3)), &three, Pages::AsTouched);
    // A cache is never divided between bound teams: half of one is a single core.
    check(name, &want(Replicas::Count(8)), &["1/1 1*n0@any"; 8], Pages::AsTouched);
    check(name, &want(Replicas::Count(9)), &["1/1 1*n0@any"; 9], Pages::AsTouched);
}

#[test]
fn a_machine_that_says_nothing_is_one_team_anywhere() {
    let name = "vm-2-cpus-no-topology";
    check(name, &want(Replicas::Auto), &["2/2 2*n0@any"], Pages::AsTouched);
    check(name, &want(Replicas::Count(2)), &["1/1 1*n0@any"; 2], Pages::AsTouched);
    check(name, &threads(2, 2), &["2/2 2*n0@any"; 2], Pages::AsTouched);
    check("malformed", &want(Replicas::Auto), &["1/1 1*n0@any"], Pages::AsTouched);
}

#[test]
fn two_nodes_split_one_team_and_keep_two_apart() {
    let name = "dual-socket-smt";
    let (left, right) = ("0-3,8-11", "4-7,12-15");
    let team = format!("8/8 4*n0@{left} 4*n1@{right}");
    check(name, &want(Replicas::Count(1)), &[&team], Pages::Split(vec![(0, 4), (1, 4)]));
    let two = [format!("4/4 4*n0@{left}"), format!("4/4 4*n1@{right}")];
    for replicas in [Replicas::Auto, Replicas::Count(2)] {
        check(name, &want(replicas), &[&two[0], &two[1]], Pages::Interleave(vec![0, 1]));
    }
    // There is one cache per node: the teams of a node share its CPUs.
    let four = [0, 0, 1, 1].map(|n| format!("2/2 2*n{n}@{}", [left, right][n]));
    check(
        name,
        &want(Replicas::Count(4)),
        &four.each_ref().map(String::as_str),
        Pages::Interleave(vec![0, 1]),
    );
}

#[test]
fn a_small_team_stays_on_one_node() {
    let name = "dual-socket-smt";
    check(name, &threads(1, 3), &["3/3 3*n0@0-3,8-11"], Pages::Node(0));
    let request = PlacementRequest { threads: Some(2), threads_batch: Some(6), ..want(Replicas::Count(1)) };
    let split = Pages::Split(vec![(0, 3), (1, 3)]);
    check(name, &request, &["2/6 3*n0@0-3,8-11 3*n1@4-7,12-15"], split);
    // More threads than cores use all of them.
    let split = Pages::Split(vec![(0, 10), (1, 10)]);
    check(name, &threads(1, 20), &["20/20 10*n0@0-3,8-11 10*n1@4-7,12-15"], split);
}

#[test]
fn eight_nodes_in_two_sockets() {
    let name = "epyc-8-nodes";
    let all: Vec<u32> = (0..8).collect();
    let auto: Vec<String> = (0..8).map(|n| format!("2/2 2*n{n}@{}-{}", 2 * n, 2 * n + 1)).collect();
    let auto: Vec<&str> = auto.iter().map(String::as_str).collect();
    check(name, &want(Replicas::Auto), &auto, Pages::Interleave(all.clone()));
    // Two replicas: one per socket, each over its four nodes.
    let half = |first: u32| {
        let share = |n: u32| format!(" 2*n{n}@{}-{}", 2 * n, 2 * n + 1);
        format!("8/8{}", (first..first + 4).map(share).collect::<String>())
    };
    check(name, &want(Replicas::Count(2)), &[&half(0), &half(4)], Pages::Interleave(all));
    let one = placement(&read(name), &want(Replicas::Count(1)));
    assert_eq!((one.replicas[0].threads, one.replicas[0].shares.len()), (16, 8));
    assert_eq!(one.weights, Pages::Split((0..8).map(|n| (n, 2)).collect()));
    // Three threads need two nodes.
    let split = Pages::Split(vec![(0, 1), (1, 2)]);
    check(name, &threads(1, 3), &["3/3 1*n0@0-1 2*n1@2-3"], split);
    let sixteen = placement(&read(name), &want(Replicas::Count(16)));
    assert!(sixteen.replicas.iter().all(|r| r.threads == 1 && r.shares.len() == 1), "{:?}", shown(&sixteen));
}

#[test]
fn a_quota_bounds_the_threads_of_all_replicas_together() {
    let dir = tree("epyc-8-nodes");
    write(dir.path(), "proc/self/cgroup", "0::/\n");
    write(dir.path(), "sys/fs/cgroup/cpu.max", "550000 100000\n");
    let t = Topology::read(&SysFs::at(dir.path()));
    // Five CPUs' worth: five replicas of a thread, not eight.
    let auto = placement(&t, &want(Replicas::Auto));
    assert_eq!(auto.replicas.len(), 5);
    assert_eq!(auto.replicas.iter().map(|r| r.threads).sum::<usize>(), 5);
    // One team of five threads, on three nodes of two cores.
    let one = placement(&t, &want(Replicas::Count(1)));
    assert_eq!((one.replicas[0].threads, one.replicas[0].shares.len()), (5, 3));
    // Version 1, half a CPU.
    check("container-v1-quota", &want(Replicas::Auto), &["1/1 1*n0@any"], Pages::AsTouched);
    check("container-v2-quota", &want(Replicas::Auto), &["2/2 2*n0@any"], Pages::AsTouched);
}

#[test]
fn affinity_bounds_the_nodes() {
    let dir = tree("dual-socket-smt");
    write(dir.path(), "proc/self/status", "Cpus_allowed_list:\t4-6\n");
    let t = Topology::read(&SysFs::at(dir.path()));
    let p = placement(&t, &want(Replicas::Auto));
    // One node is left, so nothing is bound; its memory is local.
    assert_eq!((shown(&p), p.weights), (vec!["3/3 3*n1@any".to_owned()], Pages::Node(1)));
}

#[test]
fn memory_is_asked_of_nodes_that_have_some() {
    let dir = tree("dual-socket-smt");
    write(dir.path(), "sys/devices/system/node/node1/meminfo", "Node 1 MemTotal: 0 kB\n");
    let p = placement(&Topology::read(&SysFs::at(dir.path())), &want(Replicas::Auto));
    assert_eq!((p.replicas.len(), p.weights), (2, Pages::AsTouched));
}

#[test]
fn replicas_are_written_as_a_number_or_auto() {
    assert_eq!("auto".parse(), Ok(Replicas::Auto));
    assert_eq!("12".parse(), Ok(Replicas::Count(12)));
    for bad in ["0", "1025", "-1", "", "Auto", "1.5"] {
        assert!(bad.parse::<Replicas>().is_err(), "{bad}");
    }
    assert_eq!((Replicas::Auto.to_string(), Replicas::Count(3).to_string()), ("auto".into(), "3".into()));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    /// On every machine and for every request: as many replicas as requested, each with its threads, on CPUs that it
    /// may use.
    #[test]
    fn every_placement_is_possible(
        machine in 0_usize..8,
        replicas in prop_oneof![Just(None), (0_usize..40).prop_map(Some)],
        decode in proptest::option::of(0_usize..40),
        prefill in proptest::option::of(0_usize..40),
    ) {
        const NAMES: [&str; 8] = [
            "vm-2-cpus-no-topology", "dual-socket-smt", "epyc-8-nodes", "container-v2-quota",
            "container-v1-quota", "cpuset-subset", "malformed", "one-node-four-caches",
        ];
        static MACHINES: std::sync::OnceLock<Vec<Topology>> = std::sync::OnceLock::new();
        let t = &MACHINES.get_or_init(|| NAMES.iter().map(|name| read(name)).collect())[machine];
        let request = PlacementRequest {
            replicas: replicas.map_or(Replicas::Auto, Replicas::Count),
            threads: decode,
            threads_batch: prefill,
        };
        let p = placement(t, &request);
        prop_assert!(p.replicas.len() == replicas.unwrap_or(p.replicas.len()).max(1));
        let budget = default_threads(t).threads;
        for r in &p.replicas {
            let members: usize = r.shares.iter().map(|s| s.threads).sum();
            prop_assert_eq!(members, r.threads.max(r.threads_batch));
            prop_assert!(r.threads >= 1 && r.threads_batch >= 1 && r.shares.iter().all(|s| s.threads >= 1));
            for cpus in r.shares.iter().filter_map(|s| s.cpus.as_ref()) {
                prop_assert!(!cpus.is_empty() && cpus.iter().all(|cpu| t.allowed().contains(cpu)));
            }
        }
        if decode.is_none() && prefill.is_none() && p.replicas.len() <= budget {
            let all: usize = p.replicas.iter().map(|r| r.threads).sum();
            prop_assert!(all <= budget, "{all} threads of {budget}");
        }
    }
}
