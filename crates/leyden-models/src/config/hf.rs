//! `config.json` of a Hugging Face folder: keys, options that are supported, and RoPE parameters.
//!
//! RoPE has two forms. Up to transformers 4 the base is `rope_theta` and the scaling `rope_scaling`; transformers 5
//! writes both into `rope_parameters`. Other options that would change the result are refused by name.

use super::checks::{checked_positive, checked_size};
use super::{RopeScaling, YarnRamp, yarn_attention};
use crate::error::Error;
use leyden_kernels::ops::{Activation, ln};
use leyden_tensor::{Escaped, Json};
use std::sync::Arc;

/// Default RoPE base in all supported classes.
const DEFAULT_BASE: f32 = 10_000.0;

/// Names of keys and default values of a class of models.
#[derive(Clone, Copy)]
pub(crate) struct KeyNames {
    /// `(usual name, name of the class)`.
    pub(crate) keys: &'static [(&'static str, &'static str)],
    /// `(usual name, further name of the same key)`.
    pub(crate) aliases: &'static [(&'static str, &'static str)],
    /// Values of missing keys.
    pub(crate) defaults: &'static [(&'static str, u32)],
    /// Activation functions by name; the first is the default.
    pub(crate) activations: &'static [(&'static str, Activation)],
}

/// A model's `config.json`.
#[derive(Clone, Copy)]
pub(crate) struct HfConfig<'a> {
    json: &'a Json,
    by_kind: ByKind,
    names: KeyNames,
    /// Default fraction of a head's dimensions that is rotated; `None` if the class always rotates all.
    partial: Option<f32>,
}

/// Support for separate RoPE parameters per layer type.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ByKind {
    No,
    Yes,
}

impl<'a> HfConfig<'a> {
    /// Returns a configuration whose keys have these names.
    pub(crate) fn new(json: &'a Json, names: KeyNames) -> HfConfig<'a> {
        HfConfig { json, by_kind: ByKind::No, names, partial: None }
    }

    /// Returns the configuration with separate RoPE parameters per layer type allowed. Those of full-attention layers
    /// are read by default; see [`local_base`](Self::local_base) for the others.
    pub(crate) fn with_rotations_by_kind(self) -> HfConfig<'a> {
        HfConfig { by_kind: ByKind::Yes, ..self }
    }

