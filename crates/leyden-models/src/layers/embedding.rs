//! From tokens to the residual stream: their embeddings, and those of their positions and types where they are learned.

use super::Norm;
use crate::batch::{Batch, Workspace};
use crate::config::ModelConfig;
use crate::error::Error;
use crate::load::Loader;
use leyden_kernels::Cpu;
use leyden_tensor::{WeightSource, quant};

/// The embeddings of a model.
#[derive(Debug)]
pub(crate) struct Embedding {
    width: usize,
    vocabulary: usize,
    scale: f32,
    /// The row of the first position in the table of positions, if there is one.
    first_position: Option<usize>,
    /// What every token gets besides: the embedding of the first type, as texts of one part have it throughout.
    token_type: Option<Vec<f32>>,
    norm: Option<Norm>,
}

const TOKENS: &str = "token_embd.weight";
const POSITIONS: &str = "position_embd.weight";
const TYPES: &str = "token_types.weight";

impl Embedding {
    pub(crate) fn load(loader: &Loader<'_>, c: &ModelConfig) -> Result<Embedding, Error> {
        let vocabulary = loader.rows_of(TOKENS, c.width)?;
        if let Some(first) = c.learned_positions {
            let rows = loader.rows_of(POSITIONS, c.width)?;
            if rows < first + c.context {
                let what =
                    format!("{rows} rows, but the model has {} positions from row {first} on", c.context);
                return Err(loader.invalid(POSITIONS, what));
            }
        }
        Ok(Embedding {
            width: c.width,
            vocabulary,
            scale: c.embedding_scale,
            first_position: c.learned_positions,
            token_type: match loader.has(TYPES)? {
                true => Some(loader.first_row(TYPES, c.width)?),
                false => None,
            },
            norm: match c.embedding_norm {
                true => Some(Norm::load(loader, c.norm, "token_embd_norm", c.width)?),
                false => None,
            },
        })
    }

    /// Number of token ids that have one.
    pub(crate) fn vocabulary(&self) -> usize {
        self.vocabulary
    }

    /// The stream of a batch: rows of the tables, decoded from the file.
    pub(crate) fn forward(
        &self,
        cpu: &Cpu,
        source: &dyn WeightSource,
        batch: &Batch<'_>,
        work: &mut Workspace,
    ) -> Result<(), Error> {
        let table = source.require(TOKENS)?;
        work.stream.resize(batch.tokens.len() * self.width);
        for (&token, out) in batch.tokens.iter().zip(work.stream.chunks_exact_mut(self.width)) {
            quant::decode_row(table.dtype(), table.row(token as usize), out);
            if self.scale != 1.0 {
                out.iter_mut().for_each(|x| *x *= self.scale);
            }
            if let Some(same) = &self.token_type {
                out.iter_mut().zip(same).for_each(|(x, y)| *x += y);
            }
        }
        if let Some(first) = self.first_position {
            let table = source.require(POSITIONS)?;
            let positions = batch.spans.iter().flat_map(|s| s.position..s.position + s.tokens);
            let mut row = vec![0.0; self.width];
            for (position, out) in positions.zip(work.stream.chunks_exact_mut(self.width)) {
                quant::decode_row(table.dtype(), table.row(first + position), &mut row);
                out.iter_mut().zip(&row).for_each(|(x, y)| *x += y);
            }
        }
        if let Some(norm) = &self.norm {
            norm.in_place(cpu, &mut work.stream);
        }
        if source.truncated() {
            return Err(Error::truncated(&source.path().display().to_string()));
        }
        Ok(())
    }
}
