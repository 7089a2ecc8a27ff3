//! Names of stored models: resolution of names, and the names that lists show.

use crate::file_names;
use crate::model::Model;
use crate::reference::{Reference, SCHEME, behind_scheme};
use crate::short_names::ShortName;

/// Returns the models out of `models` that `text` names: by a full name, any shorter form of it, a reference with its
/// scheme, or a [`ShortName`]. Several if the text fits several equally well; none if it fits none.
///
/// The forms are those of [`Store::find`](crate::Store::find). Nothing is read from the disk.
#[must_use]
pub fn meant<'a>(models: &'a [Model], text: &str) -> Vec<&'a Model> {
    let found = fitting(models, behind_scheme(text).unwrap_or(text));
    match ShortName::find(text) {
        Some(short) if found.is_empty() => fitting(models, &without_scheme(&short.reference)),
        _ => found,
    }
}

/// Formats a reference as the store writes it.
pub(crate) fn without_scheme(reference: &Reference) -> String {
    let text = reference.to_string();
    text.strip_prefix(SCHEME).map(str::to_owned).unwrap_or(text)
}

impl Model {
    /// Returns the shortest usual name that is unique among `all`: a short name, with a dash and the quantisation if
    /// that is not the default, `ORG/REPO:QUANTISATION`, `ORG/REPO`, or else the full name.
    #[must_use]
    pub fn short_name(&self, all: &[Model]) -> String {
        let file = self.name.split_once(':').map_or("", |(_, file)| file);
        let quantisation = file_names::quantisation(file);
        let mut candidates = Vec::new();
        for short in ShortName::all().into_iter().filter(|short| *short.reference.repo() == self.repo) {
            let tagged = short.names.iter().find(|name| name.contains(':')).unwrap_or(&short.names[0]);
            let variant = quantisation.map(|kind| format!("{tagged}-{}", kind.to_ascii_lowercase()));
            candidates.push(short.names[0].to_owned());
            candidates.extend(variant);
        }
        candidates.extend(quantisation.map(|kind| format!("{}:{kind}", self.repo)));
        candidates.push(self.repo.to_string());
        let is_alone = |name: &String| match &meant(all, name)[..] {
            [one] => one.name == self.name,
            _ => false,
        };
        candidates.into_iter().find(is_alone).unwrap_or_else(|| self.name.clone())
    }

    /// Returns the SHA-256 of the model in 64 hexadecimal digits: that of its only file, or that of the lines
    /// `SHA256  PATH` of its files in the order of their paths, as `sha256sum` prints them.
    #[must_use]
    pub fn digest(&self) -> String {
        let files = self.files.iter().map(|file| (file.path.clone(), file.sha256.clone()));
        crate::digest::of_files(files.collect())
    }
}

