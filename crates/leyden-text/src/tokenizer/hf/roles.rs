//! Special tokens and their roles, as stated by the files beside `tokenizer.json`.

use std::collections::BTreeSet;

use leyden_tensor::{HfFile, Json};

use super::added::{AddedToken, Register};
use super::field::Field;
use super::post_processor::Template;
use super::settings::Settings;
use crate::error::{Error, ErrorKind};
use crate::tokenizer::vocab;

/// Files of the folder, as far as they exist.
#[derive(Default)]
pub(super) struct Files {
    /// `tokenizer_config.json` and, as a fallback, `special_tokens_map.json`.
    tokenizer: Vec<Json>,
    /// `generation_config.json` and `config.json`.
    model: Vec<Json>,
}

/// Keys of the special tokens.
const NAMED: [&str; 7] =
    ["bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"];
/// Keys of lists of further special tokens.
const LISTED: [&str; 2] = ["additional_special_tokens", "extra_special_tokens"];

/// Classes of transformers that use `add_bos_token` and `add_eos_token` instead of the post-processor. Version 5
/// uses the post-processor for these too; in models of that time the two agree, while older ones, DeepSeek's among
/// them, were trained according to the flags.
const CLASSES_WITH_FLAGS: [&str; 4] =
    ["LlamaTokenizer", "CodeLlamaTokenizer", "GemmaTokenizer", "CohereTokenizer"];

impl Files {
    pub(super) fn read(settings: &dyn Settings) -> Result<Self, Error> {
        let read = |file: HfFile| settings.json(file);
        let tokenizer = [read(HfFile::TokenizerConfig)?, read(HfFile::SpecialTokensMap)?];
        let model = [read(HfFile::GenerationConfig)?, settings.config().cloned()];
        Ok(Files {
            tokenizer: tokenizer.into_iter().flatten().collect(),
            model: model.into_iter().flatten().collect(),
        })
    }

    /// Returns the text of a special token.
    pub(super) fn token_text(&self, key: &'static str) -> Result<Option<&str>, Error> {
        let mut found = self.tokenizer.iter().filter_map(|json| Some((json, json.get(key)?)));
        let Some((json, value)) = found.next() else { return Ok(None) };
        content(&Field::new(json.file(), key, value)).map(Some)
    }

    /// Registers the added tokens of these files. A special token that the vocabulary lacks is not added: the model
    /// has no row for it.
    pub(super) fn add_tokens(&self, register: &mut Register<'_>) -> Result<(), Error> {
        let mut new: Vec<AddedToken> = Vec::new();
        for json in &self.tokenizer {
            if let Some(value) = json.get("added_tokens_decoder") {
                let field = Field::new(json.file(), "added_tokens_decoder", value);
                let mut tokens = Vec::new();
                for (id, field) in field.entries()? {
                    let id: u32 =
                        id.parse().map_err(|_| field.invalid("its key is not the id of a token"))?;
                    tokens.push((id, added_token(&field, false)?));
                }
                tokens.sort_by_key(|(id, _)| *id);
                new.extend(tokens.into_iter().map(|(_, token)| token));
            }
        }
        for json in &self.tokenizer {
            let fields = |keys: &[&str]| -> Vec<Field<'_>> {
                keys.iter().filter_map(|&key| Some(Field::new(json.file(), key, json.get(key)?))).collect()
            };
            let mut special = fields(&NAMED);
            for list in fields(&LISTED).iter().filter(|field| field.is_array()) {
                special.extend(list.items()?);
            }
            for field in special {
                let token = added_token(&field, true)?;
                let known = register.tokens.values().chain(&new).any(|old| old.content == token.content);
                if !known && register.id(&token.content).is_some() {
                    new.push(token);
                }
            }
        }
        new.retain(|token| !register.tokens.values().any(|old| old == token));
        register.add(new);
        Ok(())
    }
}

/// Returns the text of a special token, which may be an object with its properties.
fn content<'a>(field: &Field<'a>) -> Result<&'a str, Error> {
    if field.is_string() { field.as_str() } else { field.str("content") }
}

fn added_token(field: &Field<'_>, special: bool) -> Result<AddedToken, Error> {
    let flag = |key, default| if field.is_string() { Ok(default) } else { field.bool_or(key, default) };
    let special = special || flag("special", false)?;
    Ok(AddedToken {
        content: content(field)?.into(),
        single_word: flag("single_word", false)?,
        lstrip: flag("lstrip", false)?,
        rstrip: flag("rstrip", false)?,
        normalized: flag("normalized", !special)?,
        special,
    })
}

