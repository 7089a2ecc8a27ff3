//! Memory planning: the sizes of the caches, computed before anything is allocated.

use leyden_engine::usual_checkpoint_bytes;

/// Memory needs of a model beside its weights, and the sizes that the options set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Need {
    /// Bytes of the KV cache per token.
    pub token_bytes: u64,
    /// Bytes of a step's workspace.
    pub workspace_bytes: u64,
    /// Bytes of a sequence's state in recurrent layers; 0 without such.
    pub state_bytes: u64,
    /// Bytes for checkpoints of recurrent states, if set.
    pub state_cache: Option<u64>,
    /// Maximum context of the model in tokens.
    pub model_context: usize,
    /// Context in tokens, if set.
    pub context: Option<usize>,
    /// Maximum number of concurrent requests.
    pub parallel: usize,
    /// Size of the KV cache in tokens, if set.
    pub kv_tokens: Option<usize>,
}

/// Sizes that were planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryPlan {
    /// Maximum context in tokens.
    pub context: usize,
    /// Size of the KV cache in tokens.
    pub kv_tokens: usize,
    /// Bytes for checkpoints of recurrent states.
    pub state_cache: u64,
    /// True if the context is shorter than the model's because memory is short.
    pub shortened: bool,
}

/// Fraction of the memory that is left free, for the page cache, connections and texts.
const SPARE: f64 = 0.1;
/// Fraction of the remaining memory that a KV cache without a set size takes.
const AUTOMATIC: f64 = 0.5;
/// Default maximum bytes for checkpoints of recurrent states, and the divisor of the memory that limits them unless two
/// states take more.
const STATES: (u64, u64) = (1 << 30, 8);
/// Tokens per block of the KV cache.
const BLOCK: usize = leyden_kernels::attention::BLOCK_TOKENS;

/// Plans the use of `available` bytes, if that is known. Sizes that are set are used or refused; the others are chosen.
///
/// # Errors
/// The set sizes do not fit; the message has the sizes that would.
///
/// ```
/// use leyden_server::{Need, plan_memory};
///
/// let need = Need {
///     token_bytes: 1 << 10,
///     workspace_bytes: 1 << 20,
///     state_bytes: 0,
///     state_cache: None,
///     model_context: 4096,
///     context: None,
///     parallel: 8,
///     kv_tokens: None,
/// };
/// assert_eq!(plan_memory(&need, Some(1 << 30)).unwrap().kv_tokens, 8 * 4096);
/// assert!(plan_memory(&Need { kv_tokens: Some(1 << 24), ..need }, Some(1 << 30)).is_err());
/// ```
pub fn plan_memory(need: &Need, available: Option<u64>) -> Result<MemoryPlan, String> {
    let left = available.map(|available| spared(available).saturating_sub(need.workspace_bytes));
    let what = format!("{} MiB are available beside the weights", available.unwrap_or(0) >> 20);
    plan_with_states(need, need.checkpoint_bytes(available), left, &what)
}

/// Divides `available` bytes among several engines whose weights are in memory already, in proportion to the memory
/// that each could use.
///
/// # Errors
/// The set sizes of an engine do not fit; the error has its index and a message with the sizes that would.
pub fn plan_memories(needs: &[Need], available: Option<u64>) -> Result<Vec<MemoryPlan>, (usize, String)> {
    if let [need] = needs {
        return plan_memory(need, available).map(|plan| vec![plan]).map_err(|what| (0, what));
    }
    let equal = available.map(|available| available / needs.len().max(1) as u64);
    let of_states = |need: &Need| need.checkpoint_bytes(equal);
    let workspaces = needs
        .iter()
        .map(|need| need.workspace_bytes.saturating_add(of_states(need)))
        .fold(0, u64::saturating_add);
    let left = available.map(|available| spared(available).saturating_sub(workspaces));
    let all: f64 = needs.iter().map(Need::most_bytes).sum();
    let divide = |(i, need): (usize, &Need)| {
        let part = left.map(|left| (left as f64 * (need.most_bytes() / all.max(1.0))) as u64);
        let what = format!(
            "{} MiB are available beside the weights and workspaces of {} engines, and its part is {} MiB",
            available.unwrap_or(0) >> 20,
            needs.len(),
            part.unwrap_or(0) >> 20,
        );
        let left = part.map(|part| part.saturating_add(of_states(need)));
        plan_with_states(need, of_states(need), left, &what).map_err(|what| (i, what))
    };
    needs.iter().enumerate().map(divide).collect()
}

impl Need {
    fn context(&self) -> usize {
        self.context.unwrap_or(self.model_context)
    }

    /// Returns the maximum number of tokens in use at a time.
    fn most_tokens(&self) -> usize {
        self.context().saturating_mul(self.parallel.max(1))
    }

