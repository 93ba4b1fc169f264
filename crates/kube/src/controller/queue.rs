//! What has to be looked at, and when: each allocation at most once, the earliest first.
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
    order: BTreeSet<(Moment, Key)>,
    due: BTreeMap<Key, Moment>,
    /// What workers have, and whether it has to be looked at again at once, or when.
    taken: BTreeMap<Key, Option<Moment>>,
}

impl Queue {
    /// `key` has to be looked at by `due`. An earlier time that is known already stays.
    pub(crate) fn add(&self, key: Key, due: Moment) {
        self.inner().add(key, due);
        self.changed.notify_one();
    }

    /// `key` is gone, and need not be looked at.
    pub(crate) fn forget(&self, key: &Key) {
        self.inner().forget(key);
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
            Some(known) => drop(self.order.remove(&(*known, key.clone()))),
            None => {}
        }
        self.due.insert(key.clone(), due);
        self.order.insert((due, key));
    }

    fn forget(&mut self, key: &Key) {
        if let Some(due) = self.due.remove(key) {
            self.order.remove(&(due, key.clone()));
        }
    }

    /// What is due, or when the next is.
    fn take(&mut self, now: Moment) -> Result<Key, Option<Moment>> {
        let Some((due, key)) = self.order.first().cloned() else {
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
