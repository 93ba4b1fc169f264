//! The two inner loops of inference, for processors with AVX2 and FMA, and the choice between them
//! and the portable ones.
//!
//! This is the one module with `unsafe`. It needs it for three things: to load eight numbers into a
//! register, to store them, both through a reference to an array of that length; and to call
//! functions that were compiled for AVX2 and FMA, which [`Kernel`] allows only after the processor
//! was asked. Indices are checked or masked; nothing here computes an address.
#![expect(unsafe_code, reason = "vector registers; see the header")]

use crate::forest::PackedTree;

/// How many nodes go through the perceptron at once.
pub(crate) const LANES: usize = 24;
/// How many nodes go through a tree at once.
pub(crate) const TREE_LANES: usize = 32;
/// How many rows of bins a tile has. More than there can be, so that an index can be masked.
pub(crate) const BIN_ROWS: usize = 64;

/// One number of each node of a tile.
pub(crate) type Lanes = [f32; LANES];
/// Bins of the nodes of a tile: for each feature one row for splits that send what is missing to
/// the left, and one for the others.
pub(crate) type BinTile = [[i8; TREE_LANES]; BIN_ROWS];

/// A layer, as both kernels read it: for each block of outputs, for each input, the weights.
#[derive(Clone, Debug)]
pub(crate) struct Layer<const IN: usize, const BLOCK: usize> {
    pub(crate) blocks: Vec<[[f32; BLOCK]; IN]>,
}

/// Which code computes. Both give the same within a tolerance that the tests state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kernel(Kind);

/// Something to compute. A trait, because only a function can be told to be inlined, and only what
/// is inlined is compiled for its caller's processor.
pub(crate) trait Work {
    type Done;

    /// To be marked `#[inline(always)]`, with all that it calls.
    fn run(self) -> Self::Done;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Portable,
    /// Only ever made after the processor said that it has AVX2 and FMA.
    #[cfg(target_arch = "x86_64")]
    Avx2,
}

impl Kernel {
    /// What every processor can do.
    pub const PORTABLE: Self = Self(Kind::Portable);

    /// The fastest that this processor can do.
    #[must_use]
    pub fn best() -> Self {
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            return Self(Kind::Avx2);
        }
        Self::PORTABLE
    }

    /// Its name, for people.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self.0 {
            Kind::Portable => "portable",
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 => "avx2+fma",
        }
    }

    /// Runs `work` as the compiler makes it for this processor's widest vectors. Nothing is fused
    /// and no sum is taken in another order, so the result has the same bits on every machine.
    pub(crate) fn widely<W: Work>(self, work: W) -> W::Done {
        match self.0 {
            Kind::Portable => work.run(),
            #[cfg(target_arch = "x86_64")]
            // SAFETY: this kind exists only where the processor has AVX2.
            Kind::Avx2 => unsafe { avx2::widely(work) },
        }
    }

    /// A layer: `y = x * weights + bias`, and negative results become 0 where `relu` says so.
    pub(crate) fn layer<const IN: usize, const BLOCK: usize>(
        self,
        layer: &Layer<IN, BLOCK>,
        bias: &[f32],
        x: &[Lanes; IN],
        y: &mut [Lanes],
        relu: bool,
    ) {
        let biases = bias.as_chunks::<BLOCK>().0;
        let outputs = y.as_chunks_mut::<BLOCK>().0;
        for ((weights, bias), y) in layer.blocks.iter().zip(biases).zip(outputs) {
            match self.0 {
                Kind::Portable => portable::block(weights, bias, x, y, relu),
                #[cfg(target_arch = "x86_64")]
                // SAFETY: this kind exists only where the processor has AVX2 and FMA.
                Kind::Avx2 => unsafe { avx2::block(weights, bias, x, y, relu) },
            }
        }
    }

    /// The logistic function of every number.
    pub(crate) fn sigmoid(self, x: &mut Lanes) {
        match self.0 {
            Kind::Portable => x.iter_mut().for_each(|x| *x = portable::sigmoid(*x)),
            #[cfg(target_arch = "x86_64")]
            // SAFETY: this kind exists only where the processor has AVX2 and FMA.
            Kind::Avx2 => unsafe { avx2::sigmoid(x) },
        }
    }

    /// Adds the leaf of each tree that each node falls into.
    pub(crate) fn trees(self, trees: &[PackedTree], bins: &BinTile, sums: &mut [f32; TREE_LANES]) {
        for tree in trees {
            let leaves = match self.0 {
                Kind::Portable => portable::leaves(tree, bins),
                #[cfg(target_arch = "x86_64")]
                // SAFETY: this kind exists only where the processor has AVX2 and FMA.
                Kind::Avx2 => unsafe { avx2::leaves(tree, bins) },
            };
            for (sum, leaf) in sums.iter_mut().zip(leaves) {
                *sum += tree.leaves[usize::from(leaf) % tree.leaves.len()];
            }
        }
    }
}

