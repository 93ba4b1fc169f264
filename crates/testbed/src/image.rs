//! Builds the images that pods are started from, without any registry.
//!
//! An image is an OCI archive with a single program in it: a layer, a configuration, a manifest and
//! an index, all named by their sums. The programs are static and built from this checkout by
//! cargo. Equal programs give equal archives, byte for byte.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use crate::progress::say;
use crate::settings::Settings;

/// The target of programs that need nothing but a kernel.
const STATIC_TARGET: &str = match () {
    () if cfg!(target_arch = "aarch64") => "aarch64-unknown-linux-musl",
    () => "x86_64-unknown-linux-musl",
};

/// What the image for real clusters is called. There is no such registry, so that nobody can put
/// something else there: the image is imported into nodes, or pushed under another name.
const RELEASE_NAME: &str = "registry.invalid/walras";
/// Who the program runs as there: nobody that any system knows.
const RELEASE_USER: &str = "65532:65532";
/// How large that image may be.
const RELEASE_BYTES_MAX: usize = 25_000_000;

/// An image that was written to a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Archive {
    /// Where it is.
    pub path: PathBuf,
    /// What the image is called in it.
    pub reference: String,
    /// How large the file is.
    pub bytes: usize,
}

/// An image that the testbed knows how to build.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Image {
    /// What holds a pod.
    Pause,
    /// A service whose load can be turned up and down; see `crates/loadgen`.
    Loadgen,
    /// Walras itself.
    Walras,
}

/// Builds the programs of `images` and writes an archive of each to `folder`.
///
/// # Errors
///
/// If a program does not build, or if the target for static programs is missing.
pub(crate) fn build(images: &[Image], settings: &Settings, folder: &Path) -> Result<Vec<PathBuf>> {
    fs::create_dir_all(folder)?;
    let mut packages: Vec<&str> = images.iter().map(|image| image.package()).collect();
    packages.sort_unstable();
    packages.dedup();
    let programs = compile(&packages, Some(STATIC_TARGET), &settings.checkout)?;
    let mut archives = Vec::new();
    for image in images {
        let program = programs.iter().find(|path| path.ends_with(image.program()));
        let program = program.with_context(|| format!("cargo built no {}", image.program()))?;
        let archive = folder.join(format!("{}.tar", image.program()));
        let bytes = stripped(program, folder)?;
        fs::write(&archive, pack(image.reference(), image.program(), "", &bytes)?)?;
        archives.push(archive);
    }
    Ok(archives)
}

/// Builds Walras as it is shipped and writes an image of it to `out`, or to the target folder.
///
/// # Errors
///
/// If it does not build, cannot be written, or is larger than an image may be.
pub fn release(out: Option<&Path>, settings: &Settings) -> Result<Archive> {
    add_target(STATIC_TARGET)?;
    add_compiler()?;
    let args = ["--package", "walras", "--target", STATIC_TARGET, "--profile", "image"];
    let programs = cargo_build(&args, "walras for an image", &settings.checkout)?;
    let program = programs.iter().find(|path| path.ends_with("walras"));
    let program = program.context("cargo built no walras")?;
    let reference = format!("{RELEASE_NAME}:{}", env!("CARGO_PKG_VERSION"));
    let archive = pack(&reference, "walras", RELEASE_USER, &fs::read(program)?)?;
    let bytes = archive.len();
    ensure!(
        bytes <= RELEASE_BYTES_MAX,
        "the image has {bytes} bytes, and at most {RELEASE_BYTES_MAX} are allowed; see what grew \
         with `cargo tree --package walras`"
    );
    let path = out.map_or_else(|| program.with_file_name("walras-image.tar"), Path::to_path_buf);
    fs::write(&path, archive).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(Archive { path, reference, bytes })
}

