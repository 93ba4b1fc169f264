//! Compose projects, by the compose plugin of Docker.
//!
//! The plugin makes and starts; what is there is asked of Docker itself. A project is one instance:
//! its containers have the labels of the workload, which the host puts into the file. The file is
//! handed to the plugin with its variables filled in, on its standard input: so no secret is in a
//! file, and no variable of a workload in the plugin's environment. The file as it was written is
//! kept in a private folder, for people. Volumes are never removed.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use tokio::sync::mpsc;
use walras_core::run::{
    Compose, Fault, FaultKind, FieldFault, Health, Instance, InstanceState, Op, Policy, Spec, Work,
    WorkloadId,
};

use super::docker::{Docker, KIND, MANAGED, REVISION, SERVICES, Seen, WORKLOAD};
use super::program::{self, Ended};
use super::{Job, Part, Runtime, RuntimeEvents, RuntimeLogs, RuntimeOutput};

/// How long the plugin may take to say its version.
const ANSWER: Duration = Duration::from_secs(10);
/// How long any other call of it may take.
const PATIENCE: Duration = Duration::from_secs(300);
/// How long containers have to end by themselves, in seconds.
const STOP_KINDLY: &str = "30";
/// So much of what the plugin says is told.
const WORDS_MAX: usize = 600;

/// Compose projects on a Docker.
#[derive(Debug)]
pub struct ComposeRuntime {
    docker: Arc<Docker>,
    program: PathBuf,
    folder: PathBuf,
    policy: Policy,
}

impl ComposeRuntime {
    /// The plugin `program` with files in `folder`, on `docker`.
    #[must_use]
    pub fn new(docker: Arc<Docker>, program: PathBuf, folder: PathBuf, policy: Policy) -> Self {
        Self { docker, program, folder, policy }
    }

    /// Keeps the file as it was written, for whoever wants to know.
    fn keep(&self, id: &WorkloadId, compose: &Compose) -> io::Result<()> {
        let folder = self.folder.join(id.as_str());
        DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        let text = serde_json::to_string_pretty(&compose.file).unwrap_or_default();
        let mut options = OpenOptions::new();
        let options = options.write(true).create(true).truncate(true).mode(0o600);
        options.open(folder.join("compose.json"))?.write_all(text.as_bytes())
    }