/// The exponential as 2^n times a polynomial; the same constants in both kernels, from Cephes.
mod exp {
    pub(super) const LOG2_E: f32 = std::f32::consts::LOG2_E;
    /// The logarithm of 2 in two parts, of which the first has zeros at its end.
    pub(super) const LN2: [f32; 2] = [0.693_359_4, -2.121_944_4e-4];
    pub(super) const POLYNOMIAL: [f32; 6] =
        [1.987_569_1e-4, 1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 0.166_666_65, 0.5];
    /// Added and taken away again, it leaves the nearest whole number.
    pub(super) const ROUND: f32 = 12_582_912.0;
    /// Beyond this the logistic function is 0 or 1 within 32 bits.
    pub(super) const LIMIT: f32 = 80.0;
}

pub(crate) mod portable {
    //! What every processor can do.

    use super::{BinTile, LANES, Lanes, TREE_LANES, exp};
    use crate::forest::PackedTree;

    pub(super) fn block<const IN: usize, const BLOCK: usize>(
        weights: &[[f32; BLOCK]; IN],
        bias: &[f32; BLOCK],
        x: &[Lanes; IN],
        y: &mut [Lanes; BLOCK],
        relu: bool,
    ) {
        for (output, (y, bias)) in y.iter_mut().zip(bias).enumerate() {
            let mut sums = [*bias; LANES];
            for (weights, x) in weights.iter().zip(x) {
                let weight = weights[output];
                for (sum, x) in sums.iter_mut().zip(x) {
                    *sum += weight * x;
                }
            }
            *y = if relu { sums.map(|sum| sum.max(0.0)) } else { sums };
        }
    }

    /// Also what training computes with: the same bits on every machine.
    pub(crate) fn sigmoid(x: f32) -> f32 {
        1.0 / (1.0 + exp(-x))
    }

    #[expect(clippy::cast_possible_truncation, reason = "a whole number of at most three digits")]
    fn exp(x: f32) -> f32 {
        let x = x.clamp(-exp::LIMIT, exp::LIMIT);
        let n = (x * exp::LOG2_E + exp::ROUND) - exp::ROUND;
        let r = (x - n * exp::LN2[0]) - n * exp::LN2[1];
        let polynomial = exp::POLYNOMIAL.iter().fold(0.0, |sum, term| sum * r + term);
        let power = f32::from_bits((((n as i32) + 127) << 23).cast_unsigned());
        (polynomial * (r * r) + r + 1.0) * power
    }

    /// Which leaf each node falls into.
    pub(super) fn leaves(tree: &PackedTree, bins: &BinTile) -> [u8; TREE_LANES] {
        let mut places = [1_u8; TREE_LANES];
        for _ in 0..6 {
            for (lane, place) in places.iter_mut().enumerate() {
                let split = usize::from(*place) % tree.rows.len();
                let row = &bins[usize::from(tree.rows[split]) % bins.len()];
                *place = *place * 2 + u8::from(row[lane] > tree.cuts[split]);
            }
        }
        places.map(|place| place - 64)
    }
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    //! For processors with AVX2 and FMA.

