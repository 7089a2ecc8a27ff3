//! Limits set by control groups (cgroups), in both versions of their interface.
//!
//! A limit anywhere between this process's group and the root binds, so each is looked up on the whole way and the
//! smallest wins. Two files tell the way: `/proc/self/cgroup` names the group, and `/proc/self/mountinfo` says which
//! part of the hierarchy is mounted where. In a container the two often disagree (the group is named as the host sees
//! it while the mount shows only the container's part), so a group that is not below the mount's root is taken to be
//! the mount itself.

use serde::Serialize;

use crate::cpu::topology::cpu_list::CpuList;
use crate::cpu::topology::sysfs::SysFs;

/// Maximum depth of nested groups. The kernel's path length limits nesting; no real hierarchy comes near.
const MAX_DEPTH: usize = 64;

/// CPU time that the scheduler grants per period.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CpuQuota {
    /// Microseconds of CPU time per period.
    pub quota_us: u64,
    /// Length of the period in microseconds.
    pub period_us: u64,
    /// Directory of the group that sets the quota.
    pub group: String,
}

impl CpuQuota {
    /// Returns the quota in CPUs; 2.5 means two and a half CPUs' worth of time.
    pub fn cpus(&self) -> f64 {
        self.quota_us as f64 / self.period_us as f64
    }

    /// Returns the quota in CPUs rounded down, at least 1.
    pub fn whole_cpus(&self) -> usize {
        usize::try_from(self.quota_us / self.period_us).unwrap_or(usize::MAX).max(1)
    }
}

/// Memory limit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MemoryLimit {
    /// Limit in bytes.
    pub bytes: u64,
    /// Memory that the group uses, without page cache that the kernel reclaims first.
    pub used_bytes: Option<u64>,
    /// Directory of the group that sets the limit.
    pub group: String,
}

/// Directories of this process's control groups.
#[derive(Debug)]
pub(super) struct ControlGroups {
    /// Version 2: directories from the process's group up to the mount.
    unified: Vec<String>,
    /// Version 1: the same per controller.
    cpu: Vec<String>,
    cpuset: Vec<String>,
    memory: Vec<String>,
}

