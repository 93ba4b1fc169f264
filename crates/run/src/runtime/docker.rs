//! Docker, and whatever speaks its Engine API, over its socket.
//!
//! A container is named after its workload and has the labels `persys.managed`,
//! `persys.workload_id` and `persys.revision_id`; nothing without them is touched. Named volumes
//! are never removed. What the market should know is in labels that the host reads when it adopts
//! containers.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bollard::errors::Error;
use bollard::models::{
    ContainerCreateBody, ContainerStateStatusEnum, HealthConfig, HealthStatusEnum, HostConfig,
    HostConfigLogConfig, Mount as DockerMount, MountType, PortBinding, RestartPolicy,
    RestartPolicyNameEnum,
};
use bollard::query_parameters::{
    CreateContainerOptions, CreateImageOptions, EventsOptions, ListContainersOptions, LogsOptions,
    RemoveContainerOptions, StopContainerOptions,
};
use bollard::{API_DEFAULT_VERSION, Docker as Engine};
use futures_util::future::BoxFuture;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use tokio::time;
use walras_core::run::{
    Container, Fault, FaultKind, Health, Instance, InstanceState, Op, Protocol, Restart, Source,
    Work, WorkloadId,
};

use super::{Job, Runtime, RuntimeEvents, RuntimeLogs};

const MANAGED: &str = "persys.managed";
const WORKLOAD: &str = "persys.workload_id";
const REVISION: &str = "persys.revision_id";
/// What a container has before its first start.
const NEVER: &str = "0001-01-01T00:00:00Z";
/// How long a question may take.
const ANSWER: Duration = Duration::from_secs(10);
/// How long a container has to end by itself, in seconds.
const STOP_KINDLY_S: i32 = 30;
/// So many containers are asked about at once.
const AT_ONCE: usize = 8;

/// Docker behind a socket.
#[derive(Debug)]
pub struct Docker {
    socket: PathBuf,
    engine: Mutex<Option<Engine>>,
}

impl Docker {
    /// The Docker behind `socket`. It need not be there yet.
    #[must_use]
    pub fn new(socket: &Path) -> Self {
        Self { socket: socket.to_owned(), engine: Mutex::new(None) }
    }

    /// A connection, made anew where there is none.
    async fn engine(&self) -> Result<Engine, Fault> {
        if let Some(engine) = self.kept().clone() {
            return Ok(engine);
        }
        let silent = |error: &dyn std::fmt::Display| {
            Fault::new(FaultKind::Silent, format!("{}: {error}", self.socket.display()))
        };
        let longest = 2 * patience(Op::Prepare).as_secs();
        let path = self.socket.to_string_lossy();
        let engine = Engine::connect_with_unix(&path, longest, API_DEFAULT_VERSION);
        let engine = engine.map_err(|error| silent(&error))?;
        let agreed = time::timeout(ANSWER, engine.negotiate_version()).await;
        let engine = agreed.map_err(|error| silent(&error))?.map_err(|error| silent(&error))?;
        *self.kept() = Some(engine.clone());
        Ok(engine)
    }

    fn kept(&self) -> MutexGuard<'_, Option<Engine>> {
        self.engine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What an error means for what was tried. A silent engine may be another one when it is back.
    fn fault(&self, error: &Error, tried: Tried) -> Fault {
        let kind = kind(error, tried);
        if kind == FaultKind::Silent {
            *self.kept() = None;
        }
        Fault::new(kind, error.to_string())
    }

    /// Asks something that is answered soon, or the engine counts as silent.
    async fn soon<T>(&self, question: impl Future<Output = Result<T, Error>>) -> Result<T, Fault> {
        match time::timeout(ANSWER, question).await {
            Ok(answer) => answer.map_err(|error| self.fault(&error, Tried::Question)),
            Err(_) => {
                *self.kept() = None;
                let words = format!("no answer within {} s", ANSWER.as_secs());
                Err(Fault::new(FaultKind::Silent, words))
            }
        }
    }

