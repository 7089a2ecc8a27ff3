//! Bounds on configuration values.

use crate::error::Error;

/// Bounds that keep arithmetic on sizes far from overflow. No published model comes near them.
pub(super) const MAX_LAYERS: u32 = 1024;
pub(super) const MAX_SIZE: u32 = 1 << 24;

/// Returns a size if it is between 1 and [`MAX_SIZE`].
pub(super) fn checked_size(file: &str, key: &str, value: u32) -> Result<usize, Error> {
    if value == 0 || value > MAX_SIZE {
        return Err(Error::invalid(file, key, format!("{value} is not between 1 and {MAX_SIZE}")));
    }
    Ok(value as usize)
}

/// Returns a number if it is positive and finite.
pub(super) fn checked_positive(file: &str, key: &str, value: f32) -> Result<f32, Error> {
    if value.is_finite() && value > 0.0 {
        return Ok(value);
    }
    Err(Error::invalid(file, key, format!("{value} is not a positive number")))
}
