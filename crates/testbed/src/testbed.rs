//! A testbed in the hands of a test or a command: started, shared, asked and ended.
//!
//! [`Testbed::shared`] is for tests that can share a cluster and use a namespace each;
//! [`Testbed::fresh`] for those that break it. Both end by themselves, however their user ends.
//! [`Testbed::up`] is for people, and stays.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use serde_json::{Value, json};

use crate::assets::{self, Program, Programs};
use crate::cgroup::{self, CpuMax};
use crate::image::Image;
use crate::kubectl::Kubectl;
use crate::plan::{self, Part};
use crate::process;
use crate::progress::{say, wait_for};
use crate::settings::Settings;
use crate::start;
use crate::state::{self, Life, Spec, State};
use crate::teardown;

/// The name of the testbed that tests share.
pub const SHARED: &str = "shared";
/// The name of the testbed with two real nodes that tests share.
const PAIR: &str = "pair";
/// How long anything may take on a slow machine before it counts as broken.
pub const PATIENCE: Duration = Duration::from_secs(180);

/// A running cluster.
#[derive(Debug)]
pub struct Testbed {
    pub(crate) state: State,
    pub(crate) programs: Programs,
    lease: Option<File>,
}

/// A namespace of its own, deleted when dropped.
#[derive(Debug)]
pub struct Namespace<'a> {
    testbed: &'a Testbed,
    /// Its name.
    pub name: String,
}

