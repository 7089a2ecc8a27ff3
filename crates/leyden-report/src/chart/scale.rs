//! [`Axis`]: label, unit and extent of an axis; [`Range`]: its values, with ticks at round numbers.

use crate::unit::Unit;

/// Axis of a drawing.
#[derive(Clone, Debug)]
pub struct Axis {
    /// Label, without the unit.
    pub label: String,
    /// Unit.
    pub unit: Unit,
    /// Values that it shows.
    pub extent: Extent,
}

/// Values that an axis shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// From 0.
    Zero,
    /// From the smallest to the largest value.
    Fitted,
    /// From the smallest to the largest positive value, on a logarithmic scale.
    Log,
}

impl Extent {
    /// Returns the extent for values: logarithmic if the positive ones span more than a factor of 20.
    #[must_use]
    pub fn of(values: impl IntoIterator<Item = f64>) -> Extent {
        let (mut low, mut high) = (f64::INFINITY, 0.0_f64);
        for value in values.into_iter().filter(|v| v.is_finite() && *v > 0.0) {
            (low, high) = (low.min(value), high.max(value));
        }
        if high > 20.0 * low { Extent::Log } else { Extent::Zero }
    }
}

/// Axis with the values that it shows.
pub(crate) struct Range {
    log: bool,
    pub(crate) low: f64,
    pub(crate) high: f64,
    /// Ticks and their names.
    pub(crate) ticks: Vec<(f64, String)>,
    /// Label with the unit.
    pub(crate) title: String,
}

impl Range {
    /// Returns the range of values; ticks are at most about `parts`.
    pub(crate) fn new(axis: &Axis, values: impl IntoIterator<Item = f64>, parts: f64) -> Range {
        let log = axis.extent == Extent::Log;
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        // Far beyond any figure; larger ones would overflow in sums.
        for value in values.into_iter().filter(|v| v.abs() < 1e200 && (*v > 0.0 || !log)) {
            (low, high) = (low.min(value), high.max(value));
        }
        if low > high {
            (low, high) = if log { (0.1, 1.0) } else { (0.0, 1.0) };
        }
        match axis.extent {
            Extent::Zero => {
                (low, high) = (low.min(0.0) * 1.06, high.max(0.0) * 1.06);
                if low == high {
                    high = 1.0;
                }
                if axis.unit == Unit::Share && high > 1.0 && high < 1.07 {
                    high = 1.0;
                }
            }
            Extent::Fitted => {
                let span = if high > low { high - low } else { high.abs().max(1e-9) };
                (low, high) = (low - 0.08 * span, high + 0.08 * span);
            }
            Extent::Log => {
                low = low.max(high * 1e-12) / 1.15;
                high = (high * 1.15).max(low * 10.0);
            }
        }
        let (factor, name) = axis.unit.shown(low.abs().max(high.abs()));
        let mut range = Range { log, low, high, ticks: Vec::new(), title: axis.label.clone() };
        range.ticks = if log { range.log_ticks(axis.unit) } else { range.round_ticks(factor, parts) };
        let has_unit = log && matches!(axis.unit, Unit::Seconds | Unit::Bytes);
        if !name.is_empty() && !has_unit {
            let gap = if axis.label.is_empty() { "" } else { ", " };
            range.title = format!("{}{gap}{name}", axis.label);
        }
        range
    }

