//! Random numbers of the resampling, which follow from a seed.

/// A SplitMix generator (Steele et al., 2014).
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number below `n`, which must not be 0.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        ((u128::from(self.next()) * n as u128) >> 64) as usize
    }

    /// Returns a number above 0 and below 1.
    pub(crate) fn unit(&mut self) -> f64 {
        ((self.next() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    }

    /// Returns a standard normal number (Box and Muller, 1958).
    pub(crate) fn normal(&mut self) -> f64 {
        (-2.0 * self.unit().ln()).sqrt() * (std::f64::consts::TAU * self.unit()).cos()
    }

    /// Returns a number of the gamma distribution with scale 1 and a whole shape (Marsaglia and Tsang, 2000); 0 for
    /// shape 0.
    pub(crate) fn gamma(&mut self, shape: usize) -> f64 {
        if shape == 0 {
            return 0.0;
        }
        let d = shape as f64 - 1.0 / 3.0;
        let c = 1.0 / (9.0 * d).sqrt();
        loop {
            let x = self.normal();
            let v = (1.0 + c * x).powi(3);
            if v > 0.0 && self.unit().ln() < 0.5 * x * x + d - d * v + d * v.ln() {
                return d * v;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Mean and variance of a gamma distribution are its shape, within five standard errors.
    #[test]
    fn gamma_has_its_moments() {
        for shape in [1, 2, 30, 1000] {
            let mut random = Random::new(shape as u64);
            let n = 20_000;
            let all: Vec<f64> = (0..n).map(|_| random.gamma(shape)).collect();
            let mean = all.iter().sum::<f64>() / n as f64;
            let variance = all.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / n as f64;
            let shape = shape as f64;
            assert!((mean - shape).abs() < 5.0 * (shape / n as f64).sqrt(), "{mean} {shape}");
            assert!((variance / shape - 1.0).abs() < 0.15, "{variance} {shape}");
        }
        assert_eq!(Random::new(1).gamma(0), 0.0);
    }
}
