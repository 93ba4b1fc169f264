//! The kernel's weighted sharing in one slice: everybody gets its share by weight, and what one
//! does not use flows on to the others.

/// One group's part in a slice, in core-milliseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Share {
    /// The most it can run.
    pub(super) most: f64,
    pub(super) weight: f64,
    /// What it runs.
    pub(super) got: f64,
    /// Whether `got` is its last word.
    pub(super) settled: bool,
}

impl Share {
    pub(super) fn new(most: f64, weight: f64) -> Self {
        Self { most, weight, got: 0.0, settled: most <= 0.0 }
    }
}

/// Divides `pool` by weight, up to what each can run.
pub(super) fn divide(pool: f64, shares: &mut [Share]) {
    let wanted: f64 = shares.iter().map(|share| share.most).sum();
    if wanted <= pool {
        for share in shares {
            share.got = share.most.max(0.0);
        }
        return;
    }
    let mut left = pool;
    loop {
        let weights: f64 =
            shares.iter().filter(|share| !share.settled).map(|share| share.weight).sum();
        let per_weight = left / weights;
        let mut filled = false;
        for share in shares.iter_mut().filter(|share| !share.settled) {
            if share.most <= share.weight * per_weight {
                share.got = share.most;
                share.settled = true;
                left -= share.most;
                filled = true;
            }
        }
        if !filled {
            for share in shares.iter_mut().filter(|share| !share.settled) {
                share.got = share.weight * per_weight;
            }
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pool: f64, groups: &[(f64, f64)], expected: &[f64]) {
        let mut shares: Vec<Share> =
            groups.iter().map(|&(most, weight)| Share::new(most, weight)).collect();
        divide(pool, &mut shares);
        let got: Vec<f64> = shares.iter().map(|share| share.got).collect();
        assert_eq!(got, expected);
    }

    #[test]
    fn without_contention_everyone_runs_what_it_can() {
        check(40.0, &[(10.0, 1.0), (0.0, 1.0), (20.0, 9.0)], &[10.0, 0.0, 20.0]);
    }

    #[test]
    fn contention_is_shared_by_weight() {
        check(40.0, &[(100.0, 3.0), (100.0, 1.0)], &[30.0, 10.0]);
    }

    #[test]
    fn what_one_leaves_flows_on() {
        check(40.0, &[(100.0, 1.0), (100.0, 1.0), (4.0, 8.0)], &[18.0, 18.0, 4.0]);
    }
}