    /// Returns the relative position of a value, from 0 to 1; values outside are at the edge.
    pub(crate) fn place(&self, value: f64) -> f64 {
        let place = if self.log {
            (value.max(self.low) / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        if place.is_nan() { 0.0 } else { place.clamp(0.0, 1.0) }
    }

    fn round_ticks(&self, factor: f64, parts: f64) -> Vec<(f64, String)> {
        let (low, high) = (self.low / factor, self.high / factor);
        let rough = (high - low) / parts;
        let decade = 10_f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0]
            .into_iter()
            .map(|s| s * decade)
            .find(|s| *s >= 0.9 * rough)
            .unwrap_or(10.0 * decade);
        let decimals = (-step.log10().floor()).clamp(0.0, 12.0) as usize;
        let first = (low / step).ceil();
        let ticks = (0..24).map(|i| (first + f64::from(i)) * step).take_while(|v| *v <= high + 1e-9 * step);
        let name = |v: f64| if v.abs() < step / 2.0 { "0".to_owned() } else { format!("{v:.decimals$}") };
        ticks.map(|v| (v * factor, name(v))).collect()
    }

    fn log_ticks(&self, unit: Unit) -> Vec<(f64, String)> {
        let decades = (self.high / self.low).log10();
        let steps: &[f64] = match decades {
            _ if decades > 3.5 => &[1.0],
            _ if decades > 1.9 => &[1.0, 3.0],
            _ => &[1.0, 2.0, 5.0],
        };
        let first = self.low.log10().floor() as i32;
        let skip = (decades / 7.0).ceil().max(1.0) as usize;
        let all = (0..40).step_by(skip).flat_map(|i| steps.iter().map(move |s| s * 10_f64.powi(first + i)));
        let within = all.filter(|v| *v >= self.low && *v <= self.high);
        let name = |v: f64| match unit {
            Unit::Seconds | Unit::Bytes | Unit::Dollars => trimmed(&unit.text(v)),
            Unit::Share | Unit::Points => trimmed(&crate::unit::rate(100.0 * v)),
            Unit::Number(_) | Unit::Rate(_) => trimmed(&crate::unit::rate(v)),
        };
        within.map(|v| (v, name(v))).collect()
    }
}

/// Removes zeros behind the decimal point: `2.00 s` becomes `2 s`.
fn trimmed(text: &str) -> String {
    let (number, unit) = text.split_once(' ').map_or((text, None), |(number, unit)| (number, Some(unit)));
    let number = match number.contains('.') && !number.contains('e') {
        true => number.trim_end_matches('0').trim_end_matches('.'),
        false => number,
    };
    unit.map_or(number.to_owned(), |unit| format!("{number} {unit}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(unit: Unit, extent: Extent, values: &[f64]) -> Range {
        Range::new(&Axis { label: "x".to_owned(), unit, extent }, values.iter().copied(), 5.0)
    }

    #[test]
    fn ticks_are_round_and_within() {
        let names = |unit, extent, values: &[f64]| {
            let range = range(unit, extent, values);
            let names: Vec<String> = range.ticks.iter().map(|(_, name)| name.clone()).collect();
            (names.join(" "), range.title)
        };
        let plain = Unit::Rate("t/s");
        for (unit, extent, values, wanted, title) in [
            (plain, Extent::Zero, &[47.0][..], "0 10 20 30 40", "x, t/s"),
            (Unit::Seconds, Extent::Zero, &[600.0], "0 2 4 6 8 10", "x, min"),
            (Unit::Seconds, Extent::Zero, &[0.9], "0 200 400 600 800", "x, ms"),
            (Unit::Seconds, Extent::Log, &[0.01, 0.5], "10 ms 20 ms 50 ms 100 ms 200 ms 500 ms", "x"),
            (Unit::Share, Extent::Zero, &[0.97], "0 20 40 60 80 100", "x, %"),
            (Unit::Number(""), Extent::Fitted, &[0.981, 0.993], "0.985 0.990", "x"),
            (Unit::Number(""), Extent::Zero, &[-0.02, 0.03], "-0.02 -0.01 0 0.01 0.02 0.03", "x"),
        ] {
            assert_eq!(names(unit, extent, values), (wanted.to_owned(), title.to_owned()));
        }
    }

    #[test]
    fn any_value_has_a_place() {
        for values in [&[][..], &[0.0], &[f64::INFINITY, 1e9], &[1e-9, 1e9], &[1e300, -1e300], &[1e-320]] {
            for extent in [Extent::Zero, Extent::Fitted, Extent::Log] {
                for unit in [Unit::Seconds, Unit::Bytes, Unit::Share, Unit::Rate("t/s")] {
                    let range = range(unit, extent, values);
                    assert!(range.low < range.high, "{values:?} {extent:?}");
                    let all = [0.0, 1.0, -1e300, f64::INFINITY, f64::NAN];
                    assert!(all.iter().all(|v| (0.0..=1.0).contains(&range.place(*v))), "{values:?}");
                }
            }
        }
    }
}
