//! Tokenizers of Hugging Face folders: `tokenizer.json` and the files beside it.
//!
//! The file describes a chain of components, which run here as the `tokenizers` library (0.23) runs them:
//!
//! ```text
//! text -> added tokens -> normalizer -> added tokens -> pre-tokenizer -> model -> ids
//! ids -> decoder -> text
//! ```
//!
//! Components are data: each kind is one section and one row of the table in `normalizer`, `pre_tokenizer`,
//! `model`, `post_processor` or `decoder`, and any other kind is an error with its name. The Unicode version that
//! each of them uses is easy to get wrong; see `classes`.
//!
//! Intended differences from the library: no word of a text becomes a control token, whatever the vocabulary
//! contains; adding the tokens around a text is left to the caller; and padding is ignored, as is truncation but for
//! its direction.

mod added;
mod bpe;
mod classes;
mod decoder;
mod document;
mod field;
mod growth;
mod model;
mod models;
mod normalizer;
mod normalizers;
mod pattern;
mod pieces;
mod post_processor;
mod pre_tokenizer;
mod precompiled;
mod roles;
mod settings;
mod tables;
mod trie;
mod unigram;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;

use foldhash::{HashMap, HashMapExt};
use leyden_tensor::{FolderFiles, HfFile, HfFolder, Json, Metadata};
use serde_json::Value;
use serde_json::value::RawValue;

use self::added::{AddedToken, AddedTokens, Register, Stretch};
use self::decoder::Decoder;
use self::document::{Document, Vocab, Vocabulary};
use self::field::Field;
use self::growth::{MAX_EXTRA, MAX_GROWTH};
use self::model::{Model, NoToken, NotWritten, Parts};
use self::normalizer::{Keeps, Normalizer};
use self::pieces::{Normalized, Pieces};
use self::pre_tokenizer::PreTokenizer;
use self::roles::{Files, Roles};
use self::settings::{Changes, Embedded};
use super::bounds::{Bounds, Exceeded};
use super::{PairTemplate, Special, Tokenizer, vocab};
use crate::error::{Error, ErrorKind};

struct HfTokenizer {
    file: Box<str>,
    added: AddedTokens,
    normalizers: Vec<Box<dyn Normalizer>>,
    pre_tokenizers: Vec<Box<dyn PreTokenizer>>,
    model: Box<dyn Model>,
    decoder: Decoder,
    /// Texts of the tokens as input of the decoder.
    texts: Vocabulary,
    /// Concatenated bytes of all tokens; `ends` has the end of each.
    bytes: Vec<u8>,
    ends: Vec<usize>,
    /// Control tokens with their names.
    control: BTreeMap<u32, Box<str>>,
    roles: Roles,
    /// Tokens around the texts of a pair, if the post-processor defines them.
    pair: Option<PairTemplate>,
    /// Data for a lower bound of a text's number of tokens; `None` if there is no bound.
    cover: Option<Cover>,
    /// True if texts that are too long lose their beginning.
    drops_beginning: bool,
}

/// Maximum extent of text that one token represents.
#[derive(Clone, Copy, Debug)]
struct Cover {
    /// Length in bytes of the longest token.
    longest: usize,
    /// Part of the text that is certainly kept.
    keeps: Keeps,
    /// True if an added token may absorb any amount of white space.
    strips: bool,
}

/// Reads the tokenizer of a Hugging Face folder: `tokenizer.json`, and from the files beside it the tokens that
/// begin and end a text.
///
/// # Errors
/// The folder has no `tokenizer.json`, a file is malformed, or a component is of an unsupported kind.
pub fn from_hf(folder: &HfFolder) -> Result<Box<dyn Tokenizer>, Error> {
    let path = folder.path().join(HfFile::Tokenizer.name()).display().to_string();
    let read = folder.read(HfFile::Tokenizer);
    let Some(bytes) = read.map_err(|error| Error::new(&path, None, ErrorKind::Metadata(error)))? else {
        return Err(Error::new(&path, None, ErrorKind::Invalid(missing(folder))));
    };
    read_files(&bytes, &path, &Files::read(folder)?, &Changes::of(folder)?)
}

