//! Several threads that take jobs one by one. Results come in the order of the jobs, whoever was
//! faster.

use std::num::NonZeroUsize;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Does all jobs on up to `threads` threads.
#[must_use]
pub fn all_done<Job: Sync, Done: Send>(
    jobs: &[Job],
    threads: NonZeroUsize,
    work: &(dyn Fn(&Job) -> Done + Sync),
) -> Vec<Done> {
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<(usize, Done)>> = Mutex::new(Vec::with_capacity(jobs.len()));
    thread::scope(|scope| {
        for _ in 0..threads.get().min(jobs.len()) {
            scope.spawn(|| {
                loop {
                    let place = next.fetch_add(1, Ordering::Relaxed);
                    let Some(job) = jobs.get(place) else {
                        return;
                    };
                    let result = work(job);
                    done.lock()
                        .expect("no thread panics while it holds this")
                        .push((place, result));
                }
            });
        }
    });
    let mut done = done.into_inner().expect("all threads are done");
    done.sort_by_key(|(place, _)| *place);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_the_order_of_the_jobs() {
        let jobs: Vec<u32> = (0..100).collect();
        for threads in [1, 3, 200] {
            let threads = NonZeroUsize::new(threads).unwrap();
            let squares = all_done(&jobs, threads, &|job| job * job);
            assert_eq!(squares, jobs.iter().map(|job| job * job).collect::<Vec<_>>());
        }
    }
}
