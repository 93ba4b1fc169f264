//! Boosted trees: a sum of leaves, one of each tree.
//!
//! A value below a split's cut goes to the left, any other to the right, and one that is missing
//! where the split says. Trees of up to six levels with few enough cuts are also packed for the
//! processor's vectors (`packed`); both ways give the same bits, since both add the same leaves
//! in the same order.

mod bins;
mod grow;
mod packed;
mod train;

pub(crate) use bins::Bins;
pub(crate) use grow::{GrowSettings, grow};
pub(crate) use packed::{Packed, PackedTree};
pub use train::TreeSettings;
pub(crate) use train::train;

use crate::features::FEATURES;

/// One split or leaf of a tree.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Node {
    /// Left below the cut, right from it on.
    Split {
        /// Which input, from 0 on.
        feature: u8,
        /// Where it is cut.
        cut: f32,
        /// Whether what is missing goes to the left.
        missing_left: bool,
        /// The place of the node to the left; behind this one.
        left: u32,
        /// The place of the node to the right; behind this one.
        right: u32,
    },
    /// The end of the way.
    Leaf(f32),
}

/// A tree: its nodes, the first of which is the root. Children stand behind their parents.
#[derive(Clone, Debug, PartialEq)]
pub struct Tree {
    nodes: Vec<Node>,
}

/// What a sum of leaves stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Link {
    /// The label itself, which is kept in 0..1.
    Identity,
    /// The label by way of the logistic function.
    Logistic,
}

/// Trees that are ready to score.
#[derive(Clone, Debug)]
pub struct Forest {
    trees: Vec<Tree>,
    base: f32,
    link: Link,
    packed: Option<Packed>,
}

/// Why nodes make no tree.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum TreeError {
    /// There is no root.
    #[error("the tree has no nodes")]
    Empty,
    /// A split is on an input that there is not.
    #[error("node {node}: feature {feature} of {FEATURES}")]
    Feature {
        /// Which node.
        node: usize,
        /// Which feature.
        feature: u8,
    },
    /// A child is not behind its parent, or not there.
    #[error("node {node}: its child {child} is not behind it among {count} nodes")]
    Child {
        /// Which node.
        node: usize,
        /// The child's place.
        child: u32,
        /// How many there are.
        count: usize,
    },
    /// A cut or leaf is no number.
    #[error("node {node}: {value} is not finite")]
    Value {
        /// Which node.
        node: usize,
        /// The value.
        value: f32,
    },
}

// === impl Tree ===

impl Tree {
    /// Checks the nodes.
    ///
    /// # Errors
    ///
    /// They make no tree.
    pub fn new(nodes: Vec<Node>) -> Result<Self, TreeError> {
        if nodes.is_empty() {
            return Err(TreeError::Empty);
        }
        let count = nodes.len();
        for (place, node) in nodes.iter().enumerate() {
            let value = match *node {
                Node::Leaf(value) => value,
                Node::Split { feature, cut, left, right, .. } => {
                    if usize::from(feature) >= FEATURES {
                        return Err(TreeError::Feature { node: place, feature });
                    }
                    let behind = |child: u32| {
                        usize::try_from(child).is_ok_and(|child| child > place && child < count)
                    };
                    if let Some(child) = [left, right].into_iter().find(|child| !behind(*child)) {
                        return Err(TreeError::Child { node: place, child, count });
                    }
                    cut
                }
            };
            if !value.is_finite() {
                return Err(TreeError::Value { node: place, value });
            }
        }
        Ok(Self { nodes })
    }

    /// Its nodes.
    #[must_use]
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The leaf that an input falls into.
    #[must_use]
    pub fn leaf(&self, input: &[f32; FEATURES]) -> f32 {
        self.leaf_place(input).1
    }

    /// The same, and its place.
    pub(crate) fn leaf_place(&self, input: &[f32; FEATURES]) -> (usize, f32) {
        let mut place = 0;
        loop {
            match self.nodes[place] {
                Node::Leaf(value) => return (place, value),
                Node::Split { feature, cut, missing_left, left, right } => {
                    let value = input[usize::from(feature)];
                    let goes_left = if value.is_nan() { missing_left } else { value < cut };
                    let next = if goes_left { left } else { right };
                    place = usize::try_from(next).expect("places were checked to be in range");
                }
            }
        }
    }

    /// How many splits the longest way has.
    #[must_use]
    pub fn depth(&self) -> usize {
        // Children stand behind their parents, so every depth is known before it is needed.
        let mut depths = vec![0; self.nodes.len()];
        for place in (0..self.nodes.len()).rev() {
            if let Node::Split { left, right, .. } = self.nodes[place] {
                let below = |child: u32| usize::try_from(child).map_or(0, |child| depths[child]);
                depths[place] = 1 + below(left).max(below(right));
            }
        }
        depths[0]
    }
}

// === impl Forest ===

impl Forest {
    /// Lays trees out for scoring. `base` is where the sum starts.
    #[must_use]
    pub fn new(trees: Vec<Tree>, base: f32, link: Link) -> Self {
        let packed = Packed::new(&trees);
        Self { trees, base, link, packed }
    }

    /// Its trees.
    #[must_use]
    pub fn trees(&self) -> &[Tree] {
        &self.trees
    }

    /// Where the sum starts.
    #[must_use]
    pub const fn base(&self) -> f32 {
        self.base
    }

    /// What the sum stands for.
    #[must_use]
    pub const fn link(&self) -> Link {
        self.link
    }

    /// Whether it is packed for the processor's vectors.
    #[must_use]
    pub const fn is_packed(&self) -> bool {
        self.packed.is_some()
    }

    pub(crate) const fn packed(&self) -> Option<&Packed> {
        self.packed.as_ref()
    }

    /// The sum for one input.
    #[must_use]
    pub fn sum(&self, input: &[f32; FEATURES]) -> f32 {
        self.trees.iter().fold(self.base, |sum, tree| sum + tree.leaf(input))
    }

    /// What a sum stands for, in 0..1.
    #[must_use]
    pub fn label(&self, sum: f32) -> f32 {
        match self.link {
            Link::Identity => sum.clamp(0.0, 1.0),
            Link::Logistic => crate::simd::portable::sigmoid(sum),
        }
    }
}
