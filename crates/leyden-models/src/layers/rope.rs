//! Rotary position embedding: the rotations of a batch, once for each kind that the layers use.

use crate::batch::Batch;
use crate::config::RopeConfig;
use crate::error::Error;
use crate::frequencies::Frequencies;
use crate::load::Loader;
use leyden_kernels::ops::Rotation;

/// The kinds of a model's rotations; layers know theirs by number.
#[derive(Debug, Default)]
pub(crate) struct Ropes {
    kinds: Vec<(RopeConfig, Frequencies)>,
}

impl Ropes {
    /// The number of a kind, which is added if it is new.
    pub(crate) fn number(&mut self, loader: &Loader<'_>, rope: &RopeConfig) -> Result<usize, Error> {
        if let Some(known) = self.kinds.iter().position(|(kind, _)| kind == rope) {
            return Ok(known);
        }
        let name = "rope_freqs.weight";
        let divisors = loader.vector(name, rope.dims / 2)?;
        if let Some(bad) = divisors.iter().flatten().find(|d| !(d.is_finite() && **d > 0.0)) {
            return Err(loader.invalid(name, format!("{bad} is not a positive number")));
        }
        self.kinds.push((rope.clone(), Frequencies::new(rope, divisors.as_deref())));
        Ok(self.kinds.len() - 1)
    }

    /// Sets the rotations of a batch's tokens, of every kind.
    pub(crate) fn place(&self, batch: &Batch<'_>, rotations: &mut Vec<Vec<Rotation>>) {
        rotations.resize_with(self.kinds.len(), Vec::new);
        for ((_, frequencies), rotations) in self.kinds.iter().zip(rotations) {
            rotations.resize_with(batch.tokens.len().max(rotations.len()), Default::default);
            let positions = batch.spans.iter().flat_map(|s| s.position..s.position + s.tokens);
            for (position, rotation) in positions.zip(rotations) {
                rotation.set(position, &frequencies.values, frequencies.scale);
            }
        }
    }
}
