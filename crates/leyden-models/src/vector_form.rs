//! [`VectorForm`]: how vectors are given out and compared, by `config_sentence_transformers.json`. Its prompts are read in
//! `prompts.rs`.

use crate::error::Error;
use leyden_tensor::{
    Escaped, HfFile, HfFolder, Json, KnownKeys, Metadata, Value, choice_key, harmless_key, read_key,
};

/// The file's keys, from version 2 of sentence-transformers to version 6.
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
    // Ranks are given by the logistic function or as logits, as the request says.
    harmless_key("activation_fn"),
    harmless_key("__version__"),
    harmless_key("requirements"),
]);

/// A function of two vectors that says how similar they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Similarity {
    /// The cosine of the angle between them.
    #[default]
    Cosine,
    /// Their inner product.
    Dot,
    /// The negative length of their difference.
    Euclidean,
    /// The negative sum of the absolute differences of their numbers.
    Manhattan,
}

/// Their names in files.
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

    /// How similar two vectors are; of zeros the cosine is 0.
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

/// How vectors are given out and compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VectorForm {
    /// The first numbers of a vector that are given out where a request names no other number, if not all.
    pub dimensions: Option<usize>,
    /// The most numbers of a sparse vector, the greatest, if there is such a bound.
    pub most_numbers: Option<usize>,
    /// The function that compares vectors.
    pub similarity: Similarity,
    /// Whether vectors have length 1 when they are compared, as one of the model's modules says.
    pub unit: bool,
}

/// The keys behind the architecture's name in GGUF.
const DIMENSIONS: &str = "vector.dimensions";
const MOST_NUMBERS: &str = "vector.most_numbers";
const SIMILARITY: &str = "vector.similarity";
const UNIT: &str = "vector.unit";

impl VectorForm {
    /// What a folder says, with the keys that nothing is known of.
    ///
    /// # Errors
    /// The file is damaged, or asks for something that is not computed; the error names the key.
    pub(crate) fn of_folder(folder: &HfFolder) -> Result<(VectorForm, Vec<String>), Error> {
        match folder.json(HfFile::SentenceTransformers)? {
            Some(json) => VectorForm::read(&json),
            None => Ok((VectorForm::default(), Vec::new())),
        }
    }

    fn read(json: &Json) -> Result<(VectorForm, Vec<String>), Error> {
        let unknown = KEYS.check(json).map_err(|refused| Error::refused(json.file(), refused))?;
        let positive = |key: &str| match json.opt_usize(key)? {
            Some(0) => Err(Error::invalid(json.file(), key, "0 is no number of numbers")),
            other => Ok(other),
        };
        let key = "similarity_fn_name";
        let similarity = match json.opt_str(key)? {
            Some(name) => Similarity::named(json.file(), key, name)?,
            None => Similarity::default(),
        };
        let form = VectorForm {
            dimensions: positive("truncate_dim")?,
            most_numbers: positive("max_active_dims")?,
            similarity,
            unit: false,
        };
        Ok((form, unknown))
    }

    /// The same as keys of a description.
    pub(crate) fn entries(&self) -> Vec<(&'static str, Value)> {
        let size = |n: usize| Value::U32(u32::try_from(n).unwrap_or(u32::MAX));
        let name = SIMILARITIES.iter().find(|row| row.1 == self.similarity).map_or("", |row| row.0);
        let mut entries = Vec::new();
        entries.extend(self.dimensions.map(|n| (DIMENSIONS, size(n))));
        entries.extend(self.most_numbers.map(|n| (MOST_NUMBERS, size(n))));
        if self.similarity != Similarity::default() {
            entries.push((SIMILARITY, Value::from(name)));
            entries.push((UNIT, Value::Bool(self.unit)));
        }
        entries
    }
}

/// Reads the form of vectors from a description, whose keys begin with the architecture's name.
///
/// # Errors
/// A value is of another type or impossible; the error names the key.
pub(crate) fn read(architecture: &str, meta: &Metadata) -> Result<VectorForm, Error> {
    let key = |name: &str| format!("{architecture}.{name}");
    let positive = |name: &str| match meta.opt_u32(&key(name))? {
        Some(0) => Err(Error::invalid(meta.file(), &key(name), "0 is no number of numbers")),
        other => Ok(other.map(|n| n as usize)),
    };
    let similarity = match meta.opt_str(&key(SIMILARITY))? {
        Some(name) => Similarity::named(meta.file(), &key(SIMILARITY), name)?,
        None => Similarity::default(),
    };
    Ok(VectorForm {
        dimensions: positive(DIMENSIONS)?,
        most_numbers: positive(MOST_NUMBERS)?,
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
    fn every_key_of_the_file_is_honoured_told_or_refused() {
        let (form, unknown) = read(
            r#"{"__version__": {"sentence_transformers": "6.2.0"}, "model_type": "SentenceTransformer", "prompts": {},
            "default_prompt_name": null, "truncate_dim": 16, "similarity_fn_name": "dot", "max_active_dims": 64,
            "activation_fn": "torch.nn.modules.linear.Identity", "requirements": ["x>1"], "warp": 3, "woof": null}"#,
        )
        .unwrap();
        let wanted = VectorForm {
            dimensions: Some(16),
            most_numbers: Some(64),
            similarity: Similarity::Dot,
            unit: false,
        };
        assert_eq!((form, unknown), (wanted, vec!["warp".to_owned()]));
        assert_eq!(read("{}").unwrap().0, VectorForm::default());
        for (text, wanted) in [
            (r#"{"truncate_dim": 0}"#, "truncate_dim: 0 is no number of numbers"),
            (r#"{"truncate_dim": -4}"#, "truncate_dim: "),
            (r#"{"truncate_dim": "16"}"#, "truncate_dim: want"),
            (r#"{"max_active_dims": 0}"#, "max_active_dims: 0 is no"),
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
