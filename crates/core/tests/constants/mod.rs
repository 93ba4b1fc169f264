//! The constants that scripts and tables are written for. What they show are the rules; with other
//! constants the same rules give other numbers, so tuning a profile must not change a fixture.

use walras_core::profile::{Profile, ProfileName, Value};

/// What the profiles are pinned to: the constant, its value in `direct` and `tight`, and in `api`.
const PINNED: &[(&str, f64, f64)] = &[
    ("fast_loop_interval_ms", 200.0, 2000.0),
    ("slow_loop_interval_ms", 15_000.0, 15_000.0),
    ("startup_grace_ms", 45_000.0, 45_000.0),
    ("window_s", 30.0, 120.0),
    ("window_quantile", 0.9, 0.99),
    ("throttle_target", 0.02, 0.02),
    ("headroom_gain", 1.0, 1.0),
    ("headroom_fade", 0.05, 0.05),
    ("headroom_start", 1.0, 2.0),
    ("boost_periods", 2.0, 2.0),
    ("boost_period_ratio", 0.6, 0.25),
    ("boost_factor", 2.0, 2.0),
    ("hot_memory_s", 0.0, 0.0),
    ("boost_hold_ms", 10_000.0, 60_000.0),
    ("boost_half_life_ms", 5000.0, 30_000.0),
    ("raise_band", 0.05, 0.1),
    ("shrink_band", 0.1, 0.25),
    ("shrink_hold_ms", 15_000.0, 120_000.0),
];

/// The profile of that name as the fixtures know it.
pub(crate) fn pinned(name: ProfileName) -> Profile {
    let mut profile = Profile::named(name);
    for &(key, direct, api) in PINNED {
        let value = match name {
            ProfileName::Seed => continue,
            ProfileName::Direct | ProfileName::Tight => direct,
            ProfileName::Api => api,
        };
        profile.set(key, &Value::Number(value)).expect("a constant and a value in range");
    }
    profile
}
