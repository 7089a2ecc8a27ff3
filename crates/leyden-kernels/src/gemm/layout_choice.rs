//! Choice of the layout of INT8 rows by measurement. All layouts give the same results.

use crate::context::Cpu;
use crate::error::Error;
use crate::gemm::epilogue::Write;
use crate::gemm::packed_weights::{Layout, PackedWeights};
use crate::gemm::product::Product;
use crate::gemm::sparse_form::SparseForm;
use crate::gemm::token_block::TokenBlock;
use crate::knobs::INT8_LAYOUT;
use std::time::{Duration, Instant};

/// Rule by which the layout of INT8 rows is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LayoutRule {
    /// The fastest layout in a measurement.
    #[default]
    Fastest,
    /// Dense rows.
    Dense,
    /// Sparse rows.
    Sparse,
}

impl LayoutRule {
    /// Returns the rule named by `LEYDEN_INT8_LAYOUT`; the fastest layout if the variable is not set.
    ///
    /// # Errors
    /// If the variable names no rule; the text lists the known ones.
    pub fn default_rule() -> Result<LayoutRule, String> {
        match INT8_LAYOUT.get().as_deref() {
            None | Some("fastest") => Ok(LayoutRule::Fastest),
            Some("dense") => Ok(LayoutRule::Dense),
            Some("sparse") => Ok(LayoutRule::Sparse),
            Some(other) => {
                Err(format!("{}={other}: no such layout; known: fastest, dense, sparse", INT8_LAYOUT.name))
            }
        }
    }
}

/// Layout of a matrix of INT8 rows, and the measurement behind it.
#[derive(Clone, Debug, PartialEq)]
pub struct LayoutChoice {
    /// Name of the matrix.
    pub name: String,
    /// Number of outputs.
    pub rows: usize,
    /// Number of inputs.
    pub k: usize,
    /// Share of weights that are zero.
    pub zeros: f64,
    /// Name of the layout.
    pub layout: &'static str,
    /// Names of the layouts that were measured, and their times per token in seconds.
    pub times: Vec<(&'static str, f64)>,
}

/// Share of zeros below which no sparse layout is measured: dense rows are faster on every processor that was tried.
const MIN_ZEROS: f64 = 0.3;

/// Number of tokens of a measured product: several of the largest tiles.
const TOKENS: usize = 48;

/// Share of the time of dense rows that a sparse layout may take: differences within noise are not worth a change.
const WORTH: f64 = 0.97;

/// Minimum number of measured products, maximum number, and time after which there are enough.
const ROUNDS: (usize, usize, Duration) = (3, 9, Duration::from_millis(3));

/// Function that packs dense INT8 rows in another layout; `None` if they do not fit it.
type Pack = fn(&PackedWeights, &Cpu) -> Result<Option<PackedWeights>, Error>;

/// Layouts besides dense rows.
const SPARSE_LAYOUTS: &[Pack] =
    &[PackedWeights::as_sparse_rows, PackedWeights::as_sparse_fours, PackedWeights::as_sparse_blocks];

/// Names of the layouts of INT8 rows.
pub(super) const ROWS_LAYOUTS: [&str; 4] = ["int8-rows", "sparse-rows", "sparse-fours", "sparse-blocks"];

impl PackedWeights {
    /// Returns the name of the layout.
    #[must_use]
    pub fn layout_name(&self) -> &'static str {
        match self.layout {
            Layout::Panels { .. } => "panels",
            Layout::Int8Rows { .. } => "int8-rows",
            Layout::SparseRows { form: SparseForm { tall: 1, .. }, .. } => "sparse-rows",
            Layout::SparseRows { .. } => "sparse-fours",
            Layout::SparseBlocks { .. } => "sparse-blocks",
        }
    }

    /// Returns the layout of a matrix, without times.
    #[must_use]
    pub fn layout_choice(&self) -> LayoutChoice {
        LayoutChoice {
            name: self.name.clone(),
            rows: self.rows,
            k: self.k,
            zeros: self.zeros(),
            layout: self.layout_name(),
            times: Vec::new(),
        }
    }

    /// Returns the layouts in which dense INT8 rows can be packed, without the dense one.
    ///
    /// # Errors
    /// If there is no memory for a packed copy.
    pub fn in_sparse_layouts(&self, cpu: &Cpu) -> Result<Vec<PackedWeights>, Error> {
        SPARSE_LAYOUTS.iter().filter_map(|pack| pack(self, cpu).transpose()).collect()
    }

    /// Packs dense INT8 rows, whose outlier channels are set, in the layout of the rule. Measurements take milliseconds.
    ///
    /// # Errors
    /// If there is no memory for a packed copy.
    pub fn choose_layout(&mut self, cpu: &Cpu, rule: LayoutRule) -> Result<LayoutChoice, Error> {
        let mut choice = self.layout_choice();
        let worth_trying = match rule {
            LayoutRule::Fastest => choice.zeros >= MIN_ZEROS,
            LayoutRule::Dense => false,
            LayoutRule::Sparse => true,
        };
        if !worth_trying || self.rows == 0 {
            return Ok(choice);
        }
        let mut candidates = self.in_sparse_layouts(cpu)?;
        let all: Vec<&PackedWeights> = [&*self].into_iter().chain(&candidates).collect();
        let times = measure(cpu, &all);
        choice.times = all.iter().zip(&times).map(|(w, time)| (w.layout_name(), *time)).collect();
        let fastest = (1..times.len()).min_by(|a, b| times[*a].total_cmp(&times[*b]));
        if let Some(i) = fastest.filter(|i| rule == LayoutRule::Sparse || times[*i] < WORTH * times[0]) {
            *self = candidates.swap_remove(i - 1);
            choice.layout = self.layout_name();
        }
        Ok(choice)
    }
}

/// Measures the product of each layout of a matrix in turns on the calling thread; returns the shortest times per token
/// in seconds.
fn measure(cpu: &Cpu, layouts: &[&PackedWeights]) -> Vec<f64> {
    let (k, rows) = (layouts[0].k, layouts[0].rows);
    let x: Vec<f32> = (0..TOKENS * k).map(|i| (i * 7919 % 1013) as f32 - 506.0).collect();
    let (mut block, mut out) = (TokenBlock::default(), vec![0.0; TOKENS * rows]);
    block.fill(cpu.tier(), &x, layouts[0]);
    let mut once = |weights: &PackedWeights| {
        let start = Instant::now();
        block.multiply(cpu.tier(), Product { weights, bias: None, out: &mut out, write: Write::Set }, None);
        start.elapsed().as_secs_f64() / TOKENS as f64
    };
    // The first product reads weights into the caches.
    for weights in layouts {
        once(weights);
    }
    let (mut times, start, (least, most, enough)) = (vec![f64::MAX; layouts.len()], Instant::now(), ROUNDS);
    for round in 0..most {
        if round >= least && start.elapsed() > enough {
            break;
        }
        for (time, weights) in times.iter_mut().zip(layouts) {
            *time = time.min(once(weights));
        }
    }
    times
}
