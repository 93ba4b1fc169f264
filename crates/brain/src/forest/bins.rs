//! Training rows as numbers of bins: cuts at the quantiles of each feature, and a byte per value.

use super::packed::CUTS;
use crate::data::Matrix;
use crate::features::FEATURES;

/// The bin of what is missing.
pub(super) const MISSING: u8 = 255;

/// Rows as bins. A value's bin is how many of its feature's cuts are not above it.
#[derive(Clone, Debug)]
pub(crate) struct Bins {
    /// Of each feature, in rising order.
    pub(super) cuts: Vec<Vec<f32>>,
    pub(super) rows: Vec<[u8; FEATURES]>,
}

impl Bins {
    pub(crate) fn of(matrix: &Matrix) -> Self {
        let cuts: Vec<Vec<f32>> = (0..FEATURES)
            .map(|feature| cuts(matrix.inputs.iter().map(|input| input[feature])))
            .collect();
        let bin = |input: &[f32; FEATURES]| {
            std::array::from_fn(|feature| {
                let value = input[feature];
                let below = cuts[feature].partition_point(|cut| *cut <= value);
                if value.is_nan() { MISSING } else { u8::try_from(below).unwrap_or(MISSING - 1) }
            })
        };
        let rows = matrix.inputs.iter().map(bin).collect();
        Self { cuts, rows }
    }
}

/// Cuts between values, so that about equally many fall between two of them.
fn cuts(values: impl Iterator<Item = f32>) -> Vec<f32> {
    let mut values: Vec<f32> = values.filter(|value| !value.is_nan()).collect();
    values.sort_unstable_by(f32::total_cmp);
    let mut cuts: Vec<f32> = Vec::new();
    let mut since = 0;
    let (mut left, mut room) = (values.len(), CUTS);
    for pair in values.windows(2) {
        since += 1;
        let [low, high] = [pair[0], pair[1]];
        // As many as are left for each of the cuts that are left.
        if low < high && room > 0 && since * (room + 1) >= left {
            let middle = low + (high - low) / 2.0;
            cuts.push(if middle > low { middle } else { high });
            left -= since;
            room -= 1;
            since = 0;
        }
    }
    cuts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_values_are_cut_between_each_two() {
        let values = [0.0, 1.0, 0.5, f32::NAN, 0.5, 1.0];
        assert_eq!(cuts(values.into_iter()), [0.25, 0.75]);
        assert_eq!(cuts([0.5; 9].into_iter()), [0.0_f32; 0]);
        let next = f32::from_bits(0.5_f32.to_bits() + 1);
        assert_eq!(cuts([0.5, next].into_iter()), [next], "nothing is between them");
    }

    #[test]
    fn many_values_are_cut_into_equal_parts() {
        let values: Vec<f32> = (0..10_000_u16).map(f32::from).collect();
        let cuts = cuts(values.iter().copied());
        assert_eq!(cuts.len(), CUTS);
        let mut before = 0;
        for cut in cuts {
            let below = values.partition_point(|value| *value < cut);
            assert!((30..=50).contains(&(below - before)), "{}", below - before);
            before = below;
        }
    }
}
