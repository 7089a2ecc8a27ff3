//! Options of commands that compute: instruction set and precision.

use leyden_kernels::Level;

/// Computation of products.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub(super) struct Arithmetic {
    /// Instruction-set tier, such as avx2, not faster than what the machine has; by default its best
    #[arg(long, value_name = "TIER", value_parser = level)]
    pub(super) isa: Option<Level>,
    /// Multiply BF16 weights with activations as they are instead of rounded to BF16
    #[arg(long)]
    pub(super) exact: bool,
    /// Multiply matrices that are stored in F32, F16 or BF16 in 8-bit integers, except those that would lose too much
    #[arg(long)]
    pub(super) int8: bool,
}

/// An instruction-set tier by its name.
pub(super) fn level(name: &str) -> Result<Level, String> {
    let known = Level::ALL.map(Level::name).join(", ");
    Level::from_name(name).ok_or_else(|| format!("no such tier; known: {known}"))
}
