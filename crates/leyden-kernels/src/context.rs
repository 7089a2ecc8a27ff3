//! What every computation is given: the instruction set and the threads.

use crate::cpu::topology::CpuList;
use crate::cpu::{Level, Tier};
use crate::error::Error;
use crate::knobs;
use crate::memory::disjoint::Disjoint;
use crate::memory::{HugeBuf, Pages};
use crate::threads::bind_thread;
use crate::threads::placement::Replica;
use crate::threads::pool::Pool;
use std::io;
use std::sync::OnceLock;

/// FloatFormat of this many tokens and fewer are bound by reading the weights, and use the threads for decoding: the
/// narrowest matrix tiles take as many tokens at once.
pub const FEW_TOKENS: usize = 8;

/// The processor as the computation sees it: a tier and a team of threads.
#[derive(Debug)]
pub struct Cpu {
    tier: Tier,
    pool: Pool,
    /// The same team for steps of few tokens, where it has another number of threads then.
    few: Option<Box<Cpu>>,
    /// Where weights that are packed by this team lie.
    pages: Pages,
    /// Whether weights that are packed by this team are multiplied with activations that are not rounded where that is no
    /// part of their type.
    exact: bool,
    /// The first refusal to place them so.
    refused: OnceLock<io::Error>,
    /// Where the thread that drives the team belongs.
    home: Option<CpuList>,
}

impl Cpu {
    /// A processor limited to `tier`, with `threads` threads (the caller's included).
    ///
    /// # Errors
    /// Threads could not be started.
    pub fn new(tier: Tier, threads: usize) -> Result<Cpu, Error> {
        Ok(Cpu::on(tier, Pool::new(threads).map_err(Error::threads)?))
    }

    /// A processor limited to `tier`, with the threads of a replica where they belong. Matrices that it packs lie where
    /// `pages` says.
    ///
    /// # Errors
    /// Threads could not be started. Affinity or places of pages that are refused are no error: see
    /// [`unplaced`](Self::unplaced).
    pub fn placed(tier: Tier, replica: &Replica, pages: &Pages) -> Result<Cpu, Error> {
        let team = Pool::grouped(&replica.groups()).map_err(Error::threads)?;
        let few = (replica.threads != replica.threads_batch)
            .then(|| Box::new(Cpu::on(tier, team.limited(replica.threads))));
        let home = replica.shares.first().and_then(|share| share.cpus.clone());
        let pool = team.limited(replica.threads_batch);
        Ok(Cpu { few, home, pages: pages.clone(), ..Cpu::on(tier, pool) })
    }

    fn on(tier: Tier, pool: Pool) -> Cpu {
        Cpu {
            tier,
            pool,
            few: None,
            pages: Pages::AsTouched,
            exact: false,
            refused: OnceLock::new(),
            home: None,
        }
    }

    /// The same processor, but with `exact` the BF16 matrices that it packs are multiplied with activations as they are, not
    /// rounded to bfloat16: slower where there are instructions for the latter.
    #[must_use]
    pub fn with_exact(self, exact: bool) -> Cpu {
        Cpu { exact, ..self }
    }

    /// What [`with_exact`](Self::with_exact) chose.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        self.exact
    }

    /// The processor for a step of so many tokens: with the threads for decoding up to [`FEW_TOKENS`].
    #[must_use]
    pub fn for_tokens(&self, tokens: usize) -> &Cpu {
        self.few.as_deref().filter(|_| tokens <= FEW_TOKENS).unwrap_or(self)
    }

    /// Binds the calling thread to where the first member of the team belongs, if that is narrower than where the
    /// process may run.
    ///
    /// # Errors
    /// The operating system refuses.
    pub fn bind_caller(&self) -> io::Result<()> {
        self.home.as_ref().map_or(Ok(()), bind_thread)
    }

    /// Places a buffer that weights are about to be written to.
    pub(crate) fn place(&self, buffer: &mut HugeBuf) {
        if let Err(error) = buffer.place(&self.pages) {
            // Speed may suffer, results do not: the first is kept for whoever asks.
            let _ = self.refused.set(error);
        }
    }

    /// What the operating system refused of the placement, if it did; the computation goes on without.
    #[must_use]
    pub fn unplaced(&self) -> Option<String> {
        let pages = self.refused.get().map(|e| format!("weights lie where they were first touched: {e}"));
        pages
            .or_else(|| self.pool.unbound().map(|e| format!("threads are not bound to their NUMA node: {e}")))
    }

    /// The best tier this machine has, not above the one named by `LEYDEN_MAX_ISA`.
    ///
    /// # Errors
    /// The variable names no tier of this architecture; the text says which exist.
    pub fn default_tier() -> Result<Tier, String> {
        let Some(name) = knobs::MAX_ISA.get() else { return Ok(Tier::best()) };
        let level = Level::native().find(|l| l.name() == name).ok_or_else(|| {
            let known: Vec<&str> = Level::native().map(Level::name).collect();
            let arch = std::env::consts::ARCH;
            format!("{}={name}: no such tier on {arch}; known: {}", knobs::MAX_ISA.name, known.join(", "))
        })?;
        let best = Tier::best();
        if best.level() <= level {
            return Ok(best);
        }
        let below = Tier::available().into_iter().rfind(|t| t.level() <= level);
        Ok(below.unwrap_or(Tier::SCALAR))
    }

    /// The tier kernels run on.
    #[must_use]
    pub fn tier(&self) -> Tier {
        self.tier
    }

    /// The team of threads, as many as work on prompts.
    #[must_use]
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Calls `f(i, row)` for every row of `width` values of `data`, in parallel where it pays.
    ///
    /// # Panics
    /// If `data` is not whole rows.
    pub fn for_rows(&self, data: &mut [f32], width: usize, f: impl Fn(usize, &mut [f32]) + Sync) {
        /// Rows of about this many values are worth a task.
        const TASK: usize = 16 << 10;
        assert!(width > 0 && data.len().is_multiple_of(width), "{} values in rows of {width}", data.len());
        let rows = data.len() / width;
        let per_task = (TASK / width).max(1);
        let data = Disjoint::new(data);
        self.pool.run(rows.div_ceil(per_task), |t| {
            for i in t * per_task..((t + 1) * per_task).min(rows) {
                // SAFETY: every row belongs to one task.
                f(i, unsafe { data.range(i * width, width) });
            }
        });
    }

    /// Calls `f(i, rows)` for every `block` rows of `width` values of `data`, and for those left at its end, in parallel; `i` is the number of
    /// the first.
    ///
    /// # Panics
    /// If `data` is not whole rows, or a block none.
    pub fn for_blocks(
        &self,
        data: &mut [f32],
        width: usize,
        block: usize,
        f: impl Fn(usize, &mut [f32]) + Sync,
    ) {
        assert!(width > 0 && data.len().is_multiple_of(width), "{} values in rows of {width}", data.len());
        assert!(block > 0, "blocks of no rows");
        let rows = data.len() / width;
        let data = Disjoint::new(data);
        self.pool.run(rows.div_ceil(block), |t| {
            let first = t * block;
            // SAFETY: every row belongs to one task.
            f(first, unsafe { data.range(first * width, block.min(rows - first) * width) });
        });
    }
}
