//! Trees packed for the processor's vectors: every tree complete, with six levels, and every value
//! replaced by the number of its bin, which is one byte.
//!
//! A bin's number is how many of its feature's cuts are not above the value, so comparing bins is
//! comparing values. What is missing has two bins of its own, one below and one above all others,
//! in two rows per feature: a split reads the row that sends it the right way.

use super::{Node, Tree};
use crate::features::{FEATURES, NODE_FEATURES, POD_FEATURES};
use crate::simd::{BIN_ROWS, BinTile, TREE_LANES};

/// Levels of splits.
const DEPTH: usize = 6;
/// More cuts of one feature do not fit beside the two bins for what is missing.
pub(super) const CUTS: usize = 253;
/// What the search in eight steps looks at.
const CUTS_PADDED: usize = 255;
const MISSING_LEFT: i8 = i8::MIN;
const MISSING_RIGHT: i8 = i8::MAX;

/// A complete tree. Splits are numbered from 1 on, level by level; those below `n` are `2n`,
/// `2n+1`.
#[derive(Clone, Debug)]
pub(crate) struct PackedTree {
    /// Which row of bins a split looks at.
    pub(crate) rows: [u8; 64],
    /// The highest bin that goes to the left.
    pub(crate) cuts: [i8; 64],
    /// Leaves from left to right.
    pub(crate) leaves: [f32; 64],
}

/// All trees, and the cuts that make bins.
#[derive(Clone, Debug)]
pub(crate) struct Packed {
    pub(crate) trees: Vec<PackedTree>,
    /// In rising order, and then infinity up to 255 of them.
    cuts: Vec<Option<Box<[f32; CUTS_PADDED]>>>,
}

impl Packed {
    /// `None` where a tree is too deep, or a feature has too many cuts.
    pub(super) fn new(trees: &[Tree]) -> Option<Self> {
        if trees.iter().any(|tree| tree.depth() > DEPTH) {
            return None;
        }
        let mut cuts: Vec<Vec<f32>> = vec![Vec::new(); FEATURES];
        for node in trees.iter().flat_map(Tree::nodes) {
            match *node {
                Node::Split { feature, cut, .. } => cuts[usize::from(feature)].push(cut),
                Node::Leaf(_) => {}
            }
        }
        for cuts in &mut cuts {
            cuts.sort_unstable_by(f32::total_cmp);
            // By value, so that the two zeros are one cut.
            cuts.dedup();
        }
        if cuts.iter().any(|cuts| cuts.len() > CUTS) {
            return None;
        }
        let trees = trees.iter().map(|tree| pack(tree, &cuts)).collect();
        let cuts = cuts.iter().map(|cuts| padded(cuts)).collect();
        Some(Self { trees, cuts })
    }

    /// Puts the pod into all lanes.
    pub(crate) fn pod_bins(&self, pod: &[f32; POD_FEATURES], bins: &mut BinTile) {
        for (feature, value) in (NODE_FEATURES..).zip(pod) {
            self.bins_of(feature, &[*value; TREE_LANES], bins);
        }
    }

    /// Puts the nodes of a tile into their lanes.
    pub(crate) fn node_bins(&self, nodes: &[[f32; TREE_LANES]; NODE_FEATURES], bins: &mut BinTile) {
        for (feature, values) in nodes.iter().enumerate() {
            self.bins_of(feature, values, bins);
        }
    }

    /// The bins of one feature. The search takes its eight steps for all lanes side by side, since
    /// each step waits for the one before.
    fn bins_of(&self, feature: usize, values: &[f32; TREE_LANES], bins: &mut BinTile) {
        let Some(cuts) = &self.cuts[feature] else {
            return;
        };
        let mut below = [0_usize; TREE_LANES];
        for step in [128, 64, 32, 16, 8, 4, 2, 1] {
            for (below, value) in below.iter_mut().zip(values) {
                let above = cuts[(*below + step - 1).min(CUTS_PADDED - 1)] <= *value;
                *below += step * usize::from(above);
            }
        }
        for (lane, (below, value)) in below.into_iter().zip(values).enumerate() {
            let missing = value.is_nan();
            let bin = numbered(below);
            bins[feature * 2][lane] = if missing { MISSING_LEFT } else { bin };
            bins[feature * 2 + 1][lane] = if missing { MISSING_RIGHT } else { bin };
        }
    }
}

/// The number of a bin as a byte with a sign, which is what vectors compare.
fn numbered(bin: usize) -> i8 {
    let number = i16::try_from(bin).map_or(0, |bin| bin - 127);
    i8::try_from(number).unwrap_or(MISSING_RIGHT - 1).min(MISSING_RIGHT - 1)
}

fn padded(cuts: &[f32]) -> Option<Box<[f32; CUTS_PADDED]>> {
    if cuts.is_empty() {
        return None;
    }
    let mut all = Box::new([f32::INFINITY; CUTS_PADDED]);
    all[..cuts.len()].copy_from_slice(cuts);
    Some(all)
}

fn pack(tree: &Tree, cuts: &[Vec<f32>]) -> PackedTree {
    let mut packed = PackedTree {
        // A row that is always there, and a cut that nothing is above: to the left.
        rows: [0; 64],
        cuts: [MISSING_RIGHT; 64],
        leaves: [0.0; 64],
    };
    let mut open = vec![(0_usize, 1_usize)];
    while let Some((from, to)) = open.pop() {
        match tree.nodes()[from] {
            Node::Leaf(value) if to >= 64 => packed.leaves[to - 64] = value,
            // A leaf that comes early is below both ways of a split that decides nothing.
            Node::Leaf(_) => open.extend([(from, to * 2), (from, to * 2 + 1)]),
            Node::Split { feature, cut, missing_left, left, right } => {
                let feature = usize::from(feature);
                let row = feature * 2 + usize::from(!missing_left);
                debug_assert!(row < BIN_ROWS);
                packed.rows[to] = u8::try_from(row).unwrap_or(0);
                packed.cuts[to] = numbered(cuts[feature].partition_point(|other| *other < cut));
                for (child, to) in [(left, to * 2), (right, to * 2 + 1)] {
                    open.push((usize::try_from(child).unwrap_or(0), to));
                }
            }
        }
    }
    packed
}