    /// Runs the plugin. With a file, that is what it reads.
    async fn plugin(
        &self,
        project: &str,
        args: &[&str],
        file: Option<String>,
    ) -> Result<(), Fault> {
        let silent = |error: &dyn std::fmt::Display| {
            let words = format!("{}: it cannot be started: {error}", self.program.display());
            Fault::new(FaultKind::Silent, words)
        };
        fs::create_dir_all(&self.folder).map_err(|error| silent(&error))?;
        let mut command = self.command();
        command.args(["--project-name", project]);
        if file.is_some() {
            command.args(["--file", "-"]);
        }
        command.args(args);
        match program::run(command, file, PATIENCE).await {
            Ok(Ended { well: true, .. }) => Ok(()),
            Ok(Ended { errors, .. }) => Err(Fault::new(FaultKind::Runtime, last(errors.trim()))),
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                let words = format!("{} took longer than {} s", args[0], PATIENCE.as_secs());
                Err(Fault::new(FaultKind::Timeout, words))
            }
            Err(error) => Err(silent(&error)),
        }
    }

    /// The plugin with nothing of the host's environment.
    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        if self.program.file_name().is_some_and(|name| name == "docker") {
            command.arg("compose");
        }
        command
            .env_clear()
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .env("HOME", &self.folder)
            .env("DOCKER_CONFIG", &self.folder)
            .env("DOCKER_HOST", format!("unix://{}", self.docker.socket().display()))
            .env("COMPOSE_PROGRESS", "quiet")
            .current_dir(&self.folder);
        command
    }

    async fn carry_out(&self, job: Job<'_>) -> Result<(), Fault> {
        let Work::Compose(compose) = &job.spec.work else {
            return Err(self.cannot("run anything but compose projects"));
        };
        let invalid = |what: &dyn std::fmt::Display| {
            Fault::new(FaultKind::InvalidSpec, format!("compose_yaml: {what}"))
        };
        let project = &*compose.project;
        match job.op {
            Op::Prepare => {
                self.keep(job.id, compose).map_err(|error| {
                    Fault::new(FaultKind::Storage, format!("{}: {error}", self.folder.display()))
                })?;
                let images = compose.images(&job.spec.secrets).map_err(|it| invalid(&it))?;
                for image in images {
                    self.docker.prepare(&image, job.progress).await?;
                }
                Ok(())
            }
            Op::Create => {
                let file = self.file(job, compose).map_err(|it| invalid(&it))?;
                let args = ["up", "--no-start", "--no-build", "--pull", "never"];
                self.plugin(project, &[&args[..], &["--remove-orphans"]].concat(), Some(file)).await
            }
            Op::Start => self.start(job, compose).await,
            Op::Stop => {
                for project in projects(job) {
                    self.plugin(project, &["stop", "--timeout", STOP_KINDLY], None).await?;
                }
                Ok(())
            }
            Op::Remove => {
                let down = ["down", "--remove-orphans", "--timeout", STOP_KINDLY];
                for project in projects(job) {
                    self.plugin(project, &down, None).await?;
                }
                Ok(())
            }
        }
    }

    /// Starts what is there. What is missing is made, if that needs no secret that is not here.
    async fn start(&self, job: Job<'_>, compose: &Compose) -> Result<(), Fault> {
        let paused = job.instances.iter().any(|it| it.state == InstanceState::Paused);
        if paused {
            self.plugin(&compose.project, &["unpause"], None).await?;
        }
        let known = job.spec.secrets.iter().all(|name| job.secrets.contains_key(name));
        let file = if known { self.file(job, compose).ok() } else { None };
        let Some(file) = file else {
            return self.plugin(&compose.project, &["start"], None).await;
        };
        let args = ["up", "--detach", "--no-recreate", "--no-build", "--pull", "never"];
        self.plugin(&compose.project, &args, Some(file)).await
    }

    /// What the plugin reads.
    fn file(
        &self,
        job: Job<'_>,
        compose: &Compose,
    ) -> Result<String, walras_core::run::InterpolateError> {
        let (id, services) = (job.id.as_str(), compose.services().to_string());
        let labels = [
            (MANAGED, "true"),
            (WORKLOAD, id),
            (REVISION, job.spec.revision.as_str()),
            (KIND, "compose"),
            (SERVICES, &services),
        ];
        Ok(compose.to_run(job.secrets, &labels)?.to_string())
    }

    async fn seen(&self, label: String) -> Result<BTreeMap<WorkloadId, Vec<Seen>>, Fault> {
        let mut all: BTreeMap<WorkloadId, Vec<Seen>> = BTreeMap::new();
        for seen in self.docker.found(label).await? {
            if seen.project.is_some() {
                all.entry(seen.id.clone()).or_default().push(seen);
            }
        }
        Ok(all)
    }

    /// The containers of a part of a project, by the names of their services.
    async fn containers(&self, part: Part<'_>) -> Result<Vec<(String, String)>, Fault> {
        let found = self.seen(format!("{WORKLOAD}={}", part.id)).await?;
        let found = found.into_values().flatten();
        let wanted = found.filter(|seen| part.service.is_none_or(|name| name == seen.service));
        let all: Vec<_> = wanted.map(|seen| (seen.service, seen.instance.handle)).collect();
        if all.is_empty() {
            let what = part.service.map_or_else(String::new, |name| format!(" of service {name}"));
            let words = format!("there is no container{what}");
            return Err(Fault::new(FaultKind::NotFound, words));
        }
        Ok(all)
    }
}

/// The names of the projects that are there.
fn projects<'a>(job: Job<'a>) -> impl Iterator<Item = &'a str> {
    job.instances.iter().map(|instance| &*instance.handle)
}

/// A project from its containers. Where containers are of several projects, each is one.
fn instances(seen: Vec<Seen>) -> Vec<Instance> {
    let mut projects: BTreeMap<String, Vec<Seen>> = BTreeMap::new();
    for one in seen {
        projects.entry(one.project.clone().unwrap_or_default()).or_default().push(one);
    }
    projects.into_iter().map(|(project, seen)| instance(project, &seen)).collect()
}

