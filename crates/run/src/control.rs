//! Tells a control plane that wants to be told: that this host is there, and how its workloads are.
//!
//! When to tell what is decided by `walras_core::run::Member`; here it is carried out. Nothing of
//! the host waits for the control plane: workloads go on without one. A control plane can drain the
//! host, and end that; whoever else drained it, it stays drained.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio::time;
use tracing::{info, warn};
use walras_core::run::{Actual, FaultKind, Granted, Member, Remedy, Status, Tell, WorkloadId};
use walras_core::units::{Moment, Span};
use walras_rpc::control::{self, ControlClient};
use walras_rpc::control_plane::{
    FailureReason, HeartbeatRequest, NodeCapabilities, NodeUsage, ReasonDetail,
    RegisterNodeRequest, StoragePool, WorkloadStatus,
};
use walras_rpc::{CallError, Code, Refused, Target};

use crate::machine::{self, Machine};
use crate::manager::Manager;

/// Who drains the host when the control plane wants it.
const WHO: &str = "the control plane";

/// Which control plane, and who we are to it.
#[derive(Clone, Debug)]
pub struct ControlOptions {
    /// Where it is.
    pub target: Target,
    /// The name of this host.
    pub node: String,
    /// Where this host serves its API, as others reach it.
    pub endpoint: String,
    /// Which cluster it belongs to.
    pub cluster: String,
    /// What else is to be known of it.
    pub labels: BTreeMap<String, String>,
    /// The version that is told.
    pub version: String,
}

/// Goes on telling until it is dropped.
pub(crate) async fn tell(options: ControlOptions, manager: Arc<Manager>) {
    let mut teller = Teller {
        options,
        manager,
        machine: Machine::default(),
        began: Instant::now(),
        client: None,
        drained: false,
    };
    let mut member = Member::new();
    loop {
        let asked = match member.next(teller.now()) {
            Tell::Wait { until } => {
                let wait = until.since(teller.now());
                // A moment that is reached by then, whatever a clock rounds.
                time::sleep(Duration::from_micros(wait.as_us()) + Duration::from_millis(1)).await;
                continue;
            }
            Tell::Register => teller.register().await,
            Tell::Heartbeat => teller.heartbeat().await,
        };
        let failures = member.failures();
        match asked {
            Ok(granted) => member.answered(granted, teller.now()),
            Err(refused) => {
                teller.client = None;
                member.failed(teller.now());
                if let Tell::Wait { until } = member.next(teller.now()) {
                    let next_s = until.since(teller.now()).as_us().div_ceil(1_000_000);
                    warn!(next_s, "the control plane is not told: {refused}; workloads go on");
                }
            }
        }
        if failures > 0 && member.failures() == 0 {
            info!("the control plane is told again");
        }
    }
}

struct Teller {
    options: ControlOptions,
    manager: Arc<Manager>,
    machine: Machine,
    /// Time is counted from here, so that a clock that jumps changes nothing.
    began: Instant,
    client: Option<ControlClient>,
    /// Whether the control plane had the host drained.
    drained: bool,
}

impl Teller {
    fn now(&self) -> Moment {
        let since = self.began.elapsed().as_micros();
        Moment::from_us(u64::try_from(since).unwrap_or(u64::MAX))
    }

    async fn client(&mut self) -> Result<&mut ControlClient, Refused> {
        if self.client.is_none() {
            let reached = ControlClient::connect(&self.options.target).await;
            let client = reached.map_err(|error| match error {
                CallError::Refused(refused) => refused,
                CallError::Address(_) | CallError::Tls(_) => {
                    Refused { code: Code::Invalid, message: error.to_string() }
                }
            })?;
            self.client = Some(client);
        }
        let none = || Refused { code: Code::Failed, message: "there is no connection".to_owned() };
        self.client.as_mut().ok_or_else(none)
    }

    async fn register(&mut self) -> Result<Granted, Refused> {
        let request = self.registration();
        let answer = self.client().await?.register(request).await?;
        if answer.accepted {
            info!(node = self.options.node, "the control plane knows this host");
        } else {
            let reason: String = answer.reason.chars().take(200).collect();
            warn!("the control plane does not take this host: {reason}");
        }
        let interval = u64::try_from(answer.heartbeat_interval_seconds).ok().filter(|it| *it > 0);
        let lease = answer.lease_expires_at.map(|end| lasts(&end));
        Ok(Granted { accepted: answer.accepted, interval: interval.map(Span::from_s), lease })
    }

    async fn heartbeat(&mut self) -> Result<Granted, Refused> {
        let request = self.beat();
        let answer = self.client().await?.heartbeat(request).await?;
        if answer.acknowledged {
            self.drain(answer.drain_node);
        } else {
            warn!("the control plane no longer knows this host, which registers again");
        }
        let lease = answer.lease_expires_at.map(|end| lasts(&end));
        Ok(Granted { accepted: answer.acknowledged, interval: None, lease })
    }

    /// Does what the control plane says about draining, where it says something new.
    fn drain(&mut self, wanted: bool) {
        if wanted == self.drained {
            return;
        }
        match self.manager.drain(wanted, WHO) {
            Ok(()) => self.drained = wanted,
            // It is said again with the next answer.
            Err(error) => warn!("the control plane's wish to drain: {error}"),
        }
    }