/// Returns the models that a name without a scheme fits, by the strictest rule that any of them satisfies.
pub(crate) fn fitting<'a>(models: &'a [Model], name: &str) -> Vec<&'a Model> {
    let exact: Vec<_> = models.iter().filter(|model| model.name == name).collect();
    if !exact.is_empty() {
        return exact;
    }
    let Ok(reference) = Reference::without_scheme(name) else {
        let file = |model: &&Model| {
            let path = model.name.rsplit([':', '/']).next().unwrap_or("");
            path == name || file_names::stem(path).eq_ignore_ascii_case(name)
        };
        let mut found: Vec<_> = models.iter().filter(file).collect();
        if found.is_empty() {
            found = models.iter().filter(|model| model.repo.name().eq_ignore_ascii_case(name)).collect();
        }
        return found;
    };
    let of_repo = models.iter().filter(|model| {
        model.repo == *reference.repo()
            && reference.named_revision().is_none_or(|wanted| wanted == model.revision)
    });
    let Some(wanted) = reference.file() else { return of_repo.collect() };
    let of_repo: Vec<&Model> = of_repo.collect();
    // Path of the main file in the repository, at the end of the name.
    let main = |model: &'a Model| model.name.split_once(':').map_or("", |(_, file)| file);
    let known: Vec<(&str, Vec<&str>)> = of_repo
        .iter()
        .map(|model| (main(model), model.files.iter().map(|file| file.path.as_str()).collect()))
        .collect();
    let found = file_names::matching(&known, wanted);
    of_repo.into_iter().filter(|model| found.contains(&main(model))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Format, ModelFile};
    use crate::reference::{MAIN, Repo};

    fn model(repo: (&str, &str), file: &str) -> Model {
        let repo = Repo::new(repo.0, repo.1).unwrap();
        Model {
            name: format!("{repo}:{file}"),
            path: file.into(),
            repo,
            revision: MAIN.to_owned(),
            commit: "0".repeat(40),
            format: Format::Gguf,
            files: vec![ModelFile { path: file.to_owned(), bytes: 1, sha256: "ab".repeat(32) }],
            pulled: 0,
            damage: None,
        }
    }

    #[test]
    fn every_form_of_a_name_means_the_model_and_lists_show_a_short_one() {
        let small = ("bartowski", "SmolLM2-135M-Instruct-GGUF");
        let all = [
            model(small, "SmolLM2-135M-Instruct-Q4_K_M.gguf"),
            model(small, "SmolLM2-135M-Instruct-Q8_0.gguf"),
            model(("org", "one"), "safetensors"),
            model(("org", "two"), "odd.gguf"),
            model(("org", "two"), "other.gguf"),
            model(("org", "split"), "big-Q4_K_M-00001-of-00002.gguf"),
        ];
        for (text, wanted) in [
            ("smollm2:135m", 0),
            ("SmolLM2:135M", 0),
            ("smollm2:135m-q8_0", 1),
            ("hf.co/bartowski/SmolLM2-135M-Instruct-GGUF:Q4_K_M", 0),
            ("https://huggingface.co/bartowski/SmolLM2-135M-Instruct-GGUF:q8_0", 1),
            ("hf:bartowski/SmolLM2-135M-Instruct-GGUF:Q8_0", 1),
            ("bartowski/SmolLM2-135M-Instruct-GGUF:Q8_0", 1),
            ("SmolLM2-135M-Instruct-Q8_0", 1),
            ("SmolLM2-135M-Instruct-Q8_0.gguf", 1),
            ("org/one", 2),
            ("one", 2),
            ("odd", 3),
        ] {
            let found: Vec<&str> = meant(&all, text).iter().map(|model| model.name.as_str()).collect();
            assert_eq!(found, [all[wanted].name.as_str()], "{text}");
        }
        assert_eq!(meant(&all, "bartowski/SmolLM2-135M-Instruct-GGUF").len(), 2);
        assert!(meant(&all, "llama3.2").is_empty() && meant(&all, "").is_empty());
        let shown: Vec<String> = all.iter().map(|model| model.short_name(&all)).collect();
        let wanted =
            ["smollm2:135m", "smollm2:135m-q8_0", "org/one", "org/two:odd.gguf", "org/two:other.gguf"];
        assert_eq!(shown[..5], wanted);
        assert_eq!(shown[5], "org/split:Q4_K_M");
        for (name, model) in shown.iter().zip(&all) {
            assert_eq!(meant(&all, name)[0].name, model.name, "{name}");
        }
    }

    #[test]
    fn a_digest_is_that_of_the_file_or_of_the_list_of_files() {
        let mut one = model(("org", "one"), "b.gguf");
        assert_eq!(one.digest(), "ab".repeat(32));
        let other = ModelFile { path: "a.json".to_owned(), bytes: 1, sha256: "cd".repeat(32) };
        one.files.push(other);
        let digest = one.digest();
        assert!(digest.len() == 64 && digest.bytes().all(|b| b.is_ascii_hexdigit()));
        one.files.reverse();
        assert_eq!(one.digest(), digest);
    }
}
