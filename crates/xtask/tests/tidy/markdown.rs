//! Reads what the checks need from Markdown: code blocks, links and words.

/// The lines inside fenced code blocks, with the first line of each block marked.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct CodeLine<'a> {
    pub(crate) text: &'a str,
    pub(crate) first: bool,
}

/// All lines of code, without a leading prompt.
pub(crate) fn code_lines(text: &str) -> Vec<CodeLine<'_>> {
    let mut lines = Vec::new();
    let (mut inside, mut first) = (false, false);
    for line in text.lines() {
        if is_fence(line) {
            inside = !inside;
            first = inside;
        } else if inside {
            lines.push(CodeLine { text: line.strip_prefix("$ ").unwrap_or(line), first });
            first = false;
        }
    }
    lines
}

/// The targets of all links outside code, with their lines.
pub(crate) fn links(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut inside = false;
    for (number, line) in (1..).zip(text.lines()) {
        if is_fence(line) {
            inside = !inside;
        }
        if inside || is_fence(line) {
            continue;
        }
        let line = without_code(line);
        for (at, _) in line.match_indices("](") {
            if let Some((target, _)) = line[at + 2..].split_once(')') {
                found.push((number, address(target)));
            }
        }
        if let Some((label, target)) = line.split_once("]: ")
            && label.starts_with('[')
        {
            found.push((number, address(target)));
        }
    }
    found
}

/// All words of letters, digits, `_`, `-`, `/` and `.`, with their lines.
pub(crate) fn words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let in_word = |c: char| c.is_alphanumeric() || "_-/.".contains(c);
    (1..).zip(text.lines()).flat_map(move |(number, line)| {
        line.split(move |c| !in_word(c)).map(move |word| (number, word))
    })
}

fn is_fence(line: &str) -> bool {
    line.trim_start().starts_with("```")
}

/// A link's address without its title and its angle brackets.
fn address(target: &str) -> String {
    let target = target.trim();
    let target = target.strip_prefix('<').and_then(|rest| rest.split('>').next()).unwrap_or(target);
    target.split(" \"").next().unwrap_or_default().to_owned()
}

/// The line with inline code left out.
fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_lines_know_which_begins_its_block() {
        let text = "a\n```console\n$ b\nc\n```\nd\n```\ne\n```\n";
        let expected = [("b", true), ("c", false), ("e", true)];
        let lines: Vec<_> = code_lines(text).iter().map(|line| (line.text, line.first)).collect();
        assert_eq!(lines, expected);
    }

    #[test]
    fn links_are_found_outside_code_only() {
        let text = "[a](b.md \"B\") `[c](d.md)` ![e](<f g.png>)\n```\n[h](i.md)\n```\n[j]: k.md\n";
        let expected = [(1, "b.md"), (1, "f g.png"), (5, "k.md")];
        assert_eq!(links(text), expected.map(|(line, target)| (line, target.to_owned())));
    }

    #[test]
    fn words_keep_paths_together() {
        let found: Vec<_> = words("see `crates/core`,\n(a_b)").map(|(_, word)| word).collect();
        for word in ["see", "crates/core", "a_b"] {
            assert!(found.contains(&word), "{found:?}");
        }
    }
}
