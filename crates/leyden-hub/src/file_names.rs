//! Names of model files: parts of split files, quantisations in names, and matching of requested names.

/// Maximum number of parts of a split GGUF file under a name given by the user.
const MAX_PARTS: usize = 1000;

/// Returns the byte offset of the quantisation, which follows `-`, `.` or `_`, in a file's name without its ending.
pub(crate) fn quantisation_at(name: &str) -> Option<usize> {
    name.match_indices(['-', '.', '_']).map(|(at, _)| at + 1).find(|at| is_quantisation(&name[*at..]))
}

/// Returns the quantisation in a GGUF file's name, such as `Q4_K_M`.
pub(crate) fn quantisation(path: &str) -> Option<&str> {
    let name = file_name(path);
    let name = has_ending(name, ".gguf").then(|| stem(name))?;
    quantisation_at(name).map(|at| &name[at..])
}

/// Rule by which a requested name fits a model, given the path of its main file and the paths of all its files.
type Rule = fn(&str, &[&str], &str) -> bool;

/// Rules from strict to lenient: path of the main file; path or name of any file; name of the main file without its
/// ending, in any case; a quantisation, first without the variants that begin with `UD`.
const RULES: [Rule; 5] = [
    |main, _, wanted| main == wanted,
    |_, parts, wanted| parts.iter().any(|part| *part == wanted || file_name(part) == wanted),
    |main, _, wanted| {
        [stem(file_name(main)), file_name(main)].iter().any(|name| name.eq_ignore_ascii_case(wanted))
    },
    |main, parts, wanted| is_quantised(main, parts, wanted) && !has_quantisation(main, "UD"),
    is_quantised,
];

/// Returns the main files out of `known` that fit `wanted`, by the strictest rule that any of them satisfies.
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

/// Splits `a/b-00002-of-00005.gguf` into `a/b`, 2 and 5; `None` for other names.
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

/// Returns the names of all parts of a GGUF file, in order: only its own if it is not split; `None` for other files.
pub(crate) fn parts(name: &str) -> Option<Vec<String>> {
    if let Some((front, _, promised)) = split_name(name, ".gguf") {
        let part = |i| format!("{front}-{i:05}-of-{promised:05}.gguf");
        return (promised <= MAX_PARTS).then(|| (1..=promised).map(part).collect());
    }
    has_ending(name, ".gguf").then(|| vec![name.to_owned()])
}

/// Returns a file's name without its ending and without the number of the part.
pub(crate) fn stem(file: &str) -> &str {
    if let Some((front, ..)) = split_name(file, ".gguf") {
        return front;
    }
    if has_ending(file, ".gguf") { file.get(..file.len() - ".gguf".len()).unwrap_or(file) } else { file }
}

/// Returns true if a GGUF file is a model, by its name. Image projectors and importance matrices have the names that
/// llama.cpp's tools give them.
pub(crate) fn is_model_file(path: &str) -> bool {
    let file = file_name(path).to_ascii_lowercase();
    !file.starts_with("mmproj") && !file.starts_with("imatrix")
}

/// Returns true if the text has the form of a quantisation: `Q4_K_M`, `iq4_xs`, `UD-Q4_K_XL`, `F16`, `MXFP4_MOE`.
pub(crate) fn is_quantisation(text: &str) -> bool {
    let text = text.to_ascii_uppercase();
    let text = text.strip_prefix("UD-").unwrap_or(&text);
    let digit_after = |front: &str| {
        text.strip_prefix(front).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    ["Q", "IQ", "TQ", "F", "BF", "FP", "MXFP", "NVFP"].into_iter().any(digit_after)
}

/// Returns true if the file's name contains the quantisation as a separate word, in any case.
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
