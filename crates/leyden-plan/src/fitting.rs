//! [`fitting`]: well-known models that fit a memory.

use crate::error::Error;
use crate::memory::{max_context, memory};
use crate::recorded;
use crate::workload::Workload;
use leyden_kernels::attention::KvType;
use serde::Serialize;

/// Names of models in the records, names for people, and types from the largest to the smallest.
const MODELS: [(&str, &str, &[&str]); 4] = [
    ("1B", "Llama 3.2 1B", &TYPES),
    ("Gemma 3 4B", "Gemma 3 4B", &TYPES),
    ("8B", "Llama 3.1 8B", &TYPES),
    ("gpt-oss-20b", "gpt-oss 20B", &["MXFP4"]),
];
const TYPES: [&str; 5] = ["F16", "Q8_0", "Q6_K", "Q5_K_M", "Q4_K_M"];
/// Context that must fit beside the weights.
const CONTEXT: usize = 8192;

/// Well-known model with the largest types of weights that fit.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Fitting {
    /// Model.
    pub model: &'static str,
    /// Types of its weights.
    pub types: &'static str,
    /// Memory with a context of 8,192 tokens for one user, in bytes.
    pub memory_bytes: u64,
    /// Longest context of one user that fits, in tokens.
    pub context: usize,
}

/// Returns the well-known models that fit `available` bytes with a context of 8,192 tokens for one user, the smallest
/// first.
///
/// # Errors
/// A table of this crate is malformed, which a test excludes.
pub fn fitting(available: u64) -> Result<Vec<Fitting>, Error> {
    let load = Workload {
        users: 1,
        prompt: CONTEXT / 2,
        output: CONTEXT / 2,
        context: CONTEXT,
        step_tokens: 512,
        kv_type: KvType::F16,
    };
    let mut found = Vec::new();
    for (record, model, types) in MODELS {
        for types in types {
            let facts = recorded::model(record, types)?;
            let memory_bytes = memory(&facts, &load)?.total_bytes;
            if memory_bytes <= available {
                let context = max_context(&facts, &load, available).unwrap_or(CONTEXT);
                found.push(Fitting { model, types, memory_bytes, context });
                break;
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_memory_fits_larger_models_and_types() {
        let names = |gib: u64| -> Vec<String> {
            let fitting = fitting(gib << 30).unwrap();
            assert!(fitting.iter().all(|f| f.memory_bytes <= gib << 30 && f.context >= CONTEXT));
            fitting.iter().map(|f| format!("{} {}", f.model, f.types)).collect()
        };
        assert!(names(1).is_empty());
        assert_eq!(names(2), ["Llama 3.2 1B Q8_0"]);
        assert_eq!(names(7), ["Llama 3.2 1B F16", "Gemma 3 4B Q8_0", "Llama 3.1 8B Q5_K_M"]);
        assert_eq!(names(64).last().unwrap(), "gpt-oss 20B MXFP4");
    }
}
