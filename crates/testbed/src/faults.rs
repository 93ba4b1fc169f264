//! Verbs that break a testbed, and mend it again.
//!
//! Each returns when what it says is so. They are for clusters of a test's own: whoever shares a
//! cluster would break it for others.

use std::time::Duration;

use anyhow::{Context, Result};
use rustix::process::Signal;

use crate::keeper::{self, Way};
use crate::node::Real;
use crate::plan::Part;
use crate::process::{self, Process};
use crate::proxy::Traffic;
use crate::testbed::Testbed;

impl Testbed {
    /// Asks the API server to end, and waits until it has. Requests then fail at once.
    ///
    /// # Errors
    ///
    /// If it is not running.
    pub fn stop_api_server(&self) -> Result<()> {
        self.part(Part::ApiServer)?.stop()
    }

    /// Starts the API server again, and waits until it is ready.
    ///
    /// # Errors
    ///
    /// If it does not start.
    pub fn start_api_server(&self) -> Result<()> {
        let api_server = self.start_part(Part::ApiServer)?;
        self.wait_for_api_server(api_server)
    }

    /// Kills the kubelet of the first node, as a crash would. Containers keep running.
    ///
    /// # Errors
    ///
    /// If it is not running.
    pub fn kill_kubelet(&self) -> Result<()> {
        self.part(Part::Kubelet)?.kill()
    }

    /// Starts the kubelet again, and waits until its node is ready.
    ///
    /// # Errors
    ///
    /// If it does not start.
    pub fn start_kubelet(&self) -> Result<()> {
        let kubelet = self.start_part(Part::Kubelet)?;
        self.wait_for_nodes(vec![(Real::First, kubelet)])
    }

    /// Stops etcd in its tracks: the API server can neither read nor write until it goes on.
    ///
    /// # Errors
    ///
    /// If it is not running.
    pub fn pause_etcd(&self) -> Result<()> {
        self.part(Part::Etcd)?.signal(Signal::STOP)
    }

    /// Lets etcd go on.
    ///
    /// # Errors
    ///
    /// If it is not running.
    pub fn resume_etcd(&self) -> Result<()> {
        self.part(Part::Etcd)?.signal(Signal::CONT)
    }

    /// Kills the scheduler, as a crash would.
    ///
    /// # Errors
    ///
    /// If it is not running.
    pub fn kill_scheduler(&self) -> Result<()> {
        self.part(Part::Scheduler)?.kill()
    }

    /// Starts the scheduler, with what `config/scheduler.json` in the testbed's folder says now.
    ///
    /// # Errors
    ///
    /// If it cannot be started.
    pub fn start_scheduler(&self) -> Result<()> {
        self.start_part(Part::Scheduler).map(drop)
    }

    /// Kills a part, as a crash would, and does not start it again.
    ///
    /// # Errors
    ///
    /// If it is not running.
    pub fn kill_part(&self, part: Part) -> Result<()> {
        self.part(part)?.kill()
    }

    /// Makes traffic on `way` arrive this much later, each way.
    ///
    /// # Errors
    ///
    /// If the keeper does not answer.
    pub fn delay_api_traffic(&self, way: Way, delay: Duration) -> Result<()> {
        keeper::order(&self.state.dir, way, Traffic::Late(delay))
    }

    /// Lets nothing arrive on `way`, and tells nobody, as a broken line would.
    ///
    /// # Errors
    ///
    /// If the keeper does not answer.
    pub fn drop_api_traffic(&self, way: Way) -> Result<()> {
        keeper::order(&self.state.dir, way, Traffic::Held)
    }

    /// Closes all connections on `way`, and new ones at once.
    ///
    /// # Errors
    ///
    /// If the keeper does not answer.
    pub fn cut_api_traffic(&self, way: Way) -> Result<()> {
        keeper::order(&self.state.dir, way, Traffic::Cut)
    }

    /// Lets traffic on `way` flow as usual.
    ///
    /// # Errors
    ///
    /// If the keeper does not answer.
    pub fn restore_api_traffic(&self, way: Way) -> Result<()> {
        keeper::order(&self.state.dir, way, Traffic::Flows)
    }

    fn part(&self, part: Part) -> Result<Process> {
        let found = process::find(&self.state.dir, part);
        found.with_context(|| format!("{} is not running", part.name()))
    }
}
