//! Writes to a pod's own control groups, for what cannot wait for the API server.
//!
//! What the API server says a pod should have is where this starts from and what it gives back;
//! the kubelet writes that at every resize and restart, and is never fought. A container keeps its
//! part of the pod's limit. Weights are the kubelet's: they follow requests.

use walras_cgroup::{
    Adopted, Applied, CgroupError, CgroupPath, Group, Layout, Original, Settings, Target,
};
use walras_core::parse::CpuMax;
use walras_core::units::{Millicores, Span};

/// A burst buffer that is as large as any quota; the kernel is given what fits.
const ANY_BURST: Span = Span::from_s(1_000_000);

/// A container's group, and the limit that the API server has for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Its group.
    pub path: CgroupPath,
    /// Its limit.
    pub limit: Millicores,
}

/// A pod whose groups may be written.
#[derive(Debug)]
pub struct Direct {
    pod: CgroupPath,
    parts: Vec<Part>,
    adopted: Adopted,
    bursting: bool,
}

// === impl Direct ===

impl Direct {
    /// Opens the groups of a pod whose containers all have a limit.
    ///
    /// # Errors
    /// A group is gone or cannot be read.
    pub fn open(layout: &Layout, pod: &CgroupPath, parts: Vec<Part>) -> Result<Self, CgroupError> {
        let adopted = adopt(layout, pod, &parts, false)?;
        Ok(Self { pod: pod.clone(), parts, adopted, bursting: false })
    }

    /// Sets the limit of the pod, and of each container its part of it.
    ///
    /// # Errors
    /// A group is gone, or the kernel refuses a value.
    pub fn apply(
        &mut self,
        layout: &Layout,
        limit: Millicores,
        burst: Millicores,
    ) -> Result<Applied, CgroupError> {
        let bursting = burst > Millicores::ZERO;
        if bursting != self.bursting {
            self.adopted = adopt(layout, &self.pod, &self.parts, bursting)?;
            self.bursting = bursting;
        }
        self.adopted.apply(&Target { limit: Some(limit), weight: None, burst: Some(burst) })
    }

    /// Gives back what the API server says the pod should have.
    ///
    /// # Errors
    /// A group is gone, or the kernel refuses a value.
    pub fn give_back(&mut self, layout: &Layout) -> Result<(), CgroupError> {
        self.adopted = adopt(layout, &self.pod, &self.parts, false)?;
        self.adopted.restore().map(drop)
    }
}

/// The pod's group with what the API server has for it, and for its containers.
fn adopt(
    layout: &Layout,
    pod: &CgroupPath,
    parts: &[Part],
    bursting: bool,
) -> Result<Adopted, CgroupError> {
    let mut inner = Vec::new();
    for part in parts {
        let group = Group::open(layout, &part.path)?;
        inner.push(original(&group, part.limit, bursting)?);
    }
    let group = Group::open(layout, pod)?;
    let whole = parts.iter().map(|part| part.limit).sum();
    let original = Original { inner, ..original(&group, whole, bursting)? };
    group.adopt_again(original)
}

fn original(group: &Group, limit: Millicores, bursting: bool) -> Result<Original, CgroupError> {
    let settings = group.settings()?;
    let period = settings.max.period;
    let quota = u128::from(limit.get()) * u128::from(period.as_us()) / 1000;
    let quota = Span::from_us(u64::try_from(quota).unwrap_or(u64::MAX)).max(Span::from_ms(1));
    let burst = if bursting { ANY_BURST } else { Span::ZERO };
    let settings = Settings {
        max: CpuMax { quota: Some(quota), period },
        weight: settings.weight,
        burst: settings.burst.map(|_| burst),
    };
    let (path, identity) = (group.path().clone(), group.identity());
    Ok(Original { path, identity, settings, inner: Vec::new() })
}
