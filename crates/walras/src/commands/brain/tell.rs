//! What a judgement says, as lines for people.

use std::io::{self, Write};

use walras_brain::judge::Judgement;

use crate::screen::Look;

/// So many features are told; the others are in the JSON and on the page.
const FEATURES: usize = 6;

/// Prints a judgement.
pub(super) fn judgement(output: &mut impl Write, found: &Judgement, look: Look) -> io::Result<()> {
    let percent = |share: f64| format!("{:.0} %", share * 100.0);
    writeln!(output, "{}", look.heading("How good it is"))?;
    writeln!(
        output,
        "  error         {:.1} points (always 50: {:.1}; always the mean: {:.1})",
        found.rmse, found.rmse_neutral, found.rmse_mean
    )?;
    let within = percent(found.within_ten);
    writeln!(output, "  within ten    {within} of scores are within ten points of the label")?;
    writeln!(
        output,
        "  ranks         {:.2} among the nodes of an event, {:.2} over all rows",
        found.rank_in_event, found.rank
    )?;
    let first = percent(found.best_first);
    writeln!(output, "  best first    in {first} of events the best node has the best score")?;
    let gap = percent(found.calibration_error);
    writeln!(output, "  calibration   confidence is off by {gap} of rows on average")?;
    writeln!(output, "{}", look.heading("What it looks at"))?;
    for importance in found.importance.iter().take(FEATURES) {
        let (feature, points) = (importance.feature, importance.points);
        writeln!(output, "  {feature:<24} {points:>5.1} points")?;
    }
    Ok(())
}
