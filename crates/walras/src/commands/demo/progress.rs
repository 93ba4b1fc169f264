//! How far it is: a bar on a terminal, else a plain line every few seconds.

use std::io::{IsTerminal, Write};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::cast::WEB;
use super::outcome::Total;
use super::table::title;

const BAR: &str = "{bar:24} {pos:>3} of {len} s  {msg}";
/// How often there is a line where there is no terminal.
const LINE_EVERY_S: u32 = 5;

/// Tells how far both phases are.
#[derive(Debug)]
pub(super) struct Progress {
    bar: Option<ProgressBar>,
    /// Of one phase.
    seconds: u32,
    /// Of the phases before this one.
    passed: u64,
}

impl Progress {
    /// Two phases of so many seconds each.
    pub(super) fn new(seconds: u32) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let length = Some(2 * u64::from(seconds));
            let bar = ProgressBar::with_draw_target(length, ProgressDrawTarget::stderr());
            let style = ProgressStyle::with_template(BAR);
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar
        });
        Self { bar, seconds, passed: 0 }
    }

    /// So many seconds of a phase have passed.
    pub(super) fn second(&mut self, policy: &str, second: u32, pods: &[Total]) {
        let text = format!("{}: {}", title(policy), so_far(second, pods));
        match &self.bar {
            Some(bar) => {
                bar.set_position(self.passed + u64::from(second));
                bar.set_message(text);
            }
            None if second.is_multiple_of(LINE_EVERY_S) => {
                tell(&format!("{text} ({second} of {} s)", self.seconds));
            }
            None => {}
        }
        if second == self.seconds {
            self.passed += u64::from(second);
        }
    }

    /// Takes the bar away.
    pub(super) fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// A line for people, beside the results.
pub(super) fn tell(line: &str) {
    // There is no one to tell if this cannot be written.
    writeln!(anstream::stderr().lock(), "{line}").ok();
}

fn so_far(second: u32, pods: &[Total]) -> String {
    let used: f64 = pods.iter().map(|pod| pod.used_core_s).sum::<f64>() / f64::from(second.max(1));
    let web = pods.iter().find(|pod| pod.name == WEB);
    let throttled = web
        .filter(|web| web.periods > 0.0)
        .map_or(0.0, |web| 100.0 * web.throttled_periods / web.periods);
    format!("{WEB} throttled in {throttled:.0} % of its periods, {used:.1} cores in use")
}
