//! `quantization_config`: the supported variants of each method; others are refused by name.

use super::keys;
use crate::Json;
use crate::error::{Error, ErrorKind, Escaped};
use serde_json::Value;

const ROOT: &str = "quantization_config";
/// Side of a block with one scale if the configuration gives none.
const BLOCK: usize = 128;
/// Version of the layout `leyden-sparse`.
const SPARSE_VERSION: u32 = 1;

/// Storage layout of a checkpoint's quantised matrices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    /// `qweight`, whose words hold neighbours along the inputs; the first version stores zero points minus one.
    Gptq { first_version: bool, bits: u32 },
    /// `qweight`, whose words hold eight neighbours along the outputs in AWQ's own order.
    Awq,
    /// `weight_packed`, or `weight` in I8 or F8_E4M3, each with `weight_scale`.
    /// `bits` is a bit set of the numbers of bits that values in words may have.
    /// With `bitmask`, matrices may be sparse: `bitmask` and `compressed`.
    CompressedTensors { block: Option<[usize; 2]>, bits: u16, bitmask: bool },
    /// `sparse_positions` and `sparse_values`, leyden's own layout.
    Sparse,
    /// `weight` in F8_E4M3 with `weight_scale_inv` for blocks, or `weight_scale`.
    Fp8 { block: [usize; 2] },
}

pub(super) fn method(config: &Json) -> Result<Option<Method>, Error> {
    let key = |name: &str| format!("{ROOT}.{name}");
    let text = |name: &str| config.opt_str(&key(name));
    let one_of = |name: &str, known: &[&str]| match text(name)? {
        Some(found) if !known.contains(&found) => Err(refused(config, &key(name), found, known)),
        found => Ok(found),
    };
    let bits = |known: &[u32]| {
        let bits = config.u32(&key("bits"))?;
        if known.contains(&bits) {
            return Ok(bits);
        }
        let known: Vec<String> = known.iter().map(u32::to_string).collect();
        let known: Vec<&str> = known.iter().map(|n| &n[..]).collect();
        Err(refused(config, &key("bits"), &bits.to_string(), &known))
    };
    let object = config.get(ROOT).and_then(Value::as_object);
    if object.is_none() {
        return Ok(None);
    }
    let name = text("quant_method")?.unwrap_or_default();
    let method = match name {
        "gptq" => {
            let formats = ["checkpoint_format", "format"].map(|key| one_of(key, &["gptq", "gptq_v2"]));
            let [first, second] = formats;
            let version = first?.or(second?);
            one_of("pack_dtype", &["int32"])?;
            let bits = bits(&[2, 3, 4, 8])?;
            same_bits(config, &key("dynamic"), bits)?;
            Method::Gptq { first_version: version != Some("gptq_v2"), bits }
        }
        "awq" => {
            let version = text("version")?.map(str::to_ascii_lowercase);
            if let Some(found) = version.filter(|version| version != "gemm") {
                return Err(refused(config, &key("version"), &found, &["gemm"]));
            }
            bits(&[4])?;
            Method::Awq
        }
        "compressed-tensors" => {
            const FORMATS: [&str; 8] = [
                "pack-quantized",
                "int-quantized",
                "float-quantized",
                "naive-quantized",
                "mixed-precision",
                "dense",
                BITMASKS[0],
                BITMASKS[1],
            ];
            const BITMASKS: [&str; 2] = ["sparse-bitmask", "sparse-24-bitmask"];
            let format = one_of("format", &FORMATS)?;
            let sparsity = one_of("sparsity_config.format", &["dense", BITMASKS[0], BITMASKS[1]])?;
            let bitmask = [format, sparsity].into_iter().flatten().any(|name| BITMASKS.contains(&name));
            let transforms = config.get(&key("transform_config.config_groups")).and_then(Value::as_object);
            if transforms.is_some_and(|groups| !groups.is_empty()) {
                return Err(refused(config, &key("transform_config"), "a rotation of weights", &["none"]));
            }
            let groups = config.get(&key("config_groups")).and_then(Value::as_object);
            let (mut block, mut bits) = (None, 0);
            for (name, group) in groups.into_iter().flatten() {
                let format = group.get("format").and_then(Value::as_str);
                if let Some(found) = format.filter(|format| !FORMATS.contains(format)) {
                    return Err(refused(
                        config,
                        &key(&format!("config_groups.{name}.format")),
                        found,
                        &FORMATS,
                    ));
                }
                let sides = group.get("weights").and_then(|w| w.get("block_structure"));
                block = sides.and_then(sides_of).or(block);
                let found = group.get("weights").and_then(|w| w.get("num_bits")).and_then(Value::as_u64);
                bits |= found.filter(|n| *n < 16).map_or(0, |n| 1_u16 << n);
            }
            Method::CompressedTensors { block, bits, bitmask }
        }
        "fp8" => {
            one_of("fmt", &["e4m3"])?;
            let sides = config.get(&key("weight_block_size"));
            Method::Fp8 { block: sides.and_then(sides_of).unwrap_or([BLOCK; 2]) }
        }
        "leyden-sparse" => {
            let version = config.u32(&key("version"))?;
            if version != SPARSE_VERSION {
                let (found, known) = (version.to_string(), SPARSE_VERSION.to_string());
                return Err(refused(config, &key("version"), &found, &[&known]));
            }
            Method::Sparse
        }
        _ => return Ok(None),
    };
    keys::check(config, ROOT, name)?;
    Ok(Some(method))
}

/// Refuses settings of some matrices, by patterns of their names, that give them another number of bits.
fn same_bits(config: &Json, key: &str, bits: u32) -> Result<(), Error> {
    let patterns = config.nested(key)?;
    for (pattern, settings) in patterns.iter().flat_map(|patterns| patterns.object()) {
        let found = settings.get("bits").filter(|found| found.as_u64() != Some(bits.into()));
        // These are not quantised.
        if let Some(found) = found.filter(|_| !pattern.starts_with("-:")) {
            return Err(refused(
                config,
                key,
                &format!("{found} bits of some matrices"),
                &[&bits.to_string()],
            ));
        }
    }
    Ok(())
}

/// Reads two sizes.
fn sides_of(value: &Value) -> Option<[usize; 2]> {
    let [rows, columns] = value.as_array()?.as_slice() else { return None };
    let side = |v: &Value| v.as_u64().and_then(|n| usize::try_from(n).ok()).filter(|n| *n > 0);
    Some([side(rows)?, side(columns)?])
}

fn refused(config: &Json, key: &str, found: &str, known: &[&str]) -> Error {
    let (found, known) = (Escaped(found).to_string(), known.join(", "));
    Error::new(ErrorKind::UnsupportedValue { found, known }).item(key).file(&config.file().into())
}
