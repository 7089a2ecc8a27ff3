//! [`select`]: files of the requested model in a repository.

use std::collections::BTreeMap;

use crate::error::ErrorKind;
use crate::file_names::{
    file_name, has_ending, has_quantisation, is_model_file, matching, quantisation_at, split_name, stem,
};
use crate::listing::Listed;
use crate::model::Format;

/// Names of a repository's checkpoint after the colon of a reference: safetensors or PyTorch's file.
const CHECKPOINTS: [&str; 2] = ["safetensors", "pytorch"];

/// Files downloaded along with the weights of a checkpoint, if they exist: configuration, tokenizer and licences.
const COMPANIONS: &[&str] = &[
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "tokenizer.model",
    "vocab.json",
    "merges.txt",
    "vocab.txt",
    "special_tokens_map.json",
    "added_tokens.json",
    "chat_template.jinja",
    "chat_template.json",
    "gliner_config.json",
    "modules.json",
    "config_sentence_transformers.json",
    "sentence_bert_config.json",
    // Names of older versions of sentence-transformers.
    "sentence_roberta_config.json",
    "sentence_distilbert_config.json",
    "sentence_camembert_config.json",
    "sentence_albert_config.json",
    "sentence_xlm-roberta_config.json",
    "sentence_xlnet_config.json",
    "quantize_config.json",
    "hf_quant_config.json",
    "LICENSE",
    "LICENSE.txt",
    "LICENSE.md",
    "NOTICE",
];

/// Folder of chat templates beside the main one.
const TEMPLATES: &str = "additional_chat_templates";
/// Maximum number of these templates.
const MAX_TEMPLATES: usize = 64;

/// Names of the weights of a module of sentence-transformers and of the two heads of M3-Embedding: the first name that
/// the repository has is downloaded.
const FORMS: [&str; 2] = ["model.safetensors", "pytorch_model.bin"];
const HEADS: [[&str; 2]; 2] =
    [["sparse_linear.safetensors", "sparse_linear.pt"], ["colbert_linear.safetensors", "colbert_linear.pt"]];
/// Maximum number of folders of modules.
const MAX_MODULES: usize = 16;

/// List of the modules of sentence-transformers.
const MODULES: &str = "modules.json";

/// List of the shards of a checkpoint.
const INDEX: &str = "model.safetensors.index.json";

/// PyTorch's weights, for repositories without safetensors.
const TORCH: &str = "pytorch_model.bin";

/// ONNX models in order of preference, if none is named.
const ONNX: [&str; 4] =
    ["onnx/model.onnx", "model.onnx", "onnx/model_quantized.onnx", "model_quantized.onnx"];

/// Endings of the file with an ONNX model's external weights, after the model's name.
const ONNX_DATA: [&str; 2] = ["_data", ".data"];

/// Files of one model.
#[derive(Debug)]
pub(crate) struct Selection {
    pub(crate) format: Format,
    /// File to open; `None` for a folder.
    pub(crate) main: Option<String>,
    pub(crate) files: Vec<Listed>,
    /// Number of models it was chosen from; more than 1 if several fit and none was named.
    pub(crate) chosen_of: usize,
}

/// Quantisations in order of preference, if none is named: Q4_K_M, the most common one, then those nearest to it in size
/// and quality.
const PREFERRED: &[&str] = &[
    "Q4_K_M",
    "Q4_K_XL",
    "Q4_K_L",
    "Q4_K_S",
    "Q4_K",
    "IQ4_NL",
    "IQ4_XS",
    "Q4_1",
    "Q4_0",
    "MXFP4",
    "MXFP4_MOE",
    "Q5_K_M",
    "Q5_K_S",
    "Q5_1",
    "Q5_0",
    "Q6_K",
    "Q3_K_L",
    "Q3_K_M",
    "Q8_0",
    "Q3_K_S",
    "Q2_K",
    "F16",
    "BF16",
    "F32",
];

/// Model in GGUF: one file, or the parts of a split file in order.
#[derive(Debug)]
struct Group<'a> {
    parts: Vec<&'a Listed>,
    /// Number of parts stated in the names.
    promised: usize,
}

