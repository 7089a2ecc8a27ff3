//! Drawings in SVG.

mod plot;
mod rows;
mod scale;

pub use plot::{Mark, Plot, Series, Shape};
pub use rows::{Estimate, Row, RowPlot};
pub use scale::{Axis, Extent};

/// Width of a drawing. Text has 12 units, so it can be read where the drawing is 380 pixels wide.
pub(crate) const WIDTH: f64 = 520.0;
/// Number of colours of series and bars.
pub(crate) const COLOURS: usize = 8;

/// Returns the approximate width of a text of 12 units.
pub(crate) fn text_width(text: &str) -> f64 {
    7.2 * text.chars().count() as f64
}