impl Testbed {
    /// The cluster with one real node that all tests of all processes share, started by the first
    /// of them. It ends a minute after the last process that uses it.
    ///
    /// # Errors
    ///
    /// If it cannot be started.
    pub fn shared() -> Result<&'static Self> {
        static ONCE: OnceLock<Result<Testbed, String>> = OnceLock::new();
        shared(&ONCE, SHARED, Spec::new(1, false))
    }

    /// The same with two real nodes, each on half of the CPUs.
    ///
    /// # Errors
    ///
    /// If it cannot be started.
    pub fn shared_pair() -> Result<&'static Self> {
        static ONCE: OnceLock<Result<Testbed, String>> = OnceLock::new();
        shared(&ONCE, PAIR, Spec::with_real_nodes(2, 2))
    }

    /// A cluster of the caller's own, which ends when dropped or when the process ends.
    ///
    /// # Errors
    ///
    /// If it cannot be started.
    pub fn fresh(spec: Spec) -> Result<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(1);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("fresh-{}-{count}", std::process::id());
        Self::join(&Settings::read()?, &name, spec, Life::WithOwner)
    }

    /// The cluster `name`, which stays until somebody ends it. Does nothing if it is up already.
    ///
    /// # Errors
    ///
    /// If it cannot be started, or is up with something else in it.
    pub fn up(settings: &Settings, name: &str, spec: Spec) -> Result<Self> {
        Self::join(settings, name, spec, Life::UntilDown)
    }

    /// Finds the cluster `name` or starts it.
    fn join(settings: &Settings, name: &str, spec: Spec, life: Life) -> Result<Self> {
        state::check_name(name)?;
        start::check_machine(spec)?;
        teardown::end_stale(settings)?;
        let needed = assets::needed(spec.real_node, spec.kwok_nodes > 0);
        let programs = assets::prepare(&needed, settings)?;
        // One process at a time starts a cluster with a name that others may want, too; those find
        // it started.
        let base = settings.testbeds();
        fs::create_dir_all(&base)?;
        let turn = File::create(base.join("starting"))?;
        if life != Life::WithOwner {
            turn.lock()?;
        }
        let dir = base.join(name);
        if let Some((state, lease)) = state::join(&dir)? {
            ensure!(
                state.spec == spec,
                "the testbed {name} is up with {}, not with {}; end it first with \
                 `cargo xtask testbed down --name {name}`",
                state.spec.words(),
                spec.words()
            );
            if let Some(part) = missing(&state) {
                bail!(
                    "the testbed {name} is up, but its {} is not running; end it first with \
                     `cargo xtask testbed down --name {name}`",
                    part.name()
                );
            }
            return Ok(Self { state, programs, lease: Some(lease) });
        }
        if dir.exists() {
            // Its starter is gone, and its keeper is at it, too.
            teardown::end_unless_used(&dir)?;
        }
        let (state, lease) = state::create(settings, name, spec, life)?;
        let mut testbed = Self { state, programs, lease: Some(lease) };
        match start::run(&mut testbed, settings) {
            Ok(()) => Ok(testbed),
            Err(error) => {
                // What was wrong first is what matters; the keeper ends what we could not.
                teardown::end(&testbed.state.dir).ok();
                testbed.lease = None;
                Err(error)
            }
        }
    }

    /// Lets go of the testbed: what becomes of it is the keeper's business now.
    pub fn let_go(mut self) {
        self.lease = None;
    }

    /// Ends it, and waits until nothing of it is left.
    ///
    /// # Errors
    ///
    /// If something remains.
    pub fn down(mut self) -> Result<()> {
        self.lease = None;
        teardown::end(&self.state.dir)
    }

    /// What is known of it.
    #[must_use]
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Its folder, with logs and configuration.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.state.dir
    }

    /// The kubeconfig for programs under test. Their traffic can be disturbed.
    #[must_use]
    pub fn kubeconfig(&self) -> PathBuf {
        self.state.kubeconfig()
    }

    /// kubectl as the testbed uses it, straight to the API server.
    ///
    /// # Errors
    ///
    /// If kubectl was not prepared.
    pub fn kubectl(&self) -> Result<Kubectl> {
        self.kubectl_with("config/admin.kubeconfig")
    }

    /// kubectl as a user has it: its traffic can be disturbed.
    ///
    /// # Errors
    ///
    /// If kubectl was not prepared.
    pub fn user_kubectl(&self) -> Result<Kubectl> {
        self.kubectl_with("kubeconfig")
    }

    fn kubectl_with(&self, kubeconfig: &str) -> Result<Kubectl> {
        Ok(Kubectl {
            program: self.programs.place(Program::Kubectl)?.to_path_buf(),
            kubeconfig: self.state.dir.join(kubeconfig),
            cache: self.state.dir.join("kubectl-cache"),
        })
    }

    /// A new namespace, whose name begins with `purpose`.
    ///
    /// # Errors
    ///
    /// If it cannot be created.
    pub fn namespace(&self, purpose: &str) -> Result<Namespace<'_>> {
        static COUNT: AtomicU32 = AtomicU32::new(1);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("{purpose}-{}-{count}", std::process::id());
        let kubectl = self.kubectl()?;
        kubectl.run(&["create", "namespace", &name])?;
        // A pod is refused as long as there is no account for it.
        wait_for("the service account of a new namespace", PATIENCE, || {
            Ok(kubectl.run(&["get", "serviceaccount", "default", "-n", &name]).ok())
        })?;
        Ok(Namespace { testbed: self, name })
    }

    /// Every request that the API server has answered, oldest first, as its audit log has it.
    ///
    /// # Errors
    ///
    /// If the log cannot be read.
    pub fn audit(&self) -> Result<Vec<Value>> {
        let text = fs::read_to_string(self.state.dir.join("audit.log"))?;
        // The last line may be half written.
        Ok(text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
    }

    /// The CPU limit that the kernel enforces for a container on the real node.
    ///
    /// # Errors
    ///
    /// If there is no such container.
    pub fn cpu_max(&self, pod_uid: &str, container_id: &str) -> Result<CpuMax> {
        cgroup::cpu_max(&self.container_cgroup(pod_uid, container_id)?)
    }

    /// Where the kernel keeps what it enforces for a container on the real node.
    ///
    /// # Errors
    ///
    /// If there is no such container.
    pub fn container_cgroup(&self, pod_uid: &str, container_id: &str) -> Result<PathBuf> {
        self.group_with(pod_uid, container_id, &["cpu.max", "cpu.cfs_quota_us"])
    }

    /// The CPUs that the kernel lets a container on a real node run on.
    ///
    /// # Errors
    ///
    /// If there is no such container.
    pub fn cpus_of(&self, pod_uid: &str, container_id: &str) -> Result<Vec<u32>> {
        cgroup::cpus(&self.group_with(pod_uid, container_id, &["cpuset.cpus"])?)
    }

    /// The cgroup of a container in the tree where it has one of these files.
    fn group_with(&self, pod_uid: &str, container_id: &str, files: &[&str]) -> Result<PathBuf> {
        let id = container_id.rsplit('/').next().unwrap_or_default();
        let pod = format!("pod{pod_uid}");
        let mut groups = cgroup::groups(&self.state.cgroup()).into_iter();
        let found = groups.find(|group| {
            let has = files.iter().any(|file| group.join(file).exists());
            has && group.ends_with(Path::new(&pod).join(id))
        });
        found.with_context(|| format!("no cgroup of container {id} in {pod}"))
    }

    /// Whether `part` is running.
    #[must_use]
    pub fn runs(&self, part: Part) -> bool {
        process::find(&self.state.dir, part).is_some()
    }
}

