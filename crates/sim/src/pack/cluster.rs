//! Nodes, and who is on them: the books that a scheduler keeps.
//!
//! Always: what the pods of a node request together is at most what it can allocate, of CPU and of
//! memory, and they are at most as many as a node may have. A request that does not fit is refused.

use walras_core::units::Millicores;

/// What a node is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeShape {
    /// All of it.
    pub cpu: Millicores,
    /// What is kept for the system, and used by it.
    pub reserved: Millicores,
    /// What DaemonSets request, and use.
    pub daemons: Millicores,
    /// The memory that pods may have; nothing where memory is not looked at.
    pub memory_mib: Option<u64>,
    /// How many pods it may have, DaemonSets not counted.
    pub pods_max: usize,
}

/// A node that is there.
#[derive(Clone, Debug)]
pub struct Node {
    /// What it is like.
    pub shape: NodeShape,
    /// Who is on it.
    pub pods: Vec<usize>,
    /// What they request together.
    pub requested: Millicores,
    /// The memory that they take.
    pub memory_mib: u64,
    /// The window in which it came.
    pub since: usize,
    /// Whether it takes no more pods.
    pub is_closed: bool,
    /// The window from which on nobody is on it.
    pub empty_since: Option<usize>,
}

/// A pod as it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pod {
    /// Where it is, if anywhere.
    pub node: Option<usize>,
    /// What it requests now.
    pub request: Millicores,
    /// What it takes of memory.
    pub memory_mib: u64,
    /// The window in which it came to its node.
    pub since: usize,
}

/// All nodes and pods.
#[derive(Clone, Debug)]
pub struct Cluster {
    /// By number; those that are gone are empty, and their numbers are used again.
    pub nodes: Vec<Option<Node>>,
    /// By place in the town.
    pub pods: Vec<Pod>,
    shapes: Vec<NodeShape>,
}

/// What a pod asks a node for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// Of CPU.
    pub request: Millicores,
    /// Of memory.
    pub memory_mib: u64,
}

// === impl NodeShape ===

impl NodeShape {
    /// What pods may request, and what they can use.
    #[must_use]
    pub fn allocatable(&self) -> Millicores {
        self.cpu.saturating_sub(self.reserved).saturating_sub(self.daemons)
    }
}

// === impl Node ===

impl Node {
    /// Whether there is room for one more pod.
    #[must_use]
    pub fn fits(&self, ask: Ask) -> bool {
        let memory = self.shape.memory_mib;
        self.pods.len() < self.shape.pods_max
            && self.requested + ask.request <= self.shape.allocatable()
            && memory.is_none_or(|most| self.memory_mib + ask.memory_mib <= most)
    }

    /// What is free of its CPU, by requests.
    #[must_use]
    pub fn free(&self) -> Millicores {
        self.shape.allocatable().saturating_sub(self.requested)
    }
}

// === impl Cluster ===

impl Cluster {
    /// No nodes yet, and so many pods that are nowhere.
    #[must_use]
    pub fn new(shapes: Vec<NodeShape>, pods: usize) -> Self {
        let nowhere = Pod { node: None, request: Millicores::ZERO, memory_mib: 0, since: 0 };
        Self { nodes: Vec::new(), pods: vec![nowhere; pods], shapes }
    }

    /// The nodes that are there, with their numbers.
    pub fn there(&self) -> impl Iterator<Item = (usize, &Node)> {
        self.nodes.iter().enumerate().filter_map(|(number, node)| Some((number, node.as_ref()?)))
    }

    /// How many nodes are there.
    #[must_use]
    pub fn count(&self) -> usize {
        self.nodes.iter().flatten().count()
    }

    /// Adds a node. The lowest number that is free is taken.
    pub fn add_node(&mut self, window: usize) -> usize {
        let number = self.nodes.iter().position(Option::is_none).unwrap_or(self.nodes.len());
        let shape = self.shapes[number % self.shapes.len()];
        let node = Node {
            shape,
            pods: Vec::new(),
            requested: Millicores::ZERO,
            memory_mib: 0,
            since: window,
            is_closed: false,
            empty_since: None,
        };
        if number == self.nodes.len() {
            self.nodes.push(Some(node));
        } else {
            self.nodes[number] = Some(node);
        }
        number
    }

    /// Takes a node away, which has to be empty.
    pub fn remove_node(&mut self, number: usize) {
        debug_assert!(self.nodes[number].as_ref().is_some_and(|node| node.pods.is_empty()));
        self.nodes[number] = None;
    }

    /// Puts a pod onto a node. Whether it fitted.
    pub fn place(&mut self, pod: usize, number: usize, ask: Ask, window: usize) -> bool {
        let Some(node) = self.nodes[number].as_mut().filter(|node| node.fits(ask)) else {
            return false;
        };
        node.pods.push(pod);
        node.requested += ask.request;
        node.memory_mib += ask.memory_mib;
        let Ask { request, memory_mib } = ask;
        self.pods[pod] = Pod { node: Some(number), request, memory_mib, since: window };
        true
    }

    /// Takes a pod away from where it is.
    pub fn remove(&mut self, pod: usize) {
        let Pod { node, request, memory_mib, .. } = self.pods[pod];
        let Some(number) = node else { return };
        self.pods[pod].node = None;
        if let Some(node) = &mut self.nodes[number] {
            node.pods.retain(|other| *other != pod);
            node.requested = node.requested.saturating_sub(request);
            node.memory_mib -= memory_mib;
        }
    }

    /// Changes what a pod requests, in place. Whether it fitted.
    pub fn resize(&mut self, pod: usize, request: Millicores) -> bool {
        let Pod { node, request: before, .. } = self.pods[pod];
        let Some(node) = node.and_then(|number| self.nodes[number].as_mut()) else { return false };
        let others = node.requested.saturating_sub(before);
        if request > before && others + request > node.shape.allocatable() {
            return false;
        }
        node.requested = others + request;
        self.pods[pod].request = request;
        true
    }

    /// Whether the books are right: nobody is in two places, sums are sums, and no node has more
    /// than it can allocate.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        let placed = self.pods.iter().filter(|pod| pod.node.is_some()).count();
        let listed: usize = self.nodes.iter().flatten().map(|node| node.pods.len()).sum();
        placed == listed && self.there().all(|(number, node)| self.is_node_sound(number, node))
    }

    fn is_node_sound(&self, number: usize, node: &Node) -> bool {
        let pods = || node.pods.iter().map(|pod| &self.pods[*pod]);
        let requested: Millicores = pods().map(|pod| pod.request).sum();
        let memory_mib: u64 = pods().map(|pod| pod.memory_mib).sum();
        pods().all(|pod| pod.node == Some(number))
            && requested == node.requested
            && memory_mib == node.memory_mib
            && requested <= node.shape.allocatable()
            && node.shape.memory_mib.is_none_or(|most| memory_mib <= most)
            && node.pods.len() <= node.shape.pods_max
    }
}
