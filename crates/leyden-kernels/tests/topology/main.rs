//! Topologies read from stored trees: virtual machines, servers, containers, damaged trees.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod energy;
mod placement;

use std::fs;
use std::path::Path;
use std::sync::OnceLock;

use leyden_kernels::topology::{CacheKind, SysFs, Topology, default_threads};
use proptest::prelude::*;
use tempfile::TempDir;

/// Unpacks `fixtures/topology/<name>.txt` (lines `path = value`, or `path <<`, text, `>>`) into a directory.
fn tree(name: &str) -> TempDir {
    let archive = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/fixtures/topology/{name}.txt"));
    let text = fs::read_to_string(&archive).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let mut lines = text.lines().filter(|line| !line.starts_with('#'));
    while let Some(line) = lines.next() {
        if let Some(path) = line.strip_suffix(" <<") {
            let body: Vec<&str> = lines.by_ref().take_while(|line| *line != ">>").collect();
            write(dir.path(), path, &(body.join("\n") + "\n"));
        } else {
            let (path, value) = line.split_once(" = ").unwrap();
            write(dir.path(), path, &format!("{value}\n"));
        }
    }
    dir
}

fn write(root: &Path, path: &str, content: &str) {
    let file = root.join(path);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, content).unwrap();
}

fn read(name: &str) -> Topology {
    Topology::read(&SysFs::at(tree(name).path()))
}

#[test]
fn threads_per_machine() {
    let cases = [
        ("vm-2-cpus-no-topology", 2, "2 CPUs; the machine does not say which share a core"),
        ("dual-socket-smt", 8, "8 physical cores with 16 hardware threads"),
        ("epyc-8-nodes", 16, "16 physical cores"),
        (
            "container-v2-quota",
            2,
            "8 physical cores, limited by a quota of 2.50 CPUs (/sys/fs/cgroup/pods/pod1)",
        ),
        (
            "container-v1-quota",
            1,
            "8 physical cores, limited by a quota of 0.50 CPUs (/sys/fs/cgroup/cpu,cpuacct)",
        ),
        (
            "cpuset-subset",
            2,
            "2 physical cores with 3 hardware threads, in the CPUs 2-4 that this process may use",
        ),
        ("malformed", 1, "1 CPU; the machine does not say which share a core"),
    ];
    for (name, threads, reason) in cases {
        let choice = default_threads(&read(name));
        assert_eq!((choice.threads, choice.reason.as_str()), (threads, reason), "{name}");
    }
}

#[test]
fn small_vm_is_described_as_far_as_it_goes() {
    let t = read("vm-2-cpus-no-topology");
    assert_eq!(t.processor.brand, "AMD EPYC Processor");
    assert_eq!(t.processor.model.as_deref(), Some("family 25 model 17 stepping 1"));
    assert_eq!(t.processor.features, ["ssse3", "sse4_2", "avx", "f16c", "fma", "avx2", "bmi2"]);
    assert!(t.processor.virtual_machine && t.processor.has("avx2") && !t.processor.has("avx512f"));
    assert!(!t.cores_known && t.cores.len() == 2 && t.caches.is_empty() && t.cpu_quota.is_none());
    assert_eq!(t.numa_nodes.len(), 1);
    assert_eq!(t.numa_nodes[0].cpus.to_string(), "0-1");
    assert_eq!(t.memory.total_bytes, Some(8_000_000 * 1024));
    assert_eq!(t.memory.usable_bytes(), Some(7_000_000 * 1024));
    assert_eq!(t.huge_pages.transparent.as_deref(), Some("madvise"));
    assert_eq!(t.huge_pages.shmem.as_deref(), Some("never"));
    assert_eq!(t.huge_pages.transparent_bytes, Some(2 << 20));
    assert!(t.huge_pages.pools.is_empty() && t.page_bytes >= 4096);
}

#[test]
fn dual_socket_groups_siblings_caches_and_nodes() {
    let t = read("dual-socket-smt");
    assert!(t.cores_known);
    assert_eq!((t.cores.len(), t.packages()), (8, 2));
    assert_eq!(t.cores[0].cpus.to_string(), "0,8");
    assert_eq!(t.cores[7].package, 1);
    let shape: Vec<_> =
        t.caches.iter().map(|c| (c.level, c.kind, c.size_bytes >> 10, c.instances.len())).collect();
    assert_eq!(
        shape,
        [
            (1, CacheKind::Data, 48, 8),
            (1, CacheKind::Instruction, 32, 8),
            (2, CacheKind::Unified, 2048, 8),
            (3, CacheKind::Unified, 107_520, 2),
        ]
    );
    assert_eq!(t.data_cache(1).map(|c| c.size_bytes), Some(48 << 10));
    assert_eq!(t.data_cache(3).unwrap().instances[1].to_string(), "4-7,12-15");
    assert_eq!(t.numa_nodes.len(), 2);
    assert_eq!(t.numa_nodes[1].distances, [21, 10]);
    assert_eq!(t.numa_nodes[1].memory_total_bytes, Some(264_000_000 * 1024));
    let pools: Vec<_> = t.huge_pages.pools.iter().map(|p| (p.page_bytes, p.total, p.free)).collect();
    assert_eq!(pools, [(2 << 20, 1024, 1000), (1 << 30, 4, 4)]);
    assert!(t.processor.has("amx_int8"));
}

