//! Sets of CPU numbers in the kernel's list notation, `0-3,8,10-11`.

use std::fmt;

use serde::{Serialize, Serializer};

/// Largest CPU number: kernels are built for at most 8,192 CPUs. A larger number comes from a damaged file, and
/// expanding its range would visit every CPU in it.
const MAX_CPU: u32 = 8_191;

/// Sorted set of CPU numbers. Displayed and serialised in the kernel's list notation.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CpuList {
    cpus: Vec<u32>,
}

impl CpuList {
    /// Parses list notation; blanks and an empty text (no CPU) are allowed. Returns `None` if the text is anything
    /// else.
    ///
    /// ```
    /// use leyden_kernels::topology::CpuList;
    /// let list = CpuList::parse("0-2,8").expect("well formed");
    /// assert_eq!(list.iter().collect::<Vec<_>>(), [0, 1, 2, 8]);
    /// assert_eq!(list.to_string(), "0-2,8");
    /// assert!(CpuList::parse("2-0").is_none());
    /// ```
    pub fn parse(text: &str) -> Option<Self> {
        let mut cpus = Vec::new();
        for part in text.trim().split(',').map(str::trim) {
            if part.is_empty() {
                continue;
            }
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let first: u32 = first.trim().parse().ok()?;
            let last: u32 = last.trim().parse().ok()?;
            if first > last || last > MAX_CPU {
                return None;
            }
            cpus.extend(first..=last);
            // A damaged file may repeat overlapping ranges many times.
            if cpus.len() > 2 * MAX_CPU as usize {
                return None;
            }
        }
        Some(Self::from_iter(cpus))
    }

    /// Returns the number of CPUs.
    pub fn len(&self) -> usize {
        self.cpus.len()
    }

    /// Returns true if the set is empty.
    pub fn is_empty(&self) -> bool {
        self.cpus.is_empty()
    }

    /// Returns the CPU numbers, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.cpus.iter().copied()
    }

    /// Returns the lowest CPU number.
    pub fn first(&self) -> Option<u32> {
        self.cpus.first().copied()
    }

    /// Returns true if `cpu` is in the set.
    pub fn contains(&self, cpu: u32) -> bool {
        self.cpus.binary_search(&cpu).is_ok()
    }

    /// Returns the CPUs that are in both sets.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        Self { cpus: self.iter().filter(|&cpu| other.contains(cpu)).collect() }
    }
}

impl FromIterator<u32> for CpuList {
    fn from_iter<I: IntoIterator<Item = u32>>(iter: I) -> Self {
        let mut cpus: Vec<u32> = iter.into_iter().collect();
        cpus.sort_unstable();
        cpus.dedup();
        Self { cpus }
    }
}

impl fmt::Display for CpuList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, run) in self.cpus.chunk_by(|a, b| a + 1 == *b).enumerate() {
            if i > 0 {
                f.write_str(",")?;
            }
            match run {
                [one] => write!(f, "{one}")?,
                [first, .., last] => write!(f, "{first}-{last}")?,
                [] => {}
            }
        }
        Ok(())
    }
}

impl Serialize for CpuList {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn parse_kernel_notation() {
        let cases = [
            ("0", "0"),
            ("0-3", "0-3"),
            ("3,1,2", "1-3"),
            (" 0-1 , 4\n", "0-1,4"),
            ("", ""),
            ("0-2,1-3", "0-3"),
        ];
        for (text, wanted) in cases {
            assert_eq!(CpuList::parse(text).map(|l| l.to_string()).as_deref(), Some(wanted), "{text:?}");
        }
    }

    #[test]
    fn parse_refuses_malformed() {
        let cases =
            ["x", "1-", "-1", "3-1", "0-8192", "0-4294967295", "0-99999999999", "1;2", "0-31:2/4", "1-2-3"];
        for text in cases {
            assert_eq!(CpuList::parse(text), None, "{text:?}");
        }
        assert_eq!(CpuList::parse(&"0-8191,".repeat(1000)), None, "repeated ranges stay bounded");
    }

    proptest! {
        #[test]
        fn display_round_trips(cpus in proptest::collection::vec(0u32..300, 0..40)) {
            let list = CpuList::from_iter(cpus);
            prop_assert_eq!(CpuList::parse(&list.to_string()), Some(list));
        }

        #[test]
        fn parse_never_panics(text in "[0-9,\\- ]{0,40}") {
            let _ = CpuList::parse(&text);
        }
    }
}
