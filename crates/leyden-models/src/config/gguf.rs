//! Rotation as GGUF's metadata has it.

use super::reader::{checked_positive, checked_size};
use super::{RopeScaling, YarnRamp, yarn_attention};
use crate::error::Error;
use leyden_tensor::{Escaped, Metadata};

/// Base and scaling of the rotation of a model for `context` tokens.
pub(super) fn rope(meta: &Metadata, prefix: &str, context: usize) -> Result<(f32, RopeScaling), Error> {
    let key = |name: &str| format!("{prefix}.rope.{name}");
    let positive = |name: &str| -> Result<Option<f32>, Error> {
        let value = meta.opt_f32(&key(name))?;
        value.map(|v| checked_positive(meta.file(), &key(name), v)).transpose()
    };
    let base = positive("freq_base")?.unwrap_or(10_000.0);
    let factor = match positive("scaling.factor")? {
        Some(f) => Some(f),
        None => positive("scale_linear")?,
    };
    // Before the type existed a factor alone meant linear scaling.
    let scaling = match meta.opt_str(&key("scaling.type"))? {
        None => factor.map_or(RopeScaling::None, |factor| RopeScaling::Linear { factor }),
        Some("none") => RopeScaling::None,
        Some("linear") => RopeScaling::Linear { factor: factor.unwrap_or(1.0) },
        Some("yarn") => {
            let original = key("scaling.original_context_length");
            let original_context = match meta.opt_u32(&original)? {
                Some(n) => checked_size(meta.file(), &original, n)?,
                None => context,
            };
            let factor = factor.unwrap_or(1.0);
            let attention = yarn_attention(factor, 1.0);
            RopeScaling::Yarn { factor, original_context, ramp: YarnRamp::default(), attention }
        }
        Some(other) => {
            let other = Escaped(other);
            let what = format!("`{other}` is not supported; supported: none, linear, yarn");
            return Err(Error::invalid(meta.file(), &key("scaling.type"), what));
        }
    };
    Ok((base, scaling))
}
