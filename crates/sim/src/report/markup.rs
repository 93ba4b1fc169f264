//! Text in a page: what is written by others never becomes markup.

/// Text as it may stand between tags and in quoted attributes.
pub(super) fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            other => safe.push(other),
        }
    }
    safe
}

/// A coordinate, to a tenth of a pixel.
pub(super) fn px(value: f64) -> String {
    super::number::trimmed(value, 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_becomes_markup() {
        assert_eq!(escape("<b a=\"x\">&'ä"), "&lt;b a=&quot;x&quot;&gt;&amp;&#39;ä");
    }

    #[test]
    fn coordinates_are_short() {
        let told = [0.0, -0.04, 12.0, 12.34, 12.96].map(px);
        assert_eq!(told, ["0", "0", "12", "12.3", "13"]);
    }
}