    async fn prepare(&self, engine: &Engine, image: &str) -> Result<(), Fault> {
        match engine.inspect_image(image).await {
            Ok(_) => return Ok(()),
            Err(Error::DockerResponseServerError { status_code: 404, .. }) => {}
            Err(error) => return Err(self.fault(&error, Tried::Question)),
        }
        let (name, tag) = name_and_tag(image);
        let options = CreateImageOptions {
            from_image: Some(name.to_owned()),
            tag: Some(tag.to_owned()),
            ..Default::default()
        };
        let pulled = engine.create_image(Some(options), None, None);
        let pulled = pulled.try_for_each(|_| std::future::ready(Ok(()))).await;
        pulled.map_err(|error| self.fault(&error, Tried::Pull))
    }

    async fn create(&self, engine: &Engine, job: Job<'_>) -> Result<(), Fault> {
        let Work::Container(container) = &job.spec.work;
        let name = Some(job.id.to_string());
        let options = CreateContainerOptions { name, ..Default::default() };
        let created = engine.create_container(Some(options), body(job, container)).await;
        created.map(|_| ()).map_err(|error| self.fault(&error, Tried::Create))
    }

    async fn start(&self, engine: &Engine, instance: &Instance) -> Result<(), Fault> {
        let started = if instance.state == InstanceState::Paused {
            engine.unpause_container(&instance.handle).await
        } else {
            engine.start_container(&instance.handle, None).await
        };
        already(started).map_err(|error| self.fault(&error, Tried::Start))
    }

    async fn stop(&self, engine: &Engine, instance: &Instance) -> Result<(), Fault> {
        if instance.state == InstanceState::Paused {
            let unpaused = engine.unpause_container(&instance.handle).await;
            gone(unpaused).map_err(|error| self.fault(&error, Tried::Clear))?;
        }
        let options = StopContainerOptions { t: Some(STOP_KINDLY_S), ..Default::default() };
        let stopped = engine.stop_container(&instance.handle, Some(options)).await;
        gone(already(stopped)).map_err(|error| self.fault(&error, Tried::Clear))
    }

    async fn remove(&self, engine: &Engine, instance: &Instance) -> Result<(), Fault> {
        // Anonymous volumes go with their container; named ones stay.
        let options = RemoveContainerOptions { v: true, ..Default::default() };
        let removed = engine.remove_container(&instance.handle, Some(options)).await;
        gone(removed).map_err(|error| self.fault(&error, Tried::Clear))
    }

    async fn carry_out(&self, job: Job<'_>) -> Result<(), Fault> {
        let engine = self.engine().await?;
        let Work::Container(container) = &job.spec.work;
        match job.op {
            Op::Prepare => return self.prepare(&engine, &container.image).await,
            Op::Create => return self.create(&engine, job).await,
            Op::Start | Op::Stop | Op::Remove => {}
        }
        for instance in job.instances {
            match job.op {
                Op::Start => self.start(&engine, instance).await?,
                Op::Stop => self.stop(&engine, instance).await?,
                Op::Remove => self.remove(&engine, instance).await?,
                Op::Prepare | Op::Create => {}
            }
        }
        Ok(())
    }

    /// The containers with a label, each as it is.
    async fn found(&self, label: String) -> Result<Vec<(WorkloadId, Instance)>, Fault> {
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
    ) -> Result<Option<(WorkloadId, Instance)>, Fault> {
        let Some(handle) = handle else { return Ok(None) };
        let inspected = match self.soon(engine.inspect_container(&handle, None)).await {
            Ok(inspected) => inspected,
            Err(fault) if fault.kind == FaultKind::NotFound => return Ok(None),
            Err(fault) => return Err(fault),
        };
        let labels = inspected.config.and_then(|config| config.labels).unwrap_or_default();
        let id = labels.get(WORKLOAD).and_then(|id| WorkloadId::new(id).ok());
        let Some(id) = id else { return Ok(None) };
        let state = inspected.state.unwrap_or_default();
        let started = state.started_at.filter(|at| at != NEVER).unwrap_or_default();
        let health = state.health.and_then(|health| health.status).and_then(well);
        let code = state.exit_code.unwrap_or(-1);
        let instance = Instance {
            handle,
            revision: labels.get(REVISION).cloned().unwrap_or_default(),
            started,
            state: what_it_does(state.status, code),
            health,
        };
        Ok(Some((id, instance)))
    }
}

