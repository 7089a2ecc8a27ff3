//! Rotary position embedding: the rotations of a batch, computed once for each kind that the layers use.

use crate::batch::Batch;
use crate::config::{RopeConfig, RopeScaling};
use crate::error::Error;
use crate::frequencies::Frequencies;
use crate::loader::Loader;
use leyden_kernels::ops::Rotation;

/// Kinds of rotations of a model; layers refer to theirs by index.
#[derive(Debug, Default)]
pub(crate) struct Ropes {
    kinds: Vec<Kind>,
}

#[derive(Debug)]
struct Kind {
    config: RopeConfig,
    frequencies: Frequencies,
    /// Original context length, and the frequencies for longer contexts (LongRoPE).
    beyond: Option<(usize, Frequencies)>,
}

const DIVISORS: &str = "rope_freqs.weight";
/// Divisors of LongRoPE within the original context; the next are those beyond it.
const SHORT: &str = "rope_factors_short.weight";
const LONG: &str = "rope_factors_long.weight";

impl Kind {
    fn load(loader: &Loader<'_>, rope: &RopeConfig) -> Result<Kind, Error> {
        let config = rope.clone();
        let RopeScaling::LongRope { original_context, divisors: given, .. } = &rope.scaling else {
            let found = match rope.scaling {
                RopeScaling::Undivided => None,
                _ => divisors(loader, DIVISORS, rope)?,
            };
            let frequencies = Frequencies::new(rope, found.as_deref());
            return Ok(Kind { config, frequencies, beyond: None });
        };
        let of = |given: &[f32], name: &str| -> Result<Frequencies, Error> {
            let found = match given {
                [] => divisors(loader, name, rope)?.ok_or_else(|| {
                    loader.invalid(name, "is missing, and the rotation is scaled by it".to_owned())
                })?,
                given => given.to_vec(),
            };
            Ok(Frequencies::new(rope, Some(&found)))
        };
        let beyond = Some((*original_context, of(&given[1], LONG)?));
        Ok(Kind { config, frequencies: of(&given[0], SHORT)?, beyond })
    }
}

fn divisors(loader: &Loader<'_>, name: &str, rope: &RopeConfig) -> Result<Option<Vec<f32>>, Error> {
    let divisors = loader.vector(name, rope.dims / 2)?;
    match divisors.iter().flatten().find(|d| !(d.is_finite() && **d > 0.0)) {
        Some(bad) => Err(loader.invalid(name, format!("{bad} is not a positive number"))),
        None => Ok(divisors),
    }
}

impl Ropes {
    /// Returns the index of a kind, which is added if it is new.
    pub(crate) fn index(&mut self, loader: &Loader<'_>, rope: &RopeConfig) -> Result<usize, Error> {
        if let Some(known) = self.kinds.iter().position(|kind| kind.config == *rope) {
            return Ok(known);
        }
        self.kinds.push(Kind::load(loader, rope)?);
        Ok(self.kinds.len() - 1)
    }

    /// Computes the rotations of a batch's tokens for every kind.
    pub(crate) fn rotations(&self, batch: &Batch<'_>, rotations: &mut Vec<Vec<Rotation>>) {
        rotations.resize_with(self.kinds.len(), Vec::new);
        for (kind, rotations) in self.kinds.iter().zip(rotations) {
            let frequencies = match &kind.beyond {
                Some((original, beyond)) if batch.context > *original => beyond,
                _ => &kind.frequencies,
            };
            rotations.resize_with(batch.tokens.len().max(rotations.len()), Default::default);
            let positions = batch.spans.iter().flat_map(|s| s.position..s.position + s.tokens);
            for (position, rotation) in positions.zip(rotations) {
                rotation.set(position, &frequencies.values, frequencies.scale);
            }
        }
    }
}