/// Chooses the files of a model. `wanted` is the part of the reference after the colon. Without it the order of preference
/// is GGUF, safetensors, PyTorch, ONNX, and among quantisations that of [`PREFERRED`].
pub(crate) fn select(files: &[Listed], wanted: Option<&str>) -> Result<Selection, ErrorKind> {
    if let Some(wanted) = wanted.filter(|wanted| has_ending(wanted, ".onnx")) {
        let candidates = || files.iter().filter(|file| has_ending(&file.path, ".onnx"));
        return match candidates().find(|file| file.path == wanted) {
            Some(file) => onnx(files, file),
            None => Err(ErrorKind::NoMatch {
                candidates: candidates().map(|file| (file.path.clone(), file.size)).collect(),
            }),
        };
    }
    let groups = gguf_groups(files);
    let checkpoint = checkpoint(files);
    let Some(wanted) = wanted else {
        let models: Vec<_> = groups.iter().filter(|(_, group)| group.is_model()).collect();
        return match (models.as_slice(), checkpoint) {
            ([], Ok(selection)) => Ok(selection),
            ([], Err(why)) => Err(why),
            ([(name, group)], _) => group.selection(name),
            (several, checkpoint) => {
                match preferred(&several.iter().map(|(name, _)| **name).collect::<Vec<_>>()) {
                    Some(name) => {
                        let chosen = groups[name].selection(name)?;
                        Ok(Selection { chosen_of: several.len(), ..chosen })
                    }
                    None => Err(ErrorKind::Ambiguous {
                        candidates: candidates(&groups, checkpoint.ok().as_ref()),
                    }),
                }
            }
        };
    };
    if CHECKPOINTS.contains(&wanted) && checkpoint.as_ref().map_or(true, |c| c.format.name() == wanted) {
        return checkpoint;
    }
    let matching = find(&groups, wanted);
    match matching.as_slice() {
        [name] => groups[*name].selection(name),
        [] => Err(ErrorKind::NoMatch { candidates: candidates(&groups, checkpoint.ok().as_ref()) }),
        several => {
            let candidates = several.iter().map(|&name| (name.to_owned(), groups[name].size())).collect();
            Err(ErrorKind::Ambiguous { candidates })
        }
    }
}

/// Returns the name with the most preferred quantisation; `None` if the names belong to different models.
fn preferred<'a>(names: &[&'a str]) -> Option<&'a str> {
    let model = |name: &'a str| {
        let name = stem(file_name(name));
        name[..quantisation_at(name).map_or(name.len(), |at| at - 1)].to_ascii_lowercase()
    };
    let mut models = names.iter().copied().map(model);
    let first = models.next()?;
    if models.any(|other| other != first) {
        return None;
    }
    PREFERRED.iter().find_map(|wanted| names.iter().copied().find(|name| has_quantisation(name, wanted)))
}

fn find<'a>(groups: &BTreeMap<&'a str, Group<'a>>, wanted: &str) -> Vec<&'a str> {
    let known: Vec<(&str, Vec<&str>)> = groups
        .iter()
        .map(|(&name, group)| (name, group.parts.iter().map(|part| part.path.as_str()).collect()))
        .collect();
    matching(&known, wanted)
}

/// Returns the GGUF models of a repository by the path of their first part.
fn gguf_groups(files: &[Listed]) -> BTreeMap<&str, Group<'_>> {
    let mut split: BTreeMap<(&str, usize), Vec<(usize, &Listed)>> = BTreeMap::new();
    let mut groups = BTreeMap::new();
    for file in files.iter().filter(|file| has_ending(&file.path, ".gguf")) {
        match split_name(&file.path, ".gguf") {
            Some((front, part, promised)) => split.entry((front, promised)).or_default().push((part, file)),
            None => {
                groups.insert(file.path.as_str(), Group { parts: vec![file], promised: 1 });
            }
        }
    }
    for ((_, promised), mut parts) in split {
        parts.sort_by_key(|(part, _)| *part);
        if let Some((_, first)) = parts.first() {
            let name = first.path.as_str();
            groups.insert(name, Group { parts: parts.into_iter().map(|(_, file)| file).collect(), promised });
        }
    }
    groups
}

