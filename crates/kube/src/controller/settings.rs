//! What the controller keeps to: the ConfigMap that agents read as well.
//!
//! All of it is read or nothing. While something in it is wrong, or there is none at all, what held
//! before goes on, and before the first one nothing is changed: deleting it by mistake must
//! not set a whole cluster moving. Only a mode that stops everything or gives everything back holds
//! at once, whatever is wrong beside it.

use std::collections::BTreeMap;

use walras_core::profile::CapRule;
use walras_core::resize::Rules;
use walras_node::environment;

use crate::pod::Mode;
use crate::settings::ClusterSettings;

/// What the controller keeps to.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Settings {
    /// Whether they were ever read. Until then nothing is changed, whatever single pods say.
    pub(crate) are_read: bool,
    /// What they say.
    pub(crate) held: ClusterSettings,
}

impl Default for Settings {
    fn default() -> Self {
        Self { are_read: true, held: ClusterSettings::default() }
    }
}

impl Settings {
    /// What holds before any settings were read.
    pub(crate) fn unread() -> Self {
        let mut held = ClusterSettings::default();
        held.agent.mode = Mode::Off;
        Self { are_read: false, held }
    }

    /// What `data` says, where `old` held before, and what was refused.
    pub(crate) fn read(data: &BTreeMap<String, String>, old: &Self) -> (Self, Vec<String>) {
        let variable = |name: &str| environment(name)?.into_string().ok();
        let problems = match ClusterSettings::read(data, variable) {
            Ok(held) => return (Self { are_read: true, held }, Vec::new()),
            Err(problems) => problems,
        };
        let mut kept = old.clone();
        if let Some(mode) = ClusterSettings::emergency(data, variable) {
            kept.held.agent.mode = mode;
            // To give back what pods came with, nothing else has to be known.
            kept.are_read |= mode == Mode::Restore;
        }
        let rest = format!("what held before goes on, with the mode {}", kept.mode());
        (kept, problems.all().iter().map(|problem| format!("{problem}; {rest}")).collect())
    }

    /// What may be changed of pods that say nothing of their own.
    pub(crate) const fn mode(&self) -> Mode {
        self.held.agent.mode
    }

    /// Whether agents follow what workloads use with their requests.
    pub(crate) fn requests_follow_use(&self) -> bool {
        self.held.agent.profile.cap_rule == CapRule::Loose
    }

    /// The rules that every plan keeps. A pod may ask to be sized although it is Guaranteed.
    pub(crate) fn rules(&self, pod_asks: bool) -> Rules {
        let manage_guaranteed = self.held.agent.guaranteed || pod_asks;
        // The profile's cooldown is that of one agent's decisions; this one is for resizes.
        let steps = Rules::of(&self.held.agent.profile);
        Rules { cooldown: self.held.cooldown, manage_guaranteed, ..steps }
    }
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
    fn all_of_it_holds_or_nothing_and_every_mistake_is_named() {
        let good = [
            ("mode", "limits-only"),
            ("resizesPerSecond", "3"),
            ("manageGuaranteed", "true"),
            ("excludedNamespaces", "bank, mail"),
        ];
        let (old, problems) = check(&Settings::unread(), &good);
        assert_eq!(problems, [""; 0]);
        assert_eq!((old.are_read, old.mode()), (true, Mode::LimitsOnly));
        assert_eq!(old.held.resizes_per_second.get(), 3);
        assert!(old.rules(false).manage_guaranteed);
        let excluded = &old.held.agent.excluded;
        assert!(excluded.contains("mail") && excluded.contains("kube-system"), "{excluded:?}");
        let bad = [("mode", "on"), ("resizesPerSecond", "5"), ("coldown", "5s")];
        let (settings, problems) = check(&old, &bad);
        assert_eq!(settings, old);
        let rest = "what held before goes on, with the mode limits-only";
        let one_of = "one of off, limits-only, requests-and-limits, restore";
        assert_eq!(
            problems,
            [
                format!("mode: \"on\" is not {one_of}; {rest}"),
                format!(
                    "coldown: \"5s\" is given to an unknown key; did you mean cooldown?; {rest}"
                ),
            ]
        );
    }

    #[test]
    fn a_mode_that_stops_everything_holds_whatever_is_wrong_beside_it() {
        let off = [("mode", "off"), ("resizesPerSecond", "0")];
        let (settings, problems) = check(&Settings::default(), &off);
        assert_eq!((settings.mode(), problems.len()), (Mode::Off, 1));
        let restore = [("mode", "restore"), ("resizesPerSecond", "0")];
        let (settings, _) = check(&Settings::unread(), &restore);
        assert_eq!((settings.are_read, settings.mode()), (true, Mode::Restore));
        let (settings, _) = check(&Settings::unread(), &off);
        assert!(!settings.are_read);
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
        assert_eq!(kept, said, "agents refuse it, too");
    }

    #[test]
    fn what_has_no_effect_is_known() {
        let data = [("mode", "off"), ("throttlingThreshold", "0.1")];
        let (settings, problems) = check(&Settings::default(), &data);
        let notes = &settings.held.agent.notes;
        assert_eq!((notes.len(), problems.len()), (1, 0));
        assert!(notes[0].starts_with("throttlingThreshold has no effect: "));
    }

    #[test]
    fn a_mode_that_cannot_be_read_at_the_start_changes_nothing() {
        let (settings, problems) = check(&Settings::unread(), &[("mode", "of")]);
        assert_eq!((settings.are_read, settings.mode()), (false, Mode::Off));
        assert_eq!(problems.len(), 1, "{problems:?}");
    }
}
