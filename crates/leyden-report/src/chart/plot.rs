//! [`Plot`]: curves over two axes, with bands of intervals and lines at limits.

use super::scale::{Axis, Extent, Range};
use super::{COLOURS, WIDTH, text_width};
use crate::html::{escape, put, short};

const HEIGHT: f64 = 300.0;
const TOP: f64 = 18.0;
const BOTTOM: f64 = 46.0;
/// Right margin without names of curves.
const RIGHT: f64 = 18.0;
/// Longest name of a curve at its end.
const MAX_NAME: usize = 16;

/// Drawing with two axes.
#[derive(Clone, Debug)]
pub struct Plot {
    /// Title.
    pub title: String,
    /// Horizontal axis.
    pub x: Axis,
    /// Vertical axis.
    pub y: Axis,
    /// Curves.
    pub series: Vec<Series>,
    /// Lines at values of the horizontal axis.
    pub vertical: Vec<Mark>,
    /// Lines at values of the vertical axis.
    pub horizontal: Vec<Mark>,
    /// Sentence below the drawing; may be empty.
    pub note: String,
}

/// Curve.
#[derive(Clone, Debug)]
pub struct Series {
    /// Name, written at its end; may be empty.
    pub name: String,
    /// Index of the colour; `None` for failures.
    pub colour: Option<usize>,
    /// Shape.
    pub shape: Shape,
    /// Points `(x, y)`, by ascending x.
    pub points: Vec<(f64, f64)>,
    /// Interval `(low, high)` of each point; empty without intervals.
    pub band: Vec<(f64, f64)>,
}

/// Shape of a curve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Line.
    Line,
    /// Line with a dot at each point.
    Dotted,
    /// Line and the area below it.
    Area,
    /// Dots alone.
    Dots,
}

/// Line at a value.
#[derive(Clone, Debug)]
pub struct Mark {
    /// Value.
    pub at: f64,
    /// Name.
    pub label: String,
}

impl Series {
    /// Returns a curve without intervals.
    #[must_use]
    pub fn new(name: &str, colour: usize, shape: Shape, points: Vec<(f64, f64)>) -> Series {
        Series { name: name.to_owned(), colour: Some(colour), shape, points, band: Vec::new() }
    }

    pub(crate) fn class(&self) -> String {
        self.colour.map_or("bad".to_owned(), |colour| format!("c{}", colour % COLOURS))
    }

    fn is_lined(&self) -> bool {
        self.shape != Shape::Dots
    }
}

/// Returns the marks that are near the data, and those that would squeeze the curves.
pub(super) fn near<'m>(marks: &'m [Mark], extent: Extent, data: &[f64]) -> (Vec<&'m Mark>, Vec<&'m Mark>) {
    let finite = || data.iter().copied().filter(|v| v.is_finite() && (*v > 0.0 || extent != Extent::Log));
    let (low, high) = (finite().fold(f64::INFINITY, f64::min), finite().fold(f64::NEG_INFINITY, f64::max));
    marks.iter().partition(|mark| match extent {
        _ if low > high => true,
        Extent::Log => mark.at <= 5.0 * high && mark.at >= low / 5.0,
        Extent::Zero => mark.at <= 1.5 * high,
        Extent::Fitted => mark.at <= high + (high - low) && mark.at >= low - (high - low),
    })
}

