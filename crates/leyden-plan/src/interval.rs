//! [`Interval`]: predicted value with its limits; [`Band`]: factors between them.

use serde::Serialize;

/// Value with the limits within which it is expected.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Interval {
    /// Expected value.
    pub value: f64,
    /// Lower limit.
    pub low: f64,
    /// Upper limit.
    pub high: f64,
}

/// Factors on a predicted rate that give its limits: 10th and 90th percentile of measured / predicted.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Band {
    /// Factor of the lower limit, at most 1.
    pub low: f64,
    /// Factor of the upper limit, at least 1.
    pub high: f64,
}

impl Band {
    /// Band of a value that is known.
    pub const EXACT: Band = Band { low: 1.0, high: 1.0 };

    /// Returns the band of a product of two independent factors, which is narrower than both bands one after the other.
    #[must_use]
    pub fn and(self, other: Band) -> Band {
        let both = |a: f64, b: f64| a.ln().hypot(b.ln());
        Band { low: (-both(self.low, other.low)).exp(), high: both(self.high, other.high).exp() }
    }
}

impl Interval {
    /// Returns the interval of a value that is known.
    #[must_use]
    pub fn exact(value: f64) -> Interval {
        Interval { value, low: value, high: value }
    }

    /// Returns the interval of a rate with the factors of a band.
    #[must_use]
    pub fn around(value: f64, band: Band) -> Interval {
        Interval { value, low: value * band.low, high: value * band.high }
    }

    /// Returns `numerator / self`, such as a time from a rate; the limits change places.
    #[must_use]
    pub fn inverse(self, numerator: f64) -> Interval {
        Interval { value: numerator / self.value, low: numerator / self.high, high: numerator / self.low }
    }

    /// Returns the interval with all three numbers multiplied.
    #[must_use]
    pub fn times(self, factor: f64) -> Interval {
        Interval { value: self.value * factor, low: self.low * factor, high: self.high * factor }
    }

    /// Returns the sum of two intervals, limits added.
    #[must_use]
    pub fn plus(self, other: Interval) -> Interval {
        Interval { value: self.value + other.value, low: self.low + other.low, high: self.high + other.high }
    }

    /// Returns the band of the interval; [`Band::EXACT`] if the value is not positive.
    #[must_use]
    pub fn band(self) -> Band {
        if self.value > 0.0 {
            Band { low: self.low / self.value, high: self.high / self.value }
        } else {
            Band::EXACT
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inverse_swaps_the_limits() {
        let rate = Interval::around(10.0, Band { low: 0.5, high: 2.0 });
        assert_eq!(rate.inverse(100.0), Interval { value: 10.0, low: 5.0, high: 20.0 });
        assert_eq!(rate.band(), Band { low: 0.5, high: 2.0 });
        assert_eq!(rate.plus(Interval::exact(1.0)).low, 6.0);
    }

    #[test]
    fn bands_of_factors_grow_by_the_root_of_squares() {
        let band = Band { low: 0.5, high: 2.0 };
        let both = band.and(band);
        assert!((both.high - 2.0_f64.powf(2.0_f64.sqrt())).abs() < 1e-12);
        assert!((both.low * both.high - 1.0).abs() < 1e-12);
        assert_eq!(band.and(Band::EXACT), Band { low: 0.5, high: 2.0 });
    }
}