#[test]
fn epyc_has_eight_nodes_with_their_own_l3() {
    let t = read("epyc-8-nodes");
    assert_eq!((t.numa_nodes.len(), t.packages(), t.cores.len()), (8, 2, 16));
    assert_eq!(t.data_cache(3).unwrap().instances.len(), 8);
    assert_eq!(t.numa_nodes[4].distances, [32, 32, 32, 32, 10, 12, 12, 12]);
}

#[test]
fn containers_take_the_tightest_limit() {
    let t = read("container-v2-quota");
    let quota = t.cpu_quota.clone().unwrap();
    assert_eq!((quota.cpus(), quota.whole_cpus()), (2.5, 2));
    let limit = t.memory.limit.clone().unwrap();
    assert_eq!((limit.bytes, limit.used_bytes), (4 << 30, Some((1 << 30) - (256 << 20))));
    assert_eq!(t.memory.usable_bytes(), Some((4 << 30) - (1 << 30) + (256 << 20)));

    let t = read("container-v1-quota");
    assert_eq!(t.cpu_quota.map(|q| q.cpus()), Some(0.5));
    assert_eq!(t.memory.limit, None, "the v1 sentinel is no limit");
    assert_eq!(t.cpuset.map(|c| c.to_string()).as_deref(), Some("0-7"));
}

#[test]
fn cpuset_and_affinity_intersect() {
    let t = read("cpuset-subset");
    assert_eq!(t.allowed().to_string(), "2-4");
    assert_eq!(t.cpuset.as_ref().unwrap().to_string(), "2-5");
    let cores: Vec<_> = t.allowed_cores().map(|core| core.cpus.to_string()).collect();
    assert_eq!(cores, ["2-3", "4-5"]);
}

#[test]
fn absent_and_malformed_files_leave_one_cpu() {
    for t in [Topology::read(&SysFs::at("/does/not/exist")), read("malformed")] {
        assert_eq!(t.allowed().to_string(), "0");
        assert_eq!(t.processor.brand, "unknown processor");
        assert!(t.processor.features.is_empty() && t.caches.is_empty() && t.huge_pages.pools.is_empty());
        assert_eq!((t.cpu_quota, t.cpuset, t.memory.limit.clone()), (None, None, None));
        assert_eq!((t.memory.total_bytes, t.memory.usable_bytes()), (None, None));
        assert_eq!(t.numa_nodes.len(), 1);
    }
}

#[test]
fn every_single_file_may_be_missing() {
    let dir = tree("container-v2-quota");
    let mut files = Vec::new();
    let mut folders = vec![dir.path().to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { folders.push(path) } else { files.push(path) }
        }
    }
    for file in files {
        let content = fs::read(&file).unwrap();
        fs::remove_file(&file).unwrap();
        let t = Topology::read(&SysFs::at(dir.path()));
        assert!((1..=8).contains(&default_threads(&t).threads), "{}", file.display());
        fs::write(&file, content).unwrap();
    }
}

#[test]
fn arm_numbers_become_a_name() {
    let dir = tempfile::tempdir().unwrap();
    let text = "processor\t: 0\nFeatures\t: fp asimd asimddp i8mm bf16 sve\nCPU implementer\t: 0x41\n\
                CPU variant\t: 0x1\nCPU part\t: 0xd40\n";
    write(dir.path(), "proc/cpuinfo", text);
    let processor = Topology::read(&SysFs::at(dir.path())).processor;
    assert_eq!(processor.brand, "Arm Neoverse V1");
    assert_eq!(processor.features, ["asimd", "asimddp", "sve", "i8mm", "bf16"]);
    assert_eq!(processor.model.as_deref(), Some("implementer 0x41 part 0xd40 variant 0x1"));
}

#[test]
fn this_machine_is_usable() {
    let t = Topology::detect();
    let choice = default_threads(&t);
    assert!(choice.threads >= 1 && choice.threads <= t.allowed().len(), "{choice:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    /// Reading ends without a panic and leaves at least one thread, whatever a file contains.
    #[test]
    fn arbitrary_contents_are_harmless(
        which in 0usize..12,
        content in prop_oneof!["[0-9,\\-: \n/a-z]{0,60}", "\\PC{0,40}", "[0-9]{1,25}( [0-9]{1,25})?"],
    ) {
        const FILES: [&str; 12] = [
            "proc/cpuinfo", "proc/meminfo", "proc/self/status", "proc/self/cgroup", "proc/self/mountinfo",
            "sys/devices/system/cpu/online", "sys/devices/system/cpu/cpu0/topology/core_cpus_list",
            "sys/devices/system/cpu/cpu0/topology/physical_package_id",
            "sys/fs/cgroup/pods/pod1/cpu.max", "sys/fs/cgroup/pods/pod1/memory.max",
            "sys/fs/cgroup/pods/cpuset.cpus.effective", "sys/kernel/mm/transparent_hugepage/enabled",
        ];
        // One tree for all cases: unpacking it takes longer than reading it.
        static TREE: OnceLock<TempDir> = OnceLock::new();
        let dir = TREE.get_or_init(|| tree("container-v2-quota"));
        let before = fs::read_to_string(dir.path().join(FILES[which])).ok();
        write(dir.path(), FILES[which], &content);
        let t = Topology::read(&SysFs::at(dir.path()));
        match before {
            Some(text) => write(dir.path(), FILES[which], &text),
            None => fs::remove_file(dir.path().join(FILES[which])).unwrap(),
        }
        prop_assert!(default_threads(&t).threads >= 1);
    }
}
