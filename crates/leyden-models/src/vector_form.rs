//! [`VectorForm`]: output size and similarity function of embeddings, from `config_sentence_transformers.json`. Its
//! prompts are read in `prompts.rs`.

use crate::error::Error;
use leyden_tensor::{
    Escaped, HfFile, HfFolder, Json, KnownKeys, Metadata, Value, choice_key, harmless_key, read_key,
};

/// Keys of the file, from version 2 of sentence-transformers to version 6.
const KEYS: KnownKeys = KnownKeys(&[
    read_key("prompts"),
    read_key("default_prompt_name"),
    read_key("truncate_dim"),
    read_key("similarity_fn_name"),
    read_key("max_active_dims"),
    choice_key(
        "model_type",
        &["SentenceTransformer", "SparseEncoder", "CrossEncoder"],
        "another kind of model",
    ),
    // The request chooses between sigmoid scores and logits for reranking.
    harmless_key("activation_fn"),
    harmless_key("__version__"),
    harmless_key("requirements"),
]);

/// Similarity function of two embeddings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Similarity {
    /// Cosine of the angle between the vectors.
    #[default]
    Cosine,
    /// Inner product.
    Dot,
    /// Negative Euclidean distance.
    Euclidean,
    /// Negative Manhattan distance.
    Manhattan,
}

/// Names of similarity functions in files.
const SIMILARITIES: [(&str, Similarity); 4] = [
    ("cosine", Similarity::Cosine),
    ("dot", Similarity::Dot),
    ("euclidean", Similarity::Euclidean),
    ("manhattan", Similarity::Manhattan),
];

impl Similarity {
    fn named(file: &str, key: &str, name: &str) -> Result<Similarity, Error> {
        let found = SIMILARITIES.iter().find(|row| row.0 == name).map(|row| row.1);
        found.ok_or_else(|| {
            let known = SIMILARITIES.map(|row| row.0).join(", ");
            Error::invalid(file, key, format!("`{}` is not supported; supported: {known}", Escaped(name)))
        })
    }

    /// Computes the similarity of two vectors; the cosine with a zero vector is 0.
    #[must_use]
    pub fn of(self, a: &[f32], b: &[f32]) -> f64 {
        let pairs = || a.iter().zip(b).map(|(a, b)| (f64::from(*a), f64::from(*b)));
        let dot = |pairs: &mut dyn Iterator<Item = (f64, f64)>| pairs.map(|(a, b)| a * b).sum::<f64>();
        match self {
            Similarity::Cosine => {
                let square = |x: &[f32]| x.iter().map(|x| f64::from(*x) * f64::from(*x)).sum::<f64>();
                let lengths = (square(a) * square(b)).sqrt();
                if lengths > 0.0 { dot(&mut pairs()) / lengths } else { 0.0 }
            }
            Similarity::Dot => dot(&mut pairs()),
            Similarity::Euclidean => -pairs().map(|(a, b)| (a - b) * (a - b)).sum::<f64>().sqrt(),
            Similarity::Manhattan => -pairs().map(|(a, b)| (a - b).abs()).sum::<f64>(),
        }
    }
}

/// Output size and similarity function of embeddings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VectorForm {
    /// Default number of leading dimensions that are returned, unless a request names another; `None` for all.
    pub dimensions: Option<usize>,
    /// Maximum number of entries in a sparse embedding, of which the greatest are kept; `None` for no limit.
    pub max_active_dims: Option<usize>,
    /// Similarity function of the embeddings.
    pub similarity: Similarity,
    /// True if embeddings are normalised to unit length before they are compared, as a `Normalize` module does.
    pub unit: bool,
}

/// GGUF keys, after the architecture's name.
const DIMENSIONS: &str = "vector.dimensions";
const MAX_ACTIVE_DIMS: &str = "vector.max_active_dims";
/// Former name of [`MAX_ACTIVE_DIMS`], in files that were converted before.
const FORMER_MAX_ACTIVE_DIMS: &str = "vector.most_numbers";
const SIMILARITY: &str = "vector.similarity";
const UNIT: &str = "vector.unit";

impl VectorForm {
    /// Reads the form from a folder, and the keys of its file that are not known.
    ///
    /// # Errors
    /// The file is damaged, or requests something that is not supported; the error names the key.
    pub(crate) fn of_folder(folder: &HfFolder) -> Result<(VectorForm, Vec<String>), Error> {
        match folder.json(HfFile::SentenceTransformers)? {
            Some(json) => VectorForm::read(&json),
            None => Ok((VectorForm::default(), Vec::new())),
        }
    }

