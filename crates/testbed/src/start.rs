//! Brings a testbed up, step by step, and says how far it is.
//!
//! The keeper comes first, so that everything that follows is ended if we are not there to do it.
//! Called by `testbed` alone; on failure the caller ends what was started.

use std::fs;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use rustix::process::Pid;

use crate::assets::Program;
use crate::image::{self, Image};
use crate::node::{self, Real};
use crate::plan::{self, Launch, Part};
use crate::process::Started;
use crate::progress::{say, wait_for};
use crate::settings::{self, Settings};
use crate::state::{Phase, Spec, State};
use crate::testbed::{PATIENCE, Testbed, missing};
use crate::{certs, cgroup, config, keeper, process};

/// Programs of the machine that a real node needs, and the Debian packages that have them.
const MACHINE: [(&str, &str); 5] = [
    ("unshare", "util-linux"),
    ("nsenter", "util-linux"),
    ("mount", "mount"),
    ("ip", "iproute2"),
    ("sleep", "coreutils"),
];

/// Says what the machine lacks for `spec`, if anything.
pub(crate) fn check_machine(spec: Spec) -> Result<()> {
    ensure!(cfg!(target_os = "linux"), "a testbed needs Linux");
    node::check(spec, &node::online()?)?;
    if !spec.real_node {
        return Ok(());
    }
    ensure!(
        rustix::process::geteuid().is_root(),
        "a real node needs root, for containers and cgroups; become root, or leave the node out \
         with `--control-plane-only`"
    );
    for (program, package) in MACHINE {
        ensure!(
            settings::system_program(program).is_some(),
            "{program} is missing; install the package {package}"
        );
    }
    Ok(())
}

/// Starts everything and waits until it is ready.
pub(crate) fn run(testbed: &mut Testbed, settings: &Settings) -> Result<()> {
    let begun = Instant::now();
    let state = testbed.state.clone();
    say(&format!("starting {} in {}", state.spec.words(), state.dir.display()));
    start_keeper(&state, settings)?;
    certs::write(&state)?;
    for (path, text) in config::files(&state, &testbed.programs)? {
        let folder = path.parent().context("a file is in a folder")?;
        fs::create_dir_all(folder)?;
        fs::write(&path, text)?;
    }
    for node in state.real_nodes() {
        start_anchor(&state, node)?;
        cgroup::make(&node.cgroup(&state))?;
        testbed.start_part(node.containerd())?;
    }
    if state.spec.second_real_node {
        // Else a node with a lot to do would look quiet beside a build, say.
        cgroup::favour(&state.cgroup());
    }
    let images = if state.spec.real_node { [Image::Pause, Image::Loadgen].as_slice() } else { &[] };
    testbed.start_part(Part::Etcd)?;
    let api_server = testbed.start_part(Part::ApiServer)?;
    if !images.is_empty() {
        testbed.import(images, settings)?;
    }
    testbed.wait_for_api_server(api_server)?;
    say(&format!("the API server is ready after {:.1} s", begun.elapsed().as_secs_f64()));
    testbed.start_part(Part::ControllerManager)?;
    testbed.start_part(Part::Scheduler)?;
    let mut kubelets = Vec::new();
    for node in state.real_nodes() {
        kubelets.push((node, testbed.start_part(node.kubelet())?));
    }
    if state.spec.kwok_nodes > 0 {
        testbed.start_part(Part::Kwok)?;
        let nodes = config::kwok_nodes(&state);
        testbed.kubectl()?.run_with(&["create", "-f", "-"], &nodes)?;
    }
    testbed.wait_for_nodes(kubelets)?;
    if let Some(part) = missing(&state) {
        bail!("{} ended:\n{}", part.name(), process::last_words(&state.dir, part));
    }
    testbed.state.phase = Phase::Up;
    testbed.state.save()?;
    say(&format!("up after {:.1} s", begun.elapsed().as_secs_f64()));
    Ok(())
}

fn start_keeper(state: &State, settings: &Settings) -> Result<()> {
    let program = keeper_program(settings)?;
    let args = vec!["keep".to_owned(), state.dir.display().to_string()];
    let launch = Launch {
        part: Part::Keeper,
        program,
        args,
        search_path: "/usr/sbin:/usr/bin:/sbin:/bin".to_owned(),
        inside: None,
    };
    let keeper = process::start(&state.dir, &launch)?;
    wait_for_part(state, Part::Keeper, Some(keeper), || Ok(keeper::listens(&state.dir)))
}

/// The program that keeps testbeds: us, or what cargo builds.
fn keeper_program(settings: &Settings) -> Result<PathBuf> {
    let name = Part::Keeper.programs()[0];
    let us = std::env::current_exe()?;
    if us.file_name().is_some_and(|file| file == name) {
        return Ok(us);
    }
    if let Some(given) = &settings.keeper {
        return Ok(given.clone());
    }
    let built = image::compile(&[name], None, &settings.checkout)?;
    built.into_iter().find(|path| path.ends_with(name)).context("cargo built no keeper")
}

