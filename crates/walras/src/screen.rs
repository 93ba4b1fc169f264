//! What standard output can show: colours, and how wide it is.
//!
//! Formatting takes a [`Look`] as data, so that it can be tested without a terminal. Colours are
//! for terminals only, and the user's `NO_COLOR` is respected.

use std::io::{self, BufWriter, IsTerminal, StdoutLock};

use anstream::{AutoStream, ColorChoice};
use owo_colors::{OwoColorize, Style};
use terminal_size::{Width, terminal_size_of};
use walras_core::market::Mode;

/// How text is to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Look {
    /// Whether colours are wanted.
    pub(crate) colour: bool,
    /// How many columns there are, where that is known.
    pub(crate) width: Option<u16>,
}

/// Standard output, buffered.
pub(crate) fn output() -> BufWriter<StdoutLock<'static>> {
    BufWriter::with_capacity(64 << 10, io::stdout().lock())
}

// === impl Look ===

impl Look {
    /// No colours and all the width in the world: what a file gets.
    #[cfg(test)]
    pub(crate) const PLAIN: Self = Self { colour: false, width: None };

    /// What standard output can show.
    pub(crate) fn of_stdout() -> Self {
        let stdout = io::stdout();
        let width = if stdout.is_terminal() { terminal_size_of(&stdout) } else { None };
        Self {
            colour: AutoStream::choice(&stdout) != ColorChoice::Never,
            width: width.map(|(Width(columns), _)| columns),
        }
    }

    /// `text` in the colour of `mode`.
    pub(crate) fn mode(self, mode: Mode, text: &str) -> String {
        let style = Style::new().bold();
        self.paint(
            text,
            match mode {
                Mode::Uncongested => style.green(),
                Mode::Congested => style.yellow(),
                Mode::Overloaded => style.red(),
            },
        )
    }

    /// `text` as a heading.
    pub(crate) fn heading(self, text: &str) -> String {
        self.paint(text, Style::new().bold())
    }

    /// `text` as something of lesser weight.
    pub(crate) fn aside(self, text: &str) -> String {
        self.paint(text, Style::new().dimmed())
    }

    fn paint(self, text: &str, style: Style) -> String {
        if self.colour { text.style(style).to_string() } else { text.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_there_only_where_they_are_wanted() {
        let colourful = Look { colour: true, width: None };
        assert_eq!(colourful.mode(Mode::Congested, "x"), "\u{1b}[33;1mx\u{1b}[0m");
        assert_eq!(Look::PLAIN.mode(Mode::Congested, "x"), "x");
    }
}
