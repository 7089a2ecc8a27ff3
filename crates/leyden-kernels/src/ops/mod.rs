//! Elementwise functions and reductions, written once over 16 lanes.
//!
//! Every reduction keeps 16 partial results, lane i taking elements i, i + 16, …, and joins them by halves:
//! lane i with i + 8, then + 4, + 2, + 1. Multiplications that feed an addition are fused. The exponential,
//! sine and cosine are our own, so no result depends on the platform's mathematics library.

mod activation;
mod add_scaled;
mod gaussian_top_k;
mod layer_norm;
mod recurrent;
mod rms_norm;
mod rope;
mod rows;
mod soft_cap;
mod softmax;
mod trigonometry;

pub use activation::{Activation, activate, gate};
pub use add_scaled::add_scaled;
pub use gaussian_top_k::gaussian_top_k;
pub use layer_norm::{layer_norm, layer_norm_in_place};
pub use recurrent::{
    DeltaInput, DeltaShape, MAX_TAPS, SsmInput, SsmShape, StateSpan, delta_rule, multiply_add,
    short_convolution, ssm_scan,
};
pub use rms_norm::{rms_norm, rms_norm_add, rms_norm_in_place};
pub use rope::{RopePairs, Rotation, rope};
pub use rows::{dot_rows, sum_rows};
pub use soft_cap::soft_cap;
pub use softmax::{exp, log_sum_exp, sigmoid, softmax};
pub use trigonometry::{ln, pow, sin_cos};

pub(crate) use activation::{ClampedSwiglu, Function, Gelu, GeluPolynomial, GeluTanh, Silu, with_function};
pub(crate) use soft_cap::soft_cap16;
pub(crate) use softmax::{exp_side_by_side, exp16};

/// Vector of 16 lanes.
pub(crate) type Lanes = [f32; 16];

/// Reduces the lanes by halves with `f`.
#[inline(always)]
pub(crate) fn join(v: &Lanes, f: impl Fn(f32, f32) -> f32) -> f32 {
    let mut v = *v;
    let mut half = 8;
    while half > 0 {
        for i in 0..half {
            v[i] = f(v[i], v[i + half]);
        }
        half /= 2;
    }
    v[0]
}
