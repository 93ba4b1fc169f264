//! How a tree grows: level by level, each split where it lowers the squared error most.
//!
//! Errors are summed up per bin and never per value; of two children only the smaller one is
//! summed, the other is what is left of the parent. Nothing is random, and ties go to the first
//! feature and the lowest cut, so the same rows give the same tree on every machine.
//!
//! Monotone: a split on a load may only be made if its left leaf would not be below its right one,
//! and what grows below stays on its side of their middle.

use super::bins::{Bins, MISSING};
use super::{Node, Tree};
use crate::features::FEATURES;
use crate::number::narrow;

/// How a tree is grown.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct GrowSettings {
    pub(crate) depth: usize,
    /// How much of the way to the best leaf is gone.
    pub(crate) rate: f64,
    /// Holds leaves with few rows back towards zero.
    pub(crate) lambda: f64,
    /// No child has less weight than this.
    pub(crate) least_weight: f64,
}

impl GrowSettings {
    pub(crate) const PLAIN: Self = Self { depth: 6, rate: 0.1, lambda: 1.0, least_weight: 1.0 };
}

/// The sums of slopes and of weights.
type Sums = [f64; 2];
type Histogram = Vec<[Sums; 256]>;

/// A node whose children are not decided.
struct Open {
    /// Its place in the tree.
    place: usize,
    /// Its rows, as a part of the list of all.
    from: usize,
    to: usize,
    sums: Sums,
    histogram: Histogram,
    /// What its leaves must be between.
    bounds: [f64; 2],
}

#[derive(Clone, Copy)]
struct Split {
    gain: f64,
    feature: usize,
    /// The highest bin that goes to the left.
    bin: u8,
    missing_left: bool,
    left: Sums,
    right: Sums,
    weights: [f64; 2],
}

/// Everything that does not change while a tree grows.
struct Ground<'a> {
    bins: &'a Bins,
    slopes: &'a [Sums],
    settings: &'a GrowSettings,
    loads: Option<&'a [bool; FEATURES]>,
}

/// Grows a tree for slopes and weights of each row. Also gives the leaf's value for each row.
pub(crate) fn grow(
    bins: &Bins,
    slopes: &[Sums],
    settings: &GrowSettings,
    loads: Option<&[bool; FEATURES]>,
) -> (Tree, Vec<f32>) {
    let ground = Ground { bins, slopes, settings, loads };
    let mut rows: Vec<usize> = (0..slopes.len()).collect();
    let mut nodes = vec![Node::Leaf(0.0)];
    let mut leaf_of = vec![0.0; slopes.len()];
    let bounds = [f64::NEG_INFINITY, f64::INFINITY];
    let mut level = vec![ground.open(0, &rows, 0..rows.len(), bounds)];
    for depth in 0..=settings.depth {
        let mut below = Vec::new();
        for open in level {
            let split = if depth < settings.depth { ground.best_split(&open) } else { None };
            match split {
                Some(split) => {
                    below.extend(ground.divide(open, &split, &mut rows, &mut nodes));
                }
                None => {
                    let value = narrow(ground.weight(open.sums, open.bounds) * settings.rate);
                    nodes[open.place] = Node::Leaf(value);
                    for row in &rows[open.from..open.to] {
                        leaf_of[*row] = value;
                    }
                }
            }
        }
        level = below;
    }
    let tree = Tree::new(nodes).expect("children are put behind their parents");
    (tree, leaf_of)
}

// === impl Ground ===

