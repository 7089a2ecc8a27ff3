//! [`RowPlot`]: figures with intervals, one or several in a row, as horizontal bars or dots.

use super::plot::{Mark, near};
use super::scale::{Axis, Extent, Range};
use super::{COLOURS, WIDTH, text_width};
use crate::html::{escape, put, short};

/// Space for the axis below the rows.
const BOTTOM: f64 = 40.0;
/// Height of a bar and of the line of a label.
const BAR: f64 = 18.0;
const LABEL: f64 = 17.0;
/// Longest label that stands before its bar; longer ones stand above it.
const MAX_BESIDE: usize = 24;
/// Longest label above a bar.
const MAX_ABOVE: usize = 72;
const MAX_NAME: usize = 14;

/// Value with its interval, if there is one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// Value.
    pub value: f64,
    /// Interval.
    pub interval: Option<(f64, f64)>,
}

/// Figures in rows.
#[derive(Clone, Debug)]
pub struct RowPlot {
    /// Title.
    pub title: String,
    /// Axis. With [`Extent::Zero`] figures are bars, otherwise dots.
    pub axis: Axis,
    /// Names of the figures of a row; a single one may be empty.
    pub names: Vec<String>,
    /// Rows.
    pub rows: Vec<Row>,
    /// Lines at limits.
    pub marks: Vec<Mark>,
    /// Sentence below the drawing; may be empty.
    pub note: String,
}

/// Row of a [`RowPlot`].
#[derive(Clone, Debug)]
pub struct Row {
    /// Label.
    pub label: String,
    /// Figures, in the order of the names; those that are missing are left out.
    pub values: Vec<Option<Estimate>>,
}

impl Estimate {
    /// Returns a value without an interval.
    #[must_use]
    pub fn exact(value: f64) -> Estimate {
        Estimate { value, interval: None }
    }

    fn edges(&self) -> [f64; 3] {
        let (low, high) = self.interval.unwrap_or((self.value, self.value));
        [self.value, low, high]
    }
}

impl RowPlot {
    /// Returns the drawing with its caption.
    pub(crate) fn figure(&self) -> String {
        let several = self.names.len() > 1;
        let longest = self.rows.iter().map(|row| row.label.chars().count()).max().unwrap_or(0);
        let above = several || longest > MAX_BESIDE;
        let texts: Vec<String> = match above {
            true => self.names.iter().map(|name| short(name, MAX_NAME)).collect(),
            false => self.rows.iter().map(|row| row.label.clone()).collect(),
        };
        let left = texts.iter().map(|text| text_width(text) + 12.0).fold(8.0, f64::max);
        let values = || self.rows.iter().flat_map(|row| row.values.iter().flatten());
        let widest = values().map(|v| text_width(&self.axis.unit.bare(v.value))).fold(30.0, f64::max);
        let right = WIDTH - widest - 16.0;
        let data: Vec<f64> = values().flat_map(Estimate::edges).collect();
        let (marks, far) = near(&self.marks, self.axis.extent, &data);
        let edges = data.iter().copied().chain(marks.iter().map(|mark| mark.at));
        let range = Range::new(&self.axis, edges, if right - left > 300.0 { 6.0 } else { 4.0 });

        let top = if self.marks.is_empty() { 2.0 } else { 20.0 };
        let mut body = String::new();
        let mut y = top;
        let at = |value: f64| left + range.place(value) * (right - left);
        for row in &self.rows {
            if above && !row.label.is_empty() {
                let (label, baseline) = (escape(&short(&row.label, MAX_ABOVE)), y + 13.0);
                put(
                    &mut body,
                    format_args!("<text class=\"label\" x=\"4\" y=\"{baseline:.1}\">{label}</text>"),
                );
                y += LABEL;
            }
            for (i, value) in row.values.iter().enumerate() {
                let Some(value) = value else { continue };
                let text = if above { texts.get(i) } else { Some(&row.label) };
                if let Some(text) = text.filter(|text| !text.is_empty()) {
                    let class = if several { format!("name c{}", i % COLOURS) } else { "label".to_owned() };
                    let (x, baseline, text) = (left - 6.0, y + 12.5, escape(text));
                    put(
                        &mut body,
                        format_args!(
                            "<text class=\"{class}\" x=\"{x:.1}\" y=\"{baseline:.1}\" text-anchor=\"end\">{text}</text>"
                        ),
                    );
                }
                self.value(&mut body, value, i, y, &at);
                y += BAR;
            }
            y += if above { 8.0 } else { 5.0 };
        }
        let (bottom, height) = (y + 2.0, y + BOTTOM);
        let mut svg = format!(
            "<figure><figcaption>{title}</figcaption><svg viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"img\" \
             aria-label=\"{title}\">",
            title = escape(&self.title)
        );
        let mut end = f64::NEG_INFINITY;
        for (tick, name) in &range.ticks {
            let (x, half) = (at(*tick), text_width(name) / 2.0);
            put(&mut svg, format_args!("<path class=\"grid\" d=\"M{x:.1} {top}V{bottom:.1}\"/>"));
            if x - half > end {
                end = x + half + 4.0;
                let below = bottom + 15.0;
                put(
                    &mut svg,
                    format_args!("<text x=\"{x:.1}\" y=\"{below:.1}\" text-anchor=\"middle\">{name}</text>"),
                );
            }
        }
        let (middle, below, title) = ((left + right) / 2.0, bottom + 32.0, escape(&range.title));
        put(
            &mut svg,
            format_args!("<text x=\"{middle:.1}\" y=\"{below:.1}\" text-anchor=\"middle\">{title}</text>"),
        );
        svg += &body;
        for mark in &marks {
            let (x, label) = (at(mark.at), escape(&mark.label));
            let (anchor, text) = if x > WIDTH / 2.0 { ("end", x - 5.0) } else { ("start", x + 5.0) };
            put(
                &mut svg,
                format_args!(
                    "<path class=\"mark\" d=\"M{x:.1} 4V{bottom:.1}\"/><text class=\"markname\" x=\"{text:.1}\" y=\"14\" \
                     text-anchor=\"{anchor}\">{label}</text>"
                ),
            );
        }
        // Limits that would squeeze the figures are notes at the edge on whose side they lie.
        let far: Vec<String> = far
            .iter()
            .map(|mark| match mark.at > range.high {
                true => format!("{} →", mark.label),
                false => format!("← {}", mark.label),
            })
            .collect();
        if !far.is_empty() {
            let (x, text) = (WIDTH - 8.0, escape(&far.join("   ")));
            put(
                &mut svg,
                format_args!(
                    "<text class=\"markname\" x=\"{x:.1}\" y=\"14\" text-anchor=\"end\">{text}</text>"
                ),
            );
        }
        svg += "</svg>";
        if !self.note.is_empty() {
            put(&mut svg, format_args!("<p class=\"note\">{}</p>", escape(&self.note)));
        }
        svg + "</figure>\n"
    }