impl Plot {
    /// Returns the drawing with its caption.
    pub(crate) fn figure(&self) -> String {
        let data = |pick: fn(&(f64, f64)) -> f64| -> Vec<f64> {
            self.series.iter().flat_map(|s| s.points.iter().map(pick)).collect()
        };
        let (xs, mut ys) = (data(|p| p.0), data(|p| p.1));
        ys.extend(self.series.iter().flat_map(|s| s.band.iter().flat_map(|b| [b.0, b.1])));
        let (vertical, far_right) = near(&self.vertical, self.x.extent, &xs);
        let (horizontal, far_up) = near(&self.horizontal, self.y.extent, &ys);
        let x = Range::new(&self.x, xs.iter().copied().chain(vertical.iter().map(|m| m.at)), 6.0);
        let y = Range::new(&self.y, ys.iter().copied().chain(horizontal.iter().map(|m| m.at)), 5.0);
        let named = |s: &&Series| s.is_lined() && !s.name.is_empty();
        let names = self.series.iter().filter(named).map(|s| text_width(&short(&s.name, MAX_NAME)));
        let right = WIDTH - names.fold(RIGHT, |most, width| most.max(width + 14.0));
        let widest = y.ticks.iter().map(|(_, name)| text_width(name)).fold(20.0, f64::max);
        let frame = Frame { x, y, left: widest + 30.0, right, bottom: HEIGHT - BOTTOM };

        let mut svg = format!("<figure><figcaption>{}", escape(&self.title));
        for series in self.series.iter().filter(|s| !s.is_lined() && !s.name.is_empty()) {
            let (class, name) = (series.class(), escape(&series.name));
            put(&mut svg, format_args!("<span class=\"key\"><i class=\"{class}\"></i>{name}</span>"));
        }
        put(
            &mut svg,
            format_args!(
                "</figcaption><svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">",
                escape(&self.title)
            ),
        );
        frame.grid(&mut svg);
        self.series.iter().for_each(|series| frame.draw(&mut svg, series));
        frame.marks(&mut svg, &vertical, &horizontal);
        frame.far(&mut svg, &far_right, &far_up);
        frame.names(&mut svg, self.series.iter().filter(named));
        svg += "</svg>";
        if !self.note.is_empty() {
            put(&mut svg, format_args!("<p class=\"note\">{}</p>", escape(&self.note)));
        }
        svg + "</figure>\n"
    }
}

/// Area of the curves.
struct Frame {
    x: Range,
    y: Range,
    left: f64,
    right: f64,
    bottom: f64,
}

impl Frame {
    fn at_x(&self, value: f64) -> f64 {
        self.left + self.x.place(value) * (self.right - self.left)
    }

    fn at_y(&self, value: f64) -> f64 {
        self.bottom - self.y.place(value) * (self.bottom - TOP)
    }

    fn grid(&self, svg: &mut String) {
        let (left, right, bottom) = (self.left, self.right, self.bottom);
        let mut end = f64::NEG_INFINITY;
        for (tick, name) in &self.x.ticks {
            let (at, half) = (self.at_x(*tick), text_width(name) / 2.0);
            put(svg, format_args!("<path class=\"grid\" d=\"M{at:.1} {TOP}V{bottom}\"/>"));
            // A name that would touch its neighbour is left out.
            if at - half > end {
                end = at + half + 4.0;
                let below = bottom + 16.0;
                put(
                    svg,
                    format_args!("<text x=\"{at:.1}\" y=\"{below:.1}\" text-anchor=\"middle\">{name}</text>"),
                );
            }
        }
        for (tick, name) in &self.y.ticks {
            let at = self.at_y(*tick);
            let (before, below) = (left - 6.0, at + 4.0);
            put(
                svg,
                format_args!(
                    "<path class=\"grid\" d=\"M{left:.1} {at:.1}H{right:.1}\"/>\
                     <text x=\"{before:.1}\" y=\"{below:.1}\" text-anchor=\"end\">{name}</text>"
                ),
            );
        }
        put(
            svg,
            format_args!(
                "<path class=\"frame\" d=\"M{left:.1} {TOP}V{bottom}H{right:.1}\"/>\
                 <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>\
                 <text transform=\"translate(13 {:.1}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
                (left + right) / 2.0,
                HEIGHT - 8.0,
                escape(&self.x.title),
                (TOP + bottom) / 2.0,
                escape(&self.y.title),
            ),
        );
    }

