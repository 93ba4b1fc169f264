//! Docker, and whatever speaks its Engine API, over its socket.
//!
//! A container is named after its workload and has the labels `persys.managed`,
//! `persys.workload_id` and `persys.revision_id`; nothing without them is touched. Named volumes
//! are removed only where their workload says so and is deleted. What the market should know is in
//! labels that the host reads when it adopts containers.

mod faults;
mod images;
mod make;
mod pull;
mod secrets;
mod seen;
mod talk;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bollard::errors::Error;
use bollard::models::{ContainerUpdateBody, NetworkConnectRequest, NetworkCreateRequest};
use bollard::query_parameters::{
    CreateContainerOptions, EventsOptions, RemoveContainerOptions, RemoveVolumeOptions,
    StopContainerOptions,
};
use bollard::{API_DEFAULT_VERSION, Docker as Engine};
use futures_util::future::BoxFuture;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use tokio::sync::mpsc;
use tokio::time;
use walras_core::run::{
    Container, Fault, FaultKind, Instance, InstanceState, Op, Source, Spec, Work, WorkloadId,
};

use self::faults::{Tried, already, gone, kind};
use self::secrets::SecretFiles;
use super::{Job, Part, Runtime, RuntimeEvents, RuntimeLogs, RuntimeOutput};

pub use self::images::Unneeded;
pub(super) use self::seen::Seen;

pub(super) const MANAGED: &str = "persys.managed";
pub(super) const WORKLOAD: &str = "persys.workload_id";
pub(super) const REVISION: &str = "persys.revision_id";
/// What containers of compose projects have beside that.
pub(super) const KIND: &str = "persys.kind";
/// How many services a project has, so that a missing one is noticed.
pub(super) const SERVICES: &str = "persys.services";
/// How long a question may take.
const ANSWER: Duration = Duration::from_secs(10);
/// How long a container has to end by itself, in seconds.
const STOP_KINDLY_S: i32 = 30;

/// Where Docker is, and what belongs to it.
#[derive(Clone, Debug)]
pub struct DockerOptions {
    /// Its socket. It need not be there yet.
    pub socket: PathBuf,
    /// A file with credentials of registries, as `docker login` writes it.
    pub registry_auth: Option<PathBuf>,
    /// A folder in memory for secrets that are files.
    pub secrets_dir: PathBuf,
}

/// Docker behind a socket.
#[derive(Debug)]
pub struct Docker {
    options: DockerOptions,
    files: SecretFiles,
    engine: Mutex<Option<Engine>>,
}

impl Docker {
    /// The Docker behind a socket.
    #[must_use]
    pub fn new(options: DockerOptions) -> Self {
        let files = SecretFiles::new(&options.secrets_dir);
        Self { options, files, engine: Mutex::new(None) }
    }

    pub(super) fn socket(&self) -> &std::path::Path {
        &self.options.socket
    }

