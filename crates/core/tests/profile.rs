//! The table of constants: every profile is within its own ranges, every constant can be read back,
//! and every mistake is named.

use walras_core::profile::{Constant, Kind, Profile, ProfileName, Value};
use walras_core::units::{Ratio, Span};

#[test]
fn every_profile_is_within_its_own_ranges_and_reads_back_unchanged() {
    for name in ProfileName::ALL {
        let profile = Profile::named(name);
        assert!(profile.check().is_empty(), "{}: {:?}", name.name(), profile.check());
        let mut copy = profile.clone();
        for constant in Profile::CONSTANTS {
            let value = profile.get(constant.key).expect("every constant can be read");
            copy.set(constant.key, &value)
                .unwrap_or_else(|error| panic!("{}: {error}", name.name()));
        }
        assert_eq!(copy, profile);
    }
}

/// What the documents say, by the names that the table has for it.
const OF_THE_DOCUMENTS: [(&str, f64); 19] = [
    ("sampling_interval_ms", 1000.0),
    ("fast_loop_interval_ms", 2000.0),
    ("slow_loop_interval_ms", 15_000.0),
    ("startup_grace_ms", 45_000.0),
    ("throttling_threshold", 0.1),
    ("fast_step_min", 0.2),
    ("fast_step_max", 0.4),
    ("throttle_target", 0.05),
    ("learning_rate", 0.1),
    ("learning_discount", 0.9),
    ("exploration_start", 0.2),
    ("alpha_up", 0.1),
    ("alpha_down", 0.8),
    ("raise_band", 0.05),
    ("shrink_band", 0.05),
    ("limit_floor_milli", 10.0),
    ("cooldown_ms", 5000.0),
    ("max_step_factor", 10.0),
    ("max_step_milli", 20_000.0),
];

#[test]
fn the_profile_of_the_documents_has_their_values() {
    let seed = Profile::named(ProfileName::Seed);
    for (key, value) in OF_THE_DOCUMENTS {
        assert_eq!(seed.get(key), Some(Value::Number(value)), "{key}");
    }
    for (key, word) in [("estimator", "spec"), ("fairness", "proportional"), ("cap_rule", "grant")]
    {
        assert_eq!(seed.get(key), Some(Value::Word(word.to_owned())), "{key}");
    }
    assert_eq!(seed.get("learning"), Some(Value::Flag(true)));
}

#[test]
fn every_constant_says_why_it_exists() {
    let mut seen = std::collections::BTreeSet::new();
    for Constant { key, unit, reason, low, high, .. } in Profile::CONSTANTS {
        assert!(seen.insert(key), "{key} is listed twice");
        assert!(!unit.is_empty() && reason.ends_with('.'), "{key}: {reason}");
        assert!(low <= high, "{key}");
    }
}

#[test]
fn every_number_is_accepted_at_its_bounds_and_refused_beyond_them() {
    for constant in Profile::CONSTANTS {
        if !matches!(constant.kind, Kind::Decimal | Kind::Whole) {
            continue;
        }
        let mut profile = Profile::DIRECT;
        for bound in [constant.low, constant.high] {
            profile.set(constant.key, &Value::Number(bound)).expect("a bound is inside");
        }
        let untouched = profile.clone();
        for wrong in [constant.high + 1.0, constant.low - 1.0, f64::NAN, f64::INFINITY] {
            let error = profile.set(constant.key, &Value::Number(wrong)).unwrap_err();
            assert!(error.to_string().starts_with(constant.key), "{error}");
        }
        assert_eq!(profile, untouched, "{}", constant.key);
    }
}

#[test]
fn mistakes_are_named_with_key_value_and_what_is_allowed() {
    let check = |key: &str, value: Value, expected: &str| {
        let mut profile = Profile::DIRECT;
        let error = profile.set(key, &value).unwrap_err();
        assert_eq!(error.to_string(), expected);
        assert_eq!(error.key(), key);
        assert_eq!(profile, Profile::DIRECT, "a refused setting changes nothing");
    };
    let word = |word: &str| Value::Word(word.to_owned());
    check("no_such", Value::Flag(true), "no_such: no constant of the market has this name");
    check("window_s", Value::Number(0.0), "window_s: 0 is outside 1 to 3600");
    check("window_s", Value::Number(1.5), "window_s: 1.5 is not a whole number");
    check("window_s", word("ten"), "window_s: \"ten\" is not a whole number");
    check("overcommit", Value::Number(0.5), "overcommit: 0.5 is outside 1 to 100");
    check("learning", Value::Number(1.0), "learning: 1 is not true or false");
    check(
        "fairness",
        word("equal"),
        "fairness: \"equal\" is not one of \"proportional\", \"nash\"",
    );
}

#[test]
fn constants_that_contradict_each_other_are_all_reported() {
    let mut profile = Profile::SEED;
    profile.fast_step_max = Ratio::from_percent(10);
    profile.slow_loop_interval_ms = Span::from_ms(500);
    let errors: Vec<String> = profile.check().iter().map(ToString::to_string).collect();
    assert_eq!(
        errors,
        [
            "fast_step_max: must be at least fast_step_min",
            "slow_loop_interval_ms: must be at least fast_loop_interval_ms",
        ]
    );
}
