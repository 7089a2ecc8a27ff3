//! `leyden bundle verify`.

use std::io::Write;

use leyden_bundle::Verified;
use serde_json::{Value, json};

use super::args::Verify;
use super::facts;
use super::meter::Meter;
use crate::cli::failure::Failure;

/// Verifies, and prints what is inside.
pub(super) fn execute(args: &Verify, out: &mut dyn Write) -> Result<(), Failure> {
    let key = args.trust.key()?;
    let path = &args.bundle;
    let mut meter = Meter::new("verifying", path.metadata().map_or(0, |found| found.len()))?;
    let verify = if path.is_dir() { leyden_bundle::verify_folder } else { leyden_bundle::verify };
    let verified = verify(path, key.as_ref(), &mut |n| meter.heard(n))?;
    drop(meter);
    if args.json {
        let document = json!({
            "holds": true,
            "key": verified.key,
            "key_trusted": key.is_some(),
            "files": verified.files.len() + 1,
            "program": verified.contents.program,
            "models": verified.contents.models.iter().map(|model| described(model, &verified)).collect::<Vec<Value>>(),
        });
        serde_json::to_writer_pretty(&mut *out, &document)?;
        return Ok(writeln!(out)?);
    }
    facts::of(&verified, key.is_some()).write(out)?;
    Ok(())
}

fn described(model: &leyden_bundle::Model, verified: &Verified) -> Value {
    let files: Vec<Value> = verified
        .files_below(&model.folder)
        .map(|(name, bytes, sha256)| json!({ "name": name, "bytes": bytes, "sha256": sha256 }))
        .collect();
    json!({
        "name": model.name,
        "hub": model.hub,
        "licence": model.licence,
        "evidence": model.evidence,
        "calibrations": model.calibrations,
        "files": files,
    })
}
