//! What everybody agreed on: the keys of the ConfigMap that matter to the controller.
//!
//! A value that cannot be used is refused and named, and the one that held before goes on. A key
//! that is not there means the default. While there is no ConfigMap at all, what held before goes
//! on, and before the first one nothing is changed: whoever deletes it by mistake, or says a mode
//! that cannot be read, must not set a whole cluster moving.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;

use walras_core::profile::{CapRule, Profile};
use walras_core::resize::Rules;
use walras_core::units::Span;

use crate::agent::config::AgentConfig;
use crate::names;
use crate::pod::Mode;
use crate::time::span_from;

/// What the controller keeps to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    /// Whether they were ever read. Until then nothing is changed, whatever single pods say.
    pub(crate) are_read: bool,
    /// What may be changed of pods that say nothing of their own.
    pub(crate) mode: Mode,
    /// How many resizes a second the whole cluster may see.
    pub(crate) resizes_per_second: NonZeroU32,
    /// The least time between two resizes of one pod.
    pub(crate) cooldown: Span,
    /// Whether Guaranteed pods are sized, too, unless they say something of their own.
    pub(crate) manage_guaranteed: bool,
    /// Namespaces whose pods are left alone, beside the controller's own.
    pub(crate) excluded: BTreeSet<String>,
    /// How far one resize may go, as agents have it from the constants of the market.
    pub(crate) steps: Rules,
    /// Whether agents follow what workloads use with their requests.
    pub(crate) requests_follow_use: bool,
    /// What is said without effect, in sentences.
    pub(crate) notes: Vec<String>,
}

const MODE: &str = "mode";
const RATE: &str = "resizesPerSecond";
const COOLDOWN: &str = "cooldown";
const MANAGE_GUARANTEED: &str = "manageGuaranteed";
const EXCLUDED: &str = "excludedNamespaces";
const RATE_MAX: u32 = 1000;
const COOLDOWN_MAX: Span = Span::from_s(3600);

impl Default for Settings {
    fn default() -> Self {
        Self {
            are_read: true,
            mode: Mode::default(),
            resizes_per_second: NonZeroU32::new(10).expect("ten is not zero"),
            cooldown: Rules::DEFAULT.cooldown,
            manage_guaranteed: Rules::DEFAULT.manage_guaranteed,
            excluded: names::excluded_namespaces(""),
            steps: Rules::of(&Profile::API),
            requests_follow_use: true,
            notes: Vec::new(),
        }
    }
}

impl Settings {
    /// What holds before any settings were read.
    pub(crate) fn unread() -> Self {
        Self { are_read: false, mode: Mode::Off, ..Self::default() }
    }

    /// What `data` says, where `old` held before, and what was refused.
    pub(crate) fn read(data: &BTreeMap<String, String>, old: &Self) -> (Self, Vec<String>) {
        let mut problems = Vec::new();
        let mut refused = |key: &str, value: &str, because: String| {
            problems.push(format!("{key} is `{value}`: {because}; what held before goes on"));
        };
        let default = Self::default();
        let mut settings = default.clone();
        if let Some(text) = data.get(MODE) {
            settings.mode = Mode::read(text.trim()).unwrap_or_else(|_| {
                let names = Mode::ALL.map(Mode::name).join(", ");
                refused(MODE, text, format!("use one of {names}"));
                old.mode
            });
        }
        if let Some(text) = data.get(RATE) {
            settings.resizes_per_second = rate(text.trim()).unwrap_or_else(|| {
                refused(RATE, text, format!("use a whole number from 1 to {RATE_MAX}"));
                old.resizes_per_second
            });
        }
        if let Some(text) = data.get(COOLDOWN) {
            settings.cooldown = cooldown(text.trim()).unwrap_or_else(|| {
                let because = format!("use a time such as 5s or 500ms, at most {COOLDOWN_MAX}");
                refused(COOLDOWN, text, because);
                old.cooldown
            });
        }
        if let Some(text) = data.get(MANAGE_GUARANTEED) {
            settings.manage_guaranteed = text.trim().parse().unwrap_or_else(|_| {
                refused(MANAGE_GUARANTEED, text, "use true or false".to_owned());
                old.manage_guaranteed
            });
        }
        if let Some(text) = data.get(EXCLUDED) {
            settings.excluded = names::excluded_namespaces(text);
        }
        match AgentConfig::read(data, |_| None) {
            Ok(config) => {
                settings.steps = Rules::of(&config.profile);
                settings.requests_follow_use = config.profile.cap_rule == CapRule::Loose;
                settings.notes = config.notes;
            }
            // Agents say what is wrong, and go on with what held before as well.
            Err(_) => {
                (settings.steps, settings.notes) = (old.steps, old.notes.clone());
                settings.requests_follow_use = old.requests_follow_use;
            }
        }
        (settings, problems)
    }

    /// The rules that every plan keeps. A pod may ask to be sized although it is Guaranteed.
    pub(crate) const fn rules(&self, pod_asks: bool) -> Rules {
        let manage_guaranteed = self.manage_guaranteed || pod_asks;
        // The profile's cooldown is that of one agent's decisions; this one is for resizes.
        Rules { cooldown: self.cooldown, manage_guaranteed, ..self.steps }
    }
}

