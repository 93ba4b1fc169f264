//! What is said of a name that is not known, with the one that was probably meant.

/// A name as similar as this to a known one is taken for a slip of the fingers.
const SIMILAR: f64 = 0.75;
/// A shorter name, in bytes, resembles too many; a longer one is no slip of the fingers, and would
/// take long to compare.
const COMPARED_MIN: usize = 3;
const COMPARED_MAX: usize = 64;
/// More names than this are not listed as those that would have been right.
const LISTED_MAX: usize = 20;

/// What is wrong with a `what`, a key or a field, that is called `name`, where the names in `known`
/// would have been right. To be read after its value.
#[must_use]
pub fn unknown(what: &str, name: &str, known: &[&'static str]) -> String {
    let told = format!("is given to an unknown {what}");
    match closest(name, known) {
        Some(close) => format!("{told}; did you mean {close}?"),
        None if known.len() <= LISTED_MAX => format!("{told}; known are {}", known.join(", ")),
        None => told,
    }
}

fn closest(name: &str, known: &[&'static str]) -> Option<&'static str> {
    if !(COMPARED_MIN..=COMPARED_MAX).contains(&name.len()) {
        return None;
    }
    let similar = known.iter().map(|known| (strsim::jaro_winkler(name, known), *known));
    let close = similar.filter(|(similarity, _)| *similarity >= SIMILAR);
    close.max_by(|(a, _), (b, _)| a.total_cmp(b)).map(|(_, known)| known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closest_name_is_suggested_and_else_all_are_listed() {
        let known = ["min_milli", "max_milli"];
        let told = |name| unknown("field", name, &known);
        assert_eq!(told("min_mili"), "is given to an unknown field; did you mean min_milli?");
        assert_eq!(told("red"), "is given to an unknown field; known are min_milli, max_milli");
        assert_eq!(told("m"), "is given to an unknown field; known are min_milli, max_milli");
        assert_eq!(unknown("key", "red", &["a"; 21]), "is given to an unknown key");
    }

    #[test]
    fn a_very_long_name_is_not_compared_with_known_ones() {
        let alike = "min_milli".repeat(7) + "m";
        assert_eq!(alike.len(), COMPARED_MAX);
        let known: &'static str = alike.clone().leak();
        assert!(unknown("key", &alike, &[known]).contains("did you mean"));
        assert!(!unknown("key", &(alike + "i"), &[known]).contains("did you mean"));
    }
}
