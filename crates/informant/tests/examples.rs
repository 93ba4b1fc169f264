//! What `deploy/informant` ships for guests is what their init systems understand.

use std::fs;
use std::process::{Command, Output};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/informant");

fn words(output: &Output) -> String {
    let both = [output.stdout.as_slice(), output.stderr.as_slice()].concat();
    String::from_utf8_lossy(&both).trim().to_owned()
}

#[test]
fn the_scripts_are_scripts() {
    for name in ["init", "walras-informant.openrc"] {
        let checked = Command::new("sh").arg("-n").arg(format!("{FOLDER}/{name}")).output();
        let checked = checked.expect("there is a shell");
        assert!(checked.status.success(), "{name}: {}", words(&checked));
        let text = fs::read_to_string(format!("{FOLDER}/{name}")).expect("it is there");
        assert!(text.contains("/usr/local/bin/walras-informant"), "{name} starts something else");
    }
}

/// systemd itself says whether it understands the unit, where there is a systemd.
#[test]
fn the_unit_has_nothing_that_systemd_does_not_know() {
    let unit = fs::read_to_string(format!("{FOLDER}/walras-informant.service")).expect("a unit");
    // It wants the program to be there.
    let here =
        unit.replace("/usr/local/bin/walras-informant", env!("CARGO_BIN_EXE_walras-informant"));
    assert_ne!(here, unit, "it starts something else");
    let verify = |text: &str| {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("walras-informant.service");
        fs::write(&file, text).expect("it is written");
        Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&file).output()
    };
    let Ok(checked) = verify(&here) else {
        println!("not checked: there is no systemd-analyze here");
        return;
    };
    assert_eq!(words(&checked), "", "{here}");
    // It says so where there is something.
    let wrong = verify(&here.replace("RestartSec", "RestartSek")).expect("as above");
    assert!(words(&wrong).contains("RestartSek"), "{}", words(&wrong));
}