impl Group<'_> {
    fn size(&self) -> u64 {
        self.parts.iter().fold(0, |sum, part| sum.saturating_add(part.size))
    }

    /// Returns true for a model, as opposed to an image projector or an importance matrix.
    fn is_model(&self) -> bool {
        self.parts.first().is_some_and(|part| is_model_file(&part.path))
    }

    fn selection(&self, name: &str) -> Result<Selection, ErrorKind> {
        if self.parts.len() != self.promised
            || split_name(name, ".gguf").is_some_and(|(_, part, _)| part != 1)
        {
            let (have, promised) = (self.parts.len(), self.promised);
            return Err(ErrorKind::NoModel(format!(
                "`{name}` has {promised} parts, the repository {have} of them"
            )));
        }
        let files = self.parts.iter().map(|&part| part.clone()).collect();
        Ok(Selection { format: Format::Gguf, main: Some(name.to_owned()), files, chosen_of: 1 })
    }
}

/// Returns the checkpoint at the top of a repository: safetensors, else PyTorch's file, else ONNX.
fn checkpoint(files: &[Listed]) -> Result<Selection, ErrorKind> {
    let top = |name: &str| files.iter().find(|file| file.path == name);
    let none = |why: &str| Err(ErrorKind::NoModel(why.to_owned()));
    let weights: Vec<&Listed> = files
        .iter()
        .filter(|file| has_ending(&file.path, ".safetensors") && !file.path.contains('/'))
        .collect();
    let torch = top(TORCH);
    if weights.is_empty() && torch.is_none() {
        let first = ONNX.iter().find_map(|name| top(name));
        return match first {
            Some(file) => onnx(files, file),
            None => none(
                "the repository has no GGUF files, and neither safetensors nor pytorch_model.bin at its top, nor onnx/model.onnx",
            ),
        };
    }
    if top("config.json").or(top("gliner_config.json")).is_none() {
        return none("the repository has weights and no config.json");
    }
    let format = if weights.is_empty() { Format::Pytorch } else { Format::Safetensors };
    let mut chosen: Vec<Listed> = if let (Some(torch), true) = (torch, weights.is_empty()) {
        vec![torch.clone()]
    } else if let Some(index) = top(INDEX) {
        // The index is not read: the names of the shards have the same information.
        let mut shards: Vec<(usize, usize, &Listed)> = weights
            .iter()
            .filter_map(|file| match split_name(&file.path, ".safetensors")? {
                ("model", part, promised) => Some((part, promised, *file)),
                _ => None,
            })
            .collect();
        shards.sort_by_key(|(part, ..)| *part);
        let complete = shards.iter().enumerate().all(|(i, &(part, n, _))| part == i + 1 && n == shards.len());
        if shards.is_empty() || !complete {
            return none("the repository lacks parts of its safetensors checkpoint");
        }
        shards.into_iter().map(|(.., file)| file.clone()).chain([index.clone()]).collect()
    } else if let Some(single) = top("model.safetensors") {
        vec![single.clone()]
    } else if let [single] = weights.as_slice() {
        vec![(*single).clone()]
    } else {
        return none("the repository has several safetensors files and no index of them");
    };
    chosen.extend(companions(files));
    Ok(Selection { format, main: None, files: chosen, chosen_of: 1 })
}

/// Returns the files that are downloaded along with the weights.
fn companions(files: &[Listed]) -> Vec<Listed> {
    let find = |name: &str| files.iter().find(|file| file.path == name);
    let mut found: Vec<&Listed> = COMPANIONS.iter().filter_map(|name| find(name)).collect();
    found.extend(HEADS.iter().filter_map(|forms| forms.iter().find_map(|name| find(name))));
    for module in modules(files) {
        found.extend(find(&format!("{module}/config.json")));
        found.extend(FORMS.iter().find_map(|name| find(&format!("{module}/{name}"))));
    }
    let in_folder = |file: &&Listed| file.path.split_once('/').is_some_and(|(folder, _)| folder == TEMPLATES);
    let templates = files.iter().filter(in_folder).filter(|file| has_ending(&file.path, ".jinja"));
    found.extend(templates.take(MAX_TEMPLATES));
    found.into_iter().cloned().collect()
}