    /// A connection, made anew where there is none.
    pub(super) async fn engine(&self) -> Result<Engine, Fault> {
        if let Some(engine) = self.kept().clone() {
            return Ok(engine);
        }
        let silent = |error: &dyn std::fmt::Display| {
            Fault::new(FaultKind::Silent, format!("{}: {error}", self.options.socket.display()))
        };
        let longest = 2 * patience(Op::Prepare).as_secs();
        let path = self.options.socket.to_string_lossy();
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

    /// Fetches an image, if it is not here.
    pub(super) async fn prepare(
        &self,
        image: &str,
        progress: &(dyn Fn(&str) + Send + Sync),
    ) -> Result<(), Fault> {
        let engine = self.engine().await?;
        self.fetch(&engine, image, progress).await
    }

    async fn create(
        &self,
        engine: &Engine,
        job: Job<'_>,
        container: &Container,
    ) -> Result<(), Fault> {
        if container.secrets_as_files && !job.secrets.is_empty() {
            self.files.write(job.id, job.secrets)?;
        }
        for network in &container.networks {
            self.make_network(engine, network).await?;
        }
        let name = Some(job.id.to_string());
        let options = CreateContainerOptions { name, ..Default::default() };
        let body = make::body(job, container, &self.files);
        let created = engine.create_container(Some(options), body).await;
        if created.is_err() {
            // Nobody reads them; the next try writes them again.
            self.files.remove(job.id)?;
        }
        created.map(|_| ()).map_err(|error| self.fault(&error, Tried::Create))
    }

    /// Makes a bridge, if there is none of that name.
    async fn make_network(&self, engine: &Engine, name: &str) -> Result<(), Fault> {
        match engine.inspect_network(name, None).await {
            Ok(_) => return Ok(()),
            Err(Error::DockerResponseServerError { status_code: 404, .. }) => {}
            Err(error) => return Err(self.fault(&error, Tried::Network)),
        }
        let labels = [(MANAGED.to_owned(), "true".to_owned())];
        let request = NetworkCreateRequest {
            name: name.to_owned(),
            driver: Some("bridge".to_owned()),
            labels: Some(labels.into_iter().collect()),
            ..Default::default()
        };
        match engine.create_network(request).await {
            // Another workload of the same network was faster.
            Ok(_) | Err(Error::DockerResponseServerError { status_code: 409, .. }) => Ok(()),
            Err(error) => Err(self.fault(&error, Tried::Network)),
        }
    }

    /// Connects what is not connected yet: a container is made with one network only.
    async fn connect(
        &self,
        engine: &Engine,
        container: &Container,
        handle: &str,
    ) -> Result<(), Fault> {
        if container.networks.len() < 2 {
            return Ok(());
        }
        let inspected = self.soon(engine.inspect_container(handle, None)).await?;
        let there = inspected.network_settings.and_then(|it| it.networks).unwrap_or_default();
        for network in container.networks.iter().filter(|name| !there.contains_key(*name)) {
            let request =
                NetworkConnectRequest { container: handle.to_owned(), endpoint_config: None };
            let connected = engine.connect_network(network, request).await;
            connected.map_err(|error| self.fault(&error, Tried::Network))?;
        }
        Ok(())
    }

    async fn start(&self, engine: &Engine, job: Job<'_>, instance: &Instance) -> Result<(), Fault> {
        if let Work::Container(container) = &job.spec.work {
            self.connect(engine, container, &instance.handle).await?;
            if container.secrets_as_files && !self.files.has(job.id, &job.spec.secrets) {
                self.rewrite_secrets(job)?;
            }
        }
        let started = if instance.state == InstanceState::Paused {
            engine.unpause_container(&instance.handle).await
        } else {
            engine.start_container(&instance.handle, None).await
        };
        already(started).map_err(|error| self.fault(&error, Tried::Start))
    }

    /// A machine that restarted has forgotten what was in memory.
    fn rewrite_secrets(&self, job: Job<'_>) -> Result<(), Fault> {
        if job.spec.secrets.iter().all(|name| job.secrets.contains_key(name)) {
            return self.files.write(job.id, job.secrets);
        }
        let words = "its secrets were in memory and are gone; apply it again with them";
        Err(Fault::new(FaultKind::Storage, words))
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
        let Work::Container(container) = &job.spec.work else {
            return Err(self.cannot("run anything but containers"));
        };
        match job.op {
            Op::Prepare => return self.fetch(&engine, &container.image, job.progress).await,
            Op::Create => return self.create(&engine, job, container).await,
            Op::Start | Op::Stop | Op::Remove => {}
        }
        for instance in job.instances {
            match job.op {
                Op::Start => self.start(&engine, job, instance).await?,
                Op::Stop => self.stop(&engine, instance).await?,
                Op::Remove => self.remove(&engine, instance).await?,
                Op::Prepare | Op::Create => {}
            }
        }
        if job.op == Op::Remove {
            self.files.remove(job.id)?;
        }
        Ok(())
    }

    /// Removes the volumes that were to go with a workload. One in use by another stays.
    async fn remove_volumes(&self, container: &Container) -> Result<(), Fault> {
        let goes = container.mounts.iter().filter(|mount| mount.goes_with_workload);
        for mount in goes {
            let Source::Volume(name) = &mount.source else { continue };
            let engine = self.engine().await?;
            let removed = engine.remove_volume(name, None::<RemoveVolumeOptions>).await;
            match gone(removed) {
                Err(Error::DockerResponseServerError { status_code: 409, .. }) => {
                    tracing::warn!("the volume {name} is in use by others, and stays");
                }
                other => other.map_err(|error| self.fault(&error, Tried::Clear))?,
            }
        }
        Ok(())
    }

    /// Puts a limit of CPU on record, which Docker writes to the container's group as well.
    pub(crate) async fn record_limit(
        &self,
        container: &str,
        quota_us: Option<u64>,
        period_us: u64,
    ) -> Result<(), Fault> {
        let engine = self.engine().await?;
        let whole = |us: u64| i64::try_from(us).unwrap_or(i64::MAX);
        let body = ContainerUpdateBody {
            // Docker's word for none; a zero would mean that nothing is said.
            cpu_quota: Some(quota_us.map_or(-1, whole)),
            cpu_period: (period_us > 0).then(|| whole(period_us)),
            ..Default::default()
        };
        self.soon(engine.update_container(container, body)).await
    }

    /// The one container of a workload.
    async fn handle_of(&self, part: Part<'_>) -> Result<String, Fault> {
        let mut found = self.look(part.id).await?;
        let none = || Fault::new(FaultKind::NotFound, "there is no container of it");
        found.pop().map(|instance| instance.handle).ok_or_else(none)
    }
}

impl Runtime for Docker {
    fn name(&self) -> &'static str {
        "docker"
    }

