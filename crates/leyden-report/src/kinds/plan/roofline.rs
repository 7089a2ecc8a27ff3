//! Roofline of a plan: multiply-adds per second of a step over its multiply-adds per byte of weights, below the peaks of the
//! machine.

use super::super::document::Doc;
use crate::chart::{Axis, Extent, Mark, Plot, Series, Shape};
use crate::error::Error;
use crate::page::Block;
use crate::unit::Unit;

/// Point of a step: multiply-adds per byte, and multiply-adds per second in 10^9.
type Point = (f64, f64);

/// Returns the drawing, if the document has the work of its steps.
pub(super) fn plot(doc: &Doc<'_>) -> Result<Option<Block>, Error> {
    let steps = [("prompt", "prefill_step"), ("answers", "decode_step")];
    let point = |key: &str| -> Option<Point> {
        let step = doc.find(key)?;
        let (macs, bytes, total) =
            (step.find_number("macs")?, step.find_number("bytes")?, step.find_number("total")?);
        (macs > 0.0 && bytes > 0.0 && total > 0.0).then(|| (macs / bytes, macs / total / 1e9))
    };
    let predicted: Vec<(&str, Point)> =
        steps.iter().filter_map(|(name, key)| Some((*name, point(key)?))).collect();
    if predicted.is_empty() {
        return Ok(None);
    }
    let mut checked = Vec::new();
    let mut bands = Vec::new();
    let mut checks = Vec::new();
    for test in doc.items_or_none("check")? {
        let Some((x, macs)) = test.find_number("macs_per_byte").zip(test.find_number("macs_per_token"))
        else {
            continue;
        };
        let measured = test.estimate("measured")?;
        let (low, high) = measured.interval.unwrap_or((measured.value, measured.value));
        checks.push((x, test.number("predicted")? * macs / 1e9));
        checked.push((x, measured.value * macs / 1e9));
        bands.push((low * macs / 1e9, high * macs / 1e9));
    }
    let machine = doc.get("machine")?;
    let bandwidth = machine.get("read_bytes")?.number("value")? / 1e9;
    let peaks = machine.get("peaks")?;
    let peak = |key: &str| peaks.number(key).map(|n| n / 1e9);
    let (int8, f32, bf16) = (peak("int8")?, peak("f32")?, peak("bf16")?);
    let xs = || predicted.iter().map(|(_, p)| p.0).chain(checked.iter().map(|p| p.0));
    let (low, high) = (xs().fold(f64::INFINITY, f64::min) / 2.0, xs().fold(0.0, f64::max) * 2.0);
    let highest = int8.max(f32).max(bf16);
    let corner = highest / bandwidth;
    let mut roof = vec![(low, low * bandwidth)];
    if corner > low && corner < high {
        roof.push((corner, highest));
    }
    roof.push((high, highest.min(high * bandwidth)));
    roof[0].1 = roof[0].1.min(highest);

    let mut series = vec![Series::new("", 5, Shape::Line, roof)];
    for (name, at) in [("int8", int8), ("bf16", bf16), ("f32", f32)] {
        let from = at / bandwidth;
        // Equal peaks have one line.
        if at < 0.98 * highest && from < high && !(name == "f32" && (f32 - bf16).abs() < 0.02 * bf16) {
            let name = if (f32 - bf16).abs() < 0.02 * bf16 && name == "bf16" { "bf16, f32" } else { name };
            series.push(Series::new(name, 3, Shape::Line, vec![(from.max(low), at), (high, at)]));
        } else if at >= 0.98 * highest && corner < high {
            series.push(Series::new(name, 5, Shape::Line, vec![(corner.max(low), at), (high, at)]));
        }
    }
    let mut points: Vec<Point> = predicted.iter().map(|(_, point)| *point).chain(checks).collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    series.push(Series::new("predicted", 0, Shape::Dots, points));
    if !checked.is_empty() {
        let mut measured = Series::new("measured", 1, Shape::Dots, checked);
        measured.band = bands;
        series.push(measured);
    }
    let axis = |label: &str, unit: Unit| Axis { label: label.to_owned(), unit, extent: Extent::Log };
    let vertical = predicted.iter().map(|(name, point)| Mark { at: point.0, label: (*name).to_owned() });
    Ok(Some(Block::Plot(Plot {
        title: "Roofline".to_owned(),
        x: axis("multiply-adds per byte of weights", Unit::Rate("")),
        y: axis("10⁹ multiply-adds per second", Unit::Rate("")),
        series,
        vertical: vertical.collect(),
        horizontal: Vec::new(),
        note: "Below the slope the read bandwidth of memory limits a step, which caches can exceed; below the flat lines the \
             multiplications of a type do."
            .to_owned(),
    })))
}
