//! File type and RoPE parameters in GGUF metadata.

use super::checks::{checked_positive, checked_size};
use super::{RopeScaling, YarnRamp, yarn_attention};
use crate::error::Error;
use leyden_tensor::{Escaped, Metadata};
use std::sync::Arc;

/// Refuses GGUF files that name a model's architecture but contain something else.
pub(crate) fn check_type(meta: &Metadata) -> Result<(), Error> {
    /// Value of the key, and its description with the remedy.
    const OTHERS: [(&str, &str); 3] = [
        ("adapter", "an adapter of a model (LoRA), not a model; merge it into its model first"),
        ("mmproj", "the projector of images or sound for a model, not a model; name the model's file"),
        ("imatrix", "the importance matrix of a model, not a model; name the model's file"),
    ];
    let key = "general.type";
    let found = meta.opt_str(key)?.and_then(|name| OTHERS.iter().find(|row| row.0 == name));
    match found {
        Some((name, what)) => Err(Error::invalid(meta.file(), key, format!("`{name}` is {what}"))),
        None => Ok(()),
    }
}

/// RoPE parameters in the metadata.
pub(super) struct Rotation {
    pub(super) base: f32,
    pub(super) scaling: RopeScaling,
    /// Factor on cosine and sine, in addition to the scaling's own.
    pub(super) magnitude: f32,
}

/// Keys under `rope.scaling.` for YaRN only, and their defaults. Files with another scaling type may have them with
/// these values.
const YARN_KEYS: [(&str, f32); 5] = [
    ("yarn_ext_factor", UNSET),
    ("yarn_attn_factor", 1.0),
    ("yarn_beta_fast", 32.0),
    ("yarn_beta_slow", 1.0),
    ("yarn_log_multiplier", 0.0),
];
/// llama.cpp's value of a factor that is not set.
const UNSET: f32 = -1.0;

/// Reads the RoPE parameters of a model with a context of `context` tokens.
pub(super) fn rope(meta: &Metadata, prefix: &str, context: usize) -> Result<Rotation, Error> {
    let key = |name: &str| format!("{prefix}.rope.{name}");
    let positive = |name: &str| -> Result<Option<f32>, Error> {
        let value = meta.opt_f32(&key(name))?;
        value.map(|v| checked_positive(meta.file(), &key(name), v)).transpose()
    };
    let base = positive("freq_base")?.unwrap_or(10_000.0);
    // Zero means no factor.
    let factor = |name: &str| match meta.opt_f32(&key(name))? {
        None | Some(0.0) => Ok(None),
        Some(v) => checked_positive(meta.file(), &key(name), v).map(Some),
    };
    let factor = match factor("scaling.factor")? {
        Some(f) => Some(f),
        None => factor("scale_linear")?,
    };
    let kind = meta.opt_str(&key("scaling.type"))?;
    // In files older than the type key, a factor alone means linear scaling.
    let scaling = match kind {
        None => factor.map_or(RopeScaling::None, |factor| RopeScaling::Linear { factor }),
        Some("none") => RopeScaling::None,
        Some("linear") => RopeScaling::Linear { factor: factor.unwrap_or(1.0) },
        Some("longrope") => RopeScaling::LongRope {
            original_context: original_context(meta, &key("scaling"), context)?,
            divisors: Arc::default(),
            attention: 1.0,
        },
        Some("yarn") => yarn(meta, &key("scaling"), factor.unwrap_or(1.0), context)?,
        Some(other) => {
            let other = Escaped(other);
            let what = format!("`{other}` is not supported; supported: none, linear, yarn, longrope");
            return Err(Error::invalid(meta.file(), &key("scaling.type"), what));
        }
    };
    if kind != Some("yarn") {
        for (name, off) in YARN_KEYS {
            let key = key(&format!("scaling.{name}"));
            if let Some(v) = meta.opt_f32(&key)?
                && v != off
            {
                let kind = kind.unwrap_or("missing");
                let what =
                    format!("{v} is for YaRN, but the key {prefix}.rope.scaling.type is {kind}, not yarn");
                return Err(Error::invalid(meta.file(), &key, what));
            }
        }
    }
    Ok(Rotation { base, scaling, magnitude: positive("scaling.attn_factor")?.unwrap_or(1.0) })
}

/// Reads the context length before scaling.
fn original_context(meta: &Metadata, scaling: &str, context: usize) -> Result<usize, Error> {
    let key = format!("{scaling}.original_context_length");
    match meta.opt_u32(&key)? {
        Some(n) => checked_size(meta.file(), &key, n),
        None => Ok(context),
    }
}

/// Reads YaRN's parameters. llama.cpp reads some of these keys for some architectures only; here they apply to all.
fn yarn(meta: &Metadata, scaling: &str, factor: f32, context: usize) -> Result<RopeScaling, Error> {
    let key = |name: &str| format!("{scaling}.{name}");
    let original_context = original_context(meta, scaling, context)?;
    let number = |name: &str| meta.opt_f32(&key(name));
    let positive = |name: &str, default: f32| match number(name)? {
        None => Ok(default),
        Some(v) => checked_positive(meta.file(), &key(name), v),
    };
    let standard = YarnRamp::default();
    let extrapolated = match number("yarn_ext_factor")? {
        None => standard.extrapolated,
        // Any negative number means that the factor is not set.
        Some(v) if v < 0.0 => standard.extrapolated,
        // Without extrapolation, YaRN is linear scaling, in llama.cpp without the attention factor.
        Some(0.0) => return Ok(RopeScaling::Linear { factor }),
        Some(v) if v <= 1.0 => v,
        Some(v) => {
            let what = format!("{v} is not an extrapolation factor, which is at most 1");
            return Err(Error::invalid(meta.file(), &key("yarn_ext_factor"), what));
        }
    };
    let ramp = YarnRamp {
        fast: positive("yarn_beta_fast", standard.fast)?,
        slow: positive("yarn_beta_slow", standard.slow)?,
        extrapolated,
        ..standard
    };
    let plain = yarn_attention(factor, 1.0);
    let weight = number("yarn_log_multiplier")?.unwrap_or(0.0);
    let attention = plain / yarn_attention(factor, f64::from(weight));
    if !(attention.is_finite() && attention > 0.0) {
        let what = format!("{weight} gives the attention factor {attention}, which is not a positive number");
        return Err(Error::invalid(meta.file(), &key("yarn_log_multiplier"), what));
    }
    // Converters write one of two values under this key: the factor on cosine and sine itself (`attention_factor`),
    // or a factor on the default one (`attn_factor`), which llama.cpp and transformers do not apply. Only values with
    // which all readings agree are accepted: 1, the default factor, and its reciprocal.
    let name = "yarn_attn_factor";
    if let Some(v) = number(name)? {
        let near = |wanted: f64| (f64::from(v) - wanted).abs() <= 1e-4 * wanted;
        if !(near(1.0) || near(plain) || near(1.0 / plain)) {
            let what =
                format!("{v} has two meanings in files, and is neither 1 nor {plain:.4}, the usual factor");
            return Err(Error::invalid(meta.file(), &key(name), what));
        }
    }
    Ok(RopeScaling::Yarn { factor, original_context, ramp, attention })
}