    fn takes(&self, work: &Work) -> bool {
        matches!(work, Work::Container(_))
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
            let own = found.into_iter().filter(|seen| seen.project.is_none());
            Ok(own.map(|seen| seen.instance).collect())
        })
    }

    fn list(&self) -> BoxFuture<'_, Result<BTreeMap<WorkloadId, Vec<Instance>>, Fault>> {
        Box::pin(async {
            let mut all: BTreeMap<WorkloadId, Vec<Instance>> = BTreeMap::new();
            let found = self.found(WORKLOAD.to_owned()).await?;
            for seen in found.into_iter().filter(|seen| seen.project.is_none()) {
                all.entry(seen.id).or_default().push(seen.instance);
            }
            Ok(all)
        })
    }

    fn events(&self) -> RuntimeEvents<'_> {
        self.events_of(false)
    }

    fn forget<'a>(
        &'a self,
        id: &'a WorkloadId,
        spec: &'a Spec,
    ) -> BoxFuture<'a, Result<(), Fault>> {
        Box::pin(async move {
            self.files.remove(id)?;
            match &spec.work {
                Work::Container(container) => self.remove_volumes(container).await,
                Work::Compose(_) | Work::Vm(_) | Work::Custom(_) => Ok(()),
            }
        })
    }

    fn logs<'a>(&'a self, part: Part<'a>, tail: u32, follow: bool) -> RuntimeLogs<'a> {
        let told = async move {
            let handle = self.handle_of(part).await?;
            Ok(self.logs_of(vec![(part.id.to_string(), handle)], tail, follow))
        };
        stream::once(told).try_flatten().boxed()
    }

    fn exec<'a>(
        &'a self,
        part: Part<'a>,
        command: Vec<String>,
        input: Option<mpsc::Receiver<Vec<u8>>>,
    ) -> RuntimeOutput<'a> {
        let told = async move {
            let handle = self.handle_of(part).await?;
            Ok(self.exec_in(handle, command, input))
        };
        stream::once(told).try_flatten().boxed()
    }
}

impl Docker {
    /// Tells of containers that are, or are not, of compose projects.
    pub(super) fn events_of(&self, projects: bool) -> RuntimeEvents<'_> {
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
                if labels.contains_key(KIND) != projects {
                    return None;
                }
                WorkloadId::new(labels.get(WORKLOAD)?).ok().map(Ok)
            });
            Ok(named)
        };
        Box::pin(stream::once(heard).try_flatten())
    }
}

/// How long an operation may take.
fn patience(op: Op) -> Duration {
    Duration::from_secs(match op {
        Op::Prepare => 600,
        Op::Create | Op::Start | Op::Remove => 60,
        Op::Stop => 60 + u64::from(STOP_KINDLY_S.unsigned_abs()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_engine_that_is_not_there_is_silent() {
        let docker = Docker::new(DockerOptions {
            socket: PathBuf::from("/nowhere/docker.sock"),
            registry_auth: None,
            secrets_dir: PathBuf::from("/nowhere"),
        });
        assert_eq!(docker.ping().await.unwrap_err().kind, FaultKind::Silent);
        let id = WorkloadId::new("a").unwrap();
        assert_eq!(docker.look(&id).await.unwrap_err().kind, FaultKind::Silent);
        let event = docker.events().next().await.unwrap();
        assert_eq!(event.unwrap_err().kind, FaultKind::Silent);
    }
}
