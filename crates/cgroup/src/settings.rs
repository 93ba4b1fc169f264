//! What is set for a control group: read, wanted, and the writes that lead from one to the other.
//!
//! [`Settings::toward`] and [`writes`] decide without touching anything; `adopt` carries out what
//! they say. A quota is never below one millisecond, the period stays as found, and the burst
//! buffer is at no instant above the quota, because the kernel would refuse that. What is in force
//! already is not written.

use walras_core::parse::{
    CpuMax, CpuShares, CpuWeight, cpu_max, cpu_max_burst, cpu_max_v1, cpu_shares, cpu_weight,
};
use walras_core::smooth::weight::KernelWeight;
use walras_core::units::{Millicores, Span};

use crate::error::CgroupError;
use crate::file::Folder;
use crate::layout::Version;

/// The smallest quota that the kernel accepts.
const QUOTA_MIN: Span = Span::from_ms(1);

/// What is in force for a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Quota and period.
    pub max: CpuMax,
    /// The weight among siblings.
    pub weight: WeightInForce,
    /// How much unused quota may be saved up; nothing on kernels that cannot.
    pub burst: Option<Span>,
}

/// A weight as the version at hand has it, so that it can be given back exactly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WeightInForce {
    /// `cpu.shares`.
    V1(CpuShares),
    /// `cpu.weight`.
    V2(CpuWeight),
    /// The group only gets what no other group wants (`cpu.idle`), and cannot have a weight.
    Idle,
}

/// What a group shall have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// The most CPU it may use, `Millicores::UNLIMITED` for no limit; nothing to leave that alone.
    pub limit: Option<Millicores>,
    /// Its weight among siblings; nothing to leave that alone.
    pub weight: Option<KernelWeight>,
    /// The burst buffer, as what may be saved up in one period; nothing to leave it as it is, or
    /// as large as the limit allows.
    pub burst: Option<Millicores>,
}

/// Which settings were written; the others had their value already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// The quota.
    pub quota: bool,
    /// The burst buffer.
    pub burst: bool,
    /// The weight.
    pub weight: bool,
}

/// One write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Write {
    /// The period alone, which the first version has in a file of its own.
    Period(Span),
    Max(CpuMax),
    Burst(Span),
    Weight(WeightInForce),
}

/// Reads what is in force.
pub(crate) fn read(folder: &Folder, version: Version) -> Result<Settings, CgroupError> {
    let missing = |file| move || CgroupError::NoController { path: folder.path().clone(), file };
    let max = max(folder, version)?;
    let idle = folder.read("cpu.idle", |text| Ok(text.starts_with(b"1")))?.unwrap_or(false);
    let weight = if idle { Some(WeightInForce::Idle) } else { read_weight(folder, version)? };
    let weight = weight.ok_or_else(missing(weight_file(version)))?;
    let burst = folder.read(burst_file(version), cpu_max_burst)?;
    Ok(Settings { max, weight, burst })
}

/// Reads quota and period, which must be there.
pub(crate) fn max(folder: &Folder, version: Version) -> Result<CpuMax, CgroupError> {
    let (path, file) = (folder.path(), max_file(version));
    read_max(folder, version)?.ok_or_else(|| CgroupError::NoController { path: path.clone(), file })
}

/// Reads quota and period; nothing where the group has none.
pub(crate) fn read_max(folder: &Folder, version: Version) -> Result<Option<CpuMax>, CgroupError> {
    match version {
        Version::V2 => folder.read(max_file(version), cpu_max),
        Version::V1 => {
            // Read as text first, because one value takes two files.
            let period = folder.read("cpu.cfs_period_us", |text| Ok(text.to_vec()))?;
            let Some(period) = period else { return Ok(None) };
            folder.read(max_file(version), |quota| cpu_max_v1(quota, &period))
        }
    }
}

fn read_weight(folder: &Folder, version: Version) -> Result<Option<WeightInForce>, CgroupError> {
    let file = weight_file(version);
    Ok(match version {
        Version::V1 => folder.read(file, cpu_shares)?.map(WeightInForce::V1),
        Version::V2 => folder.read(file, cpu_weight)?.map(WeightInForce::V2),
    })
}

/// The writes from `in_force` to `wanted`, in their order.
pub(crate) fn writes(version: Version, in_force: &Settings, wanted: &Settings) -> Vec<Write> {
    let mut writes = Vec::new();
    // A buffer that shrinks does so before the quota, and one that grows does so after it.
    let burst = wanted.burst.filter(|&burst| Some(burst) != in_force.burst);
    let (before, after) = match (burst, in_force.burst) {
        (Some(burst), Some(now)) if burst < now => (Some(burst), None),
        (burst, _) => (None, burst),
    };
    writes.extend(before.map(Write::Burst));
    // Only giving back what another process has changed meanwhile moves the period.
    if version == Version::V1 && wanted.max.period != in_force.max.period {
        writes.push(Write::Period(wanted.max.period));
    }
    if wanted.max != in_force.max {
        writes.push(Write::Max(wanted.max));
    }
    writes.extend(after.map(Write::Burst));
    if wanted.weight != in_force.weight {
        writes.push(Write::Weight(wanted.weight));
    }
    writes
}

