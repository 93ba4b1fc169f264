//! How the load of a workload goes over weeks: days, weekends, bursts, Mondays, growth.

use super::noise::{Noise, place, unit};
use super::workload::{DAY, HOUR};

/// The day of the week of the first window, from Monday as 0: so that what is counted, which is
/// from the ninth day on, begins with a weekend.
const FIRST_WEEKDAY: usize = 4;
/// When Mondays begin and how long they take.
const MONDAY: (f64, f64) = (7.5, 4.5);
/// Times at which a burst may begin, a day.
const BURSTS_MAX: u64 = 6;

/// A load over time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Pattern {
    /// What it is at the least, in cores for each replica.
    pub(super) low: f64,
    /// What the hour of the day adds at most.
    pub(super) daily: f64,
    /// When that is.
    pub(super) peak_hour: f64,
    /// What is left of that on Saturday and Sunday.
    pub(super) weekend: f64,
    /// What Monday morning adds.
    pub(super) monday: f64,
    /// What a burst adds.
    pub(super) burst: f64,
    /// How many there are in a day, on average.
    pub(super) bursts_a_day: f64,
    /// How much it wanders from hour to hour.
    pub(super) wander: f64,
    /// What it grows by in a week.
    pub(super) growth: f64,
    /// Whose it is.
    pub(super) seed: u64,
}

impl Pattern {
    /// The most it is about, without bursts of bursts and growth.
    pub(super) fn peak(&self) -> f64 {
        self.low + self.daily.max(self.burst)
    }

    /// The load in a window.
    #[expect(clippy::cast_precision_loss, reason = "a few thousand windows")]
    pub(super) fn at(&self, noise: &Noise, window: usize) -> f64 {
        let (day, within) = (window / DAY, window % DAY);
        let hour = within as f64 / HOUR as f64;
        let weekday = (day + FIRST_WEEKDAY) % 7;
        let is_weekend = weekday >= 5;
        let of_day = if is_weekend { self.daily * self.weekend } else { self.daily };
        let mut level = self.low + of_day * bell(hour - self.peak_hour);
        if weekday == 0 && (MONDAY.0..MONDAY.0 + MONDAY.1).contains(&hour) {
            level += self.monday;
        }
        level += self.bursts(day, within);
        let weeks = window as f64 / (7 * DAY) as f64;
        level * (1.0 + self.growth * weeks).max(0.1) * (1.0 + self.wandered(noise, window)).max(0.1)
    }

    /// What bursts add: each of a few a day may happen, for ten minutes to an hour.
    fn bursts(&self, day: usize, within: usize) -> f64 {
        let mut sum = 0.0;
        let is_likely = self.bursts_a_day / 6.0;
        for number in 0..BURSTS_MAX {
            let at = place(self.seed ^ 0xB, day as u64 * BURSTS_MAX + number);
            if unit(at) >= is_likely {
                continue;
            }
            let from = usize::try_from(place(at, 1) % DAY as u64).unwrap_or(0);
            let length = 2 + usize::try_from(place(at, 2) % 10).unwrap_or(0);
            if (from..from + length).contains(&within) {
                sum += self.burst * (0.6 + 0.8 * unit(place(at, 3)));
            }
        }
        sum
    }

    /// From one random number an hour to the next, in a straight line.
    #[expect(clippy::cast_precision_loss, reason = "below twelve")]
    fn wandered(&self, noise: &Noise, window: usize) -> f64 {
        let (hour, within) = ((window / HOUR) as u64, (window % HOUR) as f64 / HOUR as f64);
        let one = |hour| noise.one(place(self.seed ^ 0xA, hour));
        self.wander * (one(hour) * (1.0 - within) + one(hour + 1) * within)
    }
}

/// One at the peak, and nothing twelve hours from it.
fn bell(hours: f64) -> f64 {
    let turn = core::f64::consts::TAU * hours / 24.0;
    let wave = 0.5 + 0.5 * libm::cos(turn);
    // A little narrower than a sine: nights are longer than peaks.
    libm::pow(wave, 1.5)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLAT: Pattern = Pattern {
        low: 1.0,
        daily: 0.0,
        peak_hour: 14.0,
        weekend: 1.0,
        monday: 0.0,
        burst: 0.0,
        bursts_a_day: 0.0,
        wander: 0.0,
        growth: 0.0,
        seed: 3,
    };

    #[test]
    fn days_weekends_and_mondays_are_where_they_should_be() {
        let noise = Noise::new();
        let at = |pattern: Pattern, day: usize, hour: usize| {
            (pattern.at(&noise, day * DAY + hour * HOUR) * 1000.0).round()
        };
        let daily = Pattern { daily: 2.0, weekend: 0.5, ..FLAT };
        // The first day is a Friday, so the ninth, which is the first that counts, is a Saturday.
        assert_eq!(at(daily, 0, 14), 3000.0);
        assert_eq!(at(daily, 0, 2), 1000.0);
        assert_eq!(at(daily, 8, 14), 2000.0);
        let riser = Pattern { monday: 4.0, ..FLAT };
        assert_eq!(
            [7, 8, 11, 12].map(|hour| at(riser, 10, hour)),
            [1000.0, 5000.0, 5000.0, 1000.0]
        );
        assert_eq!(at(riser, 9, 9), 1000.0);
        let growing = Pattern { growth: 0.5, ..FLAT };
        assert_eq!((at(growing, 7, 0), at(growing, 14, 0)), (1500.0, 2000.0));
    }

    #[test]
    fn there_are_as_many_bursts_as_there_should_be() {
        let bursty = Pattern { burst: 1.0, bursts_a_day: 3.0, ..FLAT };
        let noise = Noise::new();
        let busy = (0..100 * DAY).filter(|window| bursty.at(&noise, *window) > 1.5).count();
        // Three a day of about 6.5 windows each, less where two overlap or run into midnight.
        assert!((1500..2000).contains(&busy), "{busy}");
    }
}