/// Reads the tokenizer of a folder whose files are embedded in a GGUF file; `None` if it has none.
pub(super) fn from_folder_files(meta: &Metadata) -> Result<Option<Box<dyn Tokenizer>>, Error> {
    let metadata = |error| Error::new(meta.file(), None, ErrorKind::Metadata(error));
    let Some(files) = FolderFiles::of(meta).map_err(metadata)? else { return Ok(None) };
    let name = HfFile::Tokenizer.name();
    let Some(text) = files.text(name) else { return Ok(None) };
    let settings = Embedded { files: &files, config: FolderFiles::config(meta).map_err(metadata)? };
    let label = format!("{}: {name}", meta.file());
    read_files(text.as_bytes(), &label, &Files::read(&settings)?, &Changes::of(&settings)?).map(Some)
}

/// Returns the unknown keys of the files beside `tokenizer.json`, with the names of the files. These keys are
/// ignored, which may be wrong.
///
/// # Errors
/// A file is malformed, or a key has an unsupported value.
pub fn unread_keys(folder: &HfFolder) -> Result<Vec<String>, Error> {
    settings::unread(folder)
}

/// Reads a single `tokenizer.json`. `file` is its name in errors.
///
/// Without the files beside it, the tokens that begin and end a text come from its post-processor alone, and those
/// that end an answer from well-known names.
///
/// # Errors
/// As for [`from_hf`].
///
/// ```
/// use leyden_text::{Special, from_tokenizer_json};
///
/// let json = br###"{
///     "added_tokens": [],
///     "normalizer": {"type": "Lowercase"},
///     "pre_tokenizer": {"type": "Whitespace"},
///     "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": true},
///     "model": {"type": "WordPiece", "unk_token": "?", "continuing_subword_prefix": "##",
///               "vocab": {"?": 0, "wild": 1, "##flower": 2, "!": 3}}
/// }"###;
/// let tokenizer = from_tokenizer_json(json, "tokenizer.json")?;
/// assert_eq!(tokenizer.encode("Wildflower!", Special::AsText)?, [1, 2, 3]);
/// assert_eq!(tokenizer.bytes_after(Some(1), 2).as_deref(), Some(&b"flower"[..]));
/// # Ok::<(), leyden_text::Error>(())
/// ```
pub fn from_tokenizer_json(bytes: &[u8], file: &str) -> Result<Box<dyn Tokenizer>, Error> {
    read_files(bytes, file, &Files::default(), &Changes::default())
}

/// Returns why a folder without `tokenizer.json` cannot be used, and the remedy.
fn missing(folder: &HfFolder) -> String {
    let others: Vec<&str> = ["tokenizer.model", "vocab.json", "merges.txt", "vocab.txt", "tekken.json"]
        .into_iter()
        .filter(|name| folder.path().join(name).is_file())
        .collect();
    let remedy = "make it in Python: AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER)";
    if others.is_empty() {
        return "the folder has no tokenizer".into();
    }
    format!("missing; the folder has {}, from which transformers can {remedy}", others.join(" and "))
}

/// Parses a component of a file strictly and within limits.
fn component(raw: Option<&RawValue>, file: &str, name: &'static str) -> Result<Option<Value>, Error> {
    let Some(raw) = raw else { return Ok(None) };
    let json = Json::parse(raw.get().as_bytes(), &format!("{file}: {name}"));
    let json = json.map_err(|error| Error::new(file, name, ErrorKind::Metadata(error)))?;
    Ok(Some(Value::Object(json.object().clone())))
}

