//! `cargo xtask docker`: Debian's Docker for tests, unpacked into the cache and not installed.
//!
//! The tests of `crates/walras` named `docker` start it with data and a socket of their own. The
//! compose plugin and a client of gRPC come with it. Asking twice does nothing the second time.

use std::fs;

use anyhow::{Context, Result};

use crate::go;
use crate::guest::debian;
use crate::toolchain;
use crate::tools::{Places, make_folder};

/// What a Docker is made of, and what its image is.
const PACKAGES: [&str; 5] = ["docker.io", "containerd", "runc", "tini", "busybox-static"];

/// Sees to it that the programs are there.
pub(crate) fn prepare() -> Result<()> {
    let places = Places::find()?;
    let folder = places.cache.join("docker");
    if !folder.join("usr/sbin/dockerd").is_file() {
        let unfinished = places.cache.join(format!("docker.{}.unfinished", std::process::id()));
        make_folder(&unfinished)?;
        let download = [&["download"][..], &PACKAGES[..]].concat();
        if debian("apt-get", &download, &unfinished).is_err() {
            // What the machine knows of the archive may be old.
            debian("apt-get", &["update"], &unfinished)?;
            debian("apt-get", &download, &unfinished)
                .context("Docker's programs are missing, and are fetched on Debian only")?;
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
    }
    println!("Docker is in {}", folder.display());
    toolchain::meet(&places)?;
    go::COMPOSE.prepare(&places)?;
    go::GRPCURL.prepare(&places)?;
    Ok(())
}
