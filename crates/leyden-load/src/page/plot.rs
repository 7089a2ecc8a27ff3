//! Drawings in SVG: axes, curves and lines for limits.

use super::text::{escape, number, put, seconds};

/// Size of the drawing and margins around the plot.
const WIDTH: f64 = 560.0;
const WIDE: f64 = 1100.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 74.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 22.0;
const BOTTOM: f64 = 44.0;

/// A drawing with two axes.
pub(super) struct Plot {
    pub(super) title: &'static str,
    pub(super) x: Axis,
    pub(super) y: Axis,
    pub(super) curves: Vec<Curve>,
    /// Lines at values of the horizontal axis, and of the vertical one.
    pub(super) vertical: Vec<Mark>,
    pub(super) horizontal: Vec<Mark>,
}

pub(super) struct Axis {
    pub(super) label: &'static str,
    pub(super) scale: Scale,
}

/// Scale of an axis.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Scale {
    /// Numbers from 0 on.
    Plain,
    /// Per cent.
    Share,
    /// Seconds since the start.
    Clock,
    /// Seconds from 0 on.
    Time,
    /// Seconds on a logarithmic scale.
    LogTime,
}

pub(super) struct Curve {
    pub(super) name: &'static str,
    pub(super) class: &'static str,
    pub(super) shape: Shape,
    pub(super) points: Vec<(f64, f64)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    Line,
    /// A line and the area below it.
    Area,
    Dots,
}

/// A line at a value.
pub(super) struct Mark {
    pub(super) at: f64,
    pub(super) label: String,
}

impl Scale {
    /// Returns a scale of seconds, logarithmic if values span more than a factor of 20.
    pub(super) fn time_for(values: &[f64]) -> Self {
        let finite = || values.iter().copied().filter(|v| v.is_finite() && *v > 0.0);
        let (low, high) = (finite().fold(f64::INFINITY, f64::min), finite().fold(0.0, f64::max));
        if high > 20.0 * low { Self::LogTime } else { Self::Time }
    }
}

/// An axis with its range.
struct Range {
    scale: Scale,
    low: f64,
    high: f64,
}

impl Range {
    fn new(scale: Scale, values: impl Iterator<Item = f64>) -> Self {
        let (mut low, mut high) = (f64::INFINITY, 0.0f64);
        for value in values.filter(|v| v.is_finite() && (*v > 0.0 || scale != Scale::LogTime)) {
            (low, high) = (low.min(value), high.max(value));
        }
        let (low, high) = match scale {
            Scale::Share => (0.0, 100.0),
            Scale::LogTime if low.is_finite() => {
                // The resolution of times is a microsecond.
                let low = low.max(1e-6) / 1.15;
                (low, (high * 1.15).max(low * 10.0))
            }
            Scale::LogTime => (0.001, 1.0),
            Scale::Clock => (0.0, if high > 0.0 { high } else { 1.0 }),
            Scale::Plain | Scale::Time => (0.0, if high > 0.0 { high * 1.06 } else { 1.0 }),
        };
        Self { scale, low, high }
    }