    fn registration(&self) -> RegisterNodeRequest {
        let capacity = machine::capacity();
        let names = self.manager.runtime_names().into_iter();
        let types: BTreeSet<&str> = names.map(type_of).collect();
        let disk = machine::disk();
        RegisterNodeRequest {
            node_id: self.options.node.clone(),
            capabilities: Some(NodeCapabilities {
                cpu_total_millicores: signed(capacity.cpu.get()),
                memory_total_mb: signed(capacity.memory.get() >> 20),
                storage_pools: vec![StoragePool {
                    name: "local".to_owned(),
                    r#type: "local".to_owned(),
                    total_gb: signed(disk.total.get() >> 30),
                }],
                supported_workload_types: types.into_iter().map(str::to_owned).collect(),
                supported_storage_drivers: vec!["local".to_owned()],
            }),
            labels: self.options.labels.clone(),
            agent_version: self.options.version.clone(),
            grpc_endpoint: self.options.endpoint.clone(),
            cluster_id: self.options.cluster.clone(),
            timestamp: Some(control::timestamp(since_1970())),
        }
    }

    fn beat(&self) -> HeartbeatRequest {
        let (capacity, in_use, disk) =
            (machine::capacity(), self.machine.in_use(), machine::disk());
        let needs = self.manager.needs();
        HeartbeatRequest {
            node_id: self.options.node.clone(),
            usage: Some(NodeUsage {
                cpu_allocated_millicores: signed(needs.cpu.get()),
                cpu_used_millicores: part(in_use.cpu, capacity.cpu.get()),
                memory_allocated_mb: signed(needs.memory.get() >> 20),
                memory_used_mb: part(in_use.memory, capacity.memory.get() >> 20),
                // Nobody reserves disk here.
                disk_allocated_gb: 0,
                disk_used_gb: signed(disk.used.get() >> 30),
            }),
            workload_statuses: self
                .manager
                .list()
                .into_iter()
                .map(|(id, told)| status(&id, &told.status))
                .collect(),
            timestamp: Some(control::timestamp(since_1970())),
        }
    }
}

/// What a runtime runs, in the words of the control plane.
fn type_of(runtime: &str) -> &str {
    match runtime {
        "docker" => "container",
        "qemu" | "libvirt" => "vm",
        other => other,
    }
}

/// How a workload is, in the words of the control plane.
fn status(id: &WorkloadId, status: &Status) -> WorkloadStatus {
    let at = |moment: Moment| control::timestamp(Duration::from_millis(moment.as_ms_floor()));
    let state = match status.actual {
        Actual::Pending => "Pending",
        Actual::Running => "Running",
        Actual::Stopped => "Stopped",
        Actual::Failed => "Failed",
        Actual::Unknown => "Unknown",
    };
    let reason = status.fault.as_ref().map(|fault| ReasonDetail {
        code: fault.kind.code().to_owned(),
        message: fault.words.clone(),
        last_transition: Some(at(status.updated_at)),
        next_retry_at: status.retry_at.map(at),
        retryable: !status.terminal && fault.kind.remedy() != Remedy::Keep,
    });
    let failure = status.fault.as_ref().map_or(FailureReason::Unspecified, |it| why(it.kind));
    WorkloadStatus {
        workload_id: id.to_string(),
        state: state.to_owned(),
        failure_reason: failure.into(),
        message: status.message.clone(),
        last_transition: Some(at(status.updated_at)),
        reason,
    }
}

const fn why(kind: FaultKind) -> FailureReason {
    match kind {
        FaultKind::ImagePull => FailureReason::ImagePullFailed,
        FaultKind::ImageNotFound => FailureReason::ImageNotFound,
        FaultKind::InvalidSpec => FailureReason::InvalidSpec,
        FaultKind::Network | FaultKind::PortInUse => FailureReason::NetworkError,
        FaultKind::Storage => FailureReason::StorageError,
        FaultKind::NameInUse
        | FaultKind::NotFound
        | FaultKind::Runtime
        | FaultKind::Timeout
        | FaultKind::Silent
        | FaultKind::Exited
        | FaultKind::Unhealthy => FailureReason::RuntimeError,
    }
}

/// How long a lease is good for.
fn lasts(end: &walras_rpc::control::Time) -> Span {
    let left = control::remaining(end, since_1970()).as_micros();
    Span::from_us(u64::try_from(left).unwrap_or(u64::MAX))
}

fn since_1970() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// So many percent of a whole.
#[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "for people")]
fn part(percent: f64, whole: u64) -> i64 {
    (percent / 100.0 * whole as f64) as i64
}

#[cfg(test)]
mod tests {
    use super::*;
    use walras_core::run::{Desired, Fault, Revision};

    #[test]
    fn a_workload_is_told_with_its_state_and_why() {
        let at = Moment::from_ms(5_000);
        let mut told = Status {
            revision: Revision::new("7").unwrap(),
            failed_revision: None,
            desired: Desired::Running,
            actual: Actual::Failed,
            message: "there is no such image".to_owned(),
            fault: Some(Fault::new(FaultKind::ImageNotFound, "no such image")),
            terminal: true,
            attempts: 1,
            repairs: 0,
            retry_at: None,
            answered_at: Some(at),
            created_at: at,
            updated_at: at,
        };
        let id = WorkloadId::new("web").unwrap();
        let message = status(&id, &told);
        assert_eq!((&*message.workload_id, &*message.state), ("web", "Failed"));
        assert_eq!(message.failure_reason(), FailureReason::ImageNotFound);
        let reason = message.reason.unwrap();
        assert_eq!((&*reason.code, reason.retryable), ("IMAGE_NOT_FOUND", false));
        assert_eq!(message.last_transition.unwrap().seconds, 5);
        told.fault = Some(Fault::new(FaultKind::Network, "no route"));
        (told.terminal, told.retry_at) = (false, Some(Moment::from_ms(9_000)));
        let reason = status(&id, &told).reason.unwrap();
        assert!(reason.retryable);
        assert_eq!(reason.next_retry_at.unwrap().seconds, 9);
        (told.fault, told.actual) = (None, Actual::Running);
        let message = status(&id, &told);
        assert_eq!((message.failure_reason(), message.reason), (FailureReason::Unspecified, None));
    }
}
