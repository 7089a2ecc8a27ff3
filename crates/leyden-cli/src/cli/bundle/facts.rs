//! Rows about a verified bundle.

use leyden_bundle::Verified;

use crate::cli::text::{Facts, bytes, plural, printable};

/// Returns the rows about a bundle.
pub(super) fn of(verified: &Verified, trusted: bool) -> Facts {
    let mut facts = Facts::default();
    let told =
        if trusted { "" } else { "; not compared with a trusted key, so anyone may have made the bundle" };
    facts.add("signature", format!("holds, by the key {}{told}", verified.key));
    facts.add("files", format!("{} as signed", plural(verified.files.len(), "file")));
    if let Some(program) = &verified.contents.program {
        let text = format!("leyden {} for {}", program.version, program.target);
        facts.add("program", printable(&text, 100));
    }
    for model in &verified.contents.models {
        let size = bytes(verified.files_below(&model.folder).map(|(_, bytes, _)| bytes).sum());
        let licence = model.licence.as_deref().unwrap_or("not stated");
        let evidence = if model.evidence.is_some() { ", with evidence" } else { "" };
        let text = format!("{}: {size}, licence {licence}{evidence}", model.name);
        facts.add("model", printable(&text, 300));
    }
    facts
}