/// A number of resizes a second: a whole one, but decimals may be written.
fn rate(text: &str) -> Option<NonZeroU32> {
    let whole = match text.split_once('.') {
        Some((whole, decimals)) if decimals.bytes().all(|digit| digit == b'0') => whole,
        Some(_) => return None,
        None => text,
    };
    whole.parse().ok().filter(|rate: &NonZeroU32| rate.get() <= RATE_MAX)
}

/// A time as the agent's keys have it, up to the longest cooldown.
fn cooldown(text: &str) -> Option<Span> {
    span_from(text).filter(|span| *span <= COOLDOWN_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use walras_core::units::{Millicores, Ratio};

    fn check(old: &Settings, data: &[(&str, &str)]) -> (Settings, Vec<String>) {
        let data = data.iter().map(|(key, value)| (String::from(*key), String::from(*value)));
        Settings::read(&data.collect(), old)
    }

    #[test]
    fn keys_that_are_not_there_mean_the_default() {
        let (settings, problems) = check(&Settings::default(), &[("samplingInterval", "1s")]);
        assert_eq!((settings, problems), (Settings::default(), vec![]));
    }

    #[test]
    fn what_is_good_holds_and_what_is_bad_is_named_and_left_as_it_was() {
        let good = [
            ("mode", "limits-only"),
            ("resizesPerSecond", "3"),
            ("cooldown", "1500ms"),
            ("manageGuaranteed", "true"),
            ("excludedNamespaces", "bank, mail"),
        ];
        let (old, problems) = check(&Settings::default(), &good);
        assert_eq!(problems, Vec::<String>::new());
        assert_eq!(old.mode, Mode::LimitsOnly);
        assert_eq!(old.cooldown, Span::from_ms(1500));
        assert!(old.manage_guaranteed);
        assert!(old.excluded.contains("mail") && old.excluded.contains("kube-system"), "{old:?}");
        let bad = [
            ("mode", "on"),
            ("resizesPerSecond", "0"),
            ("cooldown", "5"),
            ("manageGuaranteed", "yes"),
            ("excludedNamespaces", "bank, mail"),
        ];
        let (settings, problems) = check(&old, &bad);
        assert_eq!(settings, old);
        assert_eq!(problems.len(), 4, "{problems:?}");
        let told = "mode is `on`: use one of off, limits-only, requests-and-limits, restore; what \
                    held before goes on";
        assert_eq!(problems[0], told);
        assert!(problems[1].starts_with("resizesPerSecond is `0`: use a whole"), "{problems:?}");
    }

    #[test]
    fn how_far_one_resize_may_go_is_what_agents_read() {
        let (ours, _) = check(&Settings::default(), &[("actuation", "direct")]);
        let usual = Rules { manage_guaranteed: true, ..Rules::DEFAULT };
        assert_eq!(ours.rules(true), usual, "the profile's cooldown is not for resizes");
        let data = [("market.max_step_factor", "2"), ("market.max_step_milli", "1500")];
        let (said, problems) = check(&ours, &data);
        assert_eq!(problems, [""; 0]);
        let rules = said.rules(false);
        assert_eq!((rules.growth_max, rules.change_max), {
            (Ratio::from_percent(200), Millicores::new(1500))
        });
        let (kept, _) = check(&said, &[("market.max_step_factor", "0")]);
        assert_eq!(kept.steps, said.steps, "agents refuse it, too");
    }

    #[test]
    fn what_has_no_effect_is_known() {
        let data = [("mode", "off"), ("throttlingThreshold", "0.1")];
        let (settings, problems) = check(&Settings::default(), &data);
        assert_eq!((settings.notes.len(), problems.len()), (1, 0));
        assert!(settings.notes[0].starts_with("throttlingThreshold has no effect: "));
    }

    #[test]
    fn a_mode_that_cannot_be_read_at_the_start_changes_nothing() {
        let (settings, problems) = check(&Settings::unread(), &[("mode", "of")]);
        assert_eq!(settings.mode, Mode::Off);
        assert_eq!(problems.len(), 1, "{problems:?}");
    }

    #[test]
    fn a_cooldown_has_a_unit_and_a_bound() {
        for bad in ["", "5", "-1s", "2 s", "3601s", "61m", "99999999999999999999ms"] {
            assert_eq!(cooldown(bad), None, "{bad}");
        }
        assert_eq!(cooldown("0s"), Some(Span::ZERO));
        assert_eq!(cooldown("1h"), Some(COOLDOWN_MAX));
        assert_eq!(cooldown("1.5s"), Some(Span::from_ms(1500)), "as the agent reads times");
        assert_eq!(cooldown("1m30s"), Some(Span::from_s(90)));
    }

    #[test]
    fn a_rate_is_a_whole_number_however_it_is_written() {
        let check = |text| rate(text).map(NonZeroU32::get);
        assert_eq!(
            (check("10"), check("10.0"), check("1000.00")),
            (Some(10), Some(10), Some(1000))
        );
        for bad in ["", "0", "0.0", "0.5", "10.5", "1001", "-1", "ten", "1e3"] {
            assert_eq!(check(bad), None, "{bad}");
        }
    }
}
