//! How numbers are computed fast: instruction-set tiers, threads, packed weights, matrix products, attention.
//!
//! A [`Cpu`] carries the choices made once at start (tier, team of threads); everything takes it by
//! reference. Results are the same bits on every tier, at every number of threads, and for every batch a
//! token shares: integer sums are exact, and every floating-point reduction has one written order.
#![expect(unsafe_code, reason = "SIMD, thread-pool hand-over and anonymous memory live here")]
#![allow(
    clippy::needless_range_loop,
    reason = "lanes, rows and columns are indices; several arrays share one"
)]

pub mod attention;
mod ceilings;
pub mod knobs;
pub mod matmul;
pub mod memory;
pub mod ops;
pub mod topology;

mod activations;
mod affinity;
mod error;
mod isa;
mod pool;

pub use activations::{Activations, Grid};
pub use affinity::bind_thread;
pub use ceilings::Ceilings;
pub use error::{Error, ErrorKind};
pub use isa::{Level, Tier};
pub use pool::{MemberGroup, Pool};

/// The processor as the computation sees it: a tier and a team of threads.
#[derive(Debug)]
pub struct Cpu {
    tier: Tier,
    pool: Pool,
}

impl Cpu {
    /// A processor limited to `tier`, with `threads` threads (the caller's included).
    ///
    /// # Errors
    /// Threads could not be started.
    pub fn new(tier: Tier, threads: usize) -> Result<Cpu, Error> {
        Ok(Cpu { tier, pool: Pool::new(threads).map_err(Error::threads)? })
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
        let best = Tier::available().into_iter().rfind(|t| t.level() <= level);
        Ok(best.unwrap_or(Tier::SCALAR))
    }

    /// The tier kernels run on.
    #[must_use]
    pub fn tier(&self) -> Tier {
        self.tier
    }

    /// The team of threads.
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
        let data = memory::Disjoint::new(data);
        self.pool.run(rows.div_ceil(per_task), |t| {
            for i in t * per_task..((t + 1) * per_task).min(rows) {
                // SAFETY: every row belongs to one task.
                f(i, unsafe { data.range(i * width, width) });
            }
        });
    }
}
