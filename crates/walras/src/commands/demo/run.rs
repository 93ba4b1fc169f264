//! `walras demo --run`: a container, a compose project and a virtual machine, run by a host of its
//! own as a user would, with what this machine has; what it lacks is said.
//!
//! Everything goes through the program itself, by the commands that are printed. The host only
//! watches the market, so nothing else of the machine is changed, and everything that was made is
//! deleted at the end, also after an error or Ctrl-C.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::failure::Failure;
use crate::run_cli::DemoRunArgs;
use crate::screen;

/// How long the host may take to answer.
const UP: Duration = Duration::from_secs(30);
/// How often that is tried.
const BETWEEN: Duration = Duration::from_millis(50);
/// Runs until it is told to stop; `$$` is a plain one in a compose file.
const SERVE: &str = "echo hello; trap 'exit 0' TERM; while true; do sleep 1 & wait $$!; done";

/// One thing to show: what it is, and its document, or why it cannot be shown here.
struct Part {
    what: &'static str,
    id: String,
    document: Result<String, String>,
}

/// Shows what there is.
pub(super) fn run(args: &DemoRunArgs, interrupted: &Arc<AtomicBool>) -> Result<(), Failure> {
    let mut output = screen::output();
    let parts = parts(args);
    for part in &parts {
        if let Err(missing) = &part.document {
            writeln!(output, "No {} here: {missing}.", part.what)?;
        }
    }
    let there: Vec<(&Part, &String)> =
        parts.iter().filter_map(|part| Some((part, part.document.as_ref().ok()?))).collect();
    if there.is_empty() {
        writeln!(
            output,
            "There is nothing that could be run. See docs/run.md for what is needed."
        )?;
        return Ok(output.flush()?);
    }
    let host = Host::start(args, &mut output)?;
    let shown = show(&host, &there, &mut output, interrupted);
    // What was made goes, whatever happened.
    let ids: Vec<&str> = there.iter().map(|(part, _)| &*part.id).collect();
    let deleted = host.walras(&[&["delete", "--wait"][..], &ids[..]].concat(), None, &mut output);
    shown?;
    deleted?;
    writeln!(output, "Everything is deleted, and the host is stopped.")?;
    Ok(output.flush()?)
}

fn show(
    host: &Host,
    there: &[(&Part, &String)],
    output: &mut impl Write,
    interrupted: &AtomicBool,
) -> Result<(), Failure> {
    for (part, document) in there {
        if interrupted.load(Ordering::Relaxed) {
            return Err(Failure::Interrupted);
        }
        writeln!(output, "\nA {}:\n{}", part.what, document.trim_end())?;
        host.walras(&["apply", "-f", "-", "--wait", "--timeout", "120"], Some(document), output)?;
    }
    writeln!(output)?;
    host.walras(&["list"], None, output)?;
    for (part, _) in there {
        host.walras(&["logs", &part.id, "--tail", "3"], None, output)?;
    }
    // The same again touches nothing.
    if let Some((_, document)) = there.first() {
        host.walras(&["apply", "-f", "-"], Some(document), output)?;
    }
    Ok(())
}

/// What can be shown here, and why the rest cannot.
fn parts(args: &DemoRunArgs) -> Vec<Part> {
    let number = std::process::id();
    let id = |name: &str| format!("walras-demo-{name}-{number}");
    let socket = &args.docker;
    let docker = UnixStream::connect(socket)
        .map(drop)
        .map_err(|error| format!("Docker does not answer at {} ({error})", socket.display()));
    let image = &args.image;
    let plain = SERVE.replace("$$", "$");
    let container = docker.clone().map(|()| {
        format!(
            "id: {}\nspec:\n  container:\n    image: {image}\n    \
             command: [sh, -c, \"{plain}\"]\n    \
             resources: {{memory_bytes: 33554432, cpu_min_milli: 100}}\n",
            id("web")
        )
    });
    let program = args.compose.clone().unwrap_or_else(walras_run::usual_compose);
    let missing = || format!("there is no compose plugin at {}", program.display());
    let plugin = if program.is_file() { Ok(()) } else { Err(missing()) };
    let service = |name: &str| {
        format!(
            "        {name}: {{image: \"{image}\", network_mode: none, \
             command: [sh, -c, \"{SERVE}\"]}}\n"
        )
    };
    let project = docker.and(plugin).map(|()| {
        format!(
            "id: {}\nspec:\n  compose:\n    compose_yaml: |\n      services:\n{}{}",
            id("shop"),
            service("web"),
            service("db")
        )
    });
    let machine = match &args.qemu {
        Some(program) if program.is_file() => Ok(()),
        Some(program) => Err(format!("there is no {}", program.display())),
        None => walras_run::usual_qemu()
            .map(drop)
            .ok_or_else(|| "QEMU is not installed (Debian's package `qemu-system-x86`)".to_owned()),
    };
    let machine = machine.map(|()| {
        let kernel = args.kernel.clone().or_else(newest_kernel);
        let boot = kernel.map_or_else(String::new, |kernel| {
            format!("    kernel: {}\n    kernel_args: console=ttyS0 panic=-1\n", kernel.display())
        });
        let first = args.initrd.as_ref();
        let first = first.map_or_else(String::new, |it| format!("    initrd: {}\n", it.display()));
        format!("id: {}\nspec:\n  vm:\n    vcpus: 1\n    memory_mb: 256\n{boot}{first}", id("db"))
    });
    vec![
        Part { what: "container", id: id("web"), document: container },
        Part { what: "compose project", id: id("shop"), document: project },
        Part { what: "virtual machine", id: id("db"), document: machine },
    ]
}

