//! A virtual machine with control groups of the second version, in which tests run as root.
//!
//! `run` calls this for the tier `guest`. Test executables are linked statically and go into a file
//! system in memory, at the paths they have here, together with every other executable that cargo
//! built for them. The machine boots Debian's kernel under QEMU, without hardware support, so that
//! it works wherever QEMU does. Only the line that counts every test as passed is a success: a
//! machine that hangs, crashes or runs nothing fails. The tier `vm` gets its kernel and the first
//! file system of its guests from here.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::run;
use crate::tiers::Call;
use crate::tools::{self, Places};

/// The first process of the guest.
const INIT: &str = include_str!("../guest/init");
/// The first process of the guest that tests of virtual machines start.
const MACHINE: &str = include_str!("../guest/machine");
/// The drivers that it loads, in this order: each after those that it needs.
const DRIVERS: [&str; 15] = [
    "virtio_ring",
    "virtio",
    "virtio_pci_modern_dev",
    "virtio_pci_legacy_dev",
    "virtio_pci",
    "virtio_mem",
    "virtio_blk",
    "failover",
    "net_failover",
    "virtio_net",
    "cdrom",
    "isofs",
    "qemu_fw_cfg",
    "button",
    "evdev",
];
/// A machine that is not done by then hangs. It takes about ten seconds.
const TIMEOUT_SECONDS: &str = "900";
/// The program that is the virtual machine.
const QEMU: &str = "qemu-system-x86_64";
/// Debian's package that names the current kernel for virtual machines.
const KERNEL_PACKAGE: &str = "linux-image-cloud-amd64";

/// What was built to be run.
#[derive(Debug, Default, PartialEq, Eq)]
struct Built {
    /// Executables with tests.
    tests: Vec<PathBuf>,
    /// Those that they start.
    others: Vec<PathBuf>,
}

/// A file system as the kernel unpacks it at its start: the format `newc` of `cpio`.
#[derive(Debug, Default)]
struct Archive {
    bytes: Vec<u8>,
    entries: u32,
}

/// Whether this machine has what a guest needs, or can get it.
pub(crate) fn is_possible() -> bool {
    tools::quietly_succeeds(QEMU, &["--version"]) || tools::quietly_succeeds("apt-get", &["-v"])
}

/// Sees to it that QEMU, a kernel and a shell for the guest are there.
pub(crate) fn meet(places: &Places) -> Result<()> {
    tools::meet_package(QEMU, "--version", "qemu-system-x86")?;
    let folder = places.cache.join("guest");
    if !(kernel(&folder).is_file() && busybox(&folder).is_file() && has_drivers(&folder)) {
        fetch(&folder).with_context(|| {
            let (kernel, busybox) = (kernel(&folder), busybox(&folder));
            format!(
                "put a kernel at {}, its drivers into {} and a static busybox at {}",
                kernel.display(),
                drivers(&folder).display(),
                busybox.display()
            )
        })?;
    }
    make_machine(&folder)
}

/// Makes the first file system of the guest that tests of virtual machines start.
fn make_machine(folder: &Path) -> Result<()> {
    let read =
        |path: &Path| fs::read(path).with_context(|| format!("cannot read {}", path.display()));
    let mut archive = Archive::default();
    for folder in ["bin", "dev", "mnt", "modules", "proc", "sys", "tmp"] {
        archive.folder(folder);
    }
    archive.program("init", MACHINE.as_bytes());
    archive.program("bin/busybox", &read(&busybox(folder))?);
    archive.program("modules.txt", format!("{}\n", DRIVERS.join("\n")).as_bytes());
    for driver in DRIVERS {
        let path = drivers(folder).join(format!("{driver}.ko"));
        archive.program(&format!("modules/{driver}.ko"), &read(&path)?);
    }
    // Whoever starts a machine at this moment reads the whole of one or of the other.
    let new = folder.join(format!("machine.{}.unfinished", std::process::id()));
    fs::write(&new, archive.finished())?;
    fs::rename(new, folder.join("machine.cpio")).context("cannot keep the guest's file system")
}

/// Builds, boots and demands that every test passes.
pub(crate) fn run(build: &Call, places: &Places) -> Result<()> {
    let mut built = Built::default();
    let output = run::prepare(build, places).stderr(Stdio::inherit()).output();
    let output = output.with_context(|| format!("cannot start {}", build.program))?;
    ensure!(output.status.success(), "`{build}` ended with {}", output.status);
    built.add(&String::from_utf8_lossy(&output.stdout));
    ensure!(!built.tests.is_empty(), "there is no test to run in the guest");
    let folder = places.target.join("xtask/guest");
    tools::make_folder(&folder)?;
    let image = folder.join("initramfs.cpio");
    let cache = places.cache.join("guest");
    let archive = file_system(&built, &busybox(&cache))?;
    fs::write(&image, archive).with_context(|| format!("cannot write {}", image.display()))?;
    boot(&kernel(&cache), &image, &success(built.tests.len()))
}

