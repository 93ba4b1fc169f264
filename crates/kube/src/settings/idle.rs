//! Which constants of the market have no effect because of others, and why.
//!
//! A person who sets one of them is told so: a setting that is accepted in silence is believed.

use walras_core::profile::{BoostRule, Estimator, Profile};

/// Why a constant is not looked at under `profile`, if so.
pub(super) fn because(constant: &str, profile: &Profile) -> Option<&'static str> {
    match constant {
        "throttling_threshold" | "fast_step_min" | "fast_step_max" => match profile.boost_rule {
            BoostRule::Step => None,
            BoostRule::Double => Some(
                "it is of the rule that raises by steps, and limits are doubled here \
                 (market.boost_rule)",
            ),
        },
        "boost_periods" | "boost_period_ratio" | "boost_factor" | "peak_factor" => {
            match profile.boost_rule {
                BoostRule::Step => Some(
                    "it is of the rule that doubles limits, and they are raised by steps here \
                     (market.boost_rule)",
                ),
                BoostRule::Double => None,
            }
        }
        "learning_rate" | "learning_discount" | "exploration_start" | "exploration_floor"
        | "exploration_seed" => {
            let why = "bids are not learned here (enableAgentBasedModeling, market.learning)";
            (!profile.learning).then_some(why)
        }
        "window_s" | "window_quantile" | "throttle_target" | "headroom_gain" | "headroom_fade"
        | "headroom_start" | "headroom_max" | "spread_floor" => match profile.estimator {
            Estimator::Window => None,
            Estimator::Spec => Some(
                "it is of the estimator with a window, and need follows the documented formula \
                 here (market.estimator)",
            ),
        },
        _ => None,
    }
}
