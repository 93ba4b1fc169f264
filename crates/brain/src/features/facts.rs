//! What is known of a node and of a pod, before it becomes numbers for a model.

use super::{NODE_FEATURES, NodeFeature};

/// What a node measured of itself. A feature that was not measured differs from one that is zero.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct NodeFacts {
    values: [f64; NODE_FEATURES],
    measured: u16,
}

/// What is known of a pod that is to be placed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PodFacts {
    /// The CPU that it requests.
    pub cpu_milli: u64,
    /// The memory that it requests.
    pub memory_bytes: u64,
    /// What it spends its time on.
    pub workload: Workload,
    /// How much depends on it.
    pub criticality: Criticality,
}

/// What a pod spends its time on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Workload {
    CpuBound,
    MemoryBound,
    IoBound,
    Balanced,
    #[default]
    Unknown,
}

/// How much depends on a pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Criticality {
    #[default]
    Unknown,
    Low,
    Medium,
    High,
}

// === impl NodeFacts ===

impl NodeFacts {
    /// Nothing is known.
    pub const UNKNOWN: Self = Self { values: [0.0; NODE_FEATURES], measured: 0 };

    /// The same, where `feature` was measured. A value that is no number is kept, so that
    /// whoever scores the node can say what is wrong with it.
    #[must_use]
    pub const fn with(mut self, feature: NodeFeature, value: f64) -> Self {
        self.values[feature as usize] = value;
        self.measured |= feature.bit();
        self
    }

    /// The same, where `feature` was not measured.
    #[must_use]
    pub const fn without(mut self, feature: NodeFeature) -> Self {
        self.values[feature as usize] = 0.0;
        self.measured &= !feature.bit();
        self
    }

    /// The value of a feature, if it was measured.
    #[must_use]
    pub const fn get(&self, feature: NodeFeature) -> Option<f64> {
        if self.measured & feature.bit() == 0 { None } else { Some(self.values[feature as usize]) }
    }

    /// The value of a feature, or what stands for it where it was not measured.
    #[must_use]
    pub const fn get_or_missing(&self, feature: NodeFeature) -> f64 {
        match self.get(feature) {
            Some(value) => value,
            None => feature.about().missing,
        }
    }

    /// How many features were measured.
    #[must_use]
    pub const fn measured(&self) -> u32 {
        self.measured.count_ones()
    }
}

// === impl Workload ===

impl Workload {
    /// All of them, in the order of the features.
    pub const ALL: [Self; 5] =
        [Self::CpuBound, Self::MemoryBound, Self::IoBound, Self::Balanced, Self::Unknown];

    /// Its name in annotations and events.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::CpuBound => "cpu-bound",
            Self::MemoryBound => "memory-bound",
            Self::IoBound => "io-bound",
            Self::Balanced => "balanced",
            Self::Unknown => "unknown",
        }
    }

    /// What is called so; whatever else is unknown.
    #[must_use]
    pub fn named(name: &str) -> Self {
        let wanted = |workload: &Self| {
            // Both spellings are in use.
            let chars = workload.name().chars();
            chars.eq(name.chars().map(|c| if c == '_' { '-' } else { c.to_ascii_lowercase() }))
        };
        Self::ALL.into_iter().find(wanted).unwrap_or(Self::Unknown)
    }
}

// === impl Criticality ===

impl Criticality {
    /// All of them, in the order of the features.
    pub const ALL: [Self; 4] = [Self::Unknown, Self::Low, Self::Medium, Self::High];

    /// Its name in annotations and events.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }

    /// What is called so; `critical` is high, whatever else is unknown.
    #[must_use]
    pub fn named(name: &str) -> Self {
        if name.eq_ignore_ascii_case("critical") {
            return Self::High;
        }
        let mut all = Self::ALL.into_iter();
        all.find(|level| level.name().eq_ignore_ascii_case(name)).unwrap_or(Self::Unknown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_and_missing_differ() {
        let zero = NodeFacts::UNKNOWN.with(NodeFeature::CpuUtilization, 0.0);
        assert_eq!(zero.get(NodeFeature::CpuUtilization), Some(0.0));
        assert_eq!(zero.get_or_missing(NodeFeature::CpuUtilization), 0.0);
        let missing = zero.without(NodeFeature::CpuUtilization);
        assert_eq!(missing.get(NodeFeature::CpuUtilization), None);
        assert_eq!(missing.get_or_missing(NodeFeature::CpuUtilization), 0.5);
        assert_eq!((zero.measured(), missing.measured()), (1, 0));
    }

    #[test]
    fn both_spellings_of_a_workload_are_read() {
        for (text, workload) in [
            ("cpu-bound", Workload::CpuBound),
            ("memory_bound", Workload::MemoryBound),
            ("IO-Bound", Workload::IoBound),
            ("balanced", Workload::Balanced),
            ("", Workload::Unknown),
            ("gpu-bound", Workload::Unknown),
        ] {
            assert_eq!(Workload::named(text), workload, "{text}");
        }
    }

    #[test]
    fn what_is_critical_is_high() {
        for (text, level) in [
            ("LOW", Criticality::Low),
            ("medium", Criticality::Medium),
            ("critical", Criticality::High),
            ("high", Criticality::High),
            ("urgent", Criticality::Unknown),
        ] {
            assert_eq!(Criticality::named(text), level, "{text}");
        }
    }
}