/// The line that says that all is well.
fn success(tests: usize) -> String {
    format!("guest> {tests} of {tests} passed")
}

/// Boots the machine, passes its output through, and waits for the line.
fn boot(kernel: &Path, image: &Path, success: &str) -> Result<()> {
    let mut command = Command::new("timeout");
    command
        .args(["--kill-after=10", TIMEOUT_SECONDS, QEMU, "-accel", "tcg", "-cpu", "max"])
        .args(["-smp", "2", "-m", "1536", "-nodefaults", "-no-reboot", "-display", "none"])
        .args(["-serial", "stdio", "-append", "console=ttyS0 quiet panic=-1 psi=1"])
        .arg("-kernel")
        .arg(kernel)
        .arg("-initrd")
        .arg(image)
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    println!("    {QEMU} -accel tcg -kernel {}", kernel.display());
    let mut machine = command.spawn().context("cannot start `timeout` and QEMU")?;
    let output = machine.stdout.take().context("the machine has no output")?;
    let mut seen = false;
    for line in BufReader::new(output).split(b'\n') {
        let line = line.context("cannot read what the machine says")?;
        let line = String::from_utf8_lossy(&line);
        println!("    {}", line.trim_end());
        seen |= line.trim_end() == success;
    }
    let status = machine.wait().context("cannot wait for the machine")?;
    ensure!(seen, "the guest did not say `{success}`; QEMU ended with {status}");
    Ok(())
}

/// Everything the guest starts from.
fn file_system(built: &Built, busybox: &Path) -> Result<Vec<u8>> {
    let read =
        |path: &Path| fs::read(path).with_context(|| format!("cannot read {}", path.display()));
    let mut archive = Archive::default();
    for folder in ["bin", "dev", "proc", "sys", "tmp"] {
        archive.folder(folder);
    }
    archive.program("init", INIT.as_bytes());
    archive.program("bin/busybox", &read(busybox)?);
    let mut list = String::new();
    for test in &built.tests {
        list += &format!("{}\n", test.display());
    }
    archive.program("tests.txt", list.as_bytes());
    let mut folders = vec![PathBuf::from("tmp")];
    for path in built.tests.iter().chain(&built.others) {
        let inside = path.strip_prefix("/").context("cargo names executables by absolute paths")?;
        let above: Vec<&Path> =
            inside.ancestors().skip(1).filter(|path| path.iter().count() > 0).collect();
        for folder in above.into_iter().rev() {
            if !folders.iter().any(|made| made == folder) {
                archive.folder(&folder.to_string_lossy());
                folders.push(folder.to_path_buf());
            }
        }
        archive.program(&inside.to_string_lossy(), &read(path)?);
    }
    Ok(archive.finished())
}

fn kernel(folder: &Path) -> PathBuf {
    folder.join("vmlinuz")
}

fn busybox(folder: &Path) -> PathBuf {
    folder.join("busybox")
}

fn drivers(folder: &Path) -> PathBuf {
    folder.join("modules")
}

fn has_drivers(folder: &Path) -> bool {
    DRIVERS.iter().all(|name| drivers(folder).join(format!("{name}.ko")).is_file())
}

/// Gets the kernel, drivers of it and the shell from Debian's archive, whose signatures `apt-get`
/// checks.
fn fetch(folder: &Path) -> Result<()> {
    let unpacked = folder.join("unpacked");
    tools::make_folder(&unpacked)?;
    let names = || {
        let output = Command::new("apt-cache").args(["depends", KERNEL_PACKAGE]).output();
        let text = output.map(|output| output.stdout).unwrap_or_default();
        first_dependency(&String::from_utf8_lossy(&text)).map(str::to_owned)
    };
    let kernel_package = match names() {
        Some(name) => name,
        None => {
            debian("apt-get", &["update"], folder)?;
            names().with_context(|| format!("Debian has no package {KERNEL_PACKAGE}"))?
        }
    };
    let download = ["download", &kernel_package, "busybox-static"];
    if debian("apt-get", &download, &unpacked).is_err() {
        // What the machine knows of the archive may be old.
        debian("apt-get", &["update"], folder)?;
        debian("apt-get", &download, &unpacked)?;
    }
    for entry in fs::read_dir(&unpacked)?.flatten() {
        let path = entry.path();
        if path.extension().is_some_and(|extension| extension == "deb") {
            debian("dpkg-deb", &["-x", &path.to_string_lossy(), "."], &unpacked)?;
        }
    }
    let image = fs::read_dir(unpacked.join("boot"))?.flatten().map(|entry| entry.path());
    let image = image.filter(|path| path.to_string_lossy().contains("/vmlinuz-")).max();
    fs::copy(image.context("the kernel's package has no kernel")?, kernel(folder))?;
    fs::copy(unpacked.join("bin/busybox"), busybox(folder))?;
    tools::make_folder(&drivers(folder))?;
    keep_drivers(&unpacked.join("lib/modules"), &drivers(folder))?;
    ensure!(has_drivers(folder), "the kernel's package lacks one of {}", DRIVERS.join(", "));
    fs::remove_dir_all(&unpacked)?;
    Ok(())
}

