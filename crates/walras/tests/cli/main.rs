//! The program as a user meets it: what it prints, where, and with which exit code.

mod about;
mod brain;
#[cfg(feature = "run")]
mod brain_malformed;
#[cfg(feature = "run")]
mod brain_serve;
mod clear;
mod crds;
mod daemon;
mod demo;
mod pack;
mod place;
mod plugin;
mod refused;
mod replay;
mod sim;
mod tune;
mod vm;
mod workloads;

use assert_cmd::Command;

/// The program, to be run from the root of the checkout.
fn walras(arguments: &[&str]) -> Command {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("walras"));
    command.args(arguments).current_dir("../..");
    command
}

/// What the program prints when all is well.
fn stdout_of(mut command: Command) -> String {
    let output = command.output().expect("the program runs");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{:?}: {stderr}", output.status);
    assert_eq!(stderr, "");
    String::from_utf8(output.stdout).expect("the program prints text")
}

/// What the program complains of: the exit code, standard output and standard error.
fn refusal_of(mut command: Command) -> (Option<i32>, String, String) {
    let output = command.output().expect("the program runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("the program prints text");
    (output.status.code(), text(output.stdout), text(output.stderr))
}
