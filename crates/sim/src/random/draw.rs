//! Draws that the generators of this crate have in common.
//!
//! Always: each function takes a fixed number of draws for the same kind of answer, so a sequence
//! depends on the seed alone.

use walras_core::rng::Rng;

/// A number from `low` to `high`, both included; `low` where `high` is below it.
pub fn within(rng: &mut Rng, low: u64, high: u64) -> u64 {
    low + rng.below(high.saturating_sub(low).saturating_add(1))
}

/// A number from zero to `most`, small ones as likely as large ones: every power of two below
/// `most` gets the same share.
pub fn spread(rng: &mut Rng, most: u64) -> u64 {
    let bits = u64::from(u64::BITS - most.leading_zeros());
    let kept = within(rng, 0, bits);
    let drawn = rng.next_u64();
    let cut = if kept == 0 { 0 } else { drawn >> (u64::from(u64::BITS) - kept) };
    cut.min(most)
}

/// Whether something that happens `times` in a hundred happens now.
pub fn percent(rng: &mut Rng, times: u64) -> bool {
    rng.below(100) < times
}

/// One of `choices`.
///
/// # Panics
/// Where there is nothing to choose from.
pub fn one_of<T: Copy>(rng: &mut Rng, choices: &[T]) -> T {
    let count = u64::try_from(choices.len()).unwrap_or(u64::MAX);
    let place = usize::try_from(rng.below(count)).expect("below the length of a slice");
    choices[place]
}

/// A place below `length`; zero where there is none.
pub fn place(rng: &mut Rng, length: usize) -> usize {
    let drawn = rng.below(u64::try_from(length).unwrap_or(u64::MAX));
    usize::try_from(drawn).expect("below the length of a slice")
}

/// Puts `items` in a random order, every order as likely as any other.
pub fn shuffle<T>(rng: &mut Rng, items: &mut [T]) {
    for last in (1..items.len()).rev() {
        items.swap(place(rng, last + 1), last);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_draw_reaches_both_ends() {
        let mut rng = Rng::from_seed(1);
        let drawn: Vec<u64> = (0..10_000).map(|_| spread(&mut rng, 1_000_000)).collect();
        assert!(drawn.iter().all(|&number| number <= 1_000_000));
        assert!(drawn.contains(&0) && drawn.contains(&1) && drawn.contains(&1_000_000));
    }

    #[test]
    fn a_shuffle_keeps_every_item() {
        let mut rng = Rng::from_seed(1);
        let mut items: Vec<u32> = (0..50).collect();
        shuffle(&mut rng, &mut items);
        assert!(!items.is_sorted());
        items.sort_unstable();
        assert_eq!(items, (0..50).collect::<Vec<_>>());
    }
}
