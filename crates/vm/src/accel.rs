//! Whether KVM works here, found out by using it.
//!
//! That `/dev/kvm` is there says little: inside of some virtual machines a guest starts and then
//! stands still, or runs slower than without. So the smallest guest there is, a boot sector that
//! ends QEMU with a code, is booted with KVM. Only one that is done soon counts.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tokio::time;

use crate::args::Engine;
use crate::error::VmError;
use crate::spec::Accel;

/// On a host with KVM it takes a fifth of a second, and half a second without.
const SOON: Duration = Duration::from_secs(3);
/// How often it is looked at.
const BETWEEN: Duration = Duration::from_millis(20);
/// What the boot sector writes to the port that ends QEMU, and the code that QEMU makes of it.
const WRITTEN: u8 = 0x10;
const ENDED: i32 = 0x21;

/// Who runs a machine's instructions.
///
/// # Errors
/// KVM is insisted on, and does not work.
pub(crate) fn choose(accel: Accel, works: bool, name: &str) -> Result<Engine, VmError> {
    match accel {
        Accel::Tcg => Ok(Engine::Tcg),
        Accel::Auto if works => Ok(Engine::Kvm),
        Accel::Auto => Ok(Engine::Tcg),
        Accel::Kvm if works => Ok(Engine::Kvm),
        Accel::Kvm => Err(VmError::NotStarted {
            name: name.to_owned(),
            because: "KVM was asked for and does not work here: a guest of one sector was not \
                      done after 3 s; use `auto` or `tcg`"
                .to_owned(),
        }),
    }
}

/// Whether KVM works. Takes a few seconds where it does not; `folder` is for a small file.
pub(crate) async fn kvm_works(program: &Path, folder: &Path) -> bool {
    Path::new("/dev/kvm").exists() && boots("kvm", program, folder).await
}

/// Whether a guest of one sector boots soon.
async fn boots(accel: &str, program: &Path, folder: &Path) -> bool {
    let image = folder.join(format!("probe-{}.img", std::process::id()));
    if fs::write(&image, boot_sector()).is_err() {
        return false;
    }
    let node = serde_json::json!({
        "driver": "raw", "node-name": "probe", "read-only": true,
        "file": { "driver": "file", "filename": image.to_string_lossy() },
    });
    let child = Command::new(program)
        .args(["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-m", "64"])
        .args(["-machine", &format!("q35,accel={accel}"), "-blockdev", &node.to_string()])
        .args(["-device", "virtio-blk-pci,drive=probe,bootindex=0"])
        .args(["-device", "isa-debug-exit,iobase=0xf4,iosize=1"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let Ok(mut child) = child else { return false };
    let deadline = Instant::now() + SOON;
    let code = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status.code(),
            Ok(None) if Instant::now() < deadline => time::sleep(BETWEEN).await,
            Ok(None) | Err(_) => break None,
        }
    };
    // It may have ended by now, and the file may be gone: there is nothing else to be done.
    child.kill().ok();
    child.wait().ok();
    fs::remove_file(&image).ok();
    code == Some(ENDED)
}

/// A disk whose first sector ends QEMU: no interrupts, write the value, halt for ever.
fn boot_sector() -> Vec<u8> {
    let code = [0xFA, 0xB0, WRITTEN, 0xE6, 0xF4, 0xF4, 0xEB, 0xFD];
    let mut disk = vec![0; 1 << 20];
    disk[..code.len()].copy_from_slice(&code);
    disk[510..512].copy_from_slice(&[0x55, 0xAA]);
    disk
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn kvm_is_used_only_where_it_works() {
        let chosen = |accel, works: bool| choose(accel, works, "db").ok();
        assert_eq!(chosen(Accel::Auto, true), Some(Engine::Kvm));
        assert_eq!(chosen(Accel::Auto, false), Some(Engine::Tcg));
        assert_eq!(chosen(Accel::Kvm, false), None);
        assert_eq!(chosen(Accel::Tcg, true), Some(Engine::Tcg));
        let folder = tempfile::tempdir().unwrap();
        assert!(!boots("kvm", Path::new("/bin/false"), folder.path()).await);
    }
}