impl Ground<'_> {
    fn open(
        &self,
        place: usize,
        rows: &[usize],
        range: std::ops::Range<usize>,
        bounds: [f64; 2],
    ) -> Open {
        let histogram = self.sum_up(&rows[range.clone()]);
        let sums =
            rows[range.clone()].iter().fold([0.0; 2], |sums, row| plus(sums, self.slopes[*row]));
        Open { place, from: range.start, to: range.end, sums, histogram, bounds }
    }

    fn sum_up(&self, rows: &[usize]) -> Histogram {
        let mut histogram: Histogram = vec![[[0.0; 2]; 256]; FEATURES];
        for &row in rows {
            let [slope, weight] = self.slopes[row];
            for (sums, bin) in histogram.iter_mut().zip(&self.bins.rows[row]) {
                let sum = &mut sums[usize::from(*bin)];
                sum[0] += slope;
                sum[1] += weight;
            }
        }
        histogram
    }

    /// The best leaf for these sums, within bounds.
    fn weight(&self, [slope, weight]: Sums, [low, high]: [f64; 2]) -> f64 {
        (-slope / (weight + self.settings.lambda)).max(low).min(high)
    }

    /// How much a leaf lowers the error.
    fn gain(&self, [slope, weight]: Sums, leaf: f64) -> f64 {
        -(2.0 * slope * leaf + (weight + self.settings.lambda) * leaf * leaf)
    }

    fn best_split(&self, open: &Open) -> Option<Split> {
        let whole = self.gain(open.sums, self.weight(open.sums, open.bounds));
        let mut best: Option<Split> = None;
        for feature in 0..FEATURES {
            let sums = &open.histogram[feature];
            let missing = sums[usize::from(MISSING)];
            let mut below = [0.0; 2];
            for ((bin, sums), _) in (0_u8..).zip(sums).zip(&self.bins.cuts[feature]) {
                below = plus(below, *sums);
                for missing_left in [true, false] {
                    let left = if missing_left { plus(below, missing) } else { below };
                    let Some(split) = self.judge(open, feature, left) else { continue };
                    let gain = split.gain - whole;
                    if gain > best.map_or(1e-9, |best| best.gain) {
                        // Where nothing was missing, it goes with the greater part.
                        let missing_left = if missing[1] > 0.0 {
                            missing_left
                        } else {
                            split.left[1] >= split.right[1]
                        };
                        best = Some(Split { gain, bin, missing_left, ..split });
                    }
                    if missing[1] == 0.0 {
                        break;
                    }
                }
            }
        }
        best
    }

    /// What a split into these parts is worth; `None` where it may not be made.
    fn judge(&self, open: &Open, feature: usize, left: Sums) -> Option<Split> {
        let right = minus(open.sums, left);
        if left[1].min(right[1]) < self.settings.least_weight {
            return None;
        }
        let weights = [left, right].map(|sums| self.weight(sums, open.bounds));
        if self.is_load(feature) && weights[0] < weights[1] {
            return None;
        }
        let gain = self.gain(left, weights[0]) + self.gain(right, weights[1]);
        Some(Split { gain, feature, bin: 0, missing_left: true, left, right, weights })
    }

    fn is_load(&self, feature: usize) -> bool {
        self.loads.is_some_and(|loads| loads[feature])
    }

    /// Makes the split, and opens both children.
    fn divide(
        &self,
        open: Open,
        split: &Split,
        rows: &mut [usize],
        nodes: &mut Vec<Node>,
    ) -> [Open; 2] {
        let goes_left = |row: usize| {
            let bin = self.bins.rows[row][split.feature];
            if bin == MISSING { split.missing_left } else { bin <= split.bin }
        };
        let mine = &mut rows[open.from..open.to];
        let (left, right): (Vec<usize>, Vec<usize>) =
            mine.iter().copied().partition(|row| goes_left(*row));
        mine[..left.len()].copy_from_slice(&left);
        mine[left.len()..].copy_from_slice(&right);
        let middle = open.from + left.len();
        let places = [nodes.len(), nodes.len() + 1];
        let number = |place: usize| u32::try_from(place).expect("a tree has few nodes");
        nodes[open.place] = Node::Split {
            feature: u8::try_from(split.feature).expect("there are 26 features"),
            cut: self.bins.cuts[split.feature][usize::from(split.bin)],
            missing_left: split.missing_left,
            left: number(places[0]),
            right: number(places[1]),
        };
        nodes.extend([Node::Leaf(0.0); 2]);
        let mut histogram = open.histogram;
        let small = self.sum_up(if left.len() <= right.len() { &left } else { &right });
        for (all, small) in histogram.iter_mut().flatten().zip(small.iter().flatten()) {
            *all = minus(*all, *small);
        }
        let histograms =
            if left.len() <= right.len() { [small, histogram] } else { [histogram, small] };
        let [left_histogram, right_histogram] = histograms;
        let [low, high] = self.bounds_below(open.bounds, split);
        let (from, to) = (open.from, open.to);
        [
            Open {
                place: places[0],
                from,
                to: middle,
                sums: split.left,
                histogram: left_histogram,
                bounds: low,
            },
            Open {
                place: places[1],
                from: middle,
                to,
                sums: split.right,
                histogram: right_histogram,
                bounds: high,
            },
        ]
    }

    /// What the leaves of both children must be between.
    fn bounds_below(&self, bounds: [f64; 2], split: &Split) -> [[f64; 2]; 2] {
        if !self.is_load(split.feature) {
            return [bounds; 2];
        }
        let middle = f64::midpoint(split.weights[0], split.weights[1]);
        [[middle, bounds[1]], [bounds[0], middle]]
    }
}

fn plus(a: Sums, b: Sums) -> Sums {
    [a[0] + b[0], a[1] + b[1]]
}

fn minus(a: Sums, b: Sums) -> Sums {
    [a[0] - b[0], a[1] - b[1]]
}