fn instance(project: String, seen: &[Seen]) -> Instance {
    let first = seen.first().map(|one| one.instance.revision.clone()).unwrap_or_default();
    let one_revision = seen.iter().all(|one| one.instance.revision == first);
    let started = seen.iter().map(|one| one.instance.started.clone()).max().unwrap_or_default();
    Instance {
        handle: project,
        // What is half replaced is of no revision, and is replaced.
        revision: if one_revision { first } else { String::new() },
        started,
        state: state(seen),
        health: health(seen),
    }
}

/// What a project does. What ended well and is not to be kept running takes nothing away from it.
fn state(seen: &[Seen]) -> InstanceState {
    let states = || seen.iter().map(|one| one.instance.state);
    let any = |wanted: InstanceState| states().any(|state| state == wanted);
    let services: std::collections::BTreeSet<&str> = seen.iter().map(|one| &*one.service).collect();
    let missing = seen.iter().any(|one| one.services.is_some_and(|all| services.len() < all));
    for wanted in [InstanceState::Broken, InstanceState::Paused, InstanceState::Restarting] {
        if any(wanted) {
            return wanted;
        }
    }
    // What was never started, or is missing, is made and started with the others.
    if any(InstanceState::Created) || missing {
        return InstanceState::Created;
    }
    let ended = seen.iter().find_map(|one| match one.instance.state {
        InstanceState::Exited { code } if code != 0 || one.stays => Some(code),
        InstanceState::Exited { .. }
        | InstanceState::Created
        | InstanceState::Running
        | InstanceState::Restarting
        | InstanceState::Paused
        | InstanceState::Broken => None,
    });
    match ended {
        Some(code) => InstanceState::Exited { code },
        None if any(InstanceState::Running) => InstanceState::Running,
        None => InstanceState::Exited { code: 0 },
    }
}

fn health(seen: &[Seen]) -> Option<Health> {
    let told = || seen.iter().filter_map(|one| one.instance.health);
    for wanted in [Health::Unhealthy, Health::Starting] {
        if told().any(|health| health == wanted) {
            return Some(wanted);
        }
    }
    told().next()
}

/// The end of a text, where programs say what went wrong.
fn last(text: &str) -> &str {
    let begin = text.len().saturating_sub(WORDS_MAX);
    let begin = (begin..text.len()).find(|place| text.is_char_boundary(*place));
    begin.map_or(text, |begin| &text[begin..])
}

impl Runtime for ComposeRuntime {
    fn name(&self) -> &'static str {
        "compose"
    }

    fn takes(&self, work: &Work) -> bool {
        matches!(work, Work::Compose(_))
    }

    fn check(&self, work: &Work, secrets: &BTreeMap<String, String>) -> Vec<FieldFault> {
        match work {
            Work::Compose(compose) => compose.check(secrets, self.policy),
            Work::Container(_) | Work::Vm(_) | Work::Custom(_) => Vec::new(),
        }
    }

    fn ping(&self) -> BoxFuture<'_, Result<(), Fault>> {
        Box::pin(async {
            self.docker.ping().await?;
            let silent = |words: String| Fault::new(FaultKind::Silent, words);
            fs::create_dir_all(&self.folder)
                .map_err(|error| silent(format!("{}: {error}", self.folder.display())))?;
            let mut command = self.command();
            command.arg("version");
            let program = self.program.display();
            match program::run(command, None, ANSWER).await {
                Ok(Ended { well: true, .. }) => Ok(()),
                Ok(_) => Err(silent(format!("{program}: it is no compose plugin"))),
                Err(error) => Err(silent(format!("{program}: {error}"))),
            }
        })
    }

    fn act<'a>(&'a self, job: Job<'a>) -> BoxFuture<'a, Result<(), Fault>> {
        Box::pin(self.carry_out(job))
    }

    fn look<'a>(&'a self, id: &'a WorkloadId) -> BoxFuture<'a, Result<Vec<Instance>, Fault>> {
        Box::pin(async move {
            let found = self.seen(format!("{WORKLOAD}={id}")).await?;
            Ok(found.into_values().flat_map(instances).collect())
        })
    }

    fn list(&self) -> BoxFuture<'_, Result<BTreeMap<WorkloadId, Vec<Instance>>, Fault>> {
        Box::pin(async {
            let found = self.seen(KIND.to_owned()).await?;
            Ok(found.into_iter().map(|(id, seen)| (id, instances(seen))).collect())
        })
    }

    fn events(&self) -> RuntimeEvents<'_> {
        self.docker.events_of(true)
    }

    fn forget<'a>(&'a self, id: &'a WorkloadId, _: &'a Spec) -> BoxFuture<'a, Result<(), Fault>> {
        let folder = self.folder.join(id.as_str());
        Box::pin(async move {
            match fs::remove_dir_all(&folder) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    let words = format!("{}: {error}", folder.display());
                    Err(Fault::new(FaultKind::Storage, words))
                }
                Ok(()) | Err(_) => Ok(()),
            }
        })
    }

    fn logs<'a>(&'a self, part: Part<'a>, tail: u32, follow: bool) -> RuntimeLogs<'a> {
        let told = async move {
            let containers = self.containers(part).await?;
            Ok(self.docker.logs_of(containers, tail, follow))
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
            let mut containers = self.containers(part).await?;
            let Some((_, handle)) = containers.pop().filter(|_| containers.is_empty()) else {
                let words = "it has several containers; say --service";
                return Err(Fault::new(FaultKind::InvalidSpec, words));
            };
            Ok(self.docker.exec_in(handle, command, input))
        };
        stream::once(told).try_flatten().boxed()
    }
}