/// Carries out one write.
pub(crate) fn write(folder: &Folder, version: Version, write: Write) -> Result<(), CgroupError> {
    let (file, value) = spelled(version, write);
    folder.write(file, &value)
}

/// The file that a write goes to, and the text.
fn spelled(version: Version, write: Write) -> (&'static str, String) {
    match (version, write) {
        (Version::V1, Write::Max(CpuMax { quota, .. })) => {
            (max_file(version), quota.map_or("-1".to_owned(), |quota| quota.as_us().to_string()))
        }
        (Version::V2, Write::Max(CpuMax { quota, period })) => {
            let quota = quota.map_or("max".to_owned(), |quota| quota.as_us().to_string());
            (max_file(version), format!("{quota} {}", period.as_us()))
        }
        (_, Write::Period(period)) => ("cpu.cfs_period_us", period.as_us().to_string()),
        (_, Write::Burst(burst)) => (burst_file(version), burst.as_us().to_string()),
        (_, Write::Weight(WeightInForce::V1(shares))) => ("cpu.shares", shares.get().to_string()),
        (_, Write::Weight(WeightInForce::V2(weight))) => ("cpu.weight", weight.get().to_string()),
        (_, Write::Weight(WeightInForce::Idle)) => ("cpu.idle", "1".to_owned()),
    }
}

const fn max_file(version: Version) -> &'static str {
    match version {
        Version::V1 => "cpu.cfs_quota_us",
        Version::V2 => "cpu.max",
    }
}

const fn burst_file(version: Version) -> &'static str {
    match version {
        Version::V1 => "cpu.cfs_burst_us",
        Version::V2 => "cpu.max.burst",
    }
}

const fn weight_file(version: Version) -> &'static str {
    match version {
        Version::V1 => "cpu.shares",
        Version::V2 => "cpu.weight",
    }
}

// === impl Settings ===

impl Settings {
    /// What these settings become for `target`.
    pub(crate) fn toward(&self, target: &Target) -> Self {
        let period = self.max.period;
        let quota = match target.limit {
            None => self.max.quota,
            Some(limit) if limit.is_unlimited() => None,
            Some(limit) => Some(per_period_floor(limit, period).max(QUOTA_MIN)),
        };
        let fitting = |burst: Span| quota.map_or(burst, |quota| burst.min(quota));
        let wanted_burst = target.burst.map(|burst| per_period_floor(burst, period));
        let weight = match (self.weight, target.weight) {
            (WeightInForce::V1(_), Some(weight)) => {
                WeightInForce::V1(CpuShares::from_weight_nearest(weight.into()))
            }
            (WeightInForce::V2(_), Some(weight)) => WeightInForce::V2(weight.into()),
            (WeightInForce::Idle, _) | (_, None) => self.weight,
        };
        Self {
            max: CpuMax { quota, period },
            weight,
            burst: self.burst.map(|burst| fitting(wanted_burst.unwrap_or(burst))),
        }
    }

    /// These settings, with those that are other ones in `now` than in `left` as they are now.
    pub(crate) fn with_changes(&self, left: &Self, now: &Self) -> Self {
        let max = if now.max == left.max { self.max } else { now.max };
        let weight = if now.weight == left.weight { self.weight } else { now.weight };
        let burst = if now.burst == left.burst { self.burst } else { now.burst };
        // The kernel refuses a buffer above the quota.
        let fitting = |burst: Span| max.quota.map_or(burst, |quota| burst.min(quota));
        Self { max, weight, burst: burst.map(fitting) }
    }
}

// === impl Written ===

impl Written {
    /// Whether anything was written.
    #[must_use]
    pub const fn any(self) -> bool {
        self.quota || self.burst || self.weight
    }

    pub(crate) const fn note(&mut self, write: Write) {
        match write {
            Write::Period(_) | Write::Max(_) => self.quota = true,
            Write::Burst(_) => self.burst = true,
            Write::Weight(_) => self.weight = true,
        }
    }
}