fn read_files(
    bytes: &[u8],
    file: &str,
    files: &Files,
    changes: &Changes,
) -> Result<Box<dyn Tokenizer>, Error> {
    let document: Document<'_> = serde_json::from_slice(bytes).map_err(|error| {
        Error::new(file, None, ErrorKind::Invalid(format!("not as it should be: {error}")))
    })?;
    if let Some(version) = document.version.as_ref().filter(|version| version.0 != "1.0") {
        let name = version.0.clone().into_owned();
        let kind = ErrorKind::UnsupportedComponent { what: "version", name, known: vec!["1.0"] };
        return Err(Error::new(file, "version", kind));
    }
    let normalizer = changes.normalizer(component(document.normalizer, file, "normalizer")?);
    let pre_tokenizer = changes.pre_tokenizer(component(document.pre_tokenizer, file, "pre_tokenizer")?);
    let post_processor = component(document.post_processor, file, "post_processor")?;
    let decoder = component(document.decoder, file, "decoder")?;
    let truncation = component(document.truncation, file, "truncation")?;
    let direction = truncation.as_ref().and_then(|value| value.get("direction")).and_then(Value::as_str);
    let field = |name, value| Field::new(file, name, value);
    let normalizer = normalizer.as_ref().map(|value| normalizers::read(field("normalizer", value)));
    let normalizers = normalizer.transpose()?.unwrap_or_default();
    let pre_tokenizer =
        pre_tokenizer.as_ref().map(|value| pre_tokenizer::read(field("pre_tokenizer", value)));
    let mut pre_tokenizers = pre_tokenizer.transpose()?.unwrap_or_default();
    let template = post_processor.as_ref().map(|value| post_processor::read(field("post_processor", value)));
    let mut template = template.transpose()?.unwrap_or_default();
    if let Some(pair) = template.pair.as_mut().filter(|_| changes.one_type) {
        pair.second_type = false;
    }
    let decoder = decoder::read(decoder.as_ref().map(|value| field("decoder", value)))?;

    let fields = &document.model;
    let entries: Vec<(u32, &str)> = match &fields.vocab {
        Vocab::Ids(tokens) => tokens.iter().map(|(text, id)| (*id, &*text.0)).collect(),
        Vocab::Scores(tokens) => (0..).zip(tokens).map(|(id, (text, _))| (id, &*text.0)).collect(),
    };
    let mut ids: HashMap<&str, u32> = HashMap::with_capacity(entries.len());
    ids.extend(entries.iter().map(|&(id, text)| (text, id)));
    let model_size = if matches!(fields.vocab, Vocab::Ids(_)) { ids.len() } else { entries.len() };
    let mut register = Register::new(&ids, u32::try_from(model_size).unwrap_or(u32::MAX));
    register.add(document.added_tokens.iter().map(Into::into));
    files.add_tokens(&mut register)?;

    let takes_bytes = models::takes_bytes(fields, &ids);
    let raw_bytes = takes_bytes && pre_tokenizers.last_mut().is_some_and(|last| last.leave_bytes());
    let control = register.control();
    let model = models::read(&Parts { file, fields, ids: &ids, control: &control, raw_bytes })?;
    let (added, spelled) = AddedTokens::new(file, &register.tokens, &normalizers)?;
    let added_texts = spelled.iter().map(|(id, text)| (*id, text.as_str()));
    let texts = Vocabulary::new(file, entries.iter().copied().chain(added_texts))?;
    let roles = Roles::new(files, &register, &template, file, texts.len())?;
    let name = |(&id, token): (&u32, &AddedToken)| (id, token.content.as_str().into());
    let control = register.tokens.iter().filter(|(_, token)| token.special).map(name).collect();
    let keeps = normalizers.iter().map(|normalizer| normalizer.keeps()).min().unwrap_or(Keeps::All);
    let kept = model.keeps_text() && pre_tokenizers.iter().all(|step| step.keeps_text());
    let cover = (kept && keeps > Keeps::Nothing).then(|| Cover {
        longest: (0..).take(texts.len()).filter_map(|id| texts.text(id)).map(str::len).max().unwrap_or(0),
        keeps,
        strips: register.tokens.values().any(|token| token.lstrip || token.rstrip),
    });
    let mut tokenizer = HfTokenizer {
        cover,
        file: file.into(),
        added,
        normalizers,
        pre_tokenizers,
        model,
        decoder,
        texts,
        bytes: Vec::new(),
        ends: Vec::new(),
        control,
        roles,
        pair: template.pair,
        drops_beginning: changes.drops_beginning.unwrap_or(direction == Some("Left")),
    };
    tokenizer.decode_all()?;
    Ok(Box::new(tokenizer))
}

impl HfTokenizer {
    /// Computes the bytes of all tokens.
    fn decode_all(&mut self) -> Result<(), Error> {
        for id in (0..).take(self.texts.len()) {
            if let Some(name) = self.control.get(&id) {
                self.bytes.extend_from_slice(name.as_bytes());
            } else if let Some(text) = self.texts.text(id) {
                let bytes = self.decoder.decode(None, text).and_then(|_| self.decoder.decode(Some(""), text));
                self.bytes.extend_from_slice(&bytes.ok_or_else(|| self.grows("decoder"))?);
            }
            self.ends.push(self.bytes.len());
        }
        Ok(())
    }

    fn grows(&self, component: &'static str) -> Error {
        Error::new(&self.file, component, ErrorKind::TextGrows(MAX_GROWTH))
    }