    use std::arch::x86_64::{
        __m256, __m256i, _mm256_add_epi32, _mm256_add_ps, _mm256_blendv_epi8, _mm256_castsi256_ps,
        _mm256_cmpgt_epi8, _mm256_cvtps_epi32, _mm256_div_ps, _mm256_fmadd_ps, _mm256_fnmadd_ps,
        _mm256_loadu_ps, _mm256_loadu_si256, _mm256_max_ps, _mm256_min_ps, _mm256_mul_ps,
        _mm256_set1_epi8, _mm256_set1_epi32, _mm256_set1_ps, _mm256_setzero_ps, _mm256_slli_epi32,
        _mm256_storeu_ps, _mm256_storeu_si256, _mm256_sub_epi8, _mm256_sub_ps,
    };

    use super::{BinTile, Lanes, TREE_LANES, Work, exp};
    use crate::forest::PackedTree;

    /// What is inlined here is compiled for AVX2, and without FMA.
    #[target_feature(enable = "avx2")]
    pub(super) fn widely<W: Work>(work: W) -> W::Done {
        work.run()
    }

    /// The numbers of a tile in registers.
    type Registers = [__m256; 3];

    #[target_feature(enable = "avx2,fma")]
    fn load(from: &[f32; 8]) -> __m256 {
        // SAFETY: the reference is to eight numbers, and the load needs no alignment.
        unsafe { _mm256_loadu_ps(from.as_ptr()) }
    }

    #[target_feature(enable = "avx2,fma")]
    fn store(to: &mut [f32; 8], what: __m256) {
        // SAFETY: the reference is to eight numbers, and the store needs no alignment.
        unsafe { _mm256_storeu_ps(to.as_mut_ptr(), what) }
    }

    #[target_feature(enable = "avx2,fma")]
    fn load_bins(from: &[i8; TREE_LANES]) -> __m256i {
        // SAFETY: the reference is to 32 bytes, and the load needs no alignment.
        unsafe { _mm256_loadu_si256(from.as_ptr().cast()) }
    }