/// An OCI archive of an image named `reference`, which holds one static program and starts it as
/// `user`, or as root where that is empty.
///
/// # Errors
///
/// If the name is too long for an archive.
pub fn pack(reference: &str, name: &str, user: &str, program: &[u8]) -> Result<Vec<u8>> {
    let mut layer = Tar::default();
    layer.add(name, 0o755, program)?;
    let layer = layer.finish();
    let architecture = if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" };
    let config = json!({
        "architecture": architecture,
        "os": "linux",
        "config": { "Entrypoint": [format!("/{name}")], "User": user, "WorkingDir": "/" },
        "rootfs": { "type": "layers", "diff_ids": [digest(&layer)] },
    })
    .to_string();
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": descriptor("application/vnd.oci.image.config.v1+json", config.as_bytes()),
        "layers": [descriptor("application/vnd.oci.image.layer.v1.tar", &layer)],
    })
    .to_string();
    let mut entry = descriptor("application/vnd.oci.image.manifest.v1+json", manifest.as_bytes());
    entry["annotations"] = json!({ "io.containerd.image.name": reference });
    let index = json!({ "schemaVersion": 2, "manifests": [entry] }).to_string();
    let mut archive = Tar::default();
    archive.add("oci-layout", 0o644, br#"{"imageLayoutVersion":"1.0.0"}"#)?;
    archive.add("index.json", 0o644, index.as_bytes())?;
    for blob in [manifest.as_bytes(), config.as_bytes(), &layer] {
        let sum = digest(blob).replace("sha256:", "");
        archive.add(&format!("blobs/sha256/{sum}"), 0o644, blob)?;
    }
    Ok(archive.finish())
}

/// Builds the binaries of `packages` with cargo, and says where they are.
pub(crate) fn compile(
    packages: &[&str],
    target: Option<&str>,
    checkout: &Path,
) -> Result<Vec<PathBuf>> {
    let mut args = Vec::new();
    for package in packages {
        args.extend(["--package", package]);
    }
    if let Some(target) = target {
        add_target(target)?;
        if packages.contains(&Image::Walras.package()) {
            add_compiler()?;
        }
        args.extend(["--target", target]);
    }
    cargo_build(&args, &packages.join(", "), checkout)
}

/// A program without what only a debugger needs, which would make up most of an image. Not by a
/// profile of cargo's: then everything it is made of would be compiled once more.
fn stripped(program: &Path, folder: &Path) -> Result<Vec<u8>> {
    let out = folder.join("stripped");
    let strip = Command::new("strip").arg("-o").arg(&out).arg(program).status();
    if strip.is_ok_and(|status| status.success()) {
        return Ok(fs::read(&out)?);
    }
    say("`strip` is missing, so the image is larger than it need be");
    Ok(fs::read(program)?)
}

/// What `cargo build --bins` makes with `args`.
fn cargo_build(args: &[&str], what: &str, checkout: &Path) -> Result<Vec<PathBuf>> {
    let mut command = Command::new("cargo");
    // What cargo tells a test of itself would make it build some packages anew.
    for (name, _) in std::env::vars_os() {
        let told = ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_", "CARGO_CRATE_", "OUT_DIR"];
        if name.to_str().is_some_and(|name| told.iter().any(|start| name.starts_with(start))) {
            command.env_remove(name);
        }
    }
    command.current_dir(checkout).args(["build", "--quiet", "--bins"]);
    command.arg("--message-format=json-render-diagnostics").args(args);
    say(&format!("building {what} with cargo"));
    let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output();
    let output = output.context("cargo is missing; install Rust with rustup")?;
    ensure!(output.status.success(), "cargo cannot build {what}");
    let text = String::from_utf8_lossy(&output.stdout);
    let messages = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    Ok(messages.filter_map(|message| Some(message["executable"].as_str()?.into())).collect())
}

fn add_target(target: &str) -> Result<()> {
    let output = Command::new("rustc").args(["--print", "sysroot"]).output();
    let output = output.context("rustc is missing; install Rust with rustup")?;
    let sysroot = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
    if sysroot.join("lib/rustlib").join(target).is_dir() {
        return Ok(());
    }
    say(&format!("rustup target add {target}"));
    let added = Command::new("rustup").args(["target", "add", target]).status();
    if !added.is_ok_and(|status| status.success()) {
        bail!("the target {target} is missing; install it with `rustup target add {target}`");
    }
    Ok(())
}

/// A compiler for the parts that are written in C, which are those that encrypt.
fn add_compiler() -> Result<()> {
    let there = Command::new("musl-gcc").arg("-v").stderr(Stdio::null()).status();
    if there.is_ok_and(|status| status.success()) {
        return Ok(());
    }
    let apt = |args: &[&str]| {
        say(&format!("apt-get {}", args.join(" ")));
        let status = Command::new("apt-get").args(args).stdout(Stdio::null()).status();
        status.is_ok_and(|status| status.success())
    };
    let install = ["install", "-y", "--no-install-recommends", "musl-tools"];
    // A fresh machine may have an old list of packages, or none.
    if apt(&install) || (apt(&["update"]) && apt(&install)) {
        return Ok(());
    }
    bail!("musl-gcc is missing; install it with `apt-get install musl-tools`");
}

