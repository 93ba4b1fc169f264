//! Random profiles: one of the three, with some constants overridden.
//!
//! Property tests call it. Always: the profile passed the same range and consistency checks that a
//! configuration file does.

use walras_core::profile::{Constant, Kind, Profile, ProfileName, Value};
use walras_core::rng::Rng;

use super::draw::{one_of, percent, within};

/// Draws a profile: a plain one half of the time, else one with up to five constants overridden.
///
/// Intervals are kept short enough for a sequence of facts to see many ticks.
pub fn profile(rng: &mut Rng) -> Profile {
    let plain = Profile::named(one_of(rng, &ProfileName::ALL));
    if percent(rng, 50) {
        return plain;
    }
    let mut profile = plain.clone();
    for _ in 0..within(rng, 1, 5) {
        let constant = &one_of(rng, Profile::CONSTANTS);
        let value = value(rng, constant);
        // A number that rounds out of its range is refused, and the constant stays as it was.
        let _refused = profile.set(constant.key, &value);
    }
    if profile.check().is_empty() { profile } else { plain }
}

fn value(rng: &mut Rng, constant: &Constant) -> Value {
    match constant.kind {
        Kind::Flag => Value::Flag(percent(rng, 50)),
        Kind::Choice(words) => Value::Word(one_of(rng, words).to_owned()),
        Kind::Decimal => Value::Number(number(rng, constant)),
        Kind::Whole => Value::Number(number(rng, constant).round()),
    }
}

/// An edge of the range, or something within it; wide ranges mostly near their lower end, where
/// the sensible values are.
fn number(rng: &mut Rng, constant: &Constant) -> f64 {
    let Constant { low, high, .. } = *constant;
    match rng.below(8) {
        0 => low,
        1 => high,
        _ => {
            let part = rng.unit();
            low + (high - low) * part * part * part * part
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_profile_is_within_range_and_many_differ_from_the_three() {
        let mut rng = Rng::from_seed(1);
        let mut others = 0;
        for _ in 0..1000 {
            let drawn = profile(&mut rng);
            assert_eq!(drawn.check(), []);
            if drawn != Profile::named(drawn.name) {
                others += 1;
            }
        }
        assert!(others > 300, "{others}");
    }
}
