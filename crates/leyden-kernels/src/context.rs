//! `Cpu`, the context of every computation: the instruction-set tier and the thread pool.

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

/// Largest batch, in tokens, that is bound by reading the weights and uses the threads for decoding. The narrowest
/// matrix tiles take as many tokens at once.
pub const FEW_TOKENS: usize = 8;

/// Instruction-set tier and thread pool.
#[derive(Debug)]
pub struct Cpu {
    tier: Tier,
    pool: Pool,
    /// Same team for batches of few tokens, if its number of threads differs for these.
    few: Option<Box<Cpu>>,
    /// Memory placement of the weights that this team packs.
    pages: Pages,
    /// True if activations are not rounded when multiplied with weights packed by this team, where rounding is not part
    /// of the weights' type.
    exact: bool,
    /// First error of placing weights.
    refused: OnceLock<io::Error>,
    /// CPUs for the thread that drives the team.
    home: Option<CpuList>,
}

impl Cpu {
    /// Creates a context limited to `tier`, with `threads` threads (the caller's included).
    ///
    /// # Errors
    /// If threads cannot be started.
    pub fn new(tier: Tier, threads: usize) -> Result<Cpu, Error> {
        Ok(Cpu::on(tier, Pool::new(threads).map_err(Error::threads)?))
    }

    /// Creates a context limited to `tier`, with the threads of a replica bound to their CPUs. Matrices that it packs
    /// are placed as `pages` says.
    ///
    /// # Errors
    /// If threads cannot be started. Refused affinity or page placement is no error: see [`unplaced`](Self::unplaced).
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

    /// Returns the same context; if `exact` is true, BF16 matrices that it packs are multiplied with unrounded
    /// activations instead of bfloat16 ones: slower where there are instructions for the latter.
    #[must_use]
    pub fn with_exact(self, exact: bool) -> Cpu {
        Cpu { exact, ..self }
    }

    /// Returns the choice of [`with_exact`](Self::with_exact).
    #[must_use]
    pub fn is_exact(&self) -> bool {
        self.exact
    }

    /// Returns the context for a batch of `tokens` tokens: with the threads for decoding up to [`FEW_TOKENS`].
    #[must_use]
    pub fn for_tokens(&self, tokens: usize) -> &Cpu {
        self.few.as_deref().filter(|_| tokens <= FEW_TOKENS).unwrap_or(self)
    }

    /// Binds the calling thread to the CPUs of the team's first member, if these are fewer than the process may use.
    ///
    /// # Errors
    /// If the operating system refuses.
    pub fn bind_caller(&self) -> io::Result<()> {
        self.home.as_ref().map_or(Ok(()), bind_thread)
    }

    /// Places the memory of a buffer for weights.
    pub(crate) fn place(&self, buffer: &mut HugeBuf) {
        if let Err(error) = buffer.place(&self.pages) {
            // Placement affects speed, not results: the first error is kept for `unplaced`.
            let _ = self.refused.set(error);
        }
    }

    /// Returns the error of placing weights or binding threads, if there was one; computation continues without.
    #[must_use]
    pub fn unplaced(&self) -> Option<String> {
        let pages = self.refused.get().map(|e| format!("weights are not placed on their NUMA node: {e}"));
        pages
            .or_else(|| self.pool.unbound().map(|e| format!("threads are not bound to their NUMA node: {e}")))
    }

    /// Returns the best tier of this machine, at most the one named by `LEYDEN_MAX_ISA`.
    ///
    /// # Errors
    /// If the variable names no tier of this architecture; the text lists the known ones.
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

    /// Returns the tier that kernels run on.
    #[must_use]
    pub fn tier(&self) -> Tier {
        self.tier
    }

    /// Returns the thread pool used for prompts.
    #[must_use]
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Calls `f(i, row)` for every row of `width` values of `data`, in parallel if there is enough work.
    ///
    /// # Panics
    /// If `data` is not whole rows.
    pub fn for_rows(&self, data: &mut [f32], width: usize, f: impl Fn(usize, &mut [f32]) + Sync) {
        /// Number of values per task.
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

    /// Calls `f(first, rows)` for every `block` rows of `width` values of `data`, the last block possibly shorter, in
    /// parallel; `first` is the index of the block's first row.
    ///
    /// # Panics
    /// If `data` is not whole rows, or `block` is zero.
    pub fn for_blocks<T: Send>(
        &self,
        data: &mut [T],
        width: usize,
        block: usize,
        f: impl Fn(usize, &mut [T]) + Sync,
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