/// Tokens with a role.
#[derive(Default)]
pub(super) struct Roles {
    pub(super) bos: Option<u32>,
    pub(super) eos: Option<u32>,
    pub(super) add_bos: bool,
    pub(super) add_eos: bool,
    /// Tokens that end a generation.
    pub(super) ends: BTreeSet<u32>,
}

impl Roles {
    /// Determines the roles. `file` is the file of the template; `n` is the number of ids.
    pub(super) fn new(
        files: &Files,
        register: &Register<'_>,
        template: &Template,
        file: &str,
        n: usize,
    ) -> Result<Self, Error> {
        let exists = |id: &u32| usize::try_from(*id).is_ok_and(|id| id < n);
        let named = |key| Ok(files.token_text(key)?.and_then(|text| register.id(text)));
        let mut roles = Roles { bos: named("bos_token")?, eos: named("eos_token")?, ..Roles::default() };
        for json in &files.model {
            let ids = |key| {
                let ids = json.opt_u32_or_array(key);
                ids.map_err(|error| Error::new(json.file(), None, ErrorKind::Metadata(error)))
            };
            let eos = ids("eos_token_id")?.unwrap_or_default();
            roles.eos = roles.eos.or(eos.iter().copied().find(exists));
            roles.ends.extend(eos.into_iter().filter(exists));
            let bos = ids("bos_token_id")?.unwrap_or_default();
            roles.bos = roles.bos.or(bos.into_iter().find(exists));
        }
        roles.take_template(template, file, exists)?;
        roles.take_flags(files)?;
        roles.ends.extend(roles.eos);
        roles.add_well_known_ends(register);
        Ok(roles)
    }

    /// Applies the tokens around a text: at most one on each side is supported, which then begins or ends every
    /// text.
    fn take_template(
        &mut self,
        template: &Template,
        file: &str,
        exists: impl Fn(&u32) -> bool,
    ) -> Result<(), Error> {
        let one = |ids: &[u32], side: &str| match ids {
            [] => Ok(None),
            [id] if exists(id) => Ok(Some(*id)),
            [id] => {
                let why = format!("token {id}, {side} every text, does not exist");
                Err(Error::at(file, "post_processor", ErrorKind::Invalid(why)))
            }
            many => {
                let why = format!("{} tokens {side} every text are not supported", many.len());
                Err(Error::at(file, "post_processor", ErrorKind::Invalid(why)))
            }
        };
        if let Some(id) = one(&template.before, "before")? {
            (self.bos, self.add_bos) = (Some(id), true);
        }
        if let Some(id) = one(&template.after, "behind")? {
            (self.eos, self.add_eos) = (Some(id), true);
        }
        Ok(())
    }

    fn take_flags(&mut self, files: &Files) -> Result<(), Error> {
        let Some(json) = files.tokenizer.first() else { return Ok(()) };
        let metadata = |error| Error::new(json.file(), None, ErrorKind::Metadata(error));
        let class = json.opt_str("tokenizer_class").map_err(metadata)?.unwrap_or_default();
        if !CLASSES_WITH_FLAGS.contains(&class.strip_suffix("Fast").unwrap_or(class)) {
            return Ok(());
        }
        for (key, token, flag) in
            [("add_bos_token", self.bos, &mut self.add_bos), ("add_eos_token", self.eos, &mut self.add_eos)]
        {
            if let Some(wanted) = json.opt_bool(key).map_err(metadata)? {
                *flag = wanted && token.is_some();
            }
        }
        Ok(())
    }

    /// Adds the tokens that end a turn by their well-known texts, as many files do not name them.
    fn add_well_known_ends(&mut self, register: &Register<'_>) {
        let added = |text: &str| register.id(text).filter(|id| register.tokens.contains_key(id));
        self.ends.extend(vocab::end_texts().filter_map(added));
        let has = |text: &str| added(text).is_some_and(|id| self.ends.contains(&id));
        for text in vocab::not_ends(has) {
            if let Some(id) = added(text)
                && self.eos != Some(id)
            {
                self.ends.remove(&id);
            }
        }
    }
}
