//! Every environment variable that changes how this crate computes, one line each.

/// A setting read from the environment.
#[derive(Debug)]
pub struct Knob {
    /// The variable.
    pub name: &'static str,
    /// What it does and its values.
    pub help: &'static str,
}

/// The tier that detection may not exceed: a level's name (`leyden hwbench` lists them).
pub const MAX_ISA: Knob = Knob {
    name: "LEYDEN_MAX_ISA",
    help: "highest instruction-set tier to use: scalar; avx2, avxvnni, avx512, avx512bf16; neon, dotprod, i8mm",
};

/// All knobs.
pub static KNOBS: &[Knob] = &[MAX_ISA];

impl Knob {
    /// The value, if set and not empty.
    #[must_use]
    pub fn get(&self) -> Option<String> {
        std::env::var(self.name).ok().filter(|v| !v.is_empty())
    }
}