impl Runtime for Docker {
    fn name(&self) -> &'static str {
        "docker"
    }

    fn ping(&self) -> BoxFuture<'_, Result<(), Fault>> {
        Box::pin(async {
            let engine = self.engine().await?;
            self.soon(engine.ping()).await.map(|_| ())
        })
    }

    fn act<'a>(&'a self, job: Job<'a>) -> BoxFuture<'a, Result<(), Fault>> {
        Box::pin(async move {
            let patience = patience(job.op);
            let done = time::timeout(patience, self.carry_out(job)).await;
            done.unwrap_or_else(|_| {
                let words = format!("{} took longer than {} s", job.op, patience.as_secs());
                Err(Fault::new(FaultKind::Timeout, words))
            })
        })
    }

    fn look<'a>(&'a self, id: &'a WorkloadId) -> BoxFuture<'a, Result<Vec<Instance>, Fault>> {
        Box::pin(async move {
            let found = self.found(format!("{WORKLOAD}={id}")).await?;
            Ok(found.into_iter().map(|(_, instance)| instance).collect())
        })
    }

    fn list(&self) -> BoxFuture<'_, Result<BTreeMap<WorkloadId, Vec<Instance>>, Fault>> {
        Box::pin(async {
            let mut all: BTreeMap<WorkloadId, Vec<Instance>> = BTreeMap::new();
            for (id, instance) in self.found(WORKLOAD.to_owned()).await? {
                all.entry(id).or_default().push(instance);
            }
            Ok(all)
        })
    }

    fn events(&self) -> RuntimeEvents<'_> {
        let heard = async move {
            let engine = self.engine().await?;
            let what = ["start", "die", "destroy", "pause", "unpause", "oom", "health_status"];
            let filters = [
                ("type".to_owned(), vec!["container".to_owned()]),
                ("label".to_owned(), vec![format!("{MANAGED}=true")]),
                ("event".to_owned(), what.map(str::to_owned).to_vec()),
            ];
            let filters = Some(filters.into_iter().collect());
            let options = EventsOptions { filters, ..Default::default() };
            let events = engine.events(Some(options));
            let named = events.filter_map(move |event| async move {
                let event = match event {
                    Ok(event) => event,
                    Err(error) => return Some(Err(self.fault(&error, Tried::Question))),
                };
                let labels = event.actor.and_then(|actor| actor.attributes)?;
                WorkloadId::new(labels.get(WORKLOAD)?).ok().map(Ok)
            });
            Ok(named)
        };
        Box::pin(stream::once(heard).try_flatten())
    }

    fn logs<'a>(&'a self, handle: &'a str, tail: u32, follow: bool) -> RuntimeLogs<'a> {
        let told = async move {
            let engine = self.engine().await?;
            let options = LogsOptions {
                follow,
                stdout: true,
                stderr: true,
                tail: tail.to_string(),
                ..Default::default()
            };
            let lines = engine.logs(handle, Some(options));
            let lines = lines.map_ok(|line| line.to_string());
            Ok(lines.map_err(|error| self.fault(&error, Tried::Question)))
        };
        Box::pin(stream::once(told).try_flatten())
    }
}

/// What was tried when an error came.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tried {
    Question,
    Pull,
    Create,
    Start,
    Clear,
}

/// How long an operation may take.
fn patience(op: Op) -> Duration {
    Duration::from_secs(match op {
        Op::Prepare => 600,
        Op::Create | Op::Start | Op::Remove => 60,
        Op::Stop => 60 + u64::from(STOP_KINDLY_S.unsigned_abs()),
    })
}

