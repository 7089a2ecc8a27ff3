//! Order of the prompts of a key: the shortest remaining prompt first (Schrage, "A proof of the optimality of the
//! shortest remaining processing time discipline", 1968), with a bound on the delay of long ones.

use super::task::Task;
use leyden_kernels::attention::BLOCK_TOKENS;

/// Divisor that gives the number of later requests' tokens that may be computed before a prompt: its own number of
/// tokens divided by this at once, and as much again as it is computed. Together a tenth, so a prompt is computed at
/// most a tenth later than in the order of arrival.
const PART: usize = 20;

/// Rank among a key's prompts; the least goes first.
pub(super) type Rank = (bool, usize, u64);

/// Returns the rank of a task among those of its key.
pub(super) fn rank(task: &Task) -> Rank {
    let passable = slack(task) > 0;
    (passable, if passable { task.missing() } else { 0 }, task.order)
}

/// Returns a task's slack: the number of tokens of later requests that may still be computed before it. It is 0 for
/// an answer that was begun and preempted, as its reader waits in the middle of it; and for a text that is computed
/// whole: a step takes many of these, and one that may still be passed by few tokens would delay all longer ones.
pub(super) fn slack(task: &Task) -> usize {
    if task.generated() > 0 || task.is_whole {
        return 0;
    }
    let at_once = (task.prompt_tokens / PART).max(BLOCK_TOKENS);
    (at_once + task.computed / PART).saturating_sub(task.passed_by)
}
