//! Tokenizing of whole prompts and texts, with the tokens that a model expects around them.

use crate::error::Error;
use crate::template::Rendered;
use crate::tokenizer::{Bounds, Special, Tokenizer};

/// Tokenizes a prompt written by hand, including special tokens, and adds BOS if the model expects it. EOS is not
/// added even if the model expects it after every text, because the answer follows: a model that reads EOS has
/// nothing to continue. (llama.cpp and vLLM add it, and answers of such models then start anew.)
///
/// # Errors
/// As [`Tokenizer::encode`].
pub fn encode_prompt(tokenizer: &dyn Tokenizer, text: &str) -> Result<Vec<u32>, Error> {
    encode_prompt_within(tokenizer, text, &Bounds::NONE)
}

/// Tokenizes as [`encode_prompt`] does within bounds, which do not count BOS.
///
/// # Errors
/// As [`Tokenizer::encode_within`].
pub fn encode_prompt_within(
    tokenizer: &dyn Tokenizer,
    text: &str,
    bounds: &Bounds<'_>,
) -> Result<Vec<u32>, Error> {
    begun(tokenizer, text, Special::Parse, bounds)
}

/// Tokenizes a rendered chat template, and adds BOS if the model expects it. Special tokens written by the template
/// are parsed; those that messages spell out stay text.
///
/// # Errors
/// As [`Tokenizer::encode`].
pub fn encode_rendered(tokenizer: &dyn Tokenizer, prompt: &Rendered) -> Result<Vec<u32>, Error> {
    encode_rendered_within(tokenizer, prompt, &Bounds::NONE)
}

/// Tokenizes as [`encode_rendered`] does within bounds, which do not count BOS.
///
/// # Errors
/// As [`Tokenizer::encode_within`].
pub fn encode_rendered_within(
    tokenizer: &dyn Tokenizer,
    prompt: &Rendered,
    bounds: &Bounds<'_>,
) -> Result<Vec<u32>, Error> {
    begun(tokenizer, prompt.text(), Special::Outside(prompt.content()), bounds)
}

fn begun(
    tokenizer: &dyn Tokenizer,
    text: &str,
    special: Special<'_>,
    bounds: &Bounds<'_>,
) -> Result<Vec<u32>, Error> {
    let mut ids = tokenizer.encode_within(text, special, bounds)?;
    if tokenizer.add_bos()
        && let Some(bos) = tokenizer.bos()
        && ids.first() != Some(&bos)
    {
        ids.insert(0, bos);
    }
    Ok(ids)
}

/// Tokenizes a whole text, with BOS and EOS if the model expects them and the text does not contain them. Used for
/// embeddings and for counting tokens.
///
/// # Errors
/// As [`Tokenizer::encode`].
pub fn encode_whole(tokenizer: &dyn Tokenizer, text: &str) -> Result<Vec<u32>, Error> {
    encode_whole_within(tokenizer, text, &Bounds::NONE)
}

/// Tokenizes as [`encode_whole`] does within bounds, which do not count BOS and EOS.
///
/// # Errors
/// As [`Tokenizer::encode_within`].
pub fn encode_whole_within(
    tokenizer: &dyn Tokenizer,
    text: &str,
    bounds: &Bounds<'_>,
) -> Result<Vec<u32>, Error> {
    let mut ids = encode_prompt_within(tokenizer, text, bounds)?;
    if tokenizer.add_eos()
        && let Some(eos) = tokenizer.eos()
    {
        // The only token may be BOS, with the same id as EOS.
        let begins = usize::from(tokenizer.add_bos());
        if ids.last() != Some(&eos) || ids.len() <= begins {
            ids.push(eos);
        }
    }
    Ok(ids)
}