    /// Returns the bytes for checkpoints of recurrent states: the set size or the default.
    fn checkpoint_bytes(&self, available: Option<u64>) -> u64 {
        if self.state_bytes == 0 {
            return 0;
        }
        let most = available.map_or(STATES.0, |available| STATES.0.min(available / STATES.1));
        let usize = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
        let usual = usual_checkpoint_bytes(usize(self.state_bytes), self.parallel, usize(most));
        self.state_cache.unwrap_or(usual as u64)
    }

    fn most_bytes(&self) -> f64 {
        self.token_bytes as f64 * self.kv_tokens.unwrap_or_else(|| self.most_tokens()) as f64
    }
}

/// Returns the bytes that remain after the fraction that is left free.
fn spared(available: u64) -> u64 {
    (available as f64 * (1.0 - SPARE)) as u64
}

/// Plans a KV cache in `left` bytes with `states` bytes for checkpoints of recurrent states, or with the minimum of
/// these if the set size of the KV cache needs the memory.
fn plan_with_states(need: &Need, states: u64, left: Option<u64>, what: &str) -> Result<MemoryPlan, String> {
    let with = |states: u64| plan(need, states, left.map(|left| left.saturating_sub(states)), what);
    let fewest = usual_checkpoint_bytes(usize::try_from(need.state_bytes).unwrap_or(usize::MAX), 1, 0) as u64;
    match with(states) {
        Err(_) if need.state_cache.is_none() && fewest < states => with(fewest),
        planned => planned,
    }
}

