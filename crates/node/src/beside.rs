//! Something that runs beside a daemon, and is told of with it: workloads, on a plain host.
//!
//! The daemon's server asks it when somebody asks the server, and never changes anything there.

use std::fmt::Debug;

/// What runs beside a daemon.
pub trait Beside: Debug + Send + Sync {
    /// Figures in OpenMetrics' text format, with its last line.
    fn metrics(&self) -> String;
    /// Everything that is there, as JSON.
    fn workloads(&self) -> String;
    /// The last lines that one of them wrote; nothing if there is none. This may take a moment.
    fn logs(&self, id: &str) -> Option<String>;
}

/// The last line of metrics, after which nothing may come.
const END: &str = "# EOF\n";

/// Two texts of metrics as one.
pub(crate) fn joined(first: &str, second: &str) -> String {
    [first.strip_suffix(END).unwrap_or(first), second].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_end_once() {
        assert_eq!(joined("a 1\n# EOF\n", "b 2\n# EOF\n"), "a 1\nb 2\n# EOF\n");
    }
}
