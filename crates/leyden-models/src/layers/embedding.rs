//! Embeddings of tokens, and learned embeddings of positions and token types.

use super::Norm;
use super::linear::{Linear, apply};
use crate::batch::Batch;
use crate::config::ModelConfig;
use crate::error::Error;
use crate::loader::Loader;
use crate::workspace::Workspace;
use leyden_kernels::gemm::{PackedWeights, Write};
use leyden_kernels::{Cpu, decode_row};
use leyden_tensor::WeightSource;

/// Embeddings of a model.
#[derive(Debug)]
pub(crate) struct Embedding {
    width: usize,
    /// Projection to the width of the stream, if it differs from the embedding's.
    project: Option<Linear>,
    vocabulary: usize,
    scale: f32,
    /// Row of the first position in the table of positions, if there is a table.
    first_position: Option<usize>,
    /// Embeddings of the two token types: of a text (or the first text of a pair), and of the second text of a pair.
    token_types: Option<[Vec<f32>; 2]>,
    norm: Option<Norm>,
}

const TOKENS: &str = "token_embd.weight";
const POSITIONS: &str = "position_embd.weight";
const TYPES: &str = "token_types.weight";

/// Number of tokens whose embeddings a task decodes.
const BLOCK_TOKENS: usize = 32;

impl Embedding {
    pub(crate) fn load(loader: &Loader<'_>, c: &ModelConfig) -> Result<Embedding, Error> {
        let width = c.embedding_width.unwrap_or(c.width);
        let vocabulary = loader.rows_of(TOKENS, width)?;
        if let Some(first) = c.learned_positions {
            let rows = loader.rows_of(POSITIONS, width)?;
            if rows < first + c.context {
                let what =
                    format!("{rows} rows, but the model has {} positions from row {first} on", c.context);
                return Err(loader.invalid(POSITIONS, what));
            }
        }
        Ok(Embedding {
            width,
            project: match c.embedding_width {
                Some(_) => Some(Linear::load(loader, "token_embd_proj", c.width, width)?),
                None => None,
            },
            vocabulary,
            scale: c.embedding_scale,
            first_position: c.learned_positions,
            token_types: match loader.has(TYPES)? {
                true => Some(loader.first_rows(TYPES, width)?),
                false => None,
            },
            norm: match c.embedding_norm {
                true => Some(Norm::load(loader, c.norm, "token_embd_norm", width)?),
                false => None,
            },
        })
    }

    /// Returns its projection, if it has one.
    pub(crate) fn matrices(&self) -> impl Iterator<Item = &PackedWeights> {
        self.project.iter().map(|project| &project.weights)
    }

    /// Returns the number of token ids with an embedding.
    pub(crate) fn vocabulary(&self) -> usize {
        self.vocabulary
    }

    /// Sets the stream to the embeddings of a batch, decoded from the file.
    pub(crate) fn forward(
        &self,
        cpu: &Cpu,
        source: &dyn WeightSource,
        batch: &Batch<'_>,
        work: &mut Workspace,
    ) -> Result<(), Error> {
        let table = source.require(TOKENS)?;
        let positions = match self.first_position {
            Some(first) => Some((first, source.require(POSITIONS)?)),
            None => None,
        };
        // Position and token type of each token.
        let mut places = Vec::new();
        if positions.is_some() || self.token_types.is_some() {
            places.extend(batch.spans.iter().flat_map(|s| {
                let second = s.second.unwrap_or(usize::MAX);
                (s.position..s.position + s.tokens).map(move |at| (at, usize::from(at >= second)))
            }));
        }
        work.stream.resize(batch.tokens.len() * self.width);
        cpu.for_blocks(&mut work.stream, self.width, BLOCK_TOKENS, |first_token, rows| {
            let mut position = vec![0.0; if positions.is_some() { self.width } else { 0 }];
            for (i, out) in (first_token..).zip(rows.chunks_exact_mut(self.width)) {
                decode_row(cpu.tier(), table.dtype(), table.row(batch.tokens[i] as usize), out);
                if self.scale != 1.0 {
                    out.iter_mut().for_each(|x| *x *= self.scale);
                }
                if let Some(types) = &self.token_types {
                    out.iter_mut().zip(&types[places[i].1]).for_each(|(x, y)| *x += y);
                }
                if let Some((first, table)) = &positions {
                    decode_row(cpu.tier(), table.dtype(), table.row(first + places[i].0), &mut position);
                    out.iter_mut().zip(&position).for_each(|(x, y)| *x += y);
                }
            }
        });
        if let Some(norm) = &self.norm {
            norm.in_place(cpu, &mut work.stream);
        }
        if let Some(project) = &self.project {
            let mut narrow = std::mem::take(&mut work.branch);
            std::mem::swap(&mut narrow, &mut work.stream);
            work.stream.resize(batch.tokens.len() * project.weights.rows());
            apply(cpu, &mut work.activations, &narrow, Write::Set, [(project, &mut work.stream[..])]);
            work.branch = narrow;
        }
        if source.truncated() {
            return Err(Error::truncated(&source.path().display().to_string()));
        }
        Ok(())
    }
}