    fn draw(&self, svg: &mut String, series: &Series) {
        let class = series.class();
        let all = series.points.iter().filter(|p| !p.0.is_nan() && !p.1.is_nan());
        let points: Vec<(f64, f64)> = all.map(|p| (self.at_x(p.0), self.at_y(p.1))).collect();
        let Some((first, last)) = points.first().zip(points.last()) else { return };
        let path = |points: &[(f64, f64)], begin: char| {
            let mut path = String::new();
            for (i, (x, y)) in points.iter().enumerate() {
                put(&mut path, format_args!("{}{x:.1} {y:.1}", if i == 0 { begin } else { 'L' }));
            }
            path
        };
        let is_band = series.is_lined() && series.points.len() > 1;
        if is_band && series.band.len() == series.points.len() {
            let edge = |pick: fn(&(f64, f64)) -> f64| {
                let both = series.points.iter().zip(&series.band);
                both.map(|(p, b)| (self.at_x(p.0), self.at_y(pick(b)))).collect::<Vec<_>>()
            };
            let (low, mut high) = (edge(|b| b.0), edge(|b| b.1));
            high.reverse();
            let (low, high) = (path(&low, 'M'), path(&high, 'L'));
            put(svg, format_args!("<path class=\"area {class}\" d=\"{low}{high}Z\"/>"));
        } else {
            for (point, band) in series.points.iter().zip(&series.band) {
                let (x, low, high) = (self.at_x(point.0), self.at_y(band.0), self.at_y(band.1));
                put(svg, format_args!("<path class=\"line {class}\" d=\"M{x:.1} {low:.1}V{high:.1}\"/>"));
            }
        }
        if series.is_lined() {
            let line = path(&points, 'M');
            if series.shape == Shape::Area {
                let (bottom, x0, x1) = (self.bottom, first.0, last.0);
                put(
                    svg,
                    format_args!(
                        "<path class=\"area {class}\" d=\"{line}L{x1:.1} {bottom}L{x0:.1} {bottom}Z\"/>"
                    ),
                );
            }
            put(svg, format_args!("<path class=\"line {class}\" d=\"{line}\"/>"));
        }
        if matches!(series.shape, Shape::Dots | Shape::Dotted) {
            let radius = if points.len() > 60 { 2.2 } else { 3.4 };
            put(svg, format_args!("<g class=\"dot {class}\">"));
            for (x, y) in &points {
                put(svg, format_args!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius}\"/>"));
            }
            *svg += "</g>";
        }
    }

    /// Draws limits as lines.
    fn marks(&self, svg: &mut String, vertical: &[&Mark], horizontal: &[&Mark]) {
        let (left, right, bottom) = (self.left, self.right, self.bottom);
        for (n, mark) in vertical.iter().enumerate() {
            let at = self.at_x(mark.at);
            // The name is on the side that has room, and away from a rising curve: high on the left, low on the right.
            let row = 15.0 * n as f64;
            let (side, anchor, height) = match at > (left + right) / 2.0 {
                true => (-5.0, "end", bottom - 8.0 - row),
                false => (5.0, "start", TOP + 14.0 + row),
            };
            let (x, label) = (at + side, escape(&mark.label));
            put(
                svg,
                format_args!(
                    "<path class=\"mark\" d=\"M{at:.1} {TOP}V{bottom}\"/><text class=\"markname\" x=\"{x:.1}\" \
                     y=\"{height:.1}\" text-anchor=\"{anchor}\">{label}</text>"
                ),
            );
        }
        for mark in horizontal {
            let at = self.at_y(mark.at);
            let above = if at < TOP + 16.0 { at + 14.0 } else { at - 4.0 };
            let (x, label) = (right - 4.0, escape(&mark.label));
            put(
                svg,
                format_args!(
                    "<path class=\"mark\" d=\"M{left:.1} {at:.1}H{right:.1}\"/><text class=\"markname\" x=\"{x:.1}\" \
                     y=\"{above:.1}\" text-anchor=\"end\">{label}</text>"
                ),
            );
        }
    }

    /// Notes limits that are outside at the edge on whose side they lie.
    fn far(&self, svg: &mut String, right: &[&Mark], up: &[&Mark]) {
        let mut note = |n: usize, x: f64, text: String| {
            let y = TOP + 14.0 + 15.0 * n as f64;
            put(
                svg,
                format_args!(
                    "<text class=\"markname\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"end\">{text}</text>"
                ),
            );
        };
        for (n, mark) in up.iter().enumerate() {
            let arrow = if mark.at > self.y.high { '↑' } else { '↓' };
            note(n, self.right - 6.0, format!("{} {arrow}", escape(&mark.label)));
        }
        for (n, mark) in right.iter().enumerate() {
            let arrow = if mark.at > self.x.high { '→' } else { '←' };
            // Below the middle, where a rising curve has left the right side.
            let n = n + up.len() + 8;
            note(n, self.right - 6.0, format!("{} {arrow}", escape(&mark.label)));
        }
    }

    /// Writes names at the ends of curves, moved apart where they would overlap.
    fn names<'s>(&self, svg: &mut String, series: impl Iterator<Item = &'s Series>) {
        let mut names: Vec<(f64, &Series)> =
            series.filter_map(|s| Some((self.at_y(s.points.last()?.1), s))).collect();
        names.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut free = TOP;
        for (y, _) in &mut names {
            *y = y.max(free);
            free = *y + 14.0;
        }
        let mut free = self.bottom + 2.0;
        for (y, _) in names.iter_mut().rev() {
            *y = y.min(free);
            free = *y - 14.0;
        }
        for (y, series) in names {
            let x = series.points.last().map_or(self.right, |p| self.at_x(p.0)) + 7.0;
            let (class, name) = (series.class(), escape(&short(&series.name, MAX_NAME)));
            put(
                svg,
                format_args!("<text class=\"name {class}\" x=\"{x:.1}\" y=\"{:.1}\">{name}</text>", y + 4.0),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::unit::Unit;

    fn plot(points: Vec<(f64, f64)>, limit: f64) -> Plot {
        let axis = |label: &str| Axis { label: label.to_owned(), unit: Unit::Seconds, extent: Extent::Zero };
        Plot {
            title: "<t>".to_owned(),
            x: axis("x"),
            y: axis("y"),
            series: vec![
                Series::new("one & two", 0, Shape::Dotted, points.clone()),
                Series::new("three", 9, Shape::Line, points),
            ],
            vertical: Vec::new(),
            horizontal: vec![Mark { at: limit, label: "limit".to_owned() }],
            note: String::new(),
        }
    }

    #[test]
    fn a_far_limit_is_a_note_at_the_edge() {
        let near = plot(vec![(0.0, 0.1), (1.0, 0.2)], 0.25).figure();
        assert!(near.contains("class=\"mark\"") && near.contains(">limit</text>"), "{near}");
        let far = plot(vec![(0.0, 0.1), (1.0, 0.2)], 20.0).figure();
        assert!(!far.contains("class=\"mark\"") && far.contains("limit ↑"), "{far}");
        // The highest tick is that of the data.
        assert!(far.contains(">200</text>"), "{far}");
    }

    #[test]
    fn names_at_the_ends_do_not_overlap() {
        let figure = plot(vec![(0.0, 0.1), (1.0, 0.2)], 0.25).figure();
        let heights: Vec<f64> = figure
            .split("class=\"name ")
            .skip(1)
            .map(|part| part.split(" y=\"").nth(1).unwrap().split('"').next().unwrap().parse().unwrap())
            .collect();
        assert_eq!(heights.len(), 2);
        assert!((heights[0] - heights[1]).abs() >= 13.9, "{heights:?}");
        assert!(figure.contains("one &amp; two") && figure.contains("class=\"line c1\""), "{figure}");
    }

    #[test]
    fn curves_without_points_and_beyond_all_bounds_are_drawn() {
        for points in [vec![], vec![(f64::NAN, 1.0)], vec![(1e300, f64::INFINITY), (-1e300, 0.0)]] {
            let figure = plot(points, f64::INFINITY).figure();
            assert!(!figure.contains("NaN") && !figure.contains("inf"), "{figure}");
        }
    }
}
