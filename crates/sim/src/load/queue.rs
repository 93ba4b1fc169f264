//! A queue of requests served by processor sharing: every request in progress gets the same part of
//! what the pod runs, at most one core.
//!
//! Served work is measured on a clock of its own that advances by what each request gets; a request
//! is done when that clock reaches its due mark. So a request costs a heap operation, and a long
//! queue is as cheap per slice as a short one.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// A queue of requests.
#[derive(Clone, Debug, Default)]
pub struct Queue {
    /// What a request that was there from the start would have got by now, in core-milliseconds.
    served_core_ms: f64,
    waiting: BinaryHeap<Request>,
    /// All work not yet done.
    work_core_ms: f64,
}

#[derive(Clone, Copy, Debug)]
struct Request {
    due_core_ms: f64,
    arrived_ms: f64,
    /// Ties are served in the order of arrival.
    number: u64,
}

impl Queue {
    /// A request arrived that takes `cost_core_ms` of CPU.
    pub fn arrived(&mut self, at_ms: f64, cost_core_ms: f64, number: u64) {
        let due_core_ms = self.served_core_ms + cost_core_ms;
        self.waiting.push(Request { due_core_ms, arrived_ms: at_ms, number });
        self.work_core_ms += cost_core_ms;
    }

    /// How many requests are in progress.
    #[must_use]
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether nothing is in progress.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// The work not yet done.
    #[must_use]
    pub fn work_core_ms(&self) -> f64 {
        if self.waiting.is_empty() { 0.0 } else { self.work_core_ms.max(0.0) }
    }

    /// What could be run within `slice_ms`, since no request runs on more than one core.
    #[must_use]
    pub fn runnable_core_ms(&self, slice_ms: f64) -> f64 {
        if self.waiting.len() > EXACT_UP_TO {
            return self.work_core_ms();
        }
        let end_core_ms = self.served_core_ms + slice_ms;
        let runnable = |request: &Request| request.due_core_ms.min(end_core_ms);
        self.waiting.iter().map(|request| runnable(request) - self.served_core_ms).sum()
    }

    /// Runs up to `budget_core_ms` in a slice of `slice_ms` from `from_ms` on, on up to `cores`
    /// cores. Each finished request's latency goes to `done`, in milliseconds. Says what was run.
    pub fn run(
        &mut self,
        from_ms: f64,
        slice_ms: f64,
        cores: f64,
        budget_core_ms: f64,
        mut done: impl FnMut(f64),
    ) -> f64 {
        let mut left = budget_core_ms;
        let mut now_ms = from_ms;
        let end_ms = from_ms + slice_ms;
        while let Some(next) = self.waiting.peek() {
            let in_progress = count(self.waiting.len());
            let each_cores = (cores / in_progress).min(1.0);
            let needed = next.due_core_ms - self.served_core_ms;
            let possible = ((end_ms - now_ms) * each_cores).min(left / in_progress).max(0.0);
            if needed > possible + 1e-9 {
                self.served_core_ms += possible;
                self.work_core_ms -= possible * in_progress;
                return budget_core_ms - left + possible * in_progress;
            }
            now_ms = (now_ms + needed / each_cores).min(end_ms);
            left -= needed * in_progress;
            self.served_core_ms = next.due_core_ms;
            self.work_core_ms -= needed * in_progress;
            done(now_ms - next.arrived_ms);
            self.waiting.pop();
        }
        // Nothing is left, so nothing of what rounding left over may stay either.
        self.work_core_ms = 0.0;
        self.served_core_ms = 0.0;
        budget_core_ms - left.max(0.0)
    }
}

/// Up to this many requests, what can be run in a slice is worked out request by request. A longer
/// queue has more to run than there are cores.
const EXACT_UP_TO: usize = 256;

#[expect(clippy::cast_precision_loss, reason = "a queue is shorter than 2^53")]
fn count(requests: usize) -> f64 {
    requests as f64
}

impl Ord for Request {
    /// The heap's greatest is the next one due.
    fn cmp(&self, other: &Self) -> Ordering {
        other.due_core_ms.total_cmp(&self.due_core_ms).then(other.number.cmp(&self.number))
    }
}

impl PartialOrd for Request {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Request {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Request {}

#[cfg(test)]
mod tests {
    use super::*;

    fn latencies(queue: &mut Queue, from_ms: f64, got: f64) -> Vec<f64> {
        let mut done = Vec::new();
        queue.run(from_ms, 10.0, 4.0, got, |latency| done.push(latency));
        done
    }

    #[test]
    fn a_lone_request_runs_at_one_core_at_most() {
        let mut queue = Queue::default();
        queue.arrived(0.0, 5.0, 1);
        assert_eq!(latencies(&mut queue, 0.0, 40.0), [5.0]);
        assert_eq!(queue.work_core_ms(), 0.0);
    }

    #[test]
    fn two_requests_share_what_there_is() {
        let mut queue = Queue::default();
        queue.arrived(0.0, 2.0, 1);
        queue.arrived(0.0, 6.0, 2);
        assert_eq!(queue.runnable_core_ms(10.0), 8.0);
        // One core for both: the first is done after 4 ms, the second has had 2 by then and gets
        // the whole core from there on.
        let mut done = Vec::new();
        let ran = queue.run(0.0, 10.0, 1.0, 10.0, |latency| done.push(latency));
        assert_eq!((done, ran), (vec![4.0, 8.0], 8.0));
    }

    #[test]
    fn what_one_request_cannot_use_is_not_run() {
        let mut queue = Queue::default();
        queue.arrived(0.0, 1.0, 1);
        queue.arrived(0.0, 25.0, 2);
        assert_eq!(queue.runnable_core_ms(10.0), 11.0);
        let ran = queue.run(0.0, 10.0, 4.0, 26.0, |_| {});
        assert!((ran - 11.0).abs() < 1e-9, "{ran}");
    }

    #[test]
    fn work_that_is_not_done_stays() {
        let mut queue = Queue::default();
        queue.arrived(0.0, 30.0, 1);
        assert!(latencies(&mut queue, 0.0, 10.0).is_empty());
        assert!((queue.work_core_ms() - 20.0).abs() < 1e-9);
        assert!(latencies(&mut queue, 10.0, 10.0).is_empty());
        assert_eq!(latencies(&mut queue, 20.0, 10.0), [30.0]);
    }
}