    fn read(json: &Json) -> Result<(VectorForm, Vec<String>), Error> {
        let unknown = KEYS.check(json).map_err(|refused| Error::refused(json.file(), refused))?;
        let positive = |key: &str| match json.opt_usize(key)? {
            Some(0) => Err(Error::invalid(json.file(), key, "0 is not a positive number")),
            other => Ok(other),
        };
        let key = "similarity_fn_name";
        let similarity = match json.opt_str(key)? {
            Some(name) => Similarity::named(json.file(), key, name)?,
            None => Similarity::default(),
        };
        let form = VectorForm {
            dimensions: positive("truncate_dim")?,
            max_active_dims: positive("max_active_dims")?,
            similarity,
            unit: false,
        };
        Ok((form, unknown))
    }

    /// Returns the form as metadata entries, whose keys lack the architecture's name.
    pub(crate) fn entries(&self) -> Vec<(&'static str, Value)> {
        let size = |n: usize| Value::U32(u32::try_from(n).unwrap_or(u32::MAX));
        let name = SIMILARITIES.iter().find(|row| row.1 == self.similarity).map_or("", |row| row.0);
        let mut entries = Vec::new();
        entries.extend(self.dimensions.map(|n| (DIMENSIONS, size(n))));
        entries.extend(self.max_active_dims.map(|n| (MAX_ACTIVE_DIMS, size(n))));
        if self.similarity != Similarity::default() {
            entries.push((SIMILARITY, Value::from(name)));
            entries.push((UNIT, Value::Bool(self.unit)));
        }
        entries
    }
}

/// Reads the form of embeddings from metadata, whose keys begin with the architecture's name.
///
/// # Errors
/// A value is of another type or impossible; the error names the key.
pub(crate) fn read(architecture: &str, meta: &Metadata) -> Result<VectorForm, Error> {
    let key = |name: &str| format!("{architecture}.{name}");
    let positive = |name: &str| match meta.opt_u32(&key(name))? {
        Some(0) => Err(Error::invalid(meta.file(), &key(name), "0 is not a positive number")),
        other => Ok(other.map(|n| n as usize)),
    };
    let similarity = match meta.opt_str(&key(SIMILARITY))? {
        Some(name) => Similarity::named(meta.file(), &key(SIMILARITY), name)?,
        None => Similarity::default(),
    };
    Ok(VectorForm {
        dimensions: positive(DIMENSIONS)?,
        max_active_dims: positive(MAX_ACTIVE_DIMS)?.or(positive(FORMER_MAX_ACTIVE_DIMS)?),
        similarity,
        unit: meta.opt_bool(&key(UNIT))?.unwrap_or(false),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<(VectorForm, Vec<String>), String> {
        let json = Json::parse(text.as_bytes(), "config_sentence_transformers.json").unwrap();
        VectorForm::read(&json).map_err(|error| error.to_string())
    }

    #[test]
    fn every_key_is_read_reported_or_refused() {
        let (form, unknown) = read(
            r#"{"__version__": {"sentence_transformers": "6.2.0"}, "model_type": "SentenceTransformer", "prompts": {},
            "default_prompt_name": null, "truncate_dim": 16, "similarity_fn_name": "dot", "max_active_dims": 64,
            "activation_fn": "torch.nn.modules.linear.Identity", "requirements": ["x>1"], "warp": 3, "woof": null}"#,
        )
        .unwrap();
        let wanted = VectorForm {
            dimensions: Some(16),
            max_active_dims: Some(64),
            similarity: Similarity::Dot,
            unit: false,
        };
        assert_eq!((form, unknown), (wanted, vec!["warp".to_owned()]));
        assert_eq!(read("{}").unwrap().0, VectorForm::default());
        for (text, wanted) in [
            (r#"{"truncate_dim": 0}"#, "truncate_dim: 0 is not a positive number"),
            (r#"{"truncate_dim": -4}"#, "truncate_dim: "),
            (r#"{"truncate_dim": "16"}"#, "truncate_dim: want"),
            (r#"{"max_active_dims": 0}"#, "max_active_dims: 0 is not"),
            (r#"{"similarity_fn_name": "maxsim"}"#, "similarity_fn_name: `maxsim` is not supported"),
            (
                r#"{"model_type": "MultiVectorEncoder"}"#,
                "model_type: `MultiVectorEncoder` asks for another kind",
            ),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.starts_with(&format!("config_sentence_transformers.json: {wanted}")), "{error}");
        }
    }

    #[test]
    fn similarities_are_those_of_their_names() {
        let (a, b) = ([1.0, 2.0], [2.0, 0.0]);
        for (similarity, wanted) in [
            (Similarity::Cosine, 1.0 / 5.0_f64.sqrt()),
            (Similarity::Dot, 2.0),
            (Similarity::Euclidean, -(5.0_f64.sqrt())),
            (Similarity::Manhattan, -3.0),
        ] {
            assert!((similarity.of(&a, &b) - wanted).abs() < 1e-12, "{similarity:?}");
        }
        assert!(Similarity::Cosine.of(&[0.0, 0.0], &b).abs() < 1e-12);
    }
}
