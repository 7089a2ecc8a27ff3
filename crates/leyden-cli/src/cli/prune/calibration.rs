//! [`Texts`]: the calibration text in tokens, and the inputs of matrices on it.

use std::ops::ControlFlow;
use std::path::Path;

use leyden::{ActivationSums, BatchOptions, Model};
use leyden_compress::PruneInputs;

use super::Args;
use crate::cli::failure::Failure;
use crate::cli::inputs;

/// Callback that gets the share of the texts that is done, and may ask to stop.
pub(super) type Watch<'a> = dyn FnMut(f64) -> ControlFlow<()> + 'a;

/// Calibration texts in tokens, in groups that are computed together.
pub(super) struct Texts {
    groups: Vec<Vec<Vec<u32>>>,
    context: usize,
}

impl Texts {
    /// Cuts a text into windows; of a model that needs whole texts, each line is a text.
    ///
    /// # Errors
    /// The file cannot be read, or is too short.
    pub(super) fn read(args: &Args, path: &Path, model: &Model) -> Result<Texts, Failure> {
        let text = inputs::read_text(path)?;
        let context = args.context.min(model.config().context).max(1);
        let mut texts: Vec<Vec<u32>> = Vec::new();
        if model.config().needs_whole_texts() {
            let mut tokens = 0;
            for line in text.lines().filter(|line| !line.trim().is_empty()) {
                let mut ids =
                    leyden_text::encode_whole(model.tokenizer(), line).map_err(leyden::Error::from)?;
                ids.truncate(context);
                tokens += ids.len();
                texts.push(ids);
                if tokens >= args.calibration_tokens {
                    break;
                }
            }
        } else {
            let begin = model.tokenize("")?.first().copied();
            let tokens = model.tokenize(&text)?;
            let windows = tokens.chunks_exact(context).take((args.calibration_tokens / context).max(1));
            texts.extend(windows.map(<[u32]>::to_vec));
            if let Some(begin) = begin {
                texts.iter_mut().for_each(|window| window[0] = begin);
            }
        }
        if texts.is_empty() {
            return Err(Failure::new(format!("{}: no window of {context} tokens", path.display()))
                .hint("give a longer text, or a smaller --ctx"));
        }
        let mut groups: Vec<Vec<Vec<u32>>> = Vec::new();
        let mut tokens = 0;
        for text in texts {
            match groups.last_mut() {
                Some(group) if tokens + text.len() <= context => {
                    tokens += text.len();
                    group.push(text);
                }
                _ => {
                    tokens = text.len();
                    groups.push(vec![text]);
                }
            }
        }
        Ok(Texts { groups, context })
    }

    /// Returns the number of tokens.
    pub(super) fn tokens(&self) -> usize {
        self.groups.iter().flatten().map(Vec::len).sum()
    }

    fn batch(&self, model: &Model) -> Result<leyden::Batch, Failure> {
        let options = BatchOptions::new()
            .context(self.context)
            .cache_tokens(self.context.next_multiple_of(64).saturating_mul(2));
        Ok(model.batch(&options)?)
    }

    /// Computes sums over the inputs of these matrices.
    ///
    /// # Errors
    /// The model fails, an activation is not a number, or `watch` asked to stop.
    pub(super) fn inputs(
        &self,
        model: &Model,
        names: &[String],
        watch: &mut Watch<'_>,
    ) -> Result<PruneInputs, Failure> {
        let mut batch = self.batch(model)?;
        let mut all = PruneInputs::new();
        for (done, group) in self.groups.iter().enumerate() {
            for input in batch.matrix_inputs(group, names)? {
                all.add(model.cpu(), &input.names, input.columns, &input.values)?;
            }
            if watch((done + 1) as f64 / self.groups.len() as f64).is_break() {
                return Err(Failure::interrupted());
            }
        }
        all.finish();
        Ok(all)
    }

    /// Computes the sums of squares of the inputs of every matrix.
    ///
    /// # Errors
    /// As [`inputs`](Self::inputs).
    pub(super) fn squares(&self, model: &Model, watch: &mut Watch<'_>) -> Result<ActivationSums, Failure> {
        let mut batch = self.batch(model)?;
        let mut all = ActivationSums::default();
        for (done, group) in self.groups.iter().enumerate() {
            all.merge(&batch.activation_sums(group)?);
            if watch((done + 1) as f64 / self.groups.len() as f64).is_break() {
                return Err(Failure::interrupted());
            }
        }
        Ok(all)
    }
}