    /// Splits a text into words for the model.
    fn pieces(&self, text: &str, special: Special<'_>) -> Result<Pieces, Error> {
        let mut pieces = Pieces::default();
        let mut limit = MAX_EXTRA;
        for (range, token) in self.added.find_as_is(text, special) {
            if let Some(id) = token {
                pieces.push_token(id);
                continue;
            }
            let most = MAX_GROWTH.saturating_mul(range.len()).saturating_add(MAX_EXTRA);
            limit = limit.saturating_add(most);
            self.normalized_pieces(&mut pieces, text, range, special)?;
        }
        for pre_tokenizer in &self.pre_tokenizers {
            pre_tokenizer.cut(&mut pieces)?;
            if pieces.len_bytes() > limit {
                return Err(self.grows("pre_tokenizer"));
            }
        }
        Ok(pieces)
    }

    fn normalized(&self, text: &str, range: Range<usize>) -> Result<Normalized, Error> {
        let most = MAX_GROWTH.saturating_mul(range.len()).saturating_add(MAX_EXTRA);
        let mut normalized = Normalized::new(&text[range.clone()], range.start == 0);
        for normalizer in &self.normalizers {
            normalizer.normalize(&mut normalized)?;
            if normalized.text.len() > most {
                return Err(self.grows("normalizer"));
            }
        }
        Ok(normalized)
    }

    /// Appends a range of a text that contains no tokens matched before normalization.
    fn normalized_pieces(
        &self,
        pieces: &mut Pieces,
        text: &str,
        range: Range<usize>,
        special: Special<'_>,
    ) -> Result<(), Error> {
        let normalized = self.normalized(text, range.clone())?;
        let content = special.content_in(&range);
        let found = match special {
            Special::Outside(_) if content.is_empty() => {
                self.added.find_normalized(&normalized.text, Special::Parse)
            }
            Special::Outside(_) if normalized.text == text[range.clone()] => {
                self.added.find_normalized(&normalized.text, Special::Outside(&content))
            }
            Special::Outside(_) => {
                let all = self.added.find_normalized(&normalized.text, Special::Parse);
                let runs = runs(range, &content);
                match self.without_marks_in_content(all, text, &runs)? {
                    Some(found) => found,
                    // Text on both sides of a content boundary is tokenized separately, so that no special token
                    // spans it.
                    None => {
                        for (run, is_content) in runs {
                            let part = self.normalized(text, run)?;
                            let whole = 0..part.text.len();
                            let content = is_content.then_some(whole);
                            let special = Special::Outside(content.as_slice());
                            for (range, token) in self.added.find_normalized(&part.text, special) {
                                pieces.push(&part, range, token);
                            }
                        }
                        return Ok(());
                    }
                }
            }
            special => self.added.find_normalized(&normalized.text, special),
        };
        for (range, token) in found {
            pieces.push(&normalized, range, token);
        }
        Ok(())
    }

    /// Removes the special tokens that content spells from the stretches of a normalized text. They are determined
    /// by normalizing each run separately; `None` if that gives other special tokens, because some span runs.
    fn without_marks_in_content(
        &self,
        all: Vec<Stretch>,
        text: &str,
        runs: &[(Range<usize>, bool)],
    ) -> Result<Option<Vec<Stretch>>, Error> {
        let is_mark = |stretch: &Stretch| stretch.1.filter(|&id| self.added.is_normalized_mark(id));
        if !all.iter().any(|stretch| is_mark(stretch).is_some()) {
            return Ok(Some(all));
        }
        let mut marks = Vec::new();
        for (run, is_content) in runs {
            let part = self.normalized(text, run.clone())?;
            let found = self.added.find_normalized(&part.text, Special::Parse);
            marks.extend(found.iter().filter_map(is_mark).map(|id| (id, *is_content)));
        }
        if !all.iter().filter_map(is_mark).eq(marks.iter().map(|(id, _)| *id)) {
            return Ok(None);
        }
        let mut marks = marks.into_iter();
        let mut kept: Vec<Stretch> = Vec::with_capacity(all.len());
        for (range, token) in all {
            let is_text = is_mark(&(range.clone(), token)).is_some() && marks.next().is_some_and(|(_, c)| c);
            match (kept.last_mut(), token.filter(|_| !is_text)) {
                (Some((last, None)), None) => last.end = range.end,
                (_, token) => kept.push((range, token)),
            }
        }
        Ok(Some(kept))
    }
}

