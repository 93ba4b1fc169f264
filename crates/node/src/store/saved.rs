//! How original settings are written down: JSON with a version in its file.
//!
//! Names in it are promises to later versions of this program. What does not fit is refused as a
//! whole and never repaired.

use serde::{Deserialize, Serialize};
use walras_cgroup::{BootId, CgroupPath, Identity, Original, Settings, WeightInForce};
use walras_core::parse::{CpuMax, CpuShares, CpuWeight};
use walras_core::units::Span;

/// A cgroup and what it had.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SavedOriginal {
    /// Its path as bytes, since names may hold any.
    path: Vec<u8>,
    boot: String,
    inode: u64,
    quota_us: Option<u64>,
    period_us: u64,
    weight: SavedWeight,
    burst_us: Option<u64>,
    inner: Vec<SavedOriginal>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum SavedWeight {
    Shares(u32),
    Weight(u32),
    Idle,
}

impl From<&Original> for SavedOriginal {
    fn from(original: &Original) -> Self {
        let Original { path, identity, settings, inner } = original;
        Self {
            path: path.as_bytes().to_vec(),
            boot: format!("{:032x}", identity.boot.0),
            inode: identity.inode,
            quota_us: settings.max.quota.map(Span::as_us),
            period_us: settings.max.period.as_us(),
            weight: match settings.weight {
                WeightInForce::V1(shares) => SavedWeight::Shares(shares.get()),
                WeightInForce::V2(weight) => SavedWeight::Weight(weight.get()),
                WeightInForce::Idle => SavedWeight::Idle,
            },
            burst_us: settings.burst.map(Span::as_us),
            inner: inner.iter().map(Self::from).collect(),
        }
    }
}

impl SavedOriginal {
    /// What was kept; nothing where it is not what this program writes.
    pub(super) fn original(&self) -> Option<Original> {
        let inner: Option<Vec<Original>> = self.inner.iter().map(Self::original).collect();
        Some(Original {
            path: CgroupPath::new(&self.path)?,
            identity: Identity {
                boot: BootId(u128::from_str_radix(&self.boot, 16).ok()?),
                inode: self.inode,
            },
            settings: Settings {
                max: CpuMax {
                    quota: self.quota_us.map(Span::from_us),
                    period: Span::from_us(self.period_us),
                },
                weight: match self.weight {
                    SavedWeight::Shares(shares) => WeightInForce::V1(CpuShares::new(shares)?),
                    SavedWeight::Weight(weight) => WeightInForce::V2(CpuWeight::new(weight)?),
                    SavedWeight::Idle => WeightInForce::Idle,
                },
                burst: self.burst_us.map(Span::from_us),
            },
            inner: inner?,
        })
    }
}
