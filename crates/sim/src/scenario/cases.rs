//! Test cases as text: prose, then `case` and a title, the input, a line of dashes, and what is
//! told about it up to the next empty line.

/// Checks every case: `told` makes a text of a title and an input.
pub(super) fn check(text: &str, told: impl Fn(&str, &str) -> String) {
    let mut lines = text.lines();
    let mut checked = 0_u32;
    while let Some(line) = lines.next() {
        let Some(title) = line.strip_prefix("case ") else {
            assert!(line.is_empty() || line.starts_with('#'), "neither prose nor a case: {line}");
            continue;
        };
        let input: Vec<&str> = lines.by_ref().take_while(|line| *line != "----").collect();
        let expected: Vec<&str> = lines.by_ref().take_while(|line| !line.is_empty()).collect();
        assert_eq!(told(title, &input.join("\n")), expected.join("\n"), "case {title}");
        checked += 1;
    }
    assert!(checked > 0, "there are no cases");
}
