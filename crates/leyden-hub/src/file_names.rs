//! Names of model files: parts of split files, quantisations in names, and the files that a short name means.

/// Most parts of a GGUF file that gets a name.
const MAX_PARTS: usize = 1000;

/// The place in a file's name, without its ending, at which the name of a quantisation begins behind `-`, `.` or `_`.
pub(crate) fn quantisation_at(name: &str) -> Option<usize> {
    name.match_indices(['-', '.', '_']).map(|(at, _)| at + 1).find(|at| is_quantisation(&name[*at..]))
}

/// The quantisation that a GGUF file's name says, such as `Q4_K_M`.
pub(crate) fn quantisation(path: &str) -> Option<&str> {
    let name = file_name(path);
    let name = has_ending(name, ".gguf").then(|| stem(name))?;
    quantisation_at(name).map(|at| &name[at..])
}

/// Whether a model is meant: by the path of its main file, the paths of all its files, and what is wanted.
type Rule = fn(&str, &[&str], &str) -> bool;

/// From strict to lenient: the path; path or name of a file; the name without its ending; a quantisation, first
/// without those that make a variant of it.
const RULES: [Rule; 5] = [
    |main, _, wanted| main == wanted,
    |_, parts, wanted| parts.iter().any(|part| *part == wanted || file_name(part) == wanted),
    |main, _, wanted| {
        [stem(file_name(main)), file_name(main)].iter().any(|name| name.eq_ignore_ascii_case(wanted))
    },
    |main, parts, wanted| is_quantised(main, parts, wanted) && !has_quantisation(main, "UD"),
    is_quantised,
];

/// The main files out of `known` that `wanted` can mean, by the strictest rule that any of them satisfies.
pub(crate) fn matching<'a>(known: &[(&'a str, Vec<&str>)], wanted: &str) -> Vec<&'a str> {
    let found = |rule: Rule| -> Vec<&'a str> {
        known.iter().filter(|(main, parts)| rule(main, parts, wanted)).map(|(main, _)| *main).collect()
    };
    RULES.into_iter().map(found).find(|found| !found.is_empty()).unwrap_or_default()
}

fn is_quantised(main: &str, _: &[&str], wanted: &str) -> bool {
    is_quantisation(wanted) && is_model_file(main) && has_quantisation(main, wanted)
}

pub(crate) fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

pub(crate) fn has_ending(path: &str, ending: &str) -> bool {
    path.len() > ending.len() && path.to_ascii_lowercase().ends_with(ending)
}

/// `a/b-00002-of-00005.gguf` as `a/b`, 2, 5.
pub(crate) fn split_name<'a>(path: &'a str, ending: &str) -> Option<(&'a str, usize, usize)> {
    let number = |text: &str| -> Option<usize> {
        (text.len() == 5 && text.bytes().all(|b| b.is_ascii_digit())).then(|| text.parse().ok()).flatten()
    };
    if !has_ending(path, ending) {
        return None;
    }
    let path = path.get(..path.len() - ending.len())?;
    let (front, promised) = path.rsplit_once("-of-")?;
    let (front, part) = front.rsplit_once('-')?;
    let (part, promised) = (number(part)?, number(promised)?);
    (!front.is_empty() && (1..=promised).contains(&part)).then_some((front, part, promised))
}

/// The names of all parts of a GGUF file, in order; its own alone if it is whole, none if it is no GGUF file.
pub(crate) fn parts(name: &str) -> Option<Vec<String>> {
    if let Some((front, _, promised)) = split_name(name, ".gguf") {
        let part = |i| format!("{front}-{i:05}-of-{promised:05}.gguf");
        return (promised <= MAX_PARTS).then(|| (1..=promised).map(part).collect());
    }
    has_ending(name, ".gguf").then(|| vec![name.to_owned()])
}

/// A file's name without ending and number of the part.
pub(crate) fn stem(file: &str) -> &str {
    if let Some((front, ..)) = split_name(file, ".gguf") {
        return front;
    }
    if has_ending(file, ".gguf") { file.get(..file.len() - ".gguf".len()).unwrap_or(file) } else { file }
}

/// Whether a GGUF file is a model by itself. Projectors of images and statistics for quantising lie beside models
/// under names that the tools which write them give.
pub(crate) fn is_model_file(path: &str) -> bool {
    let file = file_name(path).to_ascii_lowercase();
    !file.starts_with("mmproj") && !file.starts_with("imatrix")
}

/// Whether this is written like the name of a quantisation: `Q4_K_M`, `iq4_xs`, `UD-Q4_K_XL`, `F16`, `MXFP4_MOE`.
pub(crate) fn is_quantisation(text: &str) -> bool {
    let text = text.to_ascii_uppercase();
    let text = text.strip_prefix("UD-").unwrap_or(&text);
    let digit_after = |front: &str| {
        text.strip_prefix(front).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    ["Q", "IQ", "TQ", "F", "BF", "FP", "MXFP", "NVFP"].into_iter().any(digit_after)
}

/// Whether the name contains the quantisation as words of their own, in capitals or not.
pub(crate) fn has_quantisation(path: &str, quantisation: &str) -> bool {
    let (text, wanted) = (stem(file_name(path)).to_ascii_lowercase(), quantisation.to_ascii_lowercase());
    text.match_indices(&wanted).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + wanted.len()..].chars().next();
        // `_` joins the words of one quantisation: Q4_K is not Q4_K_M, though `model_Q4_K` ends with Q4_K.
        before.is_none_or(|c| "-._".contains(c)) && after.is_none_or(|c| "-.".contains(c))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_parts() {
        assert_eq!(split_name("d/m-00002-of-00005.gguf", ".gguf"), Some(("d/m", 2, 5)));
        for bad in [
            "m-00000-of-00005.gguf",
            "m-00006-of-00005.gguf",
            "m-2-of-5.gguf",
            "-00001-of-00001.gguf",
            "m.gguf",
            "ü",
            "m-00001-of-0000ü.gguf",
        ] {
            assert_eq!(split_name(bad, ".gguf"), None, "{bad}");
        }
    }
}