/// Returns the runs of a range that are content and those that are not; `content` is relative to its beginning.
fn runs(range: Range<usize>, content: &[Range<usize>]) -> Vec<(Range<usize>, bool)> {
    let mut runs = Vec::with_capacity(2 * content.len() + 1);
    let mut at = range.start;
    for inner in content {
        let (start, end) = (range.start + inner.start, range.start + inner.end);
        runs.extend([(at..start, false), (start..end, true)]);
        at = end;
    }
    runs.push((at..range.end, false));
    runs.retain(|(run, _)| !run.is_empty());
    runs
}

impl Tokenizer for HfTokenizer {
    fn least_tokens(&self, text: &str) -> usize {
        let Some(Cover { longest, keeps, strips }) = self.cover else { return 0 };
        // White space beyond ASCII is excluded with all other characters beyond ASCII.
        let bytes = match (keeps, strips) {
            (Keeps::All, false) => text.len(),
            (_, false) => text.bytes().filter(u8::is_ascii).count(),
            (_, true) => text.bytes().filter(u8::is_ascii_graphic).count(),
        };
        bytes.div_ceil(longest.max(1))
    }

    fn encode_within(
        &self,
        text: &str,
        special: Special<'_>,
        bounds: &Bounds<'_>,
    ) -> Result<Vec<u32>, Error> {
        let exceeded = |why: Exceeded| Error::new(&self.file, None, why.into());
        let pieces = self.pieces(text, special)?;
        let mut ids = Vec::new();
        // Range in `ids` of each word that was encoded before.
        let mut seen: HashMap<&str, (usize, usize)> = HashMap::new();
        for piece in pieces.iter() {
            bounds.check(ids.len()).map_err(exceeded)?;
            let word = match piece {
                Ok(id) => {
                    ids.push(id);
                    continue;
                }
                Err(word) => word,
            };
            if let Some(&(start, end)) = seen.get(word) {
                ids.extend_from_within(start..end);
                continue;
            }
            let start = ids.len();
            self.model.tokenize(word, &mut ids, bounds).map_err(|why| match why {
                NotWritten::NoToken(NoToken(field)) => {
                    let why =
                        "the text has a part that is no token, and there is no token for what is unknown";
                    Error::new(&self.file, field, ErrorKind::Invalid(why.into()))
                }
                NotWritten::Exceeded(why) => exceeded(why),
            })?;
            seen.insert(word, (start, ids.len()));
        }
        bounds.check(ids.len()).map_err(exceeded)?;
        Ok(ids)
    }

    fn token_bytes(&self, id: u32) -> Option<&[u8]> {
        let at = usize::try_from(id).ok()?;
        let end = *self.ends.get(at)?;
        let start = at.checked_sub(1).map_or(Some(0), |before| self.ends.get(before).copied())?;
        self.texts.text(id)?;
        self.bytes.get(start..end)
    }

    fn bytes_after(&self, previous: Option<u32>, id: u32) -> Option<Cow<'_, [u8]>> {
        if !self.decoder.depends_on_place && !self.control.contains_key(&id) {
            return self.token_bytes(id).map(Cow::Borrowed);
        }
        let previous = previous.map(|id| self.texts.text(id).unwrap_or_default());
        self.decoder.decode(previous, self.texts.text(id)?).map(Cow::Owned)
    }

    fn vocab_size(&self) -> usize {
        self.texts.len()
    }

    fn is_special(&self, id: u32) -> bool {
        self.control.get(&id).is_some_and(|name| !vocab::is_printed(name))
    }

    fn bos(&self) -> Option<u32> {
        self.roles.bos
    }

    fn eos(&self) -> Option<u32> {
        self.roles.eos
    }

    fn is_end(&self, id: u32) -> bool {
        self.roles.ends.contains(&id)
    }

    fn add_bos(&self) -> bool {
        self.roles.add_bos
    }

    fn add_eos(&self) -> bool {
        self.roles.add_eos
    }

    fn drops_beginning(&self) -> bool {
        self.drops_beginning
    }

    fn marks_continuations(&self) -> bool {
        self.model.marks_continuations()
    }

    fn pair(&self) -> PairTemplate {
        match &self.pair {
            Some(pair) => pair.clone(),
            None => PairTemplate::around(
                self.bos().filter(|_| self.add_bos()),
                self.eos().filter(|_| self.add_eos()),
                1,
            ),
        }
    }
}
