//! [`Random`]: random numbers that depend on a seed and a stream number, never on the order of threads.

/// A stream of random numbers: splitmix64 (Steele, Lea, Flood 2014), started from a mix of seed and stream number.
#[derive(Debug, Clone)]
pub struct Random {
    state: u64,
}

/// The increment of splitmix64, 2^64 divided by the golden ratio.
const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

impl Random {
    /// Makes the generator of stream number `stream` of `seed`.
    #[must_use]
    pub fn new(seed: u64, stream: u64) -> Self {
        Self { state: mix(seed).wrapping_add(mix(stream.wrapping_add(GAMMA))) }
    }

    /// Returns 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(GAMMA);
        mix(self.state)
    }

    /// Returns a number from 0 to 1, excluding 1.
    pub fn unit(&mut self) -> f64 {
        // A double represents 53 bits exactly.
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Returns a number from 0 to `n`, excluding `n`, which must not be 0.
    pub fn below(&mut self, n: u64) -> u64 {
        // The bias is below n / 2^64.
        ((u128::from(self.bits()) * u128::from(n.max(1))) >> 64) as u64
    }

    /// Draws from the exponential distribution with mean 1: the time between arrivals of a Poisson process of rate 1.
    pub fn exponential(&mut self) -> f64 {
        -(1.0 - self.unit()).ln()
    }

    /// Draws from the normal distribution with mean 0 and deviation 1 (Box and Muller 1958).
    pub fn normal(&mut self) -> f64 {
        let radius = (2.0 * self.exponential()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }
}

fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_right() {
        let mut random = Random::new(7, 1);
        let n = 100_000;
        let (mut unit, mut exponential, mut normal, mut square) = (0.0, 0.0, 0.0, 0.0);
        for _ in 0..n {
            unit += random.unit();
            exponential += random.exponential();
            let x = random.normal();
            normal += x;
            square += x * x;
        }
        let mean = |sum: f64| sum / f64::from(n);
        // Five standard errors.
        assert!((mean(unit) - 0.5).abs() < 0.005);
        assert!((mean(exponential) - 1.0).abs() < 0.016);
        assert!(mean(normal).abs() < 0.016 && (mean(square) - 1.0).abs() < 0.023);
    }

    #[test]
    fn streams_are_apart_and_repeat() {
        let draw = |seed, stream| Random::new(seed, stream).bits();
        assert_eq!(draw(1, 2), draw(1, 2));
        assert!(draw(1, 2) != draw(2, 1) && draw(1, 2) != draw(1, 3));
        let mut random = Random::new(0, 0);
        assert!((0..1000).all(|_| random.below(3) < 3));
    }
}
