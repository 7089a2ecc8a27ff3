//! Whether it will all fit, before it is allocated.

/// What a model needs besides its weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Need {
    /// Bytes of keys and values per token.
    pub token_bytes: u64,
    /// Bytes of a step's workspace.
    pub workspace_bytes: u64,
    /// The longest text that the model was made for.
    pub model_context: usize,
    /// The context that was asked for.
    pub context: Option<usize>,
    /// Requests at a time.
    pub parallel: usize,
    /// Tokens of the cache that were asked for.
    pub kv_tokens: Option<usize>,
}

/// What it gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryPlan {
    /// The longest text.
    pub context: usize,
    /// Tokens of the cache.
    pub kv_tokens: usize,
    /// Whether the context is shorter than the model's because memory is short.
    pub shortened: bool,
}

/// The part of the memory that is left to others: page cache, connections, texts.
const SPARE: f64 = 0.1;
/// The part of what is left that a cache takes of whose size nothing was said.
const AUTOMATIC: f64 = 0.5;
/// Tokens in a block of the cache.
const BLOCK: usize = leyden_kernels::attention::BLOCK_TOKENS;

/// Divides `available` bytes, if that is known. What was asked for is taken as it is or refused; what was not is chosen.
///
/// # Errors
/// It does not fit; the text says what would.
///
/// ```
/// use leyden_server::{Need, plan_memory};
///
/// let need = Need {
///     token_bytes: 1 << 10,
///     workspace_bytes: 1 << 20,
///     model_context: 4096,
///     context: None,
///     parallel: 8,
///     kv_tokens: None,
/// };
/// assert_eq!(plan_memory(&need, Some(1 << 30)).unwrap().kv_tokens, 8 * 4096);
/// assert!(plan_memory(&Need { kv_tokens: Some(1 << 24), ..need }, Some(1 << 30)).is_err());
/// ```
pub fn plan_memory(need: &Need, available: Option<u64>) -> Result<MemoryPlan, String> {
    let context = need.context.unwrap_or(need.model_context);
    let all = context.saturating_mul(need.parallel.max(1));
    let Some(available) = available else {
        // A machine that does not say gets what was asked for, or one text's worth.
        let kv_tokens = need.kv_tokens.unwrap_or(context);
        return Ok(MemoryPlan { context: context.min(kv_tokens), kv_tokens, shortened: false });
    };
    let left = (available as f64 * (1.0 - SPARE)) as u64;
    let left = left.saturating_sub(need.workspace_bytes);
    let blocks = |bytes: u64| {
        let tokens = usize::try_from(bytes / need.token_bytes.max(1)).unwrap_or(usize::MAX);
        tokens / BLOCK * BLOCK
    };
    let fits = blocks(left);
    let refuse = |tokens: usize| {
        let mib = |bytes: u64| bytes >> 20;
        let what = match fits {
            0 => "not even the shortest context".to_owned(),
            n => format!(
                "at most {n} tokens: --kv-tokens {n}, such as {} requests of --ctx {}",
                (n / context.min(n).max(1)).clamp(1, need.parallel.max(1)),
                context.min(n)
            ),
        };
        Err(format!(
            "a cache of {tokens} tokens takes {} MiB and a step {} MiB, but {} MiB are available besides the weights; \
             what fits is {what}",
            mib(need.token_bytes.saturating_mul(tokens as u64)),
            mib(need.workspace_bytes),
            mib(available),
        ))
    };
    if let Some(kv_tokens) = need.kv_tokens {
        if kv_tokens > fits {
            return refuse(kv_tokens);
        }
        if need.context.is_some_and(|c| c > kv_tokens) {
            return Err(format!("--kv-tokens {kv_tokens} is less than a text of --ctx {context} takes"));
        }
        let shortened = context > kv_tokens;
        return Ok(MemoryPlan { context: context.min(kv_tokens), kv_tokens, shortened });
    }
    let wanted = all.min(blocks((left as f64 * AUTOMATIC) as u64));
    let kv_tokens = if need.context.is_some() { wanted.max(context) } else { wanted };
    if kv_tokens > fits || kv_tokens == 0 {
        return refuse(kv_tokens.max(context));
    }
    Ok(MemoryPlan { context: context.min(kv_tokens), kv_tokens, shortened: context > kv_tokens })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEED: Need = Need {
        token_bytes: 1 << 20,
        workspace_bytes: 100 << 20,
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