impl ControlGroups {
    /// Finds the directories; those of a hierarchy that is not mounted are empty lists.
    pub(super) fn read(sys: &SysFs) -> Self {
        let membership = sys.text("proc/self/cgroup").unwrap_or_default();
        let mounts = mounts(&sys.text("proc/self/mountinfo").unwrap_or_default());
        let way = |controller: Option<&str>| {
            let group = membership.lines().find_map(|line| {
                // `hierarchy:controllers:path`; version 2 has no controllers.
                let mut parts = line.splitn(3, ':');
                let (id, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
                let ours = match controller {
                    Some(name) => controllers.split(',').any(|c| c == name),
                    None => id == "0" && controllers.is_empty(),
                };
                ours.then_some(path)
            });
            let mount = mounts.iter().find(|mount| match controller {
                Some(name) => !mount.unified && mount.controllers.iter().any(|c| c == name),
                None => mount.unified,
            });
            match (group, mount) {
                (group, Some(mount)) => directories(group.unwrap_or("/"), &mount.root, &mount.point),
                // Without a mount table, try the usual path.
                (group, None) => {
                    let point = match controller {
                        Some(name) => format!("/sys/fs/cgroup/{name}"),
                        None => "/sys/fs/cgroup".to_owned(),
                    };
                    directories(group.unwrap_or("/"), "/", &point)
                }
            }
        };
        Self {
            unified: way(None),
            cpu: way(Some("cpu")),
            cpuset: way(Some("cpuset")),
            memory: way(Some("memory")),
        }
    }

    /// Returns the smallest CPU quota.
    pub(super) fn cpu_quota(&self, sys: &SysFs) -> Option<CpuQuota> {
        let unified = self.unified.iter().filter_map(|dir| {
            let text = sys.word(&format!("{dir}/cpu.max"))?;
            let mut words = text.split_ascii_whitespace();
            // `max` in the first field does not parse: no quota.
            let quota_us = words.next()?.parse().ok()?;
            let period_us = words.next().map_or(Some(100_000), |word| word.parse().ok())?;
            Some(CpuQuota { quota_us, period_us, group: dir.clone() })
        });
        let legacy = self.cpu.iter().filter_map(|dir| {
            // -1 does not parse: no quota.
            let quota_us = sys.number(&format!("{dir}/cpu.cfs_quota_us"))?;
            let period_us = sys.number(&format!("{dir}/cpu.cfs_period_us"))?;
            Some(CpuQuota { quota_us, period_us, group: dir.clone() })
        });
        unified
            .chain(legacy)
            .filter(|quota| quota.quota_us > 0 && quota.period_us > 0)
            .min_by(|a, b| a.cpus().total_cmp(&b.cpus()))
    }

    /// Returns the smallest memory limit.
    pub(super) fn memory_limit(&self, sys: &SysFs) -> Option<MemoryLimit> {
        let unified = self.unified.iter().filter_map(|dir| {
            let bytes = sys.number(&format!("{dir}/memory.max"))?;
            let used_bytes = used(sys, dir, "memory.current", "inactive_file");
            Some(MemoryLimit { bytes, used_bytes, group: dir.clone() })
        });
        let legacy = self.memory.iter().filter_map(|dir| {
            let bytes = sys.number(&format!("{dir}/memory.limit_in_bytes"))?;
            let used_bytes = used(sys, dir, "memory.usage_in_bytes", "total_inactive_file");
            Some(MemoryLimit { bytes, used_bytes, group: dir.clone() })
        });
        unified.chain(legacy).min_by_key(|limit| limit.bytes)
    }

    /// Returns the effective cpuset of the nearest group that has one.
    pub(super) fn cpuset(&self, sys: &SysFs) -> Option<CpuList> {
        let unified = self.unified.iter().find_map(|dir| sys.list(&format!("{dir}/cpuset.cpus.effective")));
        unified.or_else(|| {
            self.cpuset.iter().find_map(|dir| {
                sys.list(&format!("{dir}/cpuset.effective_cpus"))
                    .or_else(|| sys.list(&format!("{dir}/cpuset.cpus")))
            })
        })
    }
}

/// Returns the bytes in use minus the part of the page cache that is reclaimed first.
fn used(sys: &SysFs, dir: &str, current: &str, inactive: &str) -> Option<u64> {
    let current: u64 = sys.number(&format!("{dir}/{current}"))?;
    let stat = sys.text(&format!("{dir}/memory.stat")).unwrap_or_default();
    let inactive = stat.lines().find_map(|line| {
        let (key, value) = line.split_once(' ')?;
        if key == inactive { value.trim().parse::<u64>().ok() } else { None }
    });
    Some(current.saturating_sub(inactive.unwrap_or(0)))
}

#[derive(Debug)]
struct Mount {
    root: String,
    point: String,
    unified: bool,
    controllers: Vec<String>,
}

/// Parses the control-group mounts in the text of `mountinfo`.
fn mounts(mountinfo: &str) -> Vec<Mount> {
    mountinfo
        .lines()
        .filter_map(|line| {
            // Optional fields of varying number end at a lone dash.
            let (place, kind) = line.split_once(" - ")?;
            let mut place = place.split(' ').skip(3);
            let (root, point) = (place.next()?.to_owned(), place.next()?.to_owned());
            let mut kind = kind.split(' ');
            let unified = match kind.next()? {
                "cgroup2" => true,
                "cgroup" => false,
                _ => return None,
            };
            let controllers = kind.nth(1).unwrap_or("").split(',').map(str::to_owned).collect();
            Some(Mount { root, point, unified, controllers })
        })
        .collect()
}

/// Returns the directories of `group` and of all groups above it, as far as the mount shows them, nearest first.
fn directories(group: &str, mount_root: &str, mount_point: &str) -> Vec<String> {
    let below = if mount_root == "/" {
        Some(group)
    } else {
        group.strip_prefix(mount_root).filter(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    // A group outside the namespace is written with `..`; nothing of it is visible here.
    let below = below.filter(|path| !path.split('/').any(|part| part == "..")).unwrap_or("");
    let mut path = below.trim_matches('/');
    let mut found = Vec::new();
    while !path.is_empty() && found.len() < MAX_DEPTH {
        found.push(format!("{mount_point}/{path}"));
        path = path.rsplit_once('/').map_or("", |(parent, _)| parent.trim_end_matches('/'));
    }
    found.push(mount_point.to_owned());
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_walk_up_to_the_mount() {
        let cases: [(&str, &str, &[&str]); 6] = [
            ("/", "/", &["/m"]),
            ("/a/b", "/", &["/m/a/b", "/m/a", "/m"]),
            ("/docker/x/init", "/docker/x", &["/m/init", "/m"]),
            ("/docker/xy", "/docker/x", &["/m"]),
            ("/../other", "/", &["/m"]),
            ("/a//b/", "/", &["/m/a//b", "/m/a", "/m"]),
        ];
        for (group, root, wanted) in cases {
            assert_eq!(directories(group, root, "/m"), wanted, "{group} at {root}");
        }
        assert!(directories(&"/x".repeat(10_000), "/", "/m").len() <= MAX_DEPTH + 1);
    }

    #[test]
    fn mounts_skip_what_is_not_a_control_group() {
        let text = "22 27 0:21 / /proc rw - proc proc rw\n\
                    32 31 0:29 /x /sys/fs/cgroup/cpu rw shared:9 master:1 - cgroup cgroup rw,cpu,cpuacct\n\
                    garbage\n - \n41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 none rw\n";
        let mounts = mounts(text);
        assert_eq!(mounts.len(), 2);
        assert!(
            !mounts[0].unified && mounts[0].root == "/x" && mounts[0].controllers.contains(&"cpu".to_owned())
        );
        assert!(mounts[1].unified && mounts[1].point == "/sys/fs/cgroup/unified");
    }
}
