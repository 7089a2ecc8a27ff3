//! Pictures as tensors: JPEG and PNG, decoded without C.

use crate::error::Error;
use crate::outline::GraphInput;
use crate::shape::Shape;
use crate::tensor::{ElementType, Tensor};
use image::imageops::FilterType;
use std::io::Cursor;

/// Maximum width and height, and bytes of a decoded picture.
const MAX_SIDE: u32 = 16_384;
const MAX_BYTES: u64 = 1 << 30;

/// Reads a picture as `[1, 3, height, width]`, or `[1, height, width, 3]` where the input's last size is 3; RGB, from 0 to
/// 255. Height and width become those of the input where it fixes them, by linear interpolation.
pub(super) fn read(bytes: &[u8], input: &GraphInput) -> Result<Tensor, Error> {
    let bad = |e: &dyn std::fmt::Display| Error::invalid(format!("is no valid picture: {e}"));
    let mut reader =
        image::ImageReader::new(Cursor::new(bytes)).with_guessed_format().map_err(|e| bad(&e))?;
    let mut limits = image::Limits::default();
    limits.max_image_width = Some(MAX_SIDE);
    limits.max_image_height = Some(MAX_SIDE);
    limits.max_alloc = Some(MAX_BYTES);
    reader.limits(limits);
    let mut picture = reader.decode().map_err(|e| bad(&e))?.into_rgb8();
    let dims = input.shape.clone().unwrap_or_default();
    let last = dims.len() == 4 && dims[3] == "3" && dims[1] != "3";
    let size =
        |i: usize| dims.get(i).and_then(|d| d.parse::<u32>().ok()).filter(|n| (1..=MAX_SIDE).contains(n));
    let (h, w) = if last { (size(1), size(2)) } else { (size(2), size(3)) };
    let (h, w) = (h.unwrap_or(picture.height()), w.unwrap_or(picture.width()));
    if (w, h) != picture.dimensions() {
        picture = image::imageops::resize(&picture, w, h, FilterType::Triangle);
    }
    let (h, w, values) = (h as usize, w as usize, picture.into_raw());
    let (shape, values): (Shape, Vec<u8>) = if last {
        ([1, h, w, 3].into_iter().collect(), values)
    } else {
        let planes = (0..3).flat_map(|c| values[c.min(values.len())..].iter().step_by(3).copied());
        ([1, 3, h, w].into_iter().collect(), planes.collect())
    };
    crate::ops::cast::cast(Tensor::of(shape, values), input.ty.unwrap_or(ElementType::F32))
}