/// A kernel of this machine, to have something to boot.
fn newest_kernel() -> Option<PathBuf> {
    let names = fs::read_dir("/boot").ok()?.flatten().map(|entry| entry.path());
    let is_kernel = |path: &PathBuf| {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        name.is_some_and(|name| name.starts_with("vmlinuz-")) && File::open(path).is_ok()
    };
    names.filter(is_kernel).max()
}

/// A host of its own. It is stopped with this value.
struct Host {
    folder: PathBuf,
    memory: PathBuf,
    daemon: Child,
}

impl Host {
    fn start(args: &DemoRunArgs, output: &mut impl Write) -> Result<Self, Failure> {
        let machine = |error: std::io::Error| Failure::Machine(format!("no host: {error}"));
        let name = format!("walras-demo-{}", std::process::id());
        let (folder, memory) = (std::env::temp_dir().join(&name), Path::new("/dev/shm").join(name));
        fs::create_dir_all(&folder).map_err(machine)?;
        let config = folder.join("host.toml");
        fs::write(&config, "").map_err(machine)?;
        let log = File::create(folder.join("log")).map_err(machine)?;
        let mut command = Command::new(std::env::current_exe().map_err(machine)?);
        command.args(["host", "--dry-run", "--listen", "127.0.0.1:0", "--config"]).arg(&config);
        command
            .arg("--state-dir")
            .arg(folder.join("host"))
            .arg("--run-dir")
            .arg(folder.join("lock"));
        command.arg("--run-state-dir").arg(folder.join("state"));
        command.arg("--run-socket").arg(folder.join("socket"));
        command.arg("--run-secrets-dir").arg(&memory).arg("--run-docker").arg(&args.docker);
        for (flag, program) in [("--run-compose", &args.compose), ("--run-qemu", &args.qemu)] {
            if let Some(program) = program {
                command.arg(flag).arg(program);
            }
        }
        writeln!(output, "$ walras host --run-socket {}", folder.join("socket").display())?;
        let errors = log.try_clone().map_err(machine)?;
        let daemon = command.stdin(Stdio::null()).stdout(log).stderr(errors).spawn();
        let mut host = Self { folder, memory, daemon: daemon.map_err(machine)? };
        let deadline = Instant::now() + UP;
        while UnixStream::connect(host.folder.join("socket")).is_err() {
            let ended = host.daemon.try_wait().map_err(machine)?.is_some();
            if ended || Instant::now() > deadline {
                let log = fs::read_to_string(host.folder.join("log")).unwrap_or_default();
                let last = log.lines().last().unwrap_or("it wrote nothing").to_owned();
                return Err(Failure::Machine(format!("the host does not start: {last}")));
            }
            pause();
        }
        Ok(host)
    }

    /// Runs the program as a user would, and shows what it prints.
    fn walras(
        &self,
        args: &[&str],
        input: Option<&str>,
        output: &mut impl Write,
    ) -> Result<(), Failure> {
        writeln!(output, "$ walras {}", args.join(" "))?;
        output.flush()?;
        let machine = |error: std::io::Error| Failure::Machine(error.to_string());
        let mut command = Command::new(std::env::current_exe().map_err(machine)?);
        command.args(args).env("WALRAS_RUN_SOCKET", self.folder.join("socket"));
        let pipes = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = pipes.spawn().map_err(machine)?;
        if let (Some(mut stdin), Some(input)) = (child.stdin.take(), input) {
            stdin.write_all(input.as_bytes())?;
        }
        let ended = child.wait_with_output().map_err(machine)?;
        output.write_all(&ended.stdout)?;
        output.write_all(&ended.stderr)?;
        if ended.status.success() {
            return Ok(());
        }
        Err(Failure::Machine(format!("`walras {}` ended with {}", args.join(" "), ended.status)))
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // Kindly, so that it stops what it serves; one that does not is gone with its parent.
        let pid = self.daemon.id().to_string();
        Command::new("kill").args(["-TERM", &pid]).status().ok();
        self.daemon.wait().ok();
        for folder in [&self.folder, &self.memory] {
            fs::remove_dir_all(folder).ok();
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "between two looks at a condition with a deadline")]
fn pause() {
    std::thread::sleep(BETWEEN);
}
