//! Options of commands that compute: instruction set and precision.

use leyden_kernels::Level;

/// Options for the computation of matrix products.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub(super) struct Arithmetic {
    /// Instruction set of the kernels, such as avx2; by default the best that the machine has
    #[arg(long, value_name = "TIER", value_parser = level)]
    pub(super) isa: Option<Level>,
    /// Multiply BF16 weights by F32 activations; by default activations are rounded to BF16
    #[arg(long)]
    pub(super) exact: bool,
    /// Multiply matrices stored in F32, F16 or BF16 as 8-bit integers, except those that would lose too much accuracy
    #[arg(long)]
    pub(super) int8: bool,
}

/// Parses the name of an instruction set.
pub(super) fn level(name: &str) -> Result<Level, String> {
    let known = Level::ALL.map(Level::name).join(", ");
    Level::from_name(name).ok_or_else(|| format!("no such tier; known: {known}"))
}
