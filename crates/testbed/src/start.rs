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
    let images = if state.spec.real_node {
        start_anchor(&state)?;
        cgroup::make(&state.cgroup())?;
        testbed.start_part(Part::Containerd)?;
        [Image::Pause, Image::Loadgen].as_slice()
    } else {
        &[]
    };
    testbed.start_part(Part::Etcd)?;
    let api_server = testbed.start_part(Part::ApiServer)?;
    if !images.is_empty() {
        testbed.import(images, settings)?;
    }
    testbed.wait_for_api_server(api_server)?;
    say(&format!("the API server is ready after {:.1} s", begun.elapsed().as_secs_f64()));
    testbed.start_part(Part::ControllerManager)?;
    testbed.start_part(Part::Scheduler)?;
    let mut kubelet = None;
    if state.spec.real_node {
        kubelet = Some(testbed.start_part(Part::Kubelet)?);
    }
    if state.spec.kwok_nodes > 0 {
        testbed.start_part(Part::Kwok)?;
        let nodes = config::kwok_nodes(&state);
        testbed.kubectl()?.run_with(&["create", "-f", "-"], &nodes)?;
    }
    testbed.wait_for_nodes(kubelet)?;
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

fn start_anchor(state: &State) -> Result<()> {
    let anchor = process::start(&state.dir, &plan::anchor(state))?;
    let anchored = state.dir.join("anchored");
    wait_for_part(state, Part::Anchor, Some(anchor), || {
        Ok(anchored.exists() && process::find(&state.dir, Part::Anchor).is_some())
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
        let anchor: Option<Pid> = process::find(&self.state.dir, Part::Anchor).map(|p| p.pid);
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

    /// Builds `images` and gives them to containerd.
    ///
    /// # Errors
    ///
    /// If they cannot be built or imported.
    pub fn import(&self, images: &[Image], settings: &Settings) -> Result<()> {
        let dir = &self.state.dir;
        let socket = dir.join("containerd/containerd.sock");
        let archives = image::build(images, settings, &dir.join("images"))?;
        let connects = || Ok(UnixStream::connect(&socket).is_ok());
        wait_for_part(&self.state, Part::Containerd, None, connects)?;
        for archive in archives {
            let output = Command::new(self.programs.place(Program::Ctr)?)
                .arg("--address")
                .arg(&socket)
                .args(["--namespace", "k8s.io", "images", "import"])
                .arg(&archive)
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

    /// Waits until every node is ready, as long as the kubelet runs, if that was just started.
    pub(crate) fn wait_for_nodes(&self, kubelet: Option<Started>) -> Result<()> {
        let spec = self.state.spec;
        let wanted = usize::try_from(spec.kwok_nodes)? + usize::from(spec.real_node);
        let kubectl = self.kubectl()?;
        let ready = || {
            let args = ["get", "nodes", "--no-headers"];
            // A moment after the start, the API server may not know its own rights yet.
            let text = kubectl.run(&args).unwrap_or_default();
            let is_ready = |line: &&str| line.split_whitespace().nth(1) == Some("Ready");
            Ok(text.lines().filter(is_ready).count() == wanted)
        };
        let part = if spec.real_node { Part::Kubelet } else { Part::ApiServer };
        wait_for_part(&self.state, part, kubelet, ready)
    }
}