/// The testbed `name`, joined once by this process.
fn shared(
    once: &'static OnceLock<Result<Testbed, String>>,
    name: &str,
    spec: Spec,
) -> Result<&'static Testbed> {
    let testbed = once.get_or_init(|| {
        let settings = Settings::read().map_err(|error| format!("{error:#}"))?;
        Testbed::join(&settings, name, spec, Life::WithLastUser)
            .map_err(|error| format!("{error:#}"))
    });
    testbed.as_ref().map_err(|message| anyhow!("{message}"))
}

/// A part that should be running and is not.
pub(crate) fn missing(state: &State) -> Option<Part> {
    plan::parts(state).into_iter().find(|part| process::find(&state.dir, *part).is_none())
}

// === impl Drop for Testbed ===

impl Drop for Testbed {
    fn drop(&mut self) {
        let ours = self.lease.take().is_some() && self.state.life == Life::WithOwner;
        if ours && let Err(error) = teardown::end(&self.state.dir) {
            say(&format!("the testbed {} could not be ended: {error:#}", self.state.name));
        }
    }
}

// === impl Namespace ===

impl Namespace<'_> {
    /// A pod with one container of `image`, started with `args`. On the real node, if there is one.
    ///
    /// # Errors
    ///
    /// If it cannot be created.
    pub fn run(&self, name: &str, image: Image, args: &[&str], cpu: &str) -> Result<()> {
        let pod = json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": { "name": name, "namespace": self.name },
            "spec": {
                "nodeSelector": { crate::config::NODE_LABEL: "real" },
                "restartPolicy": "Never",
                "terminationGracePeriodSeconds": 0,
                "containers": [{
                    "name": name,
                    "image": image.reference(),
                    "imagePullPolicy": "Never",
                    "args": args,
                    "resources": {
                        "requests": { "cpu": cpu, "memory": "32Mi" },
                        "limits": { "cpu": cpu, "memory": "64Mi" },
                    },
                }],
            },
        });
        self.testbed.kubectl()?.apply(&pod)
    }

    /// The pod `name`, once it is in `phase`.
    ///
    /// # Errors
    ///
    /// If that does not happen; the message has the pod's events.
    pub fn pod_in(&self, name: &str, phase: &str) -> Result<Value> {
        let kubectl = self.testbed.kubectl()?;
        let what = format!("the phase {phase} of pod {name}");
        let found = wait_for(&what, PATIENCE, || {
            let pod = kubectl.json(&["get", "pod", name, "-n", &self.name])?;
            Ok((pod["status"]["phase"] == phase).then_some(pod))
        });
        found.with_context(|| {
            let events = kubectl.run(&["get", "events", "-n", &self.name]);
            events.unwrap_or_else(|error| error.to_string())
        })
    }
}

impl Drop for Namespace<'_> {
    fn drop(&mut self) {
        // A cluster that was broken on purpose may not be able to, and is about to end anyway.
        if let Ok(kubectl) = self.testbed.kubectl() {
            let args = ["delete", "namespace", &self.name, "--wait=false"];
            kubectl.run(&[&args[..], &["--request-timeout=5s"]].concat()).ok();
        }
    }
}