/// What an error of the client means, by its kind and code.
fn kind(error: &Error, tried: Tried) -> FaultKind {
    let Error::DockerResponseServerError { status_code, .. } = error else {
        return match (error, tried) {
            (Error::DockerStreamError { .. }, Tried::Pull) => FaultKind::ImagePull,
            (Error::RequestTimeoutError, _) => FaultKind::Timeout,
            (Error::JsonDataError { .. } | Error::JsonSerdeError { .. }, _) => FaultKind::Runtime,
            // Everything else is about the connection.
            _ => FaultKind::Silent,
        };
    };
    match (tried, status_code) {
        (Tried::Pull, 404) | (Tried::Create, 404) => FaultKind::ImageNotFound,
        (Tried::Pull, 400) => FaultKind::InvalidSpec,
        (Tried::Pull, _) => FaultKind::ImagePull,
        (Tried::Create, 409) => FaultKind::NameInUse,
        (Tried::Create | Tried::Start, 400 | 403) => FaultKind::InvalidSpec,
        (Tried::Question | Tried::Start | Tried::Clear, 404) => FaultKind::NotFound,
        (Tried::Question | Tried::Create | Tried::Start | Tried::Clear, _) => FaultKind::Runtime,
    }
}

/// What is so already is as good as done.
fn already(result: Result<(), Error>) -> Result<(), Error> {
    match result {
        Err(Error::DockerResponseServerError { status_code: 304, .. }) => Ok(()),
        other => other,
    }
}

/// What is gone needs no stopping and no removing.
fn gone(result: Result<(), Error>) -> Result<(), Error> {
    match result {
        Err(Error::DockerResponseServerError { status_code: 404, .. }) => Ok(()),
        other => other,
    }
}

