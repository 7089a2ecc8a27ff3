//! Post-processors: the tokens that go before and behind a text.

use super::field::{Field, Row, flatten};
use crate::error::Error;

/// The tokens around a single text.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Template {
    pub(super) before: Vec<u32>,
    pub(super) after: Vec<u32>,
}

static KINDS: &[Row<Template>] = &[
    ("BertProcessing", cls_and_sep),
    // What it does concerns offsets only.
    ("ByteLevel", |_| Ok(Template::default())),
    ("RobertaProcessing", cls_and_sep),
    ("TemplateProcessing", template),
];

/// Reads a post-processor, which may be a sequence of them: each puts its tokens around those of the one before.
pub(super) fn read(field: Field<'_>) -> Result<Template, Error> {
    let mut whole = Template::default();
    for field in flatten(field, "processors")? {
        let mut part = field.component("post-processor", KINDS)?;
        part.before.append(&mut whole.before);
        whole.after.append(&mut part.after);
        whole.before = part.before;
    }
    Ok(whole)
}

fn cls_and_sep(field: &Field<'_>) -> Result<Template, Error> {
    let token = |key| {
        let pair = field.get(key)?;
        let id = pair.items()?.nth(1).ok_or_else(|| pair.invalid("want a token and its id"))?;
        Ok(vec![id.as_u32()?])
    };
    Ok(Template { before: token("cls")?, after: token("sep")? })
}

fn template(field: &Field<'_>) -> Result<Template, Error> {
    let tokens = field.get("special_tokens")?;
    let single = field.get("single")?;
    let (mut before, mut after) = (Vec::new(), Vec::new());
    let mut texts = 0;
    for piece in single.items()? {
        if let Some(sequence) = piece.opt("Sequence")? {
            texts += 1;
            if sequence.str("id")? != "A" {
                return Err(sequence.invalid("a single text is sequence A"));
            }
            continue;
        }
        let id = piece.get("SpecialToken")?.get("id")?;
        let token = tokens.entries()?.find(|(name, _)| id.as_str().is_ok_and(|id| id == *name));
        let (_, token) = token.ok_or_else(|| id.invalid("not among the special tokens of the template"))?;
        let side = if texts == 0 { &mut before } else { &mut after };
        for id in token.get("ids")?.items()? {
            side.push(id.as_u32()?);
        }
    }
    match texts {
        1 => Ok(Template { before, after }),
        n => Err(single.invalid(format!("the text stands {n} times in the template"))),
    }
}
