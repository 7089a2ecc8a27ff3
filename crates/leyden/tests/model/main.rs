//! Models computed whole: against llama.cpp's results (`tests/golden`), and against themselves under every
//! tier, team, batch and cut of the prompt.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod architectures;
mod golden;
mod invariance;
mod shared;
mod tinystories;