/// The CPU time that `cpu` is worth in one period. Rounded down, so that no group gets more than
/// was decided.
fn per_period_floor(cpu: Millicores, period: Span) -> Span {
    let us = u128::from(cpu.get()) * u128::from(period.as_us()) / 1000;
    Span::from_us(u64::try_from(us).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIXTURE: &str = include_str!("../testdata/settings.txt");

    fn value<'a>(line: &'a str, key: &str) -> Option<&'a str> {
        line.split(' ').find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
    }

    fn number<T: std::str::FromStr>(line: &str, key: &str) -> Option<T> {
        value(line, key)?.parse().ok()
    }

    fn settings(version: Version, line: &str) -> Settings {
        let us = |key| number(line, key).map(Span::from_us);
        let weight = match (version, number(line, "weight")) {
            (_, None) => WeightInForce::Idle,
            (Version::V1, Some(shares)) => WeightInForce::V1(CpuShares::new(shares).unwrap()),
            (Version::V2, Some(weight)) => WeightInForce::V2(CpuWeight::new(weight).unwrap()),
        };
        let max = CpuMax { quota: us("quota"), period: us("period").unwrap() };
        Settings { max, weight, burst: us("burst") }
    }

    /// What is given back after the owner changed `left` to `now`, as quota, weight and buffer.
    fn check_owner(came: &str, left: &str, now: &str) -> String {
        let [came, left, now] = [came, left, now].map(|line| settings(Version::V2, line));
        let told = came.with_changes(&left, &now);
        let quota = told.max.quota.map_or("max".to_owned(), |quota| quota.as_us().to_string());
        let burst = told.burst.map_or(0, Span::as_us);
        format!("{quota} {} {burst}", settings_weight(&told))
    }

    fn settings_weight(settings: &Settings) -> u32 {
        match settings.weight {
            WeightInForce::V1(shares) => shares.get(),
            WeightInForce::V2(weight) => weight.get(),
            WeightInForce::Idle => 0,
        }
    }

    #[test]
    fn what_the_owner_changed_is_the_owners_and_nothing_else_is() {
        let came = "quota=50000 period=100000 weight=100 burst=20000";
        let left = "quota=70000 period=100000 weight=300 burst=0";
        assert_eq!(check_owner(came, left, left), "50000 100 20000");
        let limited = "quota=30000 period=100000 weight=300 burst=0";
        assert_eq!(check_owner(came, left, limited), "30000 100 20000");
        let weighed = "quota=70000 period=100000 weight=50 burst=0";
        assert_eq!(check_owner(came, left, weighed), "50000 50 20000");
        let freed = "period=100000 weight=300 burst=0";
        assert_eq!(check_owner(came, left, freed), "max 100 20000");
        let small = "quota=10000 period=100000 weight=300 burst=0";
        assert_eq!(check_owner(came, left, small), "10000 100 10000", "a buffer that fits");
        assert_eq!(check_owner(came, left, came), "50000 100 20000", "back to what it came with");
    }

    /// The writes for two lines of the fixture. The burst buffer is above the quota after none.
    fn check(in_force: &str, wanted: &str) -> String {
        let version = if in_force.starts_with("V1") { Version::V1 } else { Version::V2 };
        let mut now = settings(version, in_force);
        let milli = |key| number(wanted, key).map(Millicores::new);
        let to = if wanted.starts_with("back") {
            settings(version, wanted)
        } else {
            let weight = milli("weight").map(KernelWeight::from_request);
            let (limit, burst) = (milli("limit"), milli("burst"));
            now.toward(&Target { limit, weight, burst })
        };
        let mut told = String::new();
        for write in writes(version, &now, &to) {
            let (file, text) = spelled(version, write);
            told += &format!("{file} {text}\n");
            match write {
                Write::Period(period) => now.max.period = period,
                Write::Max(max) => now.max = max,
                Write::Burst(burst) => now.burst = Some(burst),
                Write::Weight(weight) => now.weight = weight,
            }
            assert!(now.max.quota.is_none_or(|quota| now.burst.is_none_or(|burst| burst <= quota)));
        }
        assert_eq!(now, to);
        told
    }

    #[test]
    fn writes_come_in_an_order_that_the_kernel_accepts() {
        let mut cases = 0;
        for case in FIXTURE.split("\ncase ").skip(1) {
            let (name, rest) = case.split_once('\n').unwrap();
            let (lines, rest) = rest.split_once("----\n").unwrap();
            let (in_force, wanted) = lines.trim_end().split_once('\n').unwrap();
            // The writes end at the first empty line; what follows is prose.
            let end =
                if rest.starts_with('\n') { 0 } else { rest.find("\n\n").unwrap_or(rest.len()) };
            assert_eq!(check(in_force, wanted).trim_end(), rest[..end].trim_end(), "{name}");
            cases += 1;
        }
        assert!(cases >= 15, "{cases}");
    }

    #[test]
    fn any_change_is_accepted_at_every_step() {
        let quotas = ["max", "1000", "50000", "200000"];
        for (from, to) in quotas.iter().flat_map(|from| quotas.map(|to| (*from, to))) {
            for burst in [0, 500, 1000, 40_000, 200_000] {
                let fits = from.parse::<u64>().is_ok_and(|quota| burst <= quota) || from == "max";
                let in_force = format!("V2 quota={from} period=100000 weight=100 burst={burst}");
                let limit = to.parse::<u64>().map_or(9_000_000, |quota| quota / 100);
                if fits {
                    for wanted in [0, 5, 10, 400, 2000, 9_000_000] {
                        check(&in_force, &format!("limit={limit} burst={wanted}"));
                    }
                }
            }
        }
    }
}
