//! Replays the committed corpus through every check, on stable, as ordinary tests do.

use std::fs;
use std::path::Path;

use walras_fuzz::CHECKS;

#[test]
fn the_committed_corpus_passes_every_check() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    for check in CHECKS {
        let folder = corpus.join(check.name);
        let mut files: Vec<_> = fs::read_dir(&folder)
            .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
            .map(|entry| entry.expect("a readable folder").path())
            .collect();
        files.sort();
        assert!(!files.is_empty(), "{}: a target without a corpus", check.name);
        for file in &files {
            println!("{} {}", check.name, file.display());
            (check.run)(&fs::read(file).expect("a readable file"));
        }
        println!("{}: {} inputs", check.name, files.len());
    }
}

#[test]
fn every_target_has_a_check_and_a_file() {
    let targets = Path::new(env!("CARGO_MANIFEST_DIR")).join("targets");
    let mut files: Vec<String> = fs::read_dir(targets)
        .expect("the folder of targets")
        .map(|entry| entry.expect("a readable folder").path())
        .map(|path| path.file_stem().expect("a name").to_string_lossy().into_owned())
        .collect();
    files.sort();
    let mut names: Vec<&str> = CHECKS.iter().map(|check| check.name).collect();
    names.sort_unstable();
    assert_eq!(files, names);
}