/// Returns the folders of sentence-transformers' modules: `1_Pooling`, `2_Dense`. They are found by the names that the
/// package gives them; `modules.json` is not read.
fn modules(files: &[Listed]) -> Vec<&str> {
    if !files.iter().any(|file| file.path == MODULES) {
        // Other programs read this module even without a list.
        return files
            .iter()
            .filter(|file| file.path == "1_Pooling/config.json")
            .map(|_| "1_Pooling")
            .collect();
    }
    let number = |folder: &str| folder.split_once('_').and_then(|(n, _)| n.parse::<u32>().ok());
    let mut found: Vec<(u32, &str)> = files
        .iter()
        .filter_map(|file| {
            let folder = file.path.strip_suffix("/config.json")?;
            Some((number(folder).filter(|_| !folder.contains('/'))?, folder))
        })
        .collect();
    found.sort_unstable();
    found.truncate(MAX_MODULES);
    found.into_iter().map(|row| row.1).collect()
}

/// Returns an ONNX model, with the configuration in its folder or at the top.
fn onnx(files: &[Listed], model: &Listed) -> Result<Selection, ErrorKind> {
    let folder = model.path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let own = format!("{folder}/config.json");
    let find = |name: &str| files.iter().find(|file| file.path == name);
    let above = !folder.contains('/') && find("config.json").is_some();
    if find(&own).is_none() && !above {
        return Err(ErrorKind::NoModel(format!("`{}` has no config.json beside or above it", model.path)));
    }
    let data = ONNX_DATA.iter().filter_map(|end| find(&format!("{}{end}", model.path)));
    let mut chosen: Vec<Listed> = std::iter::once(model).chain(data).cloned().collect();
    chosen.extend(find(&own).filter(|_| !folder.is_empty()).cloned());
    chosen.extend(companions(files));
    Ok(Selection { format: Format::Onnx, main: Some(model.path.clone()), files: chosen, chosen_of: 1 })
}

