//! `cargo xtask docker`: Debian's Docker for tests, unpacked into the cache and not installed.
//!
//! The tests of `crates/walras` named `docker` start it with data and a socket of their own. The
//! compose plugin and a client of gRPC come with it; gRPC's tools for Python; Prometheus' node
//! exporter; and QEMU with a guest and libvirt, which are installed. Asking twice does nothing the
//! second time.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::go;
use crate::guest::{self, debian};
use crate::toolchain;
use crate::tools::{self, Places, make_folder};

/// What a Docker is made of, and what its image is.
const PACKAGES: [&str; 5] = ["docker.io", "containerd", "runc", "tini", "busybox-static"];

/// What makes a client of a protocol in Python, in one version.
const PYTHON_PACKAGES: [&str; 2] = ["grpcio==1.85.1", "grpcio-tools==1.85.1"];

/// Prometheus' node exporter, which telemetry is compared with.
const EXPORTER: &str = "usr/bin/prometheus-node-exporter";

/// Sees to it that the programs are there.
pub(crate) fn prepare() -> Result<()> {
    let places = Places::find()?;
    let folder = unpacked(&places, "docker", &PACKAGES, "usr/sbin/dockerd")?;
    unpacked(&places, "exporter", &["prometheus-node-exporter"], EXPORTER)?;
    println!("Docker is in {}", folder.display());
    toolchain::meet(&places)?;
    go::COMPOSE.prepare(&places)?;
    go::GRPCURL.prepare(&places)?;
    python(&places)?;
    guest::meet(&places)?;
    tools::meet_package("qemu-img", "--version", "qemu-utils")?;
    tools::meet_package("virsh", "--version", "libvirt-clients")?;
    tools::meet_package("libvirtd", "--version", "libvirt-daemon")
}

/// A Python of its own with gRPC's tools.
fn python(places: &Places) -> Result<()> {
    let folder = places.cache.join("python");
    let program = folder.join("bin/python");
    let has_tools = |program: &std::path::Path| {
        let mut asked = Command::new(program);
        asked.args(["-c", "import grpc_tools, grpc"]).output().is_ok_and(|it| it.status.success())
    };
    if !has_tools(&program) {
        println!("    pip install {}", PYTHON_PACKAGES.join(" "));
        let made = Command::new("python3").args(["-m", "venv"]).arg(&folder).status();
        ensure!(made.is_ok_and(|status| status.success()), "there is no Python with `venv`");
        let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
        let installed = Command::new(&program).args(pip).args(PYTHON_PACKAGES).status();
        ensure!(installed.is_ok_and(|status| status.success()), "pip does not install them");
    }
    println!("Python is in {}", folder.display());
    Ok(())
}

/// The folder of the cache that Debian's packages are unpacked in, of which one has `program`.
fn unpacked(places: &Places, name: &str, packages: &[&str], program: &str) -> Result<PathBuf> {
    let folder = places.cache.join(name);
    if folder.join(program).is_file() {
        return Ok(folder);
    }
    let unfinished = places.cache.join(format!("{name}.{}.unfinished", std::process::id()));
    make_folder(&unfinished)?;
    let download = [&["download"][..], packages].concat();
    if debian("apt-get", &download, &unfinished).is_err() {
        // What the machine knows of the archive may be old.
        debian("apt-get", &["update"], &unfinished)?;
        debian("apt-get", &download, &unfinished)
            .with_context(|| format!("{program} is missing, and is fetched on Debian only"))?;
    }
    for entry in fs::read_dir(&unfinished)?.flatten() {
        let path = entry.path();
        if path.extension().is_some_and(|extension| extension == "deb") {
            debian("dpkg-deb", &["-x", &path.to_string_lossy(), "."], &unfinished)?;
            fs::remove_file(&path)?;
        }
    }
    // Another run may have been faster; its programs are as good.
    if fs::rename(&unfinished, &folder).is_err() {
        fs::remove_dir_all(&unfinished)?;
    }
    Ok(folder)
}
