//! The CPU quota of a cgroup: `cpu.max` and `cpu.max.burst` of the second version,
//! `cpu.cfs_quota_us` and `cpu.cfs_period_us` of the first.
//!
//! Both versions give the same [`CpuMax`], whose period is never zero when it comes from here.

use super::error::{ParseError, excerpt};
use super::field::{Field, only_value, without_newline};
use crate::units::{Millicores, Span};

/// The CPU time a cgroup may use in every period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuMax {
    /// The CPU time per period; nothing where it is not limited.
    pub quota: Option<Span>,
    /// The length of a period.
    pub period: Span,
}

/// `cpu.max`: a quota or the word `max`, and a period.
///
/// # Errors
///
/// Where one of the two is missing or no number, where the period is zero, or where a third word
/// follows.
pub fn cpu_max(text: &[u8]) -> Result<CpuMax, ParseError> {
    let file = "cpu.max";
    let line = without_newline(text);
    let mut words = line.split(|&byte| byte == b' ');
    let mut word = |key| Field { file, key, text: words.next().filter(|word| !word.is_empty()) };
    let (quota, period) = (word("quota"), word("period"));
    if words.next().is_some() {
        return Err(ParseError::Malformed { file, key: "period", value: excerpt(line) });
    }
    CpuMax::from_fields(quota.number_unless("max")?, period)
}

/// `cpu.cfs_quota_us`, where -1 means that there is no limit, and `cpu.cfs_period_us`.
///
/// # Errors
///
/// Where one of the two is missing or no number, or where the period is zero.
pub fn cpu_max_v1(cfs_quota_us: &[u8], cfs_period_us: &[u8]) -> Result<CpuMax, ParseError> {
    let quota = only_value("cpu.cfs_quota_us", cfs_quota_us).number_unless("-1")?;
    CpuMax::from_fields(quota, only_value("cpu.cfs_period_us", cfs_period_us))
}

/// `cpu.max.burst`: how much unused quota a cgroup may save up.
///
/// # Errors
///
/// Where the number is missing or none.
pub fn cpu_max_burst(text: &[u8]) -> Result<Span, ParseError> {
    only_value("cpu.max.burst", text).number().map(Span::from_us)
}

// === impl CpuMax ===

impl CpuMax {
    /// The quota as a number of cores, rounded down; nothing where there is none.
    ///
    /// The kernel accepts quotas of more cores than any machine has. They limit nothing, so they
    /// come out as [`Millicores::LIMIT`], and so does any quota with a period of zero.
    #[must_use]
    pub fn limit_floor(&self) -> Option<Millicores> {
        let quota = u128::from(self.quota?.as_us()) * 1000;
        let period = u128::from(self.period.as_us());
        let milli = quota.checked_div(period).and_then(|milli| u64::try_from(milli).ok());
        Some(milli.map_or(Millicores::LIMIT, |milli| Millicores::new(milli).min(Millicores::LIMIT)))
    }

    fn from_fields(quota: Option<u64>, period: Field<'_>) -> Result<Self, ParseError> {
        let period = Span::from_us(period.number_within(1, u64::MAX)?);
        Ok(Self { quota: quota.map(Span::from_us), period })
    }
}