fn descriptor(media_type: &str, bytes: &[u8]) -> Value {
    json!({ "mediaType": media_type, "digest": digest(bytes), "size": bytes.len() })
}

fn digest(bytes: &[u8]) -> String {
    let sum = ring::digest::digest(&ring::digest::SHA256, bytes);
    sum.as_ref().iter().fold("sha256:".to_owned(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("writing to a string cannot fail");
        text
    })
}

/// Files in the form that POSIX calls ustar, all of them root's, from the beginning of time.
#[derive(Default)]
struct Tar {
    bytes: Vec<u8>,
}

// === impl Tar ===

impl Tar {
    fn add(&mut self, name: &str, mode: u32, content: &[u8]) -> Result<()> {
        ensure!(name.len() < 100, "`{name}` is too long a name for an archive");
        let mut header = [0_u8; 512];
        let mut put = |at: usize, text: &str| {
            header[at..at + text.len()].copy_from_slice(text.as_bytes());
        };
        put(0, name);
        put(100, &format!("{mode:07o}"));
        // Owner and group.
        put(108, "0000000");
        put(116, "0000000");
        put(124, &format!("{:011o}", content.len()));
        // The time of the last change.
        put(136, "00000000000");
        // The sum is computed as if its own field were blank.
        put(148, "        ");
        put(156, "0");
        put(257, "ustar\u{0}00");
        let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
        header[148..156].copy_from_slice(format!("{sum:06o}\u{0} ").as_bytes());
        self.bytes.extend(header);
        self.bytes.extend(content);
        self.bytes.resize(self.bytes.len().next_multiple_of(512), 0);
        Ok(())
    }

    fn finish(mut self) -> Vec<u8> {
        self.bytes.extend([0; 1024]);
        self.bytes
    }
}

// === impl Image ===

impl Image {
    /// What a pod calls it. Its policy has to be `Never`, for there is nowhere to pull it from.
    #[must_use]
    pub fn reference(self) -> &'static str {
        match self {
            Self::Pause => "testbed.invalid/pause:testbed",
            Self::Loadgen => "testbed.invalid/loadgen:testbed",
            Self::Walras => "testbed.invalid/walras:testbed",
        }
    }

    fn package(self) -> &'static str {
        match self {
            Self::Pause | Self::Loadgen => "walras-loadgen",
            Self::Walras => "walras",
        }
    }

    fn program(self) -> &'static str {
        match self {
            Self::Pause => "pause",
            Self::Loadgen => "loadgen",
            Self::Walras => "walras",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lets the system's own `tar` look at an archive.
    fn tar(args: &[&str], archive: &[u8]) -> String {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("archive");
        fs::write(&path, archive).unwrap();
        let output = Command::new("tar").args(args).arg("-f").arg(&path).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    #[test]
    fn an_archive_is_what_tar_understands() {
        let mut archive = Tar::default();
        archive.add("a/b", 0o755, b"hello").unwrap();
        archive.add("empty", 0o644, b"").unwrap();
        let text = tar(&["--utc", "--full-time", "--numeric-owner", "-tv"], &archive.finish());
        let expected = "-rwxr-xr-x 0/0               5 1970-01-01 00:00:00 a/b\n\
                        -rw-r--r-- 0/0               0 1970-01-01 00:00:00 empty\n";
        assert_eq!(text, expected);
        assert!(Tar::default().add(&"x".repeat(100), 0, b"").is_err());
    }

    #[test]
    fn an_image_names_everything_by_its_sum() {
        let image = pack("r.invalid/x:y", "prog", "7:8", b"program").unwrap();
        assert_eq!(image, pack("r.invalid/x:y", "prog", "7:8", b"program").unwrap());
        let names = tar(&["-t"], &image);
        assert_eq!(names.lines().count(), 5, "{names}");
        let text = String::from_utf8_lossy(&image);
        for name in names.lines().filter_map(|name| name.strip_prefix("blobs/sha256/")) {
            assert!(text.contains(&format!("sha256:{name}")), "{name} is mentioned");
        }
        assert!(text.contains("\"Entrypoint\":[\"/prog\"],\"User\":\"7:8\""), "{text}");
        assert!(text.contains("\"io.containerd.image.name\":\"r.invalid/x:y\""));
        assert_eq!(
            digest(b""),
            "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
        );
    }
}