/// Plans a KV cache in `left` bytes, which `what` describes in errors, beside `state_cache` bytes for checkpoints.
fn plan(need: &Need, state_cache: u64, left: Option<u64>, what: &str) -> Result<MemoryPlan, String> {
    let context = need.context();
    let all = need.most_tokens();
    let Some(left) = left else {
        // If the memory size is unknown: the set size, or one full context.
        let kv_tokens = need.kv_tokens.unwrap_or(context);
        return Ok(MemoryPlan { context: context.min(kv_tokens), kv_tokens, state_cache, shortened: false });
    };
    let blocks = |bytes: u64| {
        let tokens = usize::try_from(bytes / need.token_bytes.max(1)).unwrap_or(usize::MAX);
        tokens / BLOCK * BLOCK
    };
    let fits = blocks(left);
    let refuse = |tokens: usize| {
        let mib = |bytes: u64| bytes >> 20;
        let states = match state_cache {
            0 => String::new(),
            n => format!(", checkpoints of states {} MiB (--state-cache)", mib(n)),
        };
        let fitting = match fits {
            0 => "not even the shortest context".to_owned(),
            n => format!(
                "at most {n} tokens: --kv-tokens {n}, such as {} requests of --ctx {}",
                (n / context.min(n).max(1)).clamp(1, need.parallel.max(1)),
                context.min(n)
            ),
        };
        Err(format!(
            "a KV cache of {tokens} tokens needs {} MiB and a step {} MiB{states}, but {what}; the maximum is {fitting}",
            mib(need.token_bytes.saturating_mul(tokens as u64)),
            mib(need.workspace_bytes),
        ))
    };
    if let Some(kv_tokens) = need.kv_tokens {
        if kv_tokens > fits {
            return refuse(kv_tokens);
        }
        if need.context.is_some_and(|c| c > kv_tokens) {
            return Err(format!("--kv-tokens {kv_tokens} is less than --ctx {context}"));
        }
        let shortened = context > kv_tokens;
        return Ok(MemoryPlan { context: context.min(kv_tokens), kv_tokens, state_cache, shortened });
    }
    let wanted = all.min(blocks((left as f64 * AUTOMATIC) as u64));
    let kv_tokens = if need.context.is_some() { wanted.max(context) } else { wanted };
    if kv_tokens > fits || kv_tokens == 0 {
        return refuse(kv_tokens.max(context));
    }
    let shortened = context > kv_tokens;
    Ok(MemoryPlan { context: context.min(kv_tokens), kv_tokens, state_cache, shortened })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEED: Need = Need {
        token_bytes: 1 << 20,
        workspace_bytes: 100 << 20,
        state_bytes: 0,
        state_cache: None,
        model_context: 8192,
        context: None,
        parallel: 4,
        kv_tokens: None,
    };

    #[test]
    fn what_was_not_asked_for_is_chosen() {
        let gib = |n: u64| Some(n << 30);
        let plan = |need: &Need, available| {
            plan_memory(need, available).map(|p| (p.context, p.kv_tokens, p.shortened))
        };
        assert_eq!(plan(&NEED, gib(100)), Ok((8192, 4 * 8192, false)));
        // Half of 0.9 · 10 GiB - 100 MiB, in whole blocks.
        assert_eq!(plan(&NEED, gib(10)), Ok((4544, 4544, true)));
        assert_eq!(plan(&Need { context: Some(8192), ..NEED }, gib(10)), Ok((8192, 8192, false)));
        assert_eq!(plan(&Need { kv_tokens: Some(1000), ..NEED }, gib(10)), Ok((1000, 1000, true)));
        assert_eq!(plan(&NEED, None), Ok((8192, 8192, false)));
    }

    #[test]
    fn checkpoints_of_states_are_counted() {
        let gib = |n: u64| n << 30;
        let plan =
            |need: &Need, available| plan_memory(need, available).map(|p| (p.kv_tokens, p.state_cache));
        let recurrent = Need { state_bytes: 80 << 20, ..NEED };
        // As many as fit 1 GiB, an eighth of the memory or two states, even if the memory size is unknown.
        assert_eq!(plan(&recurrent, Some(gib(100))), Ok((4 * 8192, 12 * (80 << 20))));
        let (tokens, states) = plan(&recurrent, Some(gib(4))).unwrap();
        assert!(states == 6 * (80 << 20) && tokens < plan(&NEED, Some(gib(4))).unwrap().0, "{tokens}");
        assert_eq!(plan(&recurrent, Some(gib(1))).unwrap().1, 2 * (80 << 20));
        assert_eq!(plan(&recurrent, None).unwrap().1, 12 * (80 << 20));
        // A set size is used or refused.
        let asked = |bytes| Need { state_cache: Some(bytes), ..recurrent };
        assert_eq!(plan(&asked(0), Some(gib(4))), plan(&NEED, Some(gib(4))));
        assert_eq!(plan(&asked(gib(2)), Some(gib(8))).unwrap().1, gib(2));
        let text = plan(&asked(gib(8)), Some(gib(8))).unwrap_err();
        assert!(text.contains("checkpoints of states 8192 MiB (--state-cache)"), "{text}");
        // A model without recurrent layers has none.
        assert_eq!(
            plan(&Need { state_cache: Some(gib(8)), ..NEED }, Some(gib(4))),
            plan(&NEED, Some(gib(4)))
        );
        // A set size of the KV cache has priority over all but two checkpoints.
        let large = Need { kv_tokens: Some(3328), ..recurrent };
        assert_eq!(plan(&large, Some(gib(4))), Ok((3328, 2 * (80 << 20))));
        let plans = plan_memories(&[recurrent, NEED], Some(gib(8))).unwrap();
        assert_eq!((plans[0].state_cache, plans[1].state_cache), (6 * (80 << 20), 0));
    }

    #[test]
    fn models_divide_the_memory() {
        let small = Need { token_bytes: 1 << 18, ..NEED };
        let plans = plan_memories(&[NEED, small], Some(10 << 30)).unwrap();
        let bytes = |need: &Need, plan: &MemoryPlan| need.token_bytes * plan.kv_tokens as u64;
        let (a, b) = (bytes(&NEED, &plans[0]), bytes(&small, &plans[1]));
        // Half of what is left, one part in five of it for the smaller.
        assert!(a + b <= (9 << 30) / 2 && a + b > 4 << 30 && a / b == 4, "{a} {b}");
        // Each alone would fit.
        let asked = Need { kv_tokens: Some(4096), ..NEED };
        assert!(plan_memory(&asked, Some(8 << 30)).is_ok());
        let (which, what) = plan_memories(&[asked, asked], Some(8 << 30)).unwrap_err();
        assert!(which == 0 && what.contains("of 2 engines, and its part is 3586 MiB"), "{what}");
        assert!(what.contains("--kv-tokens 3584"), "{what}");
        assert!(plan_memories(&[asked, asked], Some(16 << 30)).is_ok());
        assert_eq!(plan_memories(&[asked], Some(8 << 30)).unwrap().len(), 1);
        assert!(plan_memories(&[], None).unwrap().is_empty());
    }

    #[test]
    fn what_does_not_fit_is_refused_with_what_would() {
        let error = |need: Need| plan_memory(&need, Some(4 << 30)).unwrap_err();
        let text = error(Need { kv_tokens: Some(8192), ..NEED });
        assert!(text.contains("--kv-tokens 3584, such as 1 requests of --ctx 3584"), "{text}");
        let text = error(Need { context: Some(8192), ..NEED });
        assert!(text.contains("at most 3584 tokens"), "{text}");
        let text = error(Need { workspace_bytes: 5 << 30, ..NEED });
        assert!(text.contains("not even"), "{text}");
        assert!(error(Need { kv_tokens: Some(512), context: Some(1024), ..NEED }).contains("less than"));
    }
}
