//! The colour of each policy, the same in every picture.
//!
//! The eight policies that take part by default have the colours of Okabe and Ito, which people can
//! tell apart whatever they see of red and green, darkened or lightened to stand out from the
//! page. The others differ from them by the pattern of their lines, too.

/// How one policy is drawn.
struct Ink {
    policy: &'static str,
    /// On a light page.
    light: &'static str,
    /// On a dark page.
    dark: &'static str,
    /// The pattern of its lines; empty for a solid one.
    dash: &'static str,
}

const INKS: [Ink; 32] = [
    ink("static", "#6b7280", "#9ca3af", "2 3"),
    ink("none", "#9a8b6a", "#b8ab8c", "1 3"),
    ink("weights", "#a08400", "#f0e442", "7 3"),
    ink("even", "#8c5a3c", "#d2a07a", "1 3"),
    ink("vpa", "#e69f00", "#e69f00", "5 2"),
    ink("koordinator", "#009e73", "#2fc79b", "8 2 2 2"),
    ink("koordinator-be", "#4d8f2f", "#86c96a", "8 2 1 2"),
    ink("autothrottle", "#d55e00", "#ff8445", "4 2"),
    ink("cruisekube", "#cc79a7", "#e39ac4", "6 2 1 2"),
    ink("mbcas", "#6b7d1f", "#b6c75a", "3 2"),
    ink("walras", "#0072b2", "#3d9fe0", ""),
    ink("walras-api", "#56b4e9", "#8fd3fa", "9 3"),
    ink("walras-tight", "#b5179e", "#f08bdf", "6 1 1 1"),
    ink("walras-guard-5", "#8a2f0b", "#e59866", "8 2"),
    ink("walras-guard-2", "#6b4f0a", "#d4ac0d", "4 2 1 2"),
    ink("walras-learning", "#5b4bb5", "#a79bf0", "3 1"),
    ink("walras-api-learning", "#8a7be0", "#c6bdfb", "9 1"),
    ink("walras-proportional", "#1b8f8f", "#5fd3d0", "3 3"),
    ink("walras-api-proportional", "#3fb5b0", "#9be8e5", "9 2 1 2"),
    ink("declared", "#7a6f6f", "#b3a6a6", "2 2"),
    ink("percentile", "#2a9d5c", "#62d493", "5 3"),
    ink("walras-shared", "#1f8fd0", "#6cc0f5", "8 1"),
    ink("least-allocated", "#c46f1a", "#eaa45c", "5 4"),
    ink("most-allocated", "#a1432a", "#e8886d", "2 4"),
    ink("balanced", "#7d6608", "#d9c23f", "6 3"),
    ink("kube-default", "#475569", "#94a3b8", "1 4"),
    ink("target-load", "#0f766e", "#4fd1c5", "4 3"),
    ink("load-variation", "#15803d", "#6ee7a0", "7 2"),
    ink("random", "#8b8f98", "#7f8794", "1 1"),
    ink("mlp", "#005a9c", "#4aa3f0", "10 1"),
    ink("trees", "#7c3aed", "#b79bf8", "10 2"),
    ink("oracle", "#16181d", "#f3f4f6", "1 2"),
];

/// The class of everything that is drawn for a policy.
pub(super) fn class_of(policy: &str) -> String {
    let known = INKS.iter().any(|ink| ink.policy == policy);
    format!("p-{}", if known { policy } else { "other" })
}

/// The rules that give each class its colour, and let the others fade while one is pointed at.
pub(super) fn css() -> String {
    let mut light = String::new();
    let mut dark = String::new();
    let mut fade = String::new();
    for Ink { policy, light: on_light, dark: on_dark, dash } in &INKS {
        let dash = if dash.is_empty() { "none" } else { dash };
        light += &format!(".p-{policy}{{--c:{on_light};--d:{dash}}}\n");
        dark += &format!(".p-{policy}{{--c:{on_dark}}}\n");
        fade += &format!("section:has(.p-{policy}:hover) .fades:not(.p-{policy}){{opacity:.13}}\n");
    }
    format!(
        "{light}@media (prefers-color-scheme:dark){{\n{dark}}}\n@media (hover:hover){{\n{fade}}}\n"
    )
}

const fn ink(
    policy: &'static str,
    light: &'static str,
    dark: &'static str,
    dash: &'static str,
) -> Ink {
    Ink { policy, light, dark, dash }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::contest::CONTESTANTS;
    use crate::pack::contest::ENTRANTS;
    use crate::place::contest::Placer;

    #[test]
    fn every_policy_has_colours_of_its_own() {
        for contestant in CONTESTANTS {
            assert_eq!(class_of(contestant.name), format!("p-{}", contestant.name));
        }
        for entrant in ENTRANTS {
            assert_eq!(class_of(entrant.name), format!("p-{}", entrant.name));
        }
        for placer in Placer::others() {
            assert_eq!(class_of(placer.name), format!("p-{}", placer.name));
        }
        assert_eq!(class_of("<b>"), "p-other");
        for colours in [INKS.map(|ink| ink.light), INKS.map(|ink| ink.dark)] {
            assert_eq!(BTreeSet::from(colours).len(), INKS.len());
        }
    }
}
