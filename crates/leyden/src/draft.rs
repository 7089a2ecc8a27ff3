//! Draft model of a model: a smaller one with the same vocabulary, which drafts tokens that the model checks.

use crate::error::Error;
use crate::model_file::{self, ModelFile};
use leyden_kernels::Cpu;
use leyden_models::{LoadAs, Network};
use leyden_text::Tokenizer;
use std::path::Path;
use std::sync::Arc;

/// Maximum number of tokens by which one of the vocabularies may be longer: unused rows, or a few added tokens.
const MAX_MORE: usize = 1024;

/// Loads the draft model in a file or folder for a model with this tokenizer and network.
///
/// # Errors
/// It cannot be loaded, has another vocabulary, or is of a kind that cannot draft.
pub(crate) fn load(
    path: &Path,
    (tokenizer, network): (&dyn Tokenizer, &dyn Network),
    cpu: &Cpu,
    load_as: &LoadAs,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Arc<dyn Network>, Error> {
    let refused = |what: String| Error::Option { name: "draft", what: format!("{}: {what}", path.display()) };
    let model_file::Parts { source, tokenizer: own, .. } = ModelFile::open(path)?.into_parts()?;
    same_vocabulary(tokenizer, own.as_ref()).map_err(refused)?;
    let (draft, _) = leyden_models::load_as(source, cpu, load_as, progress)?;
    leyden_engine::check_draft(network, draft.as_ref()).map_err(|error| refused(error.to_string()))?;
    Ok(draft)
}

/// Checks that the tokens of two models are the same, except for a few at the end that only one of them has.
fn same_vocabulary(model: &dyn Tokenizer, draft: &dyn Tokenizer) -> Result<(), String> {
    let sizes = [model.vocab_size(), draft.vocab_size()];
    if sizes[0].abs_diff(sizes[1]) > MAX_MORE {
        return Err(format!(
            "it has {} tokens and the model {}: a draft model needs the model's vocabulary",
            sizes[1], sizes[0]
        ));
    }
    let common = sizes[0].min(sizes[1]) as u32;
    let differs = |id: &u32| model.token_bytes(*id) != draft.token_bytes(*id);
    match (0..common).find(differs) {
        None => Ok(()),
        Some(id) => {
            let shown = |tokenizer: &dyn Tokenizer| match tokenizer.token_bytes(id) {
                Some(bytes) => format!("`{}`", String::from_utf8_lossy(bytes).escape_debug()),
                None => "no text".to_owned(),
            };
            Err(format!(
                "its token {id} is {} and the model's is {}: a draft model needs the model's vocabulary",
                shown(draft),
                shown(model)
            ))
        }
    }
}
