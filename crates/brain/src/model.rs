//! A model that is ready to score, of either kind, together with what it expects as input.
//!
//! Scoring a batch allocates nothing: nodes are taken in tiles that live on the stack. A node whose
//! telemetry is not finite is refused alone; the others of its batch keep their scores.

use crate::features::{
    Filler, NODE_FEATURES, NodeFacts, Order, POD_FEATURES, PodFacts, node_vector, pod_vector,
};
use crate::forest::{Forest, Packed, Tree};
use crate::mlp::{CONFIDENCE, Mlp, SCORE};
use crate::simd::{BIN_ROWS, Kernel, LANES, TREE_LANES};
use crate::verdict::Verdict;

/// A model and the input that it expects.
#[derive(Clone, Debug)]
pub struct Model {
    /// In which order it expects the features of a node.
    pub order: Order,
    /// What it expects in the place of what was not measured.
    pub filler: Filler,
    /// What computes.
    pub learned: Learned,
}

/// What was learned.
#[derive(Clone, Debug)]
pub enum Learned {
    /// A perceptron.
    Mlp(Mlp),
    /// Boosted trees.
    Trees(Trees),
}

/// Boosted trees, and what their scores are worth.
#[derive(Clone, Debug)]
pub struct Trees {
    /// What gives the score.
    pub forest: Forest,
    /// A tree whose leaves are confidences. Imported models have none.
    pub confidence: Option<Tree>,
}

/// The confidence in trees that nobody judged.
pub const UNJUDGED: f32 = 0.5;

impl Model {
    /// What was learned, in one word.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self.learned {
            Learned::Mlp(_) => "mlp",
            Learned::Trees(_) => "trees",
        }
    }

    /// Scores nodes for a pod, with the fastest kernel of this processor.
    ///
    /// # Panics
    ///
    /// There are not as many verdicts as nodes.
    pub fn score(&self, pod: &PodFacts, nodes: &[NodeFacts], verdicts: &mut [Verdict]) {
        self.score_with(Kernel::best(), pod, nodes, verdicts);
    }

    /// The same with a given kernel.
    ///
    /// # Panics
    ///
    /// There are not as many verdicts as nodes.
    pub fn score_with(
        &self,
        kernel: Kernel,
        pod: &PodFacts,
        nodes: &[NodeFacts],
        verdicts: &mut [Verdict],
    ) {
        assert_eq!(nodes.len(), verdicts.len(), "one verdict for each node");
        let pod = pod_vector(pod);
        match &self.learned {
            Learned::Mlp(mlp) => self.score_mlp(mlp, kernel, &pod, nodes, verdicts),
            Learned::Trees(trees) => match trees.forest.packed() {
                Some(packed) => {
                    self.score_packed(trees, packed, kernel, &pod, nodes, verdicts);
                }
                None => self.score_trees(trees, &pod, nodes, verdicts),
            },
        }
    }

    /// Reads a node, or says in its verdict why that cannot be done.
    fn read(&self, node: &NodeFacts, verdict: &mut Verdict) -> Option<[f32; NODE_FEATURES]> {
        match node_vector(node, self.order, self.filler) {
            Ok(vector) => Some(vector),
            Err(bad) => {
                *verdict = Verdict::refused(bad);
                None
            }
        }
    }

    fn score_mlp(
        &self,
        mlp: &Mlp,
        kernel: Kernel,
        pod: &[f32; POD_FEATURES],
        nodes: &[NodeFacts],
        verdicts: &mut [Verdict],
    ) {
        let bias = mlp.pod_bias(pod);
        for (nodes, verdicts) in nodes.chunks(LANES).zip(verdicts.chunks_mut(LANES)) {
            let mut tile = [[0.0; LANES]; NODE_FEATURES];
            let mut scored = [false; LANES];
            for (lane, (node, verdict)) in nodes.iter().zip(verdicts.iter_mut()).enumerate() {
                if let Some(vector) = self.read(node, verdict) {
                    tile.iter_mut().zip(vector).for_each(|(row, value)| row[lane] = value);
                    scored[lane] = true;
                }
            }
            let outputs = mlp.tile(kernel, &bias, &tile);
            for (lane, verdict) in verdicts.iter_mut().enumerate().filter(|(lane, _)| scored[*lane])
            {
                *verdict = Verdict::of_model(outputs[SCORE][lane], outputs[CONFIDENCE][lane]);
            }
        }
    }

    fn score_packed(
        &self,
        trees: &Trees,
        packed: &Packed,
        kernel: Kernel,
        pod: &[f32; POD_FEATURES],
        nodes: &[NodeFacts],
        verdicts: &mut [Verdict],
    ) {
        let mut bins = [[0; TREE_LANES]; BIN_ROWS];
        packed.pod_bins(pod, &mut bins);
        for (nodes, verdicts) in nodes.chunks(TREE_LANES).zip(verdicts.chunks_mut(TREE_LANES)) {
            let mut tile = [[0.0; TREE_LANES]; NODE_FEATURES];
            let mut confidences = [UNJUDGED; TREE_LANES];
            let mut scored = [false; TREE_LANES];
            for (lane, (node, verdict)) in nodes.iter().zip(verdicts.iter_mut()).enumerate() {
                if let Some(vector) = self.read(node, verdict) {
                    tile.iter_mut().zip(vector).for_each(|(row, value)| row[lane] = value);
                    confidences[lane] = trees.confidence(&vector, pod);
                    scored[lane] = true;
                }
            }
            packed.node_bins(&tile, &mut bins);
            let mut sums = [trees.forest.base(); TREE_LANES];
            kernel.trees(&packed.trees, &bins, &mut sums);
            for (lane, verdict) in verdicts.iter_mut().enumerate().filter(|(lane, _)| scored[*lane])
            {
                *verdict = Verdict::of_model(trees.forest.label(sums[lane]), confidences[lane]);
            }
        }
    }

    /// Tree by tree and split by split, for trees that cannot be packed.
    fn score_trees(
        &self,
        trees: &Trees,
        pod: &[f32; POD_FEATURES],
        nodes: &[NodeFacts],
        verdicts: &mut [Verdict],
    ) {
        for (node, verdict) in nodes.iter().zip(verdicts) {
            let Some(vector) = self.read(node, verdict) else { continue };
            let forest = &trees.forest;
            let label = forest.label(forest.sum(&joined(&vector, pod)));
            *verdict = Verdict::of_model(label, trees.confidence(&vector, pod));
        }
    }
}

// === impl Trees ===

impl Trees {
    fn confidence(&self, node: &[f32; NODE_FEATURES], pod: &[f32; POD_FEATURES]) -> f32 {
        self.confidence.as_ref().map_or(UNJUDGED, |tree| tree.leaf(&joined(node, pod)))
    }
}

/// The whole input of a model.
pub(crate) fn joined(
    node: &[f32; NODE_FEATURES],
    pod: &[f32; POD_FEATURES],
) -> [f32; NODE_FEATURES + POD_FEATURES] {
    let mut all = [0.0; NODE_FEATURES + POD_FEATURES];
    all[..NODE_FEATURES].copy_from_slice(node);
    all[NODE_FEATURES..].copy_from_slice(pod);
    all
}
