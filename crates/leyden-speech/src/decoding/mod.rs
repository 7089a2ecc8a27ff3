//! Decoding of one window of audio to tokens: rules for the next token, sampling, and the choice among temperatures.

mod rules;
mod window;

pub(crate) use rules::log_sum_exp;
pub(crate) use window::{Decoded, Window};
