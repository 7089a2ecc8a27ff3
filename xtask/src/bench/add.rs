//! `cargo xtask bench-add MACHINE MODEL TYPE PEER FILE`: adds a run of `leyden bench --json --versus` to the results.

use super::results::{Ceilings, FOLDER, Results, Test};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Adds the tests of a run to today's file of a machine; the first run of a day creates the file, with fields to fill
/// in.
pub(crate) fn run(root: &Path, arguments: &[String]) -> Result<(), String> {
    let [machine, model, dtype, peer, file] = arguments else {
        return Err("usage: cargo xtask bench-add MACHINE MODEL TYPE PEER FILE".to_owned());
    };
    if !super::page::PEERS.contains(&peer.as_str()) {
        return Err(format!("{peer}: not one of the peers: {}", super::page::PEERS.join(", ")));
    }
    if machine.is_empty() || !machine.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') {
        return Err(format!("{machine}: a machine's name has letters, digits and hyphens"));
    }
    let text = fs::read_to_string(file).map_err(|e| format!("{file}: {e}"))?;
    let document: Value = serde_json::from_str(&text).map_err(|e| format!("{file}: {e}"))?;
    let new = tests(&document, model, dtype, peer).map_err(|what| format!("{file}: {what}"))?;
    let date = output("date", &["-u", "+%Y-%m-%d"])?;
    let folder = root.join(FOLDER).join(machine);
    fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let path = folder.join(format!("{date}.json"));
    let mut results = match fs::read_to_string(&path) {
        Ok(text) => serde_json::from_str(&text).map_err(|e| format!("{}: {e}", path.display()))?,
        Err(_) => begin(&document, date)?,
    };
    let same =
        |a: &Test, b: &Test| (&a.model, &a.dtype, &a.test, &a.peer) == (&b.model, &b.dtype, &b.test, &b.peer);
    results.tests.retain(|old| !new.iter().any(|test| same(old, test)));
    results.peers.entry(peer.clone()).or_insert_with(|| "VERSION AND BUILD".to_owned());
    results.tests.extend(new);
    let text = serde_json::to_string_pretty(&results).map_err(|e| e.to_string())?;
    super::write(&path, &(text + "\n"))?;
    println!("{}: {} tests; complete what is written in capitals", path.display(), results.tests.len());
    Ok(())
}

/// Returns a file without tests; facts about the machine are filled in from the document.
fn begin(document: &Value, date: String) -> Result<Results, String> {
    let number = |key: &str| document["ceilings"][key].as_f64().map(|x| (x / 1e9).round());
    let first = &document["tests"][0];
    let ceilings = number("read_bytes_per_second").map(|read_gb_s| Ceilings {
        read_gb_s,
        int8_gmac_s: number("int8_products_per_second"),
        f32_gmac_s: number("f32_products_per_second"),
        bf16_gmac_s: number("bf16_products_per_second"),
    });
    Ok(Results {
        machine: first["cpu_info"].as_str().unwrap_or("MACHINE").to_owned(),
        isa: first["tier"].as_str().unwrap_or("ISA").to_owned(),
        threads: usize::try_from(first["n_threads"].as_u64().unwrap_or(0)).unwrap_or(0),
        date,
        commit: output("git", &["rev-parse", "--short", "HEAD"])?,
        peers: BTreeMap::new(),
        command: "COMMAND".to_owned(),
        ceilings,
        note: None,
        tests: Vec::new(),
    })
}

/// Reads the tests of a document of `leyden bench --json`.
fn tests(document: &Value, model: &str, dtype: &str, peer: &str) -> Result<Vec<Test>, String> {
    let list = document["tests"]
        .as_array()
        .filter(|l| !l.is_empty())
        .ok_or("no `tests`: not from `leyden bench --json`")?;
    list.iter().map(|t| test(t, model, dtype, peer)).collect()
}

fn test(t: &Value, model: &str, dtype: &str, peer: &str) -> Result<Test, String> {
    let count = |key: &str| t[key].as_u64().ok_or_else(|| format!("a test has no `{key}`"));
    let parallel = count("parallel")?.max(1);
    let (prompt, generate, depth) =
        (count("n_prompt")? / parallel, count("n_gen")? / parallel, count("n_depth")?);
    let mut name = match (prompt, generate) {
        (p, 0) => format!("pp{p}"),
        (0, n) => format!("tg{n}"),
        (p, n) => format!("pp{p}+tg{n}"),
    };
    if parallel > 1 {
        name += &format!(" x{parallel}");
    }
    if depth > 0 {
        name += &format!(" @ d{depth}, {} KV", t["type_k"].as_str().unwrap_or("f16"));
    }
    let samples: Vec<f64> =
        t["samples_ts"].as_array().into_iter().flatten().filter_map(Value::as_f64).collect();
    let versus = &t["versus"];
    let rounded = |key: &str| versus[key].as_f64().map(|x| (x * 100.0).round() / 100.0);
    Ok(Test {
        model: model.to_owned(),
        dtype: dtype.to_owned(),
        test: name,
        leyden_ts: median(samples).ok_or("a test has no `samples_ts`")?,
        peer: versus.is_object().then(|| peer.to_owned()),
        peer_ts: rounded("median_ts"),
        ratio: rounded("ratio"),
        ratio_low: rounded("lowest_ratio"),
        ratio_high: rounded("highest_ratio"),
        share: t["share"].as_f64().map(|x| (x * 100.0).round() / 100.0),
        share_of: t["share_of"].as_str().map(str::to_owned),
    })
}

/// Returns the middle sample, or the mean of the middle two, rounded to two decimals.
fn median(mut samples: Vec<f64>) -> Option<f64> {
    samples.sort_by(f64::total_cmp);
    let (low, high) = (samples.get(samples.len().checked_sub(1)? / 2)?, samples.get(samples.len() / 2)?);
    Some(((low + high) * 50.0).round() / 100.0)
}

fn output(program: &str, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(program).args(arguments).output().map_err(|e| format!("{program}: {e}"))?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_becomes_rows() {
        let document = serde_json::json!({ "tests": [{
            "n_prompt": 0, "n_gen": 256, "n_depth": 8192, "parallel": 8, "type_k": "q8_0", "samples_ts": [10.0, 12.004, 11.0],
            "share": 0.876, "share_of": "bandwidth",
            "versus": { "median_ts": 5.5, "ratio": 2.0, "lowest_ratio": 1.8, "highest_ratio": 2.204 }
        }] });
        let tests = tests(&document, "1B", "Q8_0", "llama.cpp").unwrap();
        let t = &tests[0];
        assert_eq!(
            (t.test.as_str(), t.leyden_ts, t.ratio_high),
            ("tg32 x8 @ d8192, q8_0 KV", 11.0, Some(2.2))
        );
        assert_eq!((t.share, t.peer.as_deref()), (Some(0.88), Some("llama.cpp")));
    }

    #[test]
    fn what_is_no_run_is_refused() {
        assert!(tests(&serde_json::json!([]), "1B", "Q8_0", "llama.cpp").is_err());
        assert!(test(&serde_json::json!({ "parallel": 1 }), "1B", "Q8_0", "llama.cpp").is_err());
    }
}