    fn value(&self, svg: &mut String, value: &Estimate, i: usize, y: f64, at: &dyn Fn(f64) -> f64) {
        let (class, middle) = (format!("c{}", i % COLOURS), y + BAR / 2.0 - 1.0);
        let x = at(value.value);
        let is_bar = self.axis.extent == Extent::Zero;
        if is_bar {
            let (from, to) = if at(0.0) < x { (at(0.0), x) } else { (x, at(0.0)) };
            let (width, height) = ((to - from).max(0.8), BAR - 4.0);
            put(
                svg,
                format_args!(
                    "<rect class=\"bar {class}\" x=\"{from:.1}\" y=\"{:.1}\" width=\"{width:.1}\" height=\"{height}\" rx=\"1.5\"/>",
                    y + 1.0
                ),
            );
        }
        let mut end = x;
        if let Some((low, high)) = value.interval {
            let (low, high) = (at(low), at(high));
            let (up, down) = (middle - 4.0, middle + 4.0);
            let class = if is_bar { "ink" } else { &class };
            put(
                svg,
                format_args!(
                    "<path class=\"whisker {class}\" d=\"M{low:.1} {middle:.1}H{high:.1}M{low:.1} {up:.1}V{down:.1}M{high:.1} \
                     {up:.1}V{down:.1}\"/>"
                ),
            );
            end = end.max(high);
        }
        if !is_bar {
            put(
                svg,
                format_args!(
                    "<g class=\"dot {class}\"><circle cx=\"{x:.1}\" cy=\"{middle:.1}\" r=\"4.4\"/></g>"
                ),
            );
            end += 3.0;
        }
        let text = escape(&self.axis.unit.bare(value.value));
        put(
            svg,
            format_args!("<text class=\"value\" x=\"{:.1}\" y=\"{:.1}\">{text}</text>", end + 6.0, y + 12.5),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::unit::Unit;

    #[test]
    fn figures_have_bars_or_dots_with_intervals() {
        let axis = Axis { label: "speed".to_owned(), unit: Unit::Rate("t/s"), extent: Extent::Zero };
        let estimate = |value| Some(Estimate { value, interval: Some((value * 0.9, value * 1.1)) });
        let row = |label: &str, values| Row { label: label.to_owned(), values };
        let mut plot = RowPlot {
            title: "<a>".to_owned(),
            axis,
            names: vec!["A".to_owned(), "B".to_owned()],
            rows: vec![
                row("pp512", vec![estimate(100.0), estimate(120.0)]),
                row("tg", vec![None, estimate(10.0)]),
            ],
            marks: vec![Mark { at: 50.0, label: "limit".to_owned() }],
            note: "n & m".to_owned(),
        };
        let bars = plot.figure();
        assert_eq!(bars.matches("<rect").count(), 3);
        assert_eq!(bars.matches("class=\"whisker ink\"").count(), 3);
        assert!(
            bars.contains("&lt;a&gt;") && bars.contains("speed, t/s") && bars.contains("n &amp; m"),
            "{bars}"
        );
        plot.axis.extent = Extent::Fitted;
        let dots = plot.figure();
        assert_eq!((dots.matches("<rect").count(), dots.matches("<circle").count()), (0, 3));
        plot.rows.clear();
        assert!(!plot.figure().contains("NaN"));
    }
}
