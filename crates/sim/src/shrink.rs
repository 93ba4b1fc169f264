//! Makes a failing sequence short: what a person has to read when a property breaks.
//!
//! Property tests call it with the items of a failing case and a way to try fewer of them. Always:
//! the answer still fails, and no single item can be left out of it.

/// The items of `failing` that are still needed for `fails` to say yes, in their order.
///
/// Leaves out long runs first and single items last, so a sequence of which little matters becomes
/// short in few tries.
pub fn shrink<T: Clone>(failing: &[T], mut fails: impl FnMut(&[T]) -> bool) -> Vec<T> {
    let mut kept = failing.to_vec();
    let mut run = kept.len().div_ceil(2);
    while run > 0 {
        let mut start = 0;
        let mut shrank = false;
        while start < kept.len() {
            let end = (start + run).min(kept.len());
            let fewer: Vec<T> = kept[..start].iter().chain(&kept[end..]).cloned().collect();
            if fails(&fewer) {
                kept = fewer;
                shrank = true;
            } else {
                start = end;
            }
        }
        // Leaving one item out can make another one needless, so single items are tried again.
        if run > 1 {
            run /= 2;
        } else if !shrank {
            run = 0;
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_needed_to_fail_remains() {
        let items: Vec<u32> = (0..100).collect();
        let shrunk = shrink(&items, |kept| kept.contains(&17) && kept.contains(&80));
        assert_eq!(shrunk, [17, 80]);
    }

    #[test]
    fn a_failure_without_any_item_shrinks_to_nothing() {
        assert_eq!(shrink(&[1, 2, 3], |_| true), Vec::<i32>::new());
    }
}
