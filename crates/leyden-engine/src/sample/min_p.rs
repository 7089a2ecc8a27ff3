//! Min-p: tokens at least a given share as probable as the best.

use super::candidates::Candidates;
use leyden_kernels::ops::ln;

/// Drops tokens whose probability is below `min_p` times that of the token with logit `best`.
pub(super) fn apply(min_p: f32, c: &mut Candidates, best: f32) {
    if min_p > 0.0 {
        c.keep_above(best + ln(f64::from(min_p)) as f32);
    }
}
