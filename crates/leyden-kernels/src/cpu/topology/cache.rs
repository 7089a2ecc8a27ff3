//! Sizes of the caches and the CPUs that share them.

use serde::Serialize;

use crate::cpu::topology::cpu_list::CpuList;
use crate::cpu::topology::sysfs::SysFs;

/// Contents of a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CacheKind {
    /// Data only.
    Data,
    /// Instructions only.
    Instruction,
    /// Both.
    Unified,
}

/// Caches of one level, kind and size.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Cache {
    /// Level; 1 is nearest to the core.
    pub level: u32,
    /// Contents.
    pub kind: CacheKind,
    /// Size of one instance in bytes.
    pub size_bytes: u64,
    /// Size of a cache line in bytes.
    pub line_bytes: Option<u32>,
    /// Instances of the cache, each as the online CPUs that share it.
    pub instances: Vec<CpuList>,
}

/// Reads the cache entries of every online CPU and merges those that describe the same instance.
pub(super) fn read(sys: &SysFs, online: &CpuList) -> Vec<Cache> {
    let mut caches: Vec<Cache> = Vec::new();
    for cpu in online.iter() {
        let dir = format!("sys/devices/system/cpu/cpu{cpu}/cache");
        for index in sys.numbered(&dir, "index") {
            let entry = format!("{dir}/index{index}");
            let Some((level, kind, size_bytes)) = describe(sys, &entry) else { continue };
            let line_bytes = sys.number(&format!("{entry}/coherency_line_size"));
            let shared = sys
                .list(&format!("{entry}/shared_cpu_list"))
                .map(|list| list.intersection(online))
                .filter(|list| list.contains(cpu))
                .unwrap_or_else(|| CpuList::from_iter([cpu]));
            let same = |c: &&mut Cache| {
                (c.level, c.kind, c.size_bytes, c.line_bytes) == (level, kind, size_bytes, line_bytes)
            };
            match caches.iter_mut().find(same) {
                Some(cache) if cache.instances.contains(&shared) => {}
                Some(cache) => cache.instances.push(shared),
                None => caches.push(Cache { level, kind, size_bytes, line_bytes, instances: vec![shared] }),
            }
        }
    }
    caches.sort_by_key(|cache| (cache.level, cache.kind, cache.size_bytes));
    caches
}

fn describe(sys: &SysFs, entry: &str) -> Option<(u32, CacheKind, u64)> {
    let level: u32 = sys.number(&format!("{entry}/level"))?;
    let kind = match sys.word(&format!("{entry}/type"))?.as_str() {
        "Data" => CacheKind::Data,
        "Instruction" => CacheKind::Instruction,
        "Unified" => CacheKind::Unified,
        _ => return None,
    };
    let size = parse_size(&sys.word(&format!("{entry}/size"))?)?;
    (size > 0).then_some((level, kind, size))
}

/// Parses `48K`, `32M` or plain bytes.
fn parse_size(text: &str) -> Option<u64> {
    let (digits, unit) = match text.as_bytes().last()? {
        b'K' => (&text[..text.len() - 1], 1 << 10),
        b'M' => (&text[..text.len() - 1], 1 << 20),
        b'G' => (&text[..text.len() - 1], 1 << 30),
        _ => (text, 1),
    };
    digits.parse::<u64>().ok()?.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parse_size_units() {
        let cases = [
            ("48K", Some(49_152)),
            ("32M", Some(33_554_432)),
            ("512", Some(512)),
            ("", None),
            ("K", None),
            ("-1K", None),
            ("18446744073709551615M", None),
            ("4é", None),
        ];
        for (text, wanted) in cases {
            assert_eq!(parse_size(text), wanted, "{text:?}");
        }
    }
}
