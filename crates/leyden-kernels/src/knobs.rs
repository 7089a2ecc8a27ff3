//! Environment variables that change how this crate computes.

/// Setting read from the environment.
#[derive(Debug)]
pub struct Knob {
    /// Name of the variable.
    pub name: &'static str,
    /// Effect and values of the variable.
    pub help: &'static str,
}

/// Highest tier that detection may choose: the name of a level (`leyden hwbench` lists them).
pub const MAX_ISA: Knob = Knob {
    name: "LEYDEN_MAX_ISA",
    help: "highest instruction-set tier to use: scalar; avx2, avxvnni, avx512, avx512bf16, amx; neon, dotprod, i8mm",
};

/// Layout of the INT8 rows of encoders with zeros.
pub const INT8_LAYOUT: Knob = Knob {
    name: "LEYDEN_INT8_LAYOUT",
    help: "layout of the matrices of encoders in 8-bit integers: fastest (default), dense, sparse; results are the same",
};

/// All settings of this crate.
pub static KNOBS: &[Knob] = &[MAX_ISA, INT8_LAYOUT];

impl Knob {
    /// Returns the value, if set and not empty.
    #[must_use]
    pub fn get(&self) -> Option<String> {
        std::env::var(self.name).ok().filter(|v| !v.is_empty())
    }
}
