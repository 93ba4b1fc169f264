//! What Docker shows of the containers that are ours.

use bollard::Docker as Engine;
use bollard::models::{
    ContainerStateStatusEnum, HealthStatusEnum, HostConfig, RestartPolicyNameEnum,
};
use bollard::query_parameters::ListContainersOptions;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use walras_core::run::{Fault, FaultKind, Health, Instance, InstanceState, WorkloadId};

use super::{Docker, KIND, MANAGED, REVISION, SERVICES, WORKLOAD};

/// What a container has before its first start.
const NEVER: &str = "0001-01-01T00:00:00Z";
/// So many containers are asked about at once.
const AT_ONCE: usize = 8;
/// What compose puts on its containers.
const PROJECT: &str = "com.docker.compose.project";
const SERVICE: &str = "com.docker.compose.service";

/// One container of ours.
#[derive(Clone, Debug)]
pub(in crate::runtime) struct Seen {
    pub(in crate::runtime) id: WorkloadId,
    pub(in crate::runtime) instance: Instance,
    /// The compose project that it belongs to, if it was made for one.
    pub(in crate::runtime) project: Option<String>,
    /// Its service there.
    pub(in crate::runtime) service: String,
    /// How many services the project has.
    pub(in crate::runtime) services: Option<usize>,
    /// Whether Docker is to keep it running.
    pub(in crate::runtime) stays: bool,
}

impl Docker {
    /// The containers with a label, each as it is.
    pub(in crate::runtime) async fn found(&self, label: String) -> Result<Vec<Seen>, Fault> {
        let engine = self.engine().await?;
        let labels = vec![format!("{MANAGED}=true"), label];
        let filters = Some([("label".to_owned(), labels)].into_iter().collect());
        let options = ListContainersOptions { all: true, filters, ..Default::default() };
        let listed = self.soon(engine.list_containers(Some(options))).await?;
        let asked = stream::iter(listed).map(|summary| self.inspect(&engine, summary.id));
        let found: Vec<Option<_>> = asked.buffered(AT_ONCE).try_collect().await?;
        Ok(found.into_iter().flatten().collect())
    }

    /// One container; nothing if it went meanwhile, or has no id of ours.
    async fn inspect(
        &self,
        engine: &Engine,
        handle: Option<String>,
    ) -> Result<Option<Seen>, Fault> {
        let Some(handle) = handle else { return Ok(None) };
        let inspected = match self.soon(engine.inspect_container(&handle, None)).await {
            Ok(inspected) => inspected,
            Err(fault) if fault.kind == FaultKind::NotFound => return Ok(None),
            Err(fault) => return Err(fault),
        };
        let mut labels = inspected.config.and_then(|config| config.labels).unwrap_or_default();
        let id = labels.get(WORKLOAD).and_then(|id| WorkloadId::new(id).ok());
        let Some(id) = id else { return Ok(None) };
        let state = inspected.state.unwrap_or_default();
        let started = state.started_at.filter(|at| at != NEVER).unwrap_or_default();
        let health = state.health.and_then(|health| health.status).and_then(well);
        let code = state.exit_code.unwrap_or(-1);
        let instance = Instance {
            handle,
            revision: labels.remove(REVISION).unwrap_or_default(),
            started,
            state: what_it_does(state.status, code),
            health,
        };
        let stays = stays(inspected.host_config.as_ref());
        let service = labels.remove(SERVICE).unwrap_or_default();
        let project = labels.remove(PROJECT).filter(|_| labels.contains_key(KIND));
        let services = labels.get(SERVICES).and_then(|count| count.parse().ok());
        Ok(Some(Seen { id, instance, project, service, services, stays }))
    }
}

/// Whether Docker starts a container again whenever it ends.
fn stays(config: Option<&HostConfig>) -> bool {
    let policy = config.and_then(|config| config.restart_policy.as_ref()?.name);
    match policy {
        Some(RestartPolicyNameEnum::ALWAYS | RestartPolicyNameEnum::UNLESS_STOPPED) => true,
        Some(
            RestartPolicyNameEnum::EMPTY
            | RestartPolicyNameEnum::NO
            | RestartPolicyNameEnum::ON_FAILURE,
        )
        | None => false,
    }
}

fn what_it_does(status: Option<ContainerStateStatusEnum>, code: i64) -> InstanceState {
    match status {
        Some(ContainerStateStatusEnum::CREATED) => InstanceState::Created,
        Some(ContainerStateStatusEnum::RUNNING | ContainerStateStatusEnum::STOPPING) => {
            InstanceState::Running
        }
        Some(ContainerStateStatusEnum::PAUSED) => InstanceState::Paused,
        Some(ContainerStateStatusEnum::EXITED) => InstanceState::Exited { code },
        Some(ContainerStateStatusEnum::DEAD) => InstanceState::Broken,
        // What is on its way is looked at again.
        Some(
            ContainerStateStatusEnum::RESTARTING
            | ContainerStateStatusEnum::REMOVING
            | ContainerStateStatusEnum::EMPTY,
        )
        | None => InstanceState::Restarting,
    }
}

fn well(status: HealthStatusEnum) -> Option<Health> {
    match status {
        HealthStatusEnum::STARTING => Some(Health::Starting),
        HealthStatusEnum::HEALTHY => Some(Health::Healthy),
        HealthStatusEnum::UNHEALTHY => Some(Health::Unhealthy),
        HealthStatusEnum::EMPTY | HealthStatusEnum::NONE => None,
    }
}