/// Copies the drivers that a guest loads, wherever they are below `from`.
fn keep_drivers(from: &Path, to: &Path) -> Result<()> {
    for entry in fs::read_dir(from)?.flatten() {
        let path = entry.path();
        if path.is_dir() {
            keep_drivers(&path, to)?;
        }
        let is_driver = path.extension().is_some_and(|extension| extension == "ko");
        let name = path.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
        if is_driver && DRIVERS.contains(&name) {
            fs::copy(&path, to.join(format!("{name}.ko")))?;
        }
    }
    Ok(())
}

/// The package that another one stands for.
fn first_dependency(text: &str) -> Option<&str> {
    text.lines().find_map(|line| line.trim().strip_prefix("Depends: "))
}

/// Runs one of Debian's programs in `folder`, and says so.
pub(crate) fn debian(program: &str, args: &[&str], folder: &Path) -> Result<()> {
    println!("    {program} {}", args.join(" "));
    let status = Command::new(program).args(args).current_dir(folder).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => bail!("`{program} {}` ended with {status}", args.join(" ")),
        Err(error) => bail!("{program} is missing ({error}); a guest needs a Debian system"),
    }
}

// === impl Built ===

impl Built {
    /// Adds the executables that cargo's messages name, one message in each line.
    fn add(&mut self, messages: &str) {
        for line in messages.lines() {
            let Ok(message) = serde_json::from_str::<Value>(line) else { continue };
            let Some(path) = message["executable"].as_str() else { continue };
            let list =
                if message["profile"]["test"] == true { &mut self.tests } else { &mut self.others };
            list.push(PathBuf::from(path));
        }
    }
}

// === impl Archive ===

impl Archive {
    fn folder(&mut self, path: &str) {
        self.entry(path, 0o040_755, &[]);
    }

    fn program(&mut self, path: &str, content: &[u8]) {
        self.entry(path, 0o100_755, content);
    }

    fn finished(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, &[]);
        self.bytes
    }

    /// A header of hexadecimal numbers, the name with a zero byte, and the content; name and
    /// content are filled up to a multiple of four bytes.
    fn entry(&mut self, path: &str, mode: u32, content: &[u8]) {
        self.entries += 1;
        let (length, name_length) = (content.len(), path.len() + 1);
        self.bytes.extend(b"070701");
        let (number, zero) = (self.entries, 0);
        // Number, mode, owner, group, links, time.
        for field in [number, mode, zero, zero, 1, zero] {
            self.bytes.extend(format!("{field:08X}").bytes());
        }
        // Length, device (two numbers), device it stands for (two numbers), length of the name,
        // and a checksum that this format does not have.
        for field in [length, 0, 0, 0, 0, name_length, 0] {
            self.bytes.extend(format!("{field:08X}").bytes());
        }
        self.bytes.extend(path.bytes());
        self.bytes.push(0);
        self.fill_up();
        self.bytes.extend(content);
        self.fill_up();
    }

    fn fill_up(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_and_what_they_start_are_told_apart() {
        let messages = r#"{"reason":"compiler-artifact","executable":null,"profile":{"test":false}}
            not a message
            {"reason":"compiler-artifact","executable":"/t/walras","profile":{"test":false}}
            {"reason":"compiler-artifact","executable":"/t/kernel-1","profile":{"test":true}}
            {"reason":"build-finished","success":true}"#;
        let mut built = Built::default();
        built.add(messages);
        let paths = |path: &str| vec![PathBuf::from(path)];
        let expected = Built { tests: paths("/t/kernel-1"), others: paths("/t/walras") };
        assert_eq!(built, expected);
    }

    #[test]
    fn the_archive_is_what_the_kernel_unpacks() {
        let mut archive = Archive::default();
        archive.program("ab", b"hello");
        let bytes = archive.finished();
        assert!(
            bytes.starts_with(b"07070100000001000081ED0000000000000000000000010000000000000005")
        );
        // The header has 110 bytes and the name 3, filled up to 116; the content is filled up to 8.
        assert_eq!(&bytes[110..124], b"ab\0\0\0\0hello\0\0\0");
        assert!(bytes[124..].starts_with(b"070701"));
        assert!(bytes.len().is_multiple_of(4));
    }

    #[test]
    fn a_guest_that_runs_nothing_or_less_is_no_success() {
        assert_eq!(success(2), "guest> 2 of 2 passed");
        assert!(INIT.contains("echo \"guest> $passed of $all passed\""));
    }

    #[test]
    fn the_kernel_is_the_one_that_debian_names() {
        let text = "linux-image-cloud-amd64\n  Depends: linux-image-6.1.0-54-cloud-amd64\n";
        assert_eq!(first_dependency(text), Some("linux-image-6.1.0-54-cloud-amd64"));
        assert_eq!(first_dependency("E: No packages found\n"), None);
    }
}
