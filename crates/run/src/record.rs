//! Keeps what Docker has on record about the limits of our containers in step with the market.
//!
//! Docker has a record of its own, which it tells people and applies when a container starts again.
//! Which record is due, and that the market's value holds whatever Docker writes, is the host's
//! business ([`LimitRecords`]); here Docker is told. One that does not answer is told later.

use std::sync::Arc;
use std::time::Duration;

use tokio::time;
use tracing::debug;

use crate::runtime::Docker;

/// How often it is looked whether something is due.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// So many containers are told of at a look, one after another.
const AT_ONCE: usize = 4;

/// A limit that is to be put on record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitRecord {
    /// What the host knows the workload by.
    pub uid: String,
    /// What Docker knows it by.
    pub container: String,
    /// The quota, in microseconds; nothing where there is none.
    pub quota_us: Option<u64>,
    /// And its period.
    pub period_us: u64,
}

/// Whoever knows which records are due.
pub trait LimitRecords: Send + Sync {
    /// What is to be put on record now, at most so many.
    fn due(&self, most: usize) -> Vec<LimitRecord>;
    /// It was put on record, or could not be. What the market wants is in force afterwards.
    fn told(&self, uid: &str, done: bool);
    /// The containers that have something on record because of us.
    fn on_record(&self) -> Vec<String>;
}

/// Goes on until it is dropped.
pub(crate) async fn keep_in_step(docker: Arc<Docker>, records: Arc<dyn LimitRecords>) {
    let mut ticks = time::interval(LOOK_EVERY);
    ticks.set_missed_tick_behavior(time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        for due in records.due(AT_ONCE) {
            let done = docker.record_limit(&due.container, due.quota_us, due.period_us).await;
            if let Err(fault) = &done {
                debug!(workload = due.uid, "its limit is not on record: {fault}");
            }
            records.told(&due.uid, done.is_ok());
        }
    }
}

/// Says of every container that there is no limit of ours any more, as far as there is time.
pub(crate) async fn forget_all(docker: &Docker, records: &dyn LimitRecords) {
    for container in records.on_record() {
        if let Err(fault) = docker.record_limit(&container, None, 0).await {
            debug!(container, "its limit stays on record: {fault}");
        }
    }
}
