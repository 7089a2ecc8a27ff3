//! [`Reference`]: the name of a model on the hub, as users and the store write it.

use std::fmt::{self, Display};
use std::str::FromStr;

use crate::error::{Error, ErrorKind, Result};
use crate::names;

/// Scheme of a reference.
pub const SCHEME: &str = "hf:";

/// Other accepted beginnings of a reference, as Ollama and browsers write them.
const OTHER_SCHEMES: [&str; 4] = ["hf.co/", "huggingface.co/", "https://hf.co/", "https://huggingface.co/"];

/// Default branch.
pub(crate) const MAIN: &str = "main";

/// Repository on the hub.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Repo {
    organisation: String,
    name: String,
}

impl Repo {
    /// Returns a repository, if the hub allows both names.
    pub(crate) fn new(organisation: &str, name: &str) -> std::result::Result<Self, &'static str> {
        names::check_part(organisation)?;
        names::check_part(name)?;
        Ok(Self { organisation: organisation.to_owned(), name: name.to_owned() })
    }

    /// Returns the account that owns it.
    #[must_use]
    pub fn organisation(&self) -> &str {
        &self.organisation
    }

    /// Returns its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl Display for Repo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.organisation, self.name)
    }
}

/// Reference `hf:ORG/REPO[@REVISION][:FILE]` to a model; `hf.co/` and `huggingface.co/` may replace `hf:`.
///
/// FILE is the path of a GGUF file in the repository (any part of a split one), its name, or the name of a quantisation
/// such as `Q4_K_M`; `safetensors` or `pytorch` means the repository's checkpoint.
///
/// ```
/// let reference: leyden_hub::Reference = "hf:org/model-GGUF@v2:Q4_K_M".parse()?;
/// assert_eq!(reference.repo().to_string(), "org/model-GGUF");
/// assert_eq!((reference.revision(), reference.file()), ("v2", Some("Q4_K_M")));
/// assert_eq!(reference.to_string(), "hf:org/model-GGUF@v2:Q4_K_M");
/// # Ok::<(), leyden_hub::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    repo: Repo,
    revision: Option<String>,
    file: Option<String>,
}

impl Reference {
    /// Returns true if the text begins like a reference, well-formed or not.
    #[must_use]
    pub fn is_one(text: &str) -> bool {
        behind_scheme(text).is_some()
    }

    /// Parses `ORG/REPO[@REVISION][:FILE]`, without the scheme.
    pub(crate) fn without_scheme(text: &str) -> std::result::Result<Self, &'static str> {
        let (repo, file) = match text.split_once(':') {
            Some((_, "")) => return Err("nothing follows the colon"),
            Some((repo, file)) => (repo, Some(file)),
            None => (text, None),
        };
        let (repo, revision) = match repo.split_once('@') {
            Some((repo, revision)) => {
                names::check_revision(revision)?;
                (repo, Some(revision.to_owned()))
            }
            None => (repo, None),
        };
        let (organisation, name) =
            repo.split_once('/').ok_or("no `/` between organisation and repository")?;
        if name.contains('/') {
            return Err("more than one `/`; a file follows a colon");
        }
        if let Some(file) = file {
            names::check_file(file)?;
        }
        Ok(Self { repo: Repo::new(organisation, name)?, revision, file: file.map(str::to_owned) })
    }

    /// Returns the same model at another revision.
    ///
    /// # Errors
    /// If the reference names another revision already, or `revision` is malformed.
    pub fn with_revision(mut self, revision: &str) -> Result<Self> {
        if self.revision.as_deref().is_some_and(|named| named != revision) {
            let why = "it names a revision, and --revision names another";
            return Err(Error::new(self.to_string(), ErrorKind::Reference(why)));
        }
        names::check_revision(revision)
            .map_err(|why| Error::new(revision.to_owned(), ErrorKind::Reference(why)))?;
        self.revision = Some(revision.to_owned());
        Ok(self)
    }

    /// Returns another file of the same repository.
    pub(crate) fn with_file(mut self, file: &str) -> Self {
        self.file = Some(file.to_owned());
        self
    }

    /// Returns the repository.
    #[must_use]
    pub fn repo(&self) -> &Repo {
        &self.repo
    }

    /// Returns the branch, tag or commit; `main` if none is named.
    #[must_use]
    pub fn revision(&self) -> &str {
        self.revision.as_deref().unwrap_or(MAIN)
    }

    /// Returns the revision, if one is named.
    pub(crate) fn named_revision(&self) -> Option<&str> {
        self.revision.as_deref()
    }

    /// Returns the part after the colon.
    #[must_use]
    pub fn file(&self) -> Option<&str> {
        self.file.as_deref()
    }
}

/// Returns the part after the scheme, if the text begins with one.
pub(crate) fn behind_scheme(text: &str) -> Option<&str> {
    [SCHEME].into_iter().chain(OTHER_SCHEMES).find_map(|scheme| text.strip_prefix(scheme))
}

impl FromStr for Reference {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let refused = |why| Error::new(text, ErrorKind::Reference(why));
        let rest = behind_scheme(text).ok_or_else(|| refused("it does not begin with hf:"))?;
        Self::without_scheme(rest).map_err(refused)
    }
}

impl Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}", self.repo)?;
        if let Some(revision) = &self.revision {
            write!(f, "@{revision}")?;
        }
        match &self.file {
            Some(file) => write!(f, ":{file}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references() {
        let good = [
            ("hf:a/b", "main", None),
            ("hf:a/b:c.gguf", "main", Some("c.gguf")),
            ("hf:a/b:d/c-00001-of-00002.gguf", "main", Some("d/c-00001-of-00002.gguf")),
            ("hf:a/b@refs/pr/1:Q4_0", "refs/pr/1", Some("Q4_0")),
        ];
        for (text, revision, file) in good {
            let reference: Reference = text.parse().unwrap();
            assert_eq!((reference.revision(), reference.file()), (revision, file), "{text}");
            assert_eq!(reference.to_string(), text);
        }
        for text in ["hf.co/a/b:Q4_0", "https://huggingface.co/a/b:Q4_0"] {
            assert_eq!(text.parse::<Reference>().unwrap().to_string(), "hf:a/b:Q4_0");
        }
        let bad = [
            "",
            "a/b",
            "hf:",
            "hf:a",
            "hf:a/",
            "hf:/b",
            "hf:a/b:",
            "hf:a/b/c",
            "hf:../b",
            "hf:a/..",
            "hf:a/b:../c",
            "hf:a/b:/c",
            "hf:a/b:c:d",
            "hf:a/b@:c",
            "hf:a/b@..",
            "hf:a/b@",
            "hf:a b/c",
            "HF:a/b",
            "hf:a/b?x",
            "hf://a/b",
        ];
        for text in bad {
            let error = text.parse::<Reference>().unwrap_err();
            assert!(error.is_usage() && error.hint().is_some(), "{text}");
        }
    }

    #[test]
    fn a_revision_is_named_once() {
        let reference: Reference = "hf:a/b@v1".parse().unwrap();
        assert_eq!(reference.clone().with_revision("v1").unwrap(), reference);
        assert!(reference.with_revision("v2").is_err());
        let reference: Reference = "hf:a/b:c".parse().unwrap();
        assert_eq!(reference.clone().with_revision("v2").unwrap().to_string(), "hf:a/b@v2:c");
        assert!(reference.with_revision("../x").is_err());
    }
}
