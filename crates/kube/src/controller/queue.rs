//! What has to be looked at, and when: each allocation at most once, the earliest first, and of
//! those that are due at the same moment the one that has waited longest for a resize.
//!
//! Watches add what has changed, workers take what is due. An allocation that a worker has is not
//! given to another; if it changes meanwhile, it comes again afterwards. There is room for every
//! allocation that exists and for nothing else, so the queue is bounded by what is watched.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio::time;
use walras_core::units::Moment;

use super::clock::Clock;
use super::facts::Key;

/// The queue.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    inner: Mutex<Inner>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct Inner {
    /// When it is due, since when it has stood in line, and what it is.
    order: BTreeSet<(Moment, Moment, Key)>,
    due: BTreeMap<Key, Moment>,
    /// What workers have, and whether it has to be looked at again at once, or when.
    taken: BTreeMap<Key, Option<Moment>>,
    /// What wants a resize, and since when there have been too many of them.
    in_line: BTreeMap<Key, Moment>,
    /// The same, those first that have waited longest.
    line: BTreeSet<(Moment, Key)>,
}

impl Queue {
    /// `key` has to be looked at by `due`. An earlier time that is known already stays.
    pub(crate) fn add(&self, key: Key, due: Moment) {
        self.inner().add(key, due);
        self.changed.notify_one();
    }

    /// `key` is gone, and need not be looked at.
    pub(crate) fn forget(&self, key: &Key) {
        let mut inner = self.inner();
        inner.forget(key);
        inner.leaves_the_line(key);
    }

    /// `key` wants a resize, and it is not its turn yet. How many have stood in line for longer, of
    /// which no more than `most` are counted.
    pub(crate) fn stands_in_line(&self, key: &Key, most: usize, now: Moment) -> usize {
        let mut inner = self.inner();
        let since = *inner.in_line.entry(key.clone()).or_insert(now);
        let place = (since, key.clone());
        let before = inner.line.range(..&place).take(most).count();
        inner.line.insert(place);
        before
    }

    /// It was the turn of `key`, or it wants no resize any more.
    pub(crate) fn leaves_the_line(&self, key: &Key) {
        self.inner().leaves_the_line(key);
    }

    /// How many are waiting.
    pub(crate) fn len(&self) -> usize {
        self.inner().due.len()
    }

    /// The next one that is due, as soon as there is one.
    pub(crate) async fn take(&self, clock: &Clock) -> Key {
        loop {
            let changed = self.changed.notified();
            let next = self.inner().take(clock.now());
            match next {
                Ok(key) => {
                    // There may be more, and another worker may be waiting for a word.
                    self.changed.notify_one();
                    return key;
                }
                Err(Some(due)) => drop(time::timeout(clock.until(due), changed).await),
                Err(None) => changed.await,
            }
        }
    }

    /// A worker is done with `key`, which should be looked at again at `next`, if at all.
    pub(crate) fn done(&self, key: Key, next: Option<Moment>) {
        self.inner().done(key, next);
        self.changed.notify_one();
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        // What is inside is whole after every statement.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Inner ===

impl Inner {
    fn add(&mut self, key: Key, due: Moment) {
        if let Some(again) = self.taken.get_mut(&key) {
            *again = Some(again.map_or(due, |known| known.min(due)));
            return;
        }
        match self.due.get(&key) {
            Some(known) if *known <= due => return,
            Some(_) => self.forget(&key),
            None => {}
        }
        self.due.insert(key.clone(), due);
        let since = self.in_line.get(&key).copied().unwrap_or(due);
        self.order.insert((due, since, key));
    }

    fn forget(&mut self, key: &Key) {
        if let Some(due) = self.due.remove(key) {
            // Only a worker that has taken it changes its place in the line.
            let since = self.in_line.get(key).copied().unwrap_or(due);
            self.order.remove(&(due, since, key.clone()));
        }
    }

    fn leaves_the_line(&mut self, key: &Key) {
        if let Some(since) = self.in_line.remove(key) {
            self.line.remove(&(since, key.clone()));
        }
    }

    /// What is due, or when the next is.
    fn take(&mut self, now: Moment) -> Result<Key, Option<Moment>> {
        let Some((due, _, key)) = self.order.first().cloned() else {
            return Err(None);
        };
        if due > now {
            return Err(Some(due));
        }
        self.forget(&key);
        self.taken.insert(key.clone(), None);
        Ok(key)
    }

    fn done(&mut self, key: Key, next: Option<Moment>) {
        let again = self.taken.remove(&key).flatten();
        let due = match (again, next) {
            (Some(again), Some(next)) => Some(again.min(next)),
            (again, next) => again.or(next),
        };
        if let Some(due) = due {
            self.add(key, due);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> Key {
        Key::new("shop", name)
    }

    fn at(s: u64) -> Moment {
        Moment::from_ms(s * 1000)
    }

    #[test]
    fn the_earliest_comes_first_and_each_once() {
        let mut queue = Inner::default();
        for (name, due) in [("a", 3), ("b", 1), ("a", 2), ("a", 5), ("c", 9)] {
            queue.add(key(name), at(due));
        }
        assert_eq!(queue.take(at(0)), Err(Some(at(1))));
        assert_eq!(queue.take(at(4)), Ok(key("b")));
        assert_eq!(queue.take(at(4)), Ok(key("a")));
        assert_eq!(queue.take(at(4)), Err(Some(at(9))));
        queue.forget(&key("c"));
        assert_eq!(queue.take(at(99)), Err(None));
    }

    #[test]
    fn who_has_stood_in_line_longest_comes_first_whatever_its_name() {
        let queue = Queue::default();
        let since_rank = |since: u64| usize::from(since > 1);
        for (name, since) in [("b", 1), ("a", 2)] {
            queue.add(key(name), at(since));
            assert_eq!(queue.inner().take(at(since)), Ok(key(name)));
            assert_eq!(queue.stands_in_line(&key(name), 9, at(since)), since_rank(since));
            queue.done(key(name), Some(at(5)));
        }
        assert_eq!(queue.inner().take(at(5)), Ok(key("b")));
        queue.leaves_the_line(&key("b"));
        queue.done(key("b"), Some(at(5)));
        assert_eq!(queue.inner().take(at(5)), Ok(key("a")));
        queue.stands_in_line(&key("a"), 9, at(5));
        queue.done(key("a"), Some(at(5)));
        assert_eq!(queue.inner().take(at(5)), Ok(key("a")), "still the longest");
        queue.forget(&key("b"));
        assert_eq!(queue.inner().take(at(9)), Err(None));
    }

    #[test]
    fn what_changes_while_a_worker_has_it_comes_again_afterwards() {
        let mut queue = Inner::default();
        queue.add(key("a"), at(0));
        assert_eq!(queue.take(at(0)), Ok(key("a")));
        queue.add(key("a"), at(1));
        assert_eq!(queue.take(at(9)), Err(None), "a worker has it");
        queue.done(key("a"), Some(at(60)));
        assert_eq!(queue.take(at(1)), Ok(key("a")));
        queue.done(key("a"), None);
        assert_eq!(queue.take(at(99)), Err(None));
    }
}
