//! The program under the name that kubectl looks for.

use assert_cmd::Command;

use crate::{refusal_of, stdout_of};

/// The plugin, in a folder of its own that is gone afterwards.
fn plugin(folder: &tempfile::TempDir, arguments: &[&str]) -> Command {
    let link = folder.path().join("kubectl-walras");
    if !link.exists() {
        std::os::unix::fs::symlink(assert_cmd::cargo::cargo_bin!("walras"), &link)
            .expect("a link can be made in a new folder");
    }
    let mut command = Command::new(link);
    command.args(arguments).env("KUBECONFIG", "none");
    command
}

#[test]
fn every_command_has_an_example() {
    let folder = tempfile::tempdir().unwrap();
    for command in [&[][..], &["preview"], &["explain"], &["pause"], &["resume"]] {
        let help = stdout_of(plugin(&folder, &[command, &["--help"]].concat()));
        assert!(help.contains("Examples:\n  kubectl walras "), "{help}");
        assert!(help.lines().all(|line| line.chars().count() <= 100), "{help}");
    }
}

#[test]
fn a_pause_without_saying_whom_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    for arguments in [&["pause"][..], &["resume"], &["pause", "--all", "-n", "shop"]] {
        let (code, stdout, stderr) = refusal_of(plugin(&folder, arguments));
        assert_eq!((code, stdout.as_str()), (Some(2), ""), "{arguments:?}");
        assert!(stderr.contains("say whom it is for") || stderr.contains("--all"), "{stderr}");
    }
}

#[test]
fn a_missing_cluster_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["preview", "--kubeconfig", "does-not-exist"];
    let (code, stdout, stderr) = refusal_of(plugin(&folder, &arguments));
    assert_eq!((code, stdout.as_str()), (Some(1), ""));
    assert!(stderr.contains("the kubeconfig cannot be used"), "{stderr}");
}