/// Where the plugin is found on a machine that has it, if anywhere.
#[must_use]
pub fn usual_program() -> PathBuf {
    let places = [
        "/usr/libexec/docker/cli-plugins/docker-compose",
        "/usr/lib/docker/cli-plugins/docker-compose",
        "/usr/local/lib/docker/cli-plugins/docker-compose",
        "/usr/local/libexec/docker/cli-plugins/docker-compose",
        "/usr/bin/docker-compose",
    ];
    let found = places.iter().map(Path::new).find(|place| place.is_file());
    found.unwrap_or_else(|| Path::new(places[0])).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(service: &str, state: InstanceState, stays: bool) -> Seen {
        Seen {
            id: WorkloadId::new("shop").unwrap(),
            instance: Instance {
                handle: service.to_owned(),
                revision: "1".to_owned(),
                started: service.to_owned(),
                state,
                health: None,
            },
            project: Some("shop".to_owned()),
            service: service.to_owned(),
            services: Some(2),
            stays,
        }
    }

    #[test]
    fn a_project_is_what_its_containers_are_together() {
        use InstanceState::{Broken, Created, Exited, Paused, Restarting, Running};
        let ended = |code| Exited { code };
        for (one, other, stays, expected) in [
            (Running, Running, true, Running),
            (Running, Restarting, true, Restarting),
            (Running, Paused, true, Paused),
            (Running, Broken, true, Broken),
            (Running, Created, true, Created),
            (Created, Created, true, Created),
            // A step that ran once and ended well, and one that did not.
            (Running, ended(0), false, Running),
            (Running, ended(3), false, ended(3)),
            (Running, ended(0), true, ended(0)),
            (ended(0), ended(0), false, ended(0)),
            (ended(0), ended(137), false, ended(137)),
        ] {
            let both = [seen("a", one, false), seen("b", other, stays)];
            assert_eq!(state(&both), expected, "{one:?} and {other:?}");
        }
        // One of two is missing.
        assert_eq!(state(&[seen("a", Running, true)]), Created);
    }

    #[test]
    fn a_half_replaced_project_is_of_no_revision() {
        let running = InstanceState::Running;
        let mut both = vec![seen("a", running, true), seen("b", running, true)];
        let told = instances(both.clone());
        assert_eq!((told.len(), &*told[0].revision, &*told[0].started), (1, "1", "b"));
        both[1].instance.revision = "2".to_owned();
        both[1].instance.health = Some(Health::Starting);
        let told = instances(both);
        assert_eq!((&*told[0].revision, told[0].health), ("", Some(Health::Starting)));
    }

    #[test]
    fn the_end_of_a_long_text_is_told() {
        assert_eq!(last("short"), "short");
        let long = "é".repeat(WORDS_MAX) + "end";
        assert!(last(&long).ends_with("end") && last(&long).len() <= WORDS_MAX);
    }
}
