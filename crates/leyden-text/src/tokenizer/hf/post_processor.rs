//! Post-processors: the tokens before and after a text, and around the two texts of a pair.

use super::PairTemplate;
use super::field::{Field, Row, flatten};
use crate::error::Error;

/// Tokens around a single text, and around a pair.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Template {
    pub(super) before: Vec<u32>,
    pub(super) after: Vec<u32>,
    pub(super) pair: Option<PairTemplate>,
}

static KINDS: &[Row<Template>] = &[
    ("BertProcessing", |field| cls_and_sep(field, 1)),
    // It affects offsets only.
    ("ByteLevel", |_| Ok(Template::default())),
    ("RobertaProcessing", |field| cls_and_sep(field, 2)),
    ("TemplateProcessing", template),
];

/// Reads a post-processor or a sequence of them: each puts its tokens around those of the previous one.
pub(super) fn read(field: Field<'_>) -> Result<Template, Error> {
    let mut whole = Template::default();
    for field in flatten(field, "processors")? {
        let mut part = field.component("post-processor", KINDS)?;
        part.before.append(&mut whole.before);
        whole.after.append(&mut part.after);
        whole.before = part.before;
        whole.pair = part.pair.or(whole.pair);
    }
    Ok(whole)
}

fn cls_and_sep(field: &Field<'_>, separators: usize) -> Result<Template, Error> {
    let token = |key| {
        let pair = field.get(key)?;
        let id = pair.items()?.nth(1).ok_or_else(|| pair.invalid("want a token and its id"))?;
        id.as_u32()
    };
    let (cls, sep) = (token("cls")?, token("sep")?);
    // BERT's second text has another type; RoBERTa has two separators instead.
    let pair = PairTemplate::around(Some(cls), Some(sep), separators);
    let pair = PairTemplate { second_type: separators == 1, ..pair };
    Ok(Template { before: vec![cls], after: vec![sep], pair: Some(pair) })
}

/// Tokens of a template around its texts, and the token type of the last text.
struct Around {
    /// Tokens before the first text, between the first and the second, and so on.
    tokens: Vec<Vec<u32>>,
    last_type: u32,
}

fn around(tokens: &Field<'_>, pieces: &Field<'_>, texts: &[&str]) -> Result<Around, Error> {
    let mut around = Around { tokens: vec![Vec::new()], last_type: 0 };
    for piece in pieces.items()? {
        if let Some(sequence) = piece.opt("Sequence")? {
            let wanted = texts.get(around.tokens.len() - 1).copied().unwrap_or_default();
            if sequence.str("id")? != wanted {
                let names = texts.join(" and ");
                return Err(
                    sequence.invalid(format!("the texts of this template are {names}, in this order"))
                );
            }
            around.last_type = sequence.opt("type_id")?.map_or(Ok(0), |id| id.as_u32())?;
            around.tokens.push(Vec::new());
            continue;
        }
        let id = piece.get("SpecialToken")?.get("id")?;
        let token = tokens.entries()?.find(|(name, _)| id.as_str().is_ok_and(|id| id == *name));
        let (_, token) = token.ok_or_else(|| id.invalid("not among the special tokens of the template"))?;
        for id in token.get("ids")?.items()? {
            let id = id.as_u32()?;
            around.tokens.last_mut().into_iter().for_each(|side| side.push(id));
        }
    }
    match around.tokens.len() - 1 {
        n if n == texts.len() => Ok(around),
        n => Err(pieces.invalid(format!("the template has {n} texts, not {}", texts.len()))),
    }
}

fn template(field: &Field<'_>) -> Result<Template, Error> {
    let tokens = field.get("special_tokens")?;
    let [before, after] =
        around(&tokens, &field.get("single")?, &["A"])?.tokens.try_into().unwrap_or_default();
    // A template for single texts only is valid, too.
    let pair = match field.opt("pair")? {
        Some(pieces) => around(&tokens, &pieces, &["A", "B"]).ok(),
        None => None,
    };
    let pair = pair.map(|Around { tokens, last_type }| {
        let [before, between, after] = tokens.try_into().unwrap_or_default();
        PairTemplate { before, between, after, second_type: last_type == 1 }
    });
    Ok(Template { before, after, pair })
}