/// An image without a tag is the latest one, and not all of them.
fn name_and_tag(image: &str) -> (&str, &str) {
    if let Some((name, digest)) = image.split_once('@') {
        return (name, digest);
    }
    match image.rsplit_once(':') {
        // The colon of a registry's port comes before a slash.
        Some((name, tag)) if !tag.contains('/') => (name, tag),
        Some(_) | None => (image, "latest"),
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

/// What to tell the engine to make.
fn body(job: Job<'_>, container: &Container) -> ContainerCreateBody {
    let words = |words: &[String]| (!words.is_empty()).then(|| words.to_vec());
    let both = container.env.iter().chain(job.secrets);
    let env: Vec<String> = both.map(|(name, value)| format!("{name}={value}")).collect();
    let exposed: Vec<String> = container.ports.iter().map(port_name).collect();
    ContainerCreateBody {
        image: Some(container.image.clone()),
        entrypoint: words(&container.command),
        cmd: words(&container.args),
        env: Some(env),
        exposed_ports: Some(exposed),
        labels: Some(labels(job, container).into_iter().collect()),
        healthcheck: container.health.as_ref().map(|health| {
            let ns = |span: walras_core::units::Span| {
                i64::try_from(span.as_us().saturating_mul(1000)).unwrap_or(i64::MAX)
            };
            let test = core::iter::once("CMD".to_owned()).chain(health.command.iter().cloned());
            HealthConfig {
                test: Some(test.collect()),
                interval: Some(ns(health.interval)),
                timeout: Some(ns(health.timeout)),
                retries: Some(health.retries.into()),
                start_period: Some(ns(health.start_period)),
                start_interval: None,
            }
        }),
        host_config: Some(host_config(container)),
        ..Default::default()
    }
}

fn labels(job: Job<'_>, container: &Container) -> BTreeMap<String, String> {
    let mut labels = container.labels.clone();
    labels.insert(MANAGED.to_owned(), "true".to_owned());
    labels.insert(WORKLOAD.to_owned(), job.id.to_string());
    labels.insert(REVISION.to_owned(), job.spec.revision.to_string());
    let resources = &container.resources;
    for (name, cpu) in [("min-cpu", resources.cpu_min), ("max-cpu", resources.cpu_max)] {
        if let Some(cpu) = cpu {
            labels.insert(format!("walras.dev/{name}"), format!("{}m", cpu.get()));
        }
    }
    labels
}

fn host_config(container: &Container) -> HostConfig {
    let bytes = |bytes: walras_core::units::Bytes| i64::try_from(bytes.get()).unwrap_or(i64::MAX);
    let resources = &container.resources;
    let bindings = container.ports.iter().map(|port| {
        let host = PortBinding { host_ip: None, host_port: Some(port.host.to_string()) };
        (port_name(port), Some(vec![host]))
    });
    let mounts = container.mounts.iter().map(|mount| {
        let (typ, source) = match &mount.source {
            Source::Path(path) => (MountType::BIND, path),
            Source::Volume(name) => (MountType::VOLUME, name),
        };
        DockerMount {
            target: Some(mount.path.clone()),
            source: Some(source.clone()),
            typ: Some(typ),
            read_only: Some(mount.read_only),
            ..Default::default()
        }
    });
    let (name, retries) = match container.restart {
        Restart::No => (RestartPolicyNameEnum::NO, None),
        Restart::OnFailure { retries } => (RestartPolicyNameEnum::ON_FAILURE, Some(retries.into())),
        // With `always`, Docker would start what we stopped when it starts itself.
        Restart::Always => (RestartPolicyNameEnum::UNLESS_STOPPED, None),
    };
    let bounds = [("max-size", "10m"), ("max-file", "3")];
    let bounds = bounds.map(|(name, value)| (name.to_owned(), value.to_owned()));
    HostConfig {
        cpu_shares: resources.cpu_shares.map(Into::into),
        memory: resources.memory.map(bytes),
        memory_swap: resources.memory_swap.map(bytes),
        mounts: Some(mounts.collect()),
        port_bindings: Some(bindings.collect()),
        restart_policy: Some(RestartPolicy { name: Some(name), maximum_retry_count: retries }),
        log_config: Some(HostConfigLogConfig {
            typ: Some("json-file".to_owned()),
            config: Some(bounds.into_iter().collect()),
        }),
        ..Default::default()
    }
}

fn port_name(port: &walras_core::run::Port) -> String {
    let protocol = match port.protocol {
        Protocol::Tcp => "tcp",
        Protocol::Udp => "udp",
    };
    format!("{}/{protocol}", port.container)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_split_at_its_tag_and_not_at_a_port() {
        for (image, expected) in [
            ("nginx", ("nginx", "latest")),
            ("nginx:1.27", ("nginx", "1.27")),
            ("host:5000/nginx", ("host:5000/nginx", "latest")),
            ("host:5000/nginx:1", ("host:5000/nginx", "1")),
            ("nginx@sha256:ab", ("nginx", "sha256:ab")),
        ] {
            assert_eq!(name_and_tag(image), expected, "{image}");
        }
    }

    #[test]
    fn faults_are_told_by_code_and_by_what_was_tried() {
        let answer = |status_code| Error::DockerResponseServerError {
            status_code,
            message: "container import report not found".to_owned(),
        };
        for (tried, code, expected) in [
            (Tried::Pull, 404, FaultKind::ImageNotFound),
            (Tried::Pull, 500, FaultKind::ImagePull),
            (Tried::Create, 404, FaultKind::ImageNotFound),
            (Tried::Create, 409, FaultKind::NameInUse),
            (Tried::Create, 400, FaultKind::InvalidSpec),
            (Tried::Start, 404, FaultKind::NotFound),
            (Tried::Start, 500, FaultKind::Runtime),
            (Tried::Clear, 500, FaultKind::Runtime),
        ] {
            assert_eq!(kind(&answer(code), tried), expected, "{code}");
        }
        assert_eq!(kind(&Error::RequestTimeoutError, Tried::Start), FaultKind::Timeout);
    }

    #[tokio::test]
    async fn an_engine_that_is_not_there_is_silent() {
        let docker = Docker::new(Path::new("/nowhere/docker.sock"));
        assert_eq!(docker.ping().await.unwrap_err().kind, FaultKind::Silent);
        let id = WorkloadId::new("a").unwrap();
        assert_eq!(docker.look(&id).await.unwrap_err().kind, FaultKind::Silent);
        let event = docker.events().next().await.unwrap();
        assert_eq!(event.unwrap_err().kind, FaultKind::Silent);
    }
}