    /// Returns the relative position of a value, from 0 to 1; values outside are clipped to the edge.
    fn place(&self, value: f64) -> f64 {
        let place = if self.scale == Scale::LogTime {
            (value.max(self.low) / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        place.clamp(0.0, 1.0)
    }

    /// Returns round values within the range.
    fn ticks(&self) -> Vec<f64> {
        if self.scale == Scale::LogTime {
            let decades = (self.high / self.low).log10();
            let steps: &[f64] = if decades > 4.0 {
                &[1.0]
            } else if decades > 2.0 {
                &[1.0, 3.0]
            } else {
                &[1.0, 2.0, 5.0]
            };
            let first = self.low.log10().floor() as i32;
            let all = (0..16).flat_map(|i| steps.iter().map(move |step| step * 10f64.powi(first + i)));
            return all.filter(|v| *v >= self.low && *v <= self.high).collect();
        }
        if self.scale == Scale::Share {
            return vec![0.0, 25.0, 50.0, 75.0, 90.0, 100.0];
        }
        // Long times are labelled in minutes, so ticks are round minutes.
        let unit = if self.in_minutes() { 60.0 } else { 1.0 };
        let rough = (self.high - self.low) / 5.0 / unit;
        let decade = 10f64.powf(rough.log10().floor());
        let step =
            [1.0, 2.0, 5.0, 10.0].into_iter().find(|s| s * decade >= rough).unwrap_or(1.0) * decade * unit;
        (0..12).map(|i| f64::from(i) * step).filter(|v| *v <= self.high * (1.0 + 1e-9)).collect()
    }

    fn in_minutes(&self) -> bool {
        self.scale == Scale::Clock && self.high >= 600.0
    }

    fn name(&self, value: f64) -> String {
        let plain = |v: f64| {
            let text = if v >= 1.0 && v.fract() == 0.0 { format!("{v:.0}") } else { number(v) };
            if text.contains('.') {
                text.trim_end_matches('0').trim_end_matches('.').to_owned()
            } else {
                text
            }
        };
        match self.scale {
            Scale::Share => format!("{value:.0} %"),
            Scale::Plain => plain(value),
            Scale::Clock if self.in_minutes() => format!("{} min", plain(value / 60.0)),
            Scale::Clock => format!("{} s", plain(value)),
            Scale::Time | Scale::LogTime => {
                let text = seconds(value);
                let (value, unit) = text.split_once(' ').unwrap_or((&text, ""));
                format!("{} {unit}", plain(value.parse().unwrap_or(0.0)))
            }
        }
    }
}

impl Plot {
    /// Returns the drawing with a caption.
    pub(super) fn svg(&self) -> String {
        let wide = self.curves.iter().any(|curve| curve.shape == Shape::Dots);
        let width = if wide { WIDE } else { WIDTH };
        let values =
            |pick: fn(&(f64, f64)) -> f64| self.curves.iter().flat_map(move |c| c.points.iter().map(pick));
        let marks = |marks: &[Mark]| marks.iter().map(|mark| mark.at).collect::<Vec<f64>>();
        let x = Range::new(self.x.scale, values(|p| p.0).chain(marks(&self.vertical)));
        let y = Range::new(self.y.scale, values(|p| p.1).chain(marks(&self.horizontal)));
        let (right, bottom) = (width - RIGHT, HEIGHT - BOTTOM);
        let at_x = |v: f64| LEFT + x.place(v) * (right - LEFT);
        let at_y = |v: f64| bottom - y.place(v) * (bottom - TOP);

        let class = if wide { " class=\"wide\"" } else { "" };
        let mut svg = format!("<figure{class}><figcaption>{}", escape(self.title));
        for curve in self.curves.iter().filter(|curve| !curve.name.is_empty()) {
            put(
                &mut svg,
                format_args!("<span class=\"key\"><i class=\"{}\"></i>{}</span>", curve.class, curve.name),
            );
        }
        put(
            &mut svg,
            format_args!(
                "</figcaption><svg viewBox=\"0 0 {width} {HEIGHT}\" role=\"img\" aria-label=\"{}\">",
                escape(self.title),
            ),
        );
        for tick in x.ticks() {
            let at = at_x(tick);
            put(
                &mut svg,
                format_args!(
                    "<path class=\"grid\" d=\"M{at:.1} {TOP}V{bottom}\"/><text x=\"{at:.1}\" y=\"{:.1}\" \
                 text-anchor=\"middle\">{}</text>",
                    bottom + 16.0,
                    x.name(tick),
                ),
            );
        }
        for tick in y.ticks() {
            let at = at_y(tick);
            put(
                &mut svg,
                format_args!(
                    "<path class=\"grid\" d=\"M{LEFT} {at:.1}H{right}\"/><text x=\"{:.1}\" y=\"{:.1}\" \
                 text-anchor=\"end\">{}</text>",
                    LEFT - 6.0,
                    at + 4.0,
                    y.name(tick),
                ),
            );
        }
        for curve in &self.curves {
            curve.draw(&mut svg, &at_x, &at_y, bottom);
        }
        put(
            &mut svg,
            format_args!(
                "<path class=\"frame\" d=\"M{LEFT} {TOP}V{bottom}H{right}\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>\
             <text transform=\"translate(12 {:.1}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
                (LEFT + right) / 2.0,
                HEIGHT - 8.0,
                escape(self.x.label),
                (TOP + bottom) / 2.0,
                escape(self.y.label),
            ),
        );
        for (n, mark) in self.vertical.iter().enumerate() {
            let at = at_x(mark.at);
            // The name is placed on the side that has room, and away from a rising curve: high on the left, low on
            // the right.
            let row = 15.0 * n as f64;
            let (side, anchor, height) = if at > (LEFT + right) / 2.0 {
                (-5.0, "end", bottom - 8.0 - row)
            } else {
                (5.0, "start", TOP + 14.0 + row)
            };
            put(
                &mut svg,
                format_args!(
                    "<path class=\"mark\" d=\"M{at:.1} {TOP}V{bottom}\"/><text class=\"markname\" x=\"{:.1}\" y=\"{:.1}\" \
                 text-anchor=\"{anchor}\">{}</text>",
                    at + side,
                    height,
                    escape(&mark.label),
                ),
            );
        }
        for mark in &self.horizontal {
            let at = at_y(mark.at);
            put(
                &mut svg,
                format_args!(
                    "<path class=\"mark\" d=\"M{LEFT} {at:.1}H{right}\"/><text class=\"markname\" x=\"{:.1}\" y=\"{:.1}\" \
                 text-anchor=\"end\">{}</text>",
                    right - 4.0,
                    at - 4.0,
                    escape(&mark.label),
                ),
            );
        }
        svg + "</svg></figure>\n"
    }
}

impl Curve {
    fn draw(&self, svg: &mut String, at_x: &dyn Fn(f64) -> f64, at_y: &dyn Fn(f64) -> f64, bottom: f64) {
        let Some((first, last)) = self.points.first().zip(self.points.last()) else { return };
        if self.shape == Shape::Dots {
            put(svg, format_args!("<g class=\"dot {}\">", self.class));
            for (x, y) in &self.points {
                put(svg, format_args!("<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"2.4\"/>", at_x(*x), at_y(*y)));
            }
            *svg += "</g>";
            return;
        }
        let mut path = String::new();
        for (i, (x, y)) in self.points.iter().enumerate() {
            put(&mut path, format_args!("{}{:.1} {:.1}", if i == 0 { 'M' } else { 'L' }, at_x(*x), at_y(*y)));
        }
        if self.shape == Shape::Area {
            put(
                svg,
                format_args!(
                    "<path class=\"area {}\" d=\"{path}L{:.1} {bottom}L{:.1} {bottom}Z\"/>",
                    self.class,
                    at_x(last.0),
                    at_x(first.0),
                ),
            );
        }
        put(svg, format_args!("<path class=\"line {}\" d=\"{path}\"/>", self.class));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_within() {
        let names = |scale, values: &[f64]| {
            let range = Range::new(scale, values.iter().copied());
            range.ticks().iter().map(|tick| range.name(*tick)).collect::<Vec<_>>()
        };
        assert_eq!(names(Scale::Plain, &[47.0]), ["0", "10", "20", "30", "40"]);
        assert_eq!(names(Scale::Clock, &[600.0]), ["0 min", "2 min", "4 min", "6 min", "8 min", "10 min"]);
        assert_eq!(
            names(Scale::LogTime, &[0.01, 0.5]),
            ["10 ms", "20 ms", "50 ms", "100 ms", "200 ms", "500 ms"]
        );
        assert_eq!(names(Scale::Time, &[0.9]), ["0 ms", "200 ms", "400 ms", "600 ms", "800 ms"]);
        for values in [&[][..], &[0.0], &[f64::INFINITY, 1e9], &[1e-9, 1e9]] {
            for scale in [Scale::Plain, Scale::Time, Scale::LogTime] {
                let range = Range::new(scale, values.iter().copied());
                assert!(!range.ticks().is_empty() && range.low < range.high);
                assert!([0.0, 1.0, f64::INFINITY].iter().all(|v| (0.0..=1.0).contains(&range.place(*v))));
            }
        }
    }
}
