//! Windows that move over spatial dimensions: of convolutions and pooling.

use crate::attributes::Attributes;
use crate::error::Error;
use smallvec::{SmallVec, smallvec};

/// One number for each spatial dimension.
pub(crate) type Spatial = SmallVec<[usize; 3]>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AutoPad {
    /// The widths of the attribute.
    No,
    Upper,
    Lower,
    Valid,
}

/// Attributes of a window.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    pub(crate) kernel: Option<Spatial>,
    pub(crate) strides: Option<Spatial>,
    pub(crate) dilations: Option<Spatial>,
    /// Widths before all dimensions, then after.
    pub(crate) pads: Option<Vec<i64>>,
    pub(crate) auto: AutoPad,
    pub(crate) ceil: bool,
}

/// A window over a given input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Placed {
    pub(crate) kernel: Spatial,
    pub(crate) strides: Spatial,
    pub(crate) dilations: Spatial,
    /// Widths before and after.
    pub(crate) before: Spatial,
    pub(crate) after: Spatial,
    pub(crate) output: Spatial,
}

impl Window {
    pub(crate) fn read(a: &Attributes<'_, '_>) -> Result<Window, Error> {
        let spatial = |name: &str| -> Result<Option<Spatial>, Error> {
            let sizes = a.sizes(name)?.map(|v| Spatial::from_slice(&v));
            match sizes.as_ref().and_then(|v| v.iter().find(|n| **n == 0 || **n > 1 << 24)) {
                Some(bad) => Err(format!("attribute `{name}` has the size {bad}").into()),
                None => Ok(sizes),
            }
        };
        let auto = a.choice("auto_pad", &["NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"])?;
        Ok(Window {
            kernel: spatial("kernel_shape")?,
            strides: spatial("strides")?,
            dilations: spatial("dilations")?,
            pads: a.ints("pads")?,
            auto: [AutoPad::No, AutoPad::Upper, AutoPad::Lower, AutoPad::Valid][auto],
            ceil: a.flag("ceil_mode", false)?,
        })
    }

    /// Places the window of size `kernel` over an input.
    pub(crate) fn place(&self, input: &[usize], kernel: &[usize]) -> Result<Placed, Error> {
        let n = input.len();
        let or_one = |v: &Option<Spatial>| v.clone().unwrap_or_else(|| smallvec![1; n]);
        let (strides, dilations) = (or_one(&self.strides), or_one(&self.dilations));
        let pads = self.pads.clone().unwrap_or_else(|| vec![0; 2 * n]);
        if kernel.len() != n || strides.len() != n || dilations.len() != n || pads.len() != 2 * n {
            return Err(format!("a window of shape {kernel:?} does not fit {n} spatial dimensions").into());
        }
        if kernel.contains(&0) {
            return Err(format!("a window of shape {kernel:?} is empty").into());
        }
        let mut placed = Placed {
            kernel: Spatial::from_slice(kernel),
            strides,
            dilations,
            before: smallvec![0; n],
            after: smallvec![0; n],
            output: smallvec![0; n],
        };
        for d in 0..n {
            let reach = (kernel[d] - 1).saturating_mul(placed.dilations[d]).saturating_add(1);
            let stride = placed.strides[d];
            match self.auto {
                AutoPad::No => {
                    let width = |i: usize| {
                        let found = usize::try_from(pads[i]).ok().filter(|n| *n < 1 << 32);
                        found.ok_or_else(|| Error::invalid(format!("attribute `pads` is {pads:?}")))
                    };
                    placed.before[d] = width(d)?;
                    placed.after[d] = width(n + d)?;
                }
                AutoPad::Valid => {}
                AutoPad::Upper | AutoPad::Lower => {
                    let output = input[d].div_ceil(stride);
                    let all =
                        (output.saturating_sub(1) * stride).saturating_add(reach).saturating_sub(input[d]);
                    let less = all / 2;
                    let more = all - less;
                    (placed.before[d], placed.after[d]) =
                        if self.auto == AutoPad::Upper { (less, more) } else { (more, less) };
                }
            }
            let room = input[d] + placed.before[d] + placed.after[d];
            if room < reach {
                return Err(format!("a window of {reach} does not fit the padded size {room}").into());
            }
            placed.output[d] = if self.ceil {
                let output = (room - reach).div_ceil(stride) + 1;
                // No window may begin in the padding behind the input.
                if (output - 1) * stride >= input[d] + placed.before[d] { output - 1 } else { output }
            } else {
                (room - reach) / stride + 1
            };
        }
        Ok(placed)
    }
}
