//! Who of a key goes first: the shortest remaining prompt (Schrage, "A proof of the optimality of the shortest remaining
//! processing time discipline", 1968), with a bound on what that costs long ones.

use super::request::PromptRows;
use super::task::Task;
use leyden_kernels::attention::BLOCK_TOKENS;

/// The part of its tokens that a prompt lets others have first at once, and the part of those computed of it that it
/// lets them have while it gets on. Together a tenth, so a prompt is computed at most a tenth later than in the order of
/// arrival.
const PART: usize = 20;

/// A place in the order of a key's prompts; the least goes first.
pub(super) type Place = (bool, usize, u64);

/// Where a task stands among those of its key.
pub(super) fn place(task: &Task) -> Place {
    let passable = patience(task) > 0;
    (passable, if passable { task.missing() } else { 0 }, task.order)
}

/// How many tokens of others that came later may still be computed before it. None before an answer that was begun and
/// preempted: its reader waits in the middle of it. And none before a text that is computed whole: a step takes many of
/// these, and whoever is passed while a little patience is left would hold up all who are longer than that.
pub(super) fn patience(task: &Task) -> usize {
    if task.generated() > 0 || matches!(task.request.rows, PromptRows::Whole(_)) {
        return 0;
    }
    let at_once = (task.prompt_tokens / PART).max(BLOCK_TOKENS);
    (at_once + task.computed / PART).saturating_sub(task.yielded)
}
