//! [`Unit`]: units of figures, and numbers as text.

/// Unit of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Number with four digits and a unit, which may be empty.
    Number(&'static str),
    /// Number with three digits and a unit.
    Rate(&'static str),
    /// Seconds, shown in a suitable unit.
    Seconds,
    /// Share from 0 to 1, shown in per cent.
    Share,
    /// Difference of shares, shown in percentage points.
    Points,
    /// Bytes.
    Bytes,
    /// US dollars.
    Dollars,
}

impl Unit {
    /// Formats a value with its unit.
    #[must_use]
    pub fn text(self, value: f64) -> String {
        let with = |text: String, unit: &str| if unit.is_empty() { text } else { format!("{text} {unit}") };
        match self {
            _ if value.is_infinite() => "never".to_owned(),
            Unit::Number(unit) => with(number(value), unit),
            Unit::Rate(unit) => with(rate(value), unit),
            Unit::Seconds => duration(value),
            Unit::Share => format!("{:.2} %", 100.0 * value),
            Unit::Points => format!("{:+.2}", 100.0 * value),
            Unit::Bytes => {
                let (factor, name) = self.shown(value);
                with(rate(value / factor), name)
            }
            Unit::Dollars if value.abs() >= 100.0 => format!("${value:.0}"),
            Unit::Dollars if value.abs() >= 0.1 => format!("${value:.2}"),
            Unit::Dollars => format!("${}", number(value)),
        }
    }

    /// Formats a value without its unit.
    #[must_use]
    pub fn bare(self, value: f64) -> String {
        match self {
            Unit::Number(_) => number(value),
            Unit::Rate(_) => rate(value),
            Unit::Share => format!("{:.2}", 100.0 * value),
            _ => self.text(value),
        }
    }

    /// Returns the factor and the name of the unit in which an axis up to `high` is labelled.
    pub(crate) fn shown(self, high: f64) -> (f64, &'static str) {
        let high = high.abs();
        let first = |all: &[(f64, &'static str)], from: f64| {
            all.iter().copied().find(|(factor, _)| high >= factor * from)
        };
        match self {
            Unit::Share => (0.01, "%"),
            Unit::Points => (0.01, ""),
            Unit::Dollars => (1.0, "$"),
            Unit::Seconds => {
                let all = [(3600.0, "h"), (60.0, "min"), (1.0, "s"), (1e-3, "ms"), (1e-6, "µs")];
                match high {
                    _ if high >= 10.0 * 3600.0 => all[0],
                    _ if high >= 600.0 => all[1],
                    _ if high >= 1.0 || high == 0.0 => all[2],
                    _ if high >= 1e-3 => all[3],
                    _ => all[4],
                }
            }
            Unit::Bytes => {
                let all =
                    [(1099511627776.0, "TiB"), (1073741824.0, "GiB"), (1048576.0, "MiB"), (1024.0, "KiB")];
                first(&all, 1.0).unwrap_or((1.0, "B"))
            }
            Unit::Number(unit) | Unit::Rate(unit) => (1.0, unit),
        }
    }
}

/// Formats a number with four significant digits; a whole number as it is.
#[must_use]
pub fn number(x: f64) -> String {
    digits(x, 4)
}

/// Formats a number with three significant digits; a whole number as it is.
#[must_use]
pub fn rate(x: f64) -> String {
    digits(x, 3)
}

fn digits(x: f64, n: i32) -> String {
    if x == 0.0 || !x.is_finite() {
        return if x == 0.0 { "0".to_owned() } else { "–".to_owned() };
    }
    if x.fract() == 0.0 && x.abs() < 1e9 {
        return format!("{x:.0}");
    }
    let magnitude = x.abs().log10().floor() as i32;
    if !(-9..15).contains(&magnitude) {
        return format!("{x:.2e}");
    }
    // 9.996 has one digit before the point, and two after it is rounded.
    let decimals = (n - 1 - magnitude).clamp(0, 12);
    let rounded = format!("{x:.*}", decimals as usize);
    let value = rounded.parse::<f64>().unwrap_or(x);
    let magnitude = value.abs().log10().floor() as i32;
    format!("{x:.*}", (n - 1 - magnitude).clamp(0, 12) as usize)
}

/// Formats seconds in a suitable unit.
#[must_use]
pub fn duration(s: f64) -> String {
    match s.abs() {
        _ if !s.is_finite() => "never".to_owned(),
        0.0 => "0 s".to_owned(),
        x if x >= 600.0 => format!("{} min", rate(s / 60.0)),
        x if x >= 0.9995 => format!("{} s", rate(s)),
        x if x >= 0.001 => format!("{} ms", rate(s * 1e3)),
        _ => format!("{} µs", rate(s * 1e6)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_read_well() {
        let times = [0.0, 0.000_02, 0.0123, 0.2, 0.9996, 12.34, 123.4, 1234.5].map(duration);
        assert_eq!(times, ["0 s", "20 µs", "12.3 ms", "200 ms", "1.00 s", "12.3 s", "123 s", "20.6 min"]);
        assert_eq!([0.5, 5.25, 9.999, 50.0, 5000.0].map(rate), ["0.500", "5.25", "10.0", "50", "5000"]);
        assert_eq!(
            [0.123456, 1234.5, -0.00123456, 0.0, 12.0].map(number),
            ["0.1235", "1234", "-0.001235", "0", "12"]
        );
        assert_eq!(Unit::Share.text(0.92825), "92.83 %");
        assert_eq!(Unit::Bytes.text(1.5 * 1048576.0), "1.50 MiB");
        assert_eq!([0.004, 0.25, 1234.0].map(|x| Unit::Dollars.text(x)), ["$0.004000", "$0.25", "$1234"]);
        assert_eq!(Unit::Rate("t/s").text(f64::INFINITY), "never");
    }
}
