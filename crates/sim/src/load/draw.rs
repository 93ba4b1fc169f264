//! Random draws of a load: arrivals and costs. The transcendental functions come from `libm`, so
//! that the same seed gives the same load on every machine; a square root is exact on all of them.

use walras_core::rng::Rng;

/// Arrivals with an expected number per slice (Poisson).
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Arrivals {
    mean: f64,
    /// The probability that nobody comes; worked out once, since it is asked for in every slice.
    nobody: f64,
}

impl Arrivals {
    pub(super) fn expecting(mean: f64) -> Self {
        Self { mean, nobody: libm::exp(-mean) }
    }

    /// How many come.
    pub(super) fn draw(&self, rng: &mut Rng) -> u64 {
        if self.mean <= 0.0 {
            return 0;
        }
        if self.mean > 30.0 {
            // The normal approximation, rounded; exact enough from here on.
            return whole((self.mean + self.mean.sqrt() * normal(rng) + 0.5).max(0.0));
        }
        let mut product = rng.unit();
        let mut count = 0;
        while product > self.nobody {
            product *= rng.unit();
            count += 1;
        }
        count
    }
}

/// Costs with a mean and a coefficient of variation (log-normal).
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Costs {
    mean: f64,
    /// The spread and the shift of the logarithm; worked out once, since every request needs them.
    sigma: f64,
    shift: f64,
}

impl Costs {
    pub(super) fn around(mean: f64, variation: f64) -> Self {
        let sigma2 = libm::log(1.0 + variation * variation);
        Self { mean, sigma: sigma2.sqrt(), shift: sigma2 / 2.0 }
    }

    /// The next one.
    pub(super) fn draw(&self, rng: &mut Rng) -> f64 {
        if self.sigma <= 0.0 {
            return self.mean;
        }
        self.mean * libm::exp(self.sigma * normal(rng) - self.shift)
    }
}

/// A standard normal number (Box and Muller).
pub(crate) fn normal(rng: &mut Rng) -> f64 {
    let radius = (-2.0 * libm::log(1.0 - rng.unit())).sqrt();
    radius * libm::cos(core::f64::consts::TAU * rng.unit())
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "never negative")]
fn whole(number: f64) -> u64 {
    number as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_have_the_mean_and_spread_they_should() {
        let mut rng = Rng::from_seed(1);
        for mean in [0.5, 4.0, 80.0] {
            let arrivals = Arrivals::expecting(mean);
            let total: u64 = (0..40_000).map(|_| arrivals.draw(&mut rng)).sum();
            let found = f64::from(u32::try_from(total).expect("small")) / 40_000.0;
            assert!((found / mean - 1.0).abs() < 0.03, "{mean}: {found}");
        }
        let costs = Costs::around(10.0, 1.0);
        let costs: Vec<f64> = (0..100_000).map(|_| costs.draw(&mut rng)).collect();
        let mean = costs.iter().sum::<f64>() / 1e5;
        let variance = costs.iter().map(|cost| (cost - mean) * (cost - mean)).sum::<f64>() / 1e5;
        assert!((mean - 10.0).abs() < 0.2, "{mean}");
        assert!((variance.sqrt() / mean - 1.0).abs() < 0.1, "{}", variance.sqrt() / mean);
    }
}
