//! Top-k: only the k best tokens.

use super::candidates::Candidates;

/// Keeps the best `k`; 0 keeps all.
pub(super) fn apply(k: usize, c: &mut Candidates) {
    if k > 0 {
        c.keep(k);
    }
}