fn start_anchor(state: &State, node: Real) -> Result<()> {
    let anchor = process::start(&state.dir, &plan::anchor(state, node))?;
    let anchored = plan::anchored(state, node);
    wait_for_part(state, node.anchor(), Some(anchor), || {
        Ok(anchored.exists() && process::find(&state.dir, node.anchor()).is_some())
    })
    .context("the node cannot have folders of its own")
}

/// Waits until `part` is ready, unless it ends before.
fn wait_for_part(
    state: &State,
    part: Part,
    mut process: Option<Started>,
    ready: impl Fn() -> Result<bool>,
) -> Result<()> {
    let what = format!("the start of {}", part.name());
    let outcome = wait_for(&what, PATIENCE, || {
        if ready()? {
            return Ok(Some(()));
        }
        match process.as_mut().map(Started::ended).transpose()?.flatten() {
            Some(status) => bail!("{} ended with {status}", part.name()),
            None => Ok(None),
        }
    });
    outcome.with_context(|| {
        let log = process::log(&state.dir, part);
        format!(
            "{} did not start; {} ends with:\n{}\n",
            part.name(),
            log.display(),
            process::last_words(&state.dir, part)
        )
    })
}

// === impl Testbed ===

impl Testbed {
    /// Starts `part` with the configuration that is in the testbed's folder.
    pub(crate) fn start_part(&self, part: Part) -> Result<Started> {
        let second = [Part::SecondContainerd, Part::SecondKubelet].contains(&part);
        let node = if second { Real::Second } else { Real::First };
        let anchor: Option<Pid> = process::find(&self.state.dir, node.anchor()).map(|p| p.pid);
        let launch = plan::launch(part, &self.state, &self.programs, anchor)?;
        process::start(&self.state.dir, &launch)
    }

    /// Waits until the API server says that it is ready.
    pub(crate) fn wait_for_api_server(&self, process: Started) -> Result<()> {
        let kubectl = self.kubectl()?;
        wait_for_part(&self.state, Part::ApiServer, Some(process), || {
            Ok(kubectl.run(&["get", "--raw=/readyz", "--request-timeout=5s"]).is_ok())
        })
    }

    /// Builds `images` and gives them to the containerd of every real node.
    ///
    /// # Errors
    ///
    /// If they cannot be built or imported.
    pub fn import(&self, images: &[Image], settings: &Settings) -> Result<()> {
        let dir = &self.state.dir;
        let archives = image::build(images, settings, &dir.join("images"))?;
        for node in self.state.real_nodes() {
            self.give(node, &archives)?;
        }
        Ok(())
    }

    fn give(&self, node: Real, archives: &[PathBuf]) -> Result<()> {
        let socket = node.dir(&self.state).join("containerd/containerd.sock");
        let connects = || Ok(UnixStream::connect(&socket).is_ok());
        wait_for_part(&self.state, node.containerd(), None, connects)?;
        for archive in archives {
            let output = Command::new(self.programs.place(Program::Ctr)?)
                .arg("--address")
                .arg(&socket)
                .args(["--namespace", "k8s.io", "images", "import"])
                .arg(archive)
                .output()?;
            ensure!(
                output.status.success(),
                "{} cannot be imported: {}",
                archive.display(),
                String::from_utf8_lossy(&output.stderr).trim()
            );
        }
        Ok(())
    }

    /// Waits until every node is ready, as long as the kubelets run that were just started.
    pub(crate) fn wait_for_nodes(&self, kubelets: Vec<(Real, Started)>) -> Result<()> {
        let spec = self.state.spec;
        let kubectl = self.kubectl()?;
        let ready = || {
            let args = ["get", "nodes", "--no-headers"];
            // A moment after the start, the API server may not know its own rights yet.
            let text = kubectl.run(&args).unwrap_or_default();
            let words = text.lines().map(|line| line.split_whitespace().take(2).collect());
            let ready = words.filter(|words: &Vec<&str>| words.get(1) == Some(&"Ready"));
            ready.filter_map(|words| words.first().map(|name| (*name).to_owned())).collect()
        };
        for (node, kubelet) in kubelets {
            let is_ready = || {
                let ready: Vec<String> = ready();
                Ok(ready.iter().any(|name| name == node.name()))
            };
            wait_for_part(&self.state, node.kubelet(), Some(kubelet), is_ready)?;
        }
        let wanted = usize::try_from(spec.kwok_nodes + spec.real_nodes())?;
        wait_for_part(&self.state, Part::ApiServer, None, || Ok(ready().len() == wanted))
    }
}