    #[target_feature(enable = "avx2,fma")]
    fn store_bytes(to: &mut [u8; TREE_LANES], what: __m256i) {
        // SAFETY: the reference is to 32 bytes, and the store needs no alignment.
        unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), what) }
    }

    #[target_feature(enable = "avx2,fma")]
    fn load_lanes(x: &Lanes) -> Registers {
        let ([a, b, c], []) = x.as_chunks::<8>() else {
            return [_mm256_setzero_ps(); 3];
        };
        [load(a), load(b), load(c)]
    }

    #[target_feature(enable = "avx2,fma")]
    fn store_lanes(x: &mut Lanes, what: Registers) {
        for (to, what) in x.as_chunks_mut::<8>().0.iter_mut().zip(what) {
            store(to, what);
        }
    }

    #[target_feature(enable = "avx2,fma")]
    pub(super) fn block<const IN: usize, const BLOCK: usize>(
        weights: &[[f32; BLOCK]; IN],
        bias: &[f32; BLOCK],
        x: &[Lanes; IN],
        y: &mut [Lanes; BLOCK],
        relu: bool,
    ) {
        let mut sums = [[_mm256_setzero_ps(); 3]; BLOCK];
        for (sum, bias) in sums.iter_mut().zip(bias) {
            *sum = [_mm256_set1_ps(*bias); 3];
        }
        for (weights, x) in weights.iter().zip(x) {
            let x = load_lanes(x);
            for (sum, weight) in sums.iter_mut().zip(weights) {
                let weight = _mm256_set1_ps(*weight);
                for (sum, x) in sum.iter_mut().zip(x) {
                    *sum = _mm256_fmadd_ps(weight, x, *sum);
                }
            }
        }
        let least = _mm256_set1_ps(if relu { 0.0 } else { f32::NEG_INFINITY });
        for (y, sum) in y.iter_mut().zip(sums) {
            store_lanes(y, sum.map(|sum| _mm256_max_ps(sum, least)));
        }
    }

    #[target_feature(enable = "avx2,fma")]
    pub(super) fn sigmoid(x: &mut Lanes) {
        let one = _mm256_set1_ps(1.0);
        let registers = load_lanes(x);
        let registers = registers.map(|x| {
            let negative = _mm256_sub_ps(_mm256_setzero_ps(), x);
            _mm256_div_ps(one, _mm256_add_ps(one, exponential(negative)))
        });
        store_lanes(x, registers);
    }

    #[target_feature(enable = "avx2,fma")]
    fn exponential(x: __m256) -> __m256 {
        let limit = |limit: f32| _mm256_set1_ps(limit);
        let x = _mm256_min_ps(_mm256_max_ps(x, limit(-exp::LIMIT)), limit(exp::LIMIT));
        let round = _mm256_set1_ps(exp::ROUND);
        let n = _mm256_fmadd_ps(x, _mm256_set1_ps(exp::LOG2_E), round);
        let n = _mm256_sub_ps(n, round);
        let r = _mm256_fnmadd_ps(n, _mm256_set1_ps(exp::LN2[0]), x);
        let r = _mm256_fnmadd_ps(n, _mm256_set1_ps(exp::LN2[1]), r);
        let mut polynomial = _mm256_setzero_ps();
        for term in exp::POLYNOMIAL {
            polynomial = _mm256_fmadd_ps(polynomial, r, _mm256_set1_ps(term));
        }
        let sum = _mm256_fmadd_ps(polynomial, _mm256_mul_ps(r, r), r);
        let sum = _mm256_add_ps(sum, _mm256_set1_ps(1.0));
        let power = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
        _mm256_mul_ps(sum, _mm256_castsi256_ps(_mm256_slli_epi32::<23>(power)))
    }

    /// Which leaf each node falls into. Every split of the tree is decided for all nodes, which is
    /// 63 comparisons of 32 bytes; then the answers are picked from the bottom up.
    #[target_feature(enable = "avx2,fma")]
    pub(super) fn leaves(tree: &PackedTree, bins: &BinTile) -> [u8; TREE_LANES] {
        let mut subtrees = [_mm256_set1_epi8(0); 8];
        for (place, subtree) in (8..16).zip(&mut subtrees) {
            let low = pick(
                tree,
                bins,
                place * 2,
                [pair(tree, bins, place * 4), pair(tree, bins, place * 4 + 1)],
            );
            let high = pick(
                tree,
                bins,
                place * 2 + 1,
                [pair(tree, bins, place * 4 + 2), pair(tree, bins, place * 4 + 3)],
            );
            *subtree = pick(tree, bins, place, [low, high]);
        }
        let [a, b, c, d, e, f, g, h] = subtrees;
        let low = pick(tree, bins, 2, [pick(tree, bins, 4, [a, b]), pick(tree, bins, 5, [c, d])]);
        let high = pick(tree, bins, 3, [pick(tree, bins, 6, [e, f]), pick(tree, bins, 7, [g, h])]);
        let mut leaves = [0; TREE_LANES];
        store_bytes(&mut leaves, pick(tree, bins, 1, [low, high]));
        leaves
    }

    /// All ones where a node goes to the right at a split.
    #[target_feature(enable = "avx2,fma")]
    fn right(tree: &PackedTree, bins: &BinTile, split: usize) -> __m256i {
        let split = split % tree.rows.len();
        let row = &bins[usize::from(tree.rows[split]) % bins.len()];
        _mm256_cmpgt_epi8(load_bins(row), _mm256_set1_epi8(tree.cuts[split]))
    }

    #[target_feature(enable = "avx2,fma")]
    fn pick(tree: &PackedTree, bins: &BinTile, split: usize, [low, high]: [__m256i; 2]) -> __m256i {
        _mm256_blendv_epi8(low, high, right(tree, bins, split))
    }

    /// The leaf below a split of the last level.
    #[target_feature(enable = "avx2,fma")]
    fn pair(tree: &PackedTree, bins: &BinTile, split: usize) -> __m256i {
        let first = i8::try_from((split % 32) * 2).unwrap_or(0);
        _mm256_sub_epi8(_mm256_set1_epi8(first), right(tree, bins, split))
    }
}
