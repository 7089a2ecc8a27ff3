//! [`users_within`]: largest number of users within an SLO.

use crate::figures::with_bands;
use crate::grade::Bands;
use crate::interval::Interval;
use crate::machine::Machine;
use crate::memory::memory;
use crate::model::ModelFacts;
use crate::workload::Workload;
use serde::Serialize;

/// Limits that every user's answer keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Slo {
    /// Most seconds to the first token.
    pub ttft_s: Option<f64>,
    /// Fewest tokens per second of each user.
    pub user_tps: Option<f64>,
}

/// Most users that are tried.
const MAX_USERS: usize = 4096;

/// Returns the largest number of users for whom the limits hold and memory suffices: expected, and with every rate at
/// its lower and at its upper limit. 0 if they do not hold for one user.
#[must_use]
pub fn users_within(model: &ModelFacts, machine: &Machine, load: &Workload, slo: &Slo) -> Interval {
    let bands = Bands::of(machine.class);
    let most = |pick: fn(Interval, bool) -> f64| {
        let holds = |users: usize| {
            let load = Workload { users, ..*load };
            let figures = with_bands(model, machine, &load, &bands);
            let fits = machine.memory_bytes.is_none_or(|available| {
                memory(model, &load).is_ok_and(|parts| parts.total_bytes <= available)
            });
            fits && slo.ttft_s.is_none_or(|most| pick(figures.ttft_s, false) <= most)
                && slo.user_tps.is_none_or(|least| pick(figures.user_tps, true) >= least)
        };
        largest(holds) as f64
    };
    Interval {
        value: most(|x, _| x.value),
        low: most(|x, is_rate| if is_rate { x.low } else { x.high }),
        high: most(|x, is_rate| if is_rate { x.high } else { x.low }),
    }
}

/// Returns the largest number up to [`MAX_USERS`] for which `holds`, which is true up to a limit and false beyond it.
fn largest(holds: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (0, MAX_USERS + 1);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if holds(middle) { low = middle } else { high = middle }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn largest_finds_the_limit() {
        for limit in [0, 1, 2, 63, MAX_USERS] {
            assert_eq!(largest(|n| n <= limit), limit);
        }
    }
}