    /// Returns the configuration with partial rotation allowed: `default` is the fraction of a head's dimensions that
    /// is rotated if the file does not say.
    pub(crate) fn with_partial_rotation(self, default: f32) -> HfConfig<'a> {
        HfConfig { partial: Some(default), ..self }
    }

    pub(crate) fn json(&self) -> &'a Json {
        self.json
    }

    /// Returns the name of a key in this file.
    pub(crate) fn key(&self, usual: &'static str) -> &'static str {
        let named = self.names.keys.iter().find(|row| row.0 == usual).map_or(usual, |row| row.1);
        if self.json.object().contains_key(named) {
            return named;
        }
        let others = self.names.aliases.iter().filter(|row| row.0 == usual).map(|row| row.1);
        others.into_iter().find(|other| self.json.object().contains_key(*other)).unwrap_or(named)
    }

    /// Checks that aliases of a key have the same value.
    pub(crate) fn check_aliases(&self) -> Result<(), Error> {
        for (usual, other) in self.names.aliases {
            let named = self.key(usual);
            if let (Some(a), Some(b)) = (self.json.get(named), self.json.get(other))
                && a != b
            {
                return Err(self.invalid(other, format!("{b} differs from {named}, which is {a}")));
            }
        }
        Ok(())
    }

    /// Returns the default of a missing key, by its usual name.
    pub(super) fn default(&self, usual: &str) -> Option<u32> {
        self.names.defaults.iter().find(|row| row.0 == usual).map(|row| row.1)
    }

    /// Returns whether the file has a RoPE base.
    pub(crate) fn names_base(&self) -> bool {
        let keys = [self.key("rope_theta"), "rope_parameters.rope_theta", "rope_scaling.rope_theta"];
        keys.iter().any(|key| self.json.get(key).is_some())
    }

    /// Returns the activation of the feed-forward layer.
    pub(crate) fn activation(&self) -> Result<Activation, Error> {
        let key = self.key("hidden_act");
        let name = self.json.opt_str(key)?;
        let found = match name {
            None => self.names.activations.first(),
            Some(name) => self.names.activations.iter().find(|row| row.0 == name),
        };
        found.map(|row| row.1).ok_or_else(|| {
            let known: Vec<&str> = self.names.activations.iter().map(|row| row.0).collect();
            let name = Escaped(name.unwrap_or_default());
            self.invalid(key, format!("`{name}` is not supported; supported: {}", known.join(", ")))
        })
    }

    /// Returns the error for a key with an impossible or unsupported value.
    pub(crate) fn invalid(&self, key: &str, what: impl Into<String>) -> Error {
        Error::invalid(self.json.file(), key, what)
    }

    /// Checks that a flag which would change the result is off, and returns an empty list of biases.
    pub(crate) fn refuse(&self, key: &str) -> Result<Vec<&'static str>, Error> {
        match self.flag(key)? {
            true => Err(self.invalid(key, "true is not supported")),
            false => Ok(Vec::new()),
        }
    }

    /// Reads a flag; false by default.
    pub(crate) fn flag(&self, key: &str) -> Result<bool, Error> {
        Ok(self.json.opt_bool(key)?.unwrap_or(false))
    }

    /// Reads an optional size.
    pub(crate) fn opt_size(&self, key: &str) -> Result<Option<usize>, Error> {
        self.json.opt_u32(key)?.map(|v| checked_size(self.json.file(), key, v)).transpose()
    }

    /// Returns whether `layer_types` lists full attention for every layer; false without it.
    pub(crate) fn has_full_layers(&self) -> Result<bool, Error> {
        let Some(types) = self.json.opt_array_str("layer_types")? else { return Ok(false) };
        match types.iter().find(|&&kind| kind != "full_attention") {
            None => Ok(true),
            Some(other) => {
                let what = format!("`{}` is not supported; supported: full_attention", Escaped(other));
                Err(self.invalid("layer_types", what))
            }
        }
    }

    /// Returns for each layer whether it has full attention, and not a sliding window, by `layer_types`; `None`
    /// without it.
    pub(crate) fn full_layers(&self, layers: usize) -> Result<Option<Vec<bool>>, Error> {
        self.layers_of(layers, &["full_attention"], &["sliding_attention"])
    }

    /// Returns for each layer whether its type is `first`, and not `second`, by `layer_types`; `None` without it.
    /// Each type may have several names.
    pub(crate) fn layers_of(
        &self,
        layers: usize,
        first: &[&str],
        second: &[&str],
    ) -> Result<Option<Vec<bool>>, Error> {
        let key = "layer_types";
        let Some(types) = self.json.opt_array_str(key)? else { return Ok(None) };
        if types.len() != layers {
            return Err(self.invalid(key, format!("{} types for {layers} layers", types.len())));
        }
        let is_first = |kind: &&str| match *kind {
            kind if first.contains(&kind) => Ok(true),
            kind if second.contains(&kind) => Ok(false),
            other => {
                let other = Escaped(other);
                let what = format!("`{other}` is not supported; supported: {}, {}", first[0], second[0]);
                Err(self.invalid(key, what))
            }
        };
        types.iter().map(is_first).collect::<Result<_, _>>().map(Some)
    }

    /// Returns the configuration with other key names.
    pub(crate) fn with_keys(self, keys: &'static [(&'static str, &'static str)]) -> HfConfig<'a> {
        HfConfig { names: KeyNames { keys, ..self.names }, ..self }
    }

    /// Returns the RoPE base in the object under a key, if it exists; scaling is refused.
    pub(crate) fn local_base(&self, object: &str) -> Result<Option<f32>, Error> {
        match self.rotation(object, 1)? {
            None | Some(RopeScaling::None) => self.positive(&format!("{object}.rope_theta")),
            Some(_) => Err(self.invalid(&format!("{object}.rope_type"), "scaling is not supported here")),
        }
    }

    /// Refuses a sliding window of `size` tokens, unless the context fits into it.
    pub(crate) fn refuse_window(&self, key: &str, size: usize) -> Result<(), Error> {
        if self.opt_size("max_position_embeddings")?.is_some_and(|context| context <= size) {
            return Ok(());
        }
        let what = format!("attention to the last {size} tokens only (a sliding window) is not supported");
        Err(self.invalid(key, what))
    }

    /// Returns RoPE base and scaling, from either form.
    pub(super) fn rope(&self, context: usize) -> Result<(f32, RopeScaling), Error> {
        let each = "rope_parameters.full_attention";
        if self.by_kind == ByKind::Yes && self.json.get(each).is_some() {
            let base = self.positive(&format!("{each}.rope_theta"))?.unwrap_or(DEFAULT_BASE);
            return Ok((base, self.rotation(each, context)?.unwrap_or(RopeScaling::None)));
        }
        let flat = self.positive(self.key("rope_theta"))?;
        let old = self.rotation("rope_scaling", context)?;
        let new = self.rotation("rope_parameters", context)?;
        if let (Some(old), Some(new)) = (&old, &new)
            && old != new
        {
            return Err(self.invalid("rope_parameters", "differs from rope_scaling, which is there too"));
        }
        self.refuse_partial(self.key("partial_rotary_factor"))?;
        let inner = match self.positive("rope_parameters.rope_theta")? {
            Some(base) => Some(("rope_parameters.rope_theta", base)),
            None => self.positive("rope_scaling.rope_theta")?.map(|base| ("rope_scaling.rope_theta", base)),
        };
        if let (Some(flat), Some((key, inner))) = (flat, inner)
            && flat != inner
        {
            return Err(self.invalid(key, format!("{inner} differs from rope_theta, which is {flat}")));
        }
        let base = inner.map(|(_, base)| base).or(flat).unwrap_or(DEFAULT_BASE);
        Ok((base, new.or(old).unwrap_or(RopeScaling::None)))
    }

    /// Refuses partial rotation in classes that do not support it.
    fn refuse_partial(&self, key: &str) -> Result<(), Error> {
        match self.positive(key)? {
            Some(factor) if self.partial.is_none() && factor != 1.0 => {
                Err(self.invalid(key, format!("{factor} is not supported")))
            }
            _ => Ok(()),
        }
    }

    /// Returns the number of leading dimensions of a head that are rotated.
    pub(super) fn rotated(&self, head_dim: usize) -> Result<usize, Error> {
        let Some(default) = self.partial else { return Ok(head_dim) };
        let mut found = (String::new(), default);
        for key in [
            self.key("partial_rotary_factor"),
            "rope_scaling.partial_rotary_factor",
            "rope_parameters.partial_rotary_factor",
        ] {
            if let Some(share) = self.positive(key)? {
                found = (key.to_owned(), share);
            }
        }
        let (key, share) = found;
        let dims = (head_dim as f64 * f64::from(share)) as usize;
        if share > 1.0 || dims == 0 || !dims.is_multiple_of(2) {
            let what =
                format!("{share} of a head of {head_dim} values is not an even number of at most {head_dim}");
            return Err(self.invalid(&key, what));
        }
        Ok(dims)
    }

    /// Reads an optional positive number.
    pub(crate) fn positive(&self, key: &str) -> Result<Option<f32>, Error> {
        self.json.opt_f32(key)?.map(|v| checked_positive(self.json.file(), key, v)).transpose()
    }

    fn required_positive(&self, key: &str) -> Result<f32, Error> {
        checked_positive(self.json.file(), key, self.json.f32(key)?)
    }

    /// Returns the RoPE scaling in the object under a key; `None` if there is no such object.
    fn rotation(&self, object: &str, context: usize) -> Result<Option<RopeScaling>, Error> {
        let Some(value) = self.json.get(object) else { return Ok(None) };
        let Some(map) = value.as_object() else { return Err(self.json.wrong_type(object, "object").into()) };
        let key = |name: &str| format!("{object}.{name}");
        if let Some((name, _)) = map.iter().find(|(_, value)| value.is_object()) {
            let what = "a rotation for some layers only is not supported";
            return Err(self.invalid(&key(name), what));
        }
        self.refuse_partial(&key("partial_rotary_factor"))?;
        let [new, old] = [key("rope_type"), key("type")];
        let kind = match (self.json.opt_str(&new)?, self.json.opt_str(&old)?) {
            (Some(new), Some(old)) if new != old => {
                let what = format!("`{}` differs from rope_type, which is `{}`", Escaped(old), Escaped(new));
                return Err(self.invalid(&key("type"), what));
            }
            (Some(new), _) => new,
            (None, Some(old)) => old,
            (None, None) => "default",
        };
        Ok(Some(match kind {
            "default" => RopeScaling::None,
            "linear" => RopeScaling::Linear { factor: self.required_positive(&key("factor"))? },
            "llama3" => self.llama3(key, context)?,
            "yarn" => self.yarn(key, context)?,
            "longrope" | "su" => self.longrope(key, context)?,
            other => {
                let at = if self.json.get(&new).is_some() { new } else { old };
                let what = format!(
                    "`{}` is not supported; supported: default, linear, llama3, yarn, longrope",
                    Escaped(other)
                );
                return Err(self.invalid(&at, what));
            }
        }))
    }

    /// Returns the context length before scaling. The key outside the object takes precedence.
    fn original_context(&self, key: impl Fn(&str) -> String, context: usize) -> Result<usize, Error> {
        const NAME: &str = "original_max_position_embeddings";
        match self.opt_size(NAME)? {
            Some(n) => Ok(n),
            None => Ok(self.opt_size(&key(NAME))?.unwrap_or(context)),
        }
    }

    fn llama3(&self, key: impl Fn(&str) -> String, context: usize) -> Result<RopeScaling, Error> {
        let factor = self.required_positive(&key("factor"))?;
        let low = self.required_positive(&key("low_freq_factor"))?;
        let high = self.required_positive(&key("high_freq_factor"))?;
        if high <= low {
            let what = format!("{high} is not above low_freq_factor, which is {low}");
            return Err(self.invalid(&key("high_freq_factor"), what));
        }
        Ok(RopeScaling::Llama3 { factor, low, high, original_context: self.original_context(key, context)? })
    }

    /// Reads YaRN's parameters as transformers does, which has the key `attention_factor` and ignores `attn_factor`,
    /// which other programs read.
    fn yarn(&self, key: impl Fn(&str) -> String, context: usize) -> Result<RopeScaling, Error> {
        let original_context = self.original_context(&key, context)?;
        let factor = self.required_positive(&key("factor"))?;
        // Zero and `null` both mean the paper's value.
        let beta = |name: &str, default: f32| -> Result<f32, Error> {
            match self.json.opt_f32(&key(name))? {
                None | Some(0.0) => Ok(default),
                Some(v) => checked_positive(self.json.file(), &key(name), v),
            }
        };
        let standard = YarnRamp::default();
        let ramp = YarnRamp {
            fast: beta("beta_fast", standard.fast)?,
            slow: beta("beta_slow", standard.slow)?,
            whole: self.json.opt_bool(&key("truncate"))?.unwrap_or(true),
            ..standard
        };
        let weight = |name: &str| -> Result<f64, Error> {
            Ok(f64::from(self.json.opt_f32(&key(name))?.unwrap_or(0.0)))
        };
        let (mscale, all) = (weight("mscale")?, weight("mscale_all_dim")?);
        let attention = match self.positive(&key("attention_factor"))? {
            Some(given) => f64::from(given),
            None if mscale != 0.0 && all != 0.0 => {
                yarn_attention(factor, mscale) / yarn_attention(factor, all)
            }
            None => yarn_attention(factor, 1.0),
        };
        if !(attention.is_finite() && attention > 0.0) {
            let what = format!(
                "gives with mscale_all_dim the attention factor {attention}, which is not a positive number"
            );
            return Err(self.invalid(&key("mscale"), what));
        }
        Ok(RopeScaling::Yarn { factor, original_context, ramp, attention })
    }

    /// Reads LongRoPE's parameters as transformers does. [`Reader`](super::Reader) checks the number of divisors.
    fn longrope(&self, key: impl Fn(&str) -> String, context: usize) -> Result<RopeScaling, Error> {
        let original_context = self.original_context(&key, context)?;
        let factor = match self.positive(&key("factor"))? {
            Some(factor) => f64::from(factor),
            None => context as f64 / original_context as f64,
        };
        let attention = match self.positive(&key("attention_factor"))? {
            Some(given) => f64::from(given),
            None if factor <= 1.0 => 1.0,
            None => (1.0 + ln(factor) / ln(original_context as f64)).sqrt(),
        };
        if !(attention.is_finite() && attention > 0.0) {
            return Err(self.invalid(
                &key("factor"),
                format!("{factor} gives the attention factor {attention}, which is not a positive number"),
            ));
        }
        let divisors = |name: &str| {
            let list = key(name);
            let numbers = self.json.get(&list).and_then(|value| value.as_array());
            let numbers = numbers.ok_or_else(|| self.invalid(&list, "is not a list of numbers"))?;
            let number = |n: &serde_json::Value| match n.as_f64() {
                Some(n) => checked_positive(self.json.file(), &list, n as f32),
                None => Err(self.invalid(&list, "is not a list of numbers")),
            };
            numbers.iter().map(number).collect::<Result<Vec<f32>, Error>>()
        };
        let divisors = Arc::new([divisors("short_factor")?, divisors("long_factor")?]);
        Ok(RopeScaling::LongRope { original_context, divisors, attention })
    }
}