fn candidates(groups: &BTreeMap<&str, Group<'_>>, checkpoint: Option<&Selection>) -> Vec<(String, u64)> {
    let ggufs = groups.iter().map(|(name, group)| ((*name).to_owned(), group.size()));
    let size = |selection: &Selection| {
        selection.files.iter().fold(0, |sum: u64, file| sum.saturating_add(file.size))
    };
    let name =
        |selection: &Selection| selection.main.clone().unwrap_or_else(|| selection.format.name().to_owned());
    ggufs.chain(checkpoint.map(|selection| (name(selection), size(selection)))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(paths: &[&str]) -> Vec<Listed> {
        paths.iter().map(|path| Listed { path: (*path).to_owned(), size: 1, digest: None }).collect()
    }

    fn selected(paths: &[&str], wanted: Option<&str>) -> Result<Vec<String>, ErrorKind> {
        select(&listed(paths), wanted).map(|s| s.files.into_iter().map(|file| file.path).collect())
    }

    const QUANTS: &[&str] = &[
        "README.md",
        "M-Q4_K_M.gguf",
        "M-Q4_K_S.gguf",
        "M-q8_0.gguf",
        "M-IQ4_XS.gguf",
        "M.F16.gguf",
        "M-BF16-00001-of-00002.gguf",
        "M-BF16-00002-of-00002.gguf",
        "UD/M-UD-Q4_K_XL.gguf",
        "mmproj-M-F16.gguf",
        "M_Q6_K.gguf",
    ];

    #[test]
    fn one_file_is_chosen() {
        for (wanted, file) in [
            ("M-Q4_K_M.gguf", "M-Q4_K_M.gguf"),
            ("Q4_K_M", "M-Q4_K_M.gguf"),
            ("q4_k_s", "M-Q4_K_S.gguf"),
            ("Q8_0", "M-q8_0.gguf"),
            ("IQ4_XS", "M-IQ4_XS.gguf"),
            ("f16", "M.F16.gguf"),
            ("Q6_K", "M_Q6_K.gguf"),
            ("UD-Q4_K_XL", "UD/M-UD-Q4_K_XL.gguf"),
            ("Q4_K_XL", "UD/M-UD-Q4_K_XL.gguf"),
            ("M-UD-Q4_K_XL.gguf", "UD/M-UD-Q4_K_XL.gguf"),
            ("m-q4_k_m", "M-Q4_K_M.gguf"),
            ("mmproj-M-F16.gguf", "mmproj-M-F16.gguf"),
        ] {
            assert_eq!(selected(QUANTS, Some(wanted)).unwrap(), [file], "{wanted}");
        }
        for wanted in ["Q4_K", "4_K_M", "Q4", "M", "Q2_K", "README.md", "gguf", "K_M"] {
            let error = selected(QUANTS, Some(wanted)).unwrap_err();
            assert!(matches!(error, ErrorKind::NoMatch { .. }), "{wanted}: {error:?}");
        }
    }

    #[test]
    fn parts_come_together() {
        let parts = ["M-BF16-00001-of-00002.gguf", "M-BF16-00002-of-00002.gguf"];
        for wanted in ["BF16", parts[0], parts[1], "M-BF16"] {
            assert_eq!(selected(QUANTS, Some(wanted)).unwrap(), parts, "{wanted}");
        }
        for missing in [
            &["M-00001-of-00002.gguf"][..],
            &["M-00002-of-00002.gguf"],
            &["M-00001-of-00001.gguf", "M-00001-of-00003.gguf"],
        ] {
            assert!(selected(missing, Some(missing[missing.len() - 1])).is_err(), "{missing:?}");
        }
    }

    #[test]
    fn one_of_several_quantisations_is_chosen() {
        for (files, wanted) in [
            (QUANTS, "M-Q4_K_M.gguf"),
            (&["M-Q8_0.gguf", "M-Q5_K_M.gguf", "M-F16.gguf"], "M-Q5_K_M.gguf"),
            (&["M-F16.gguf", "M-Q8_0.gguf", "M-IQ2_M.gguf"], "M-Q8_0.gguf"),
            (&["M-UD-Q4_K_XL.gguf", "M-Q4_0.gguf", "M-UD-Q2_K_XL.gguf"], "M-UD-Q4_K_XL.gguf"),
            (&["M.gguf", "model.safetensors", "config.json"], "M.gguf"),
        ] {
            assert_eq!(selected(files, None).unwrap(), [wanted], "{files:?}");
        }
        assert_eq!(select(&listed(QUANTS), None).unwrap().chosen_of, 8);
    }

    #[test]
    fn different_models_are_not_guessed_between() {
        let two = ["a-Q4_K_M.gguf", "b-Q4_K_M.gguf", "b-Q8_0.gguf"];
        let Err(ErrorKind::Ambiguous { candidates }) = selected(&two, None) else { panic!() };
        assert_eq!(candidates.len(), 3);
        assert!(matches!(selected(&["a-Q4_0.gguf", "b-Q8_0.gguf"], None), Err(ErrorKind::Ambiguous { .. })));
        assert!(matches!(selected(&["a.gguf", "b.gguf"], None), Err(ErrorKind::Ambiguous { .. })));
        let same = ["a/M-Q4_0.gguf", "b/M-Q4_0.gguf"];
        assert!(
            matches!(selected(&same, Some("Q4_0")), Err(ErrorKind::Ambiguous { candidates }) if candidates.len() == 2)
        );
        assert_eq!(selected(&same, Some("b/M-Q4_0.gguf")).unwrap(), ["b/M-Q4_0.gguf"]);
        let both = ["M.gguf", "model.safetensors", "config.json"];
        assert_eq!(selected(&both, Some("safetensors")).unwrap(), ["model.safetensors", "config.json"]);
    }

    #[test]
    fn a_lone_model_needs_no_name() {
        assert_eq!(
            selected(&["M.gguf", "mmproj-f16.gguf", "imatrix_unsloth.gguf", "README.md"], None).unwrap(),
            ["M.gguf"]
        );
    }

    #[test]
    fn checkpoints_come_whole() {
        let sharded = [
            "model-00002-of-00002.safetensors",
            "model-00001-of-00002.safetensors",
            INDEX,
            "config.json",
            "tokenizer.json",
            "consolidated.safetensors",
            "original/model.safetensors",
            "README.md",
            "LICENSE",
        ];
        let wanted = [
            "model-00001-of-00002.safetensors",
            "model-00002-of-00002.safetensors",
            INDEX,
            "config.json",
            "tokenizer.json",
            "LICENSE",
        ];
        assert_eq!(selected(&sharded, None).unwrap(), wanted);
        for bad in [
            &["model-00001-of-00002.safetensors", INDEX, "config.json"][..],
            &["model.safetensors"],
            &["a.safetensors", "b.safetensors", "config.json"],
            &["x/model.safetensors", "config.json"],
            &[INDEX, "config.json"],
            &["pytorch_model.bin"],
            &["onnx/model.onnx"],
            &["onnx/model_O1.onnx", "config.json"],
            &[],
        ] {
            assert!(matches!(selected(bad, None), Err(ErrorKind::NoModel(_))), "{bad:?}");
        }
    }

    #[test]
    fn without_safetensors_other_forms_are_taken() {
        let all = [
            "pytorch_model.bin",
            "onnx/model.onnx",
            "onnx/model.onnx_data",
            "onnx/model_quantized.onnx",
            "config.json",
            "1_Pooling/config.json",
            "modules.json",
            "tokenizer.json",
        ];
        let rest = ["config.json", "tokenizer.json", "modules.json", "1_Pooling/config.json"];
        let with = |first: &[&'static str]| [first, &rest].concat();
        assert_eq!(selected(&all, None).unwrap(), with(&["pytorch_model.bin"]));
        assert_eq!(selected(&all, Some("pytorch")).unwrap(), with(&["pytorch_model.bin"]));
        assert!(selected(&all, Some("safetensors")).is_err());
        assert_eq!(selected(&all[1..], None).unwrap(), with(&["onnx/model.onnx", "onnx/model.onnx_data"]));
        assert_eq!(selected(&all[3..], None).unwrap(), with(&["onnx/model_quantized.onnx"]));
        let named = select(&listed(&all), Some("onnx/model_quantized.onnx")).unwrap();
        assert_eq!((named.format, named.main.as_deref()), (Format::Onnx, Some("onnx/model_quantized.onnx")));
        let missing = selected(&all, Some("onnx/model_O1.onnx")).unwrap_err();
        assert!(matches!(missing, ErrorKind::NoMatch { candidates } if candidates.len() == 2));
        let both = ["model.safetensors", "pytorch_model.bin", "config.json"];
        assert_eq!(selected(&both, None).unwrap(), ["model.safetensors", "config.json"]);
        let gliner = ["pytorch_model.bin", "gliner_config.json"];
        assert_eq!(selected(&gliner, None).unwrap(), gliner);
    }

    #[test]
    fn all_files_of_settings_come_along() {
        let settings: Vec<&str> = leyden_tensor::HfFolder::settings_names().collect();
        let all = [&["model.safetensors"][..], &settings].concat();
        let got = selected(&all, None).unwrap();
        let left_out: Vec<&&str> =
            settings.iter().filter(|name| !got.iter().any(|got| got == *name)).collect();
        assert!(left_out.is_empty(), "{left_out:?}");
    }

    #[test]
    fn modules_heads_and_templates_come_along() {
        let all = [
            "model.safetensors",
            "config.json",
            "modules.json",
            "sentence_bert_config.json",
            "1_Pooling/config.json",
            "10_Dense/config.json",
            "10_Dense/pytorch_model.bin",
            "2_Dense/config.json",
            "2_Dense/model.safetensors",
            "2_Dense/pytorch_model.bin",
            "3_Normalize/README.md",
            "additional_chat_templates/tool_use.jinja",
            "additional_chat_templates/rag.jinja",
            "additional_chat_templates/notes.txt",
            "colbert_linear.pt",
            "sparse_linear.pt",
            "onnx/config.json",
            "onnx/2_Dense/config.json",
            "checkpoint-500/config.json",
            "checkpoint-500/model.safetensors",
        ];
        let wanted = [
            "model.safetensors",
            "config.json",
            "modules.json",
            "sentence_bert_config.json",
            "sparse_linear.pt",
            "colbert_linear.pt",
            "1_Pooling/config.json",
            "2_Dense/config.json",
            "2_Dense/model.safetensors",
            "10_Dense/config.json",
            "10_Dense/pytorch_model.bin",
            "additional_chat_templates/tool_use.jinja",
            "additional_chat_templates/rag.jinja",
        ];
        assert_eq!(selected(&all, None).unwrap(), wanted);
        let without_list =
            ["model.safetensors", "config.json", "1_Pooling/config.json", "2_Dense/config.json"];
        assert_eq!(selected(&without_list, None).unwrap(), without_list[..3]);
    }
}
