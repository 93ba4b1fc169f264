//! The compiled eBPF programs are those of the committed sources: `cargo xtask bpf` writes their
//! sums together, and a change of a source alone is found here. `sha256sum -c` says the same.

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use ring::digest::{SHA256, digest};

    fn sum(path: &Path) -> String {
        let bytes = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let sum = digest(&SHA256, &bytes);
        sum.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn object_and_sources_have_the_sums_that_were_written_together() {
        let folder = Path::new("ebpf");
        let listed = fs::read_to_string(folder.join("telemetry.sha256")).unwrap();
        let mut names = Vec::new();
        for line in listed.lines() {
            let (expected, name) = line.split_once("  ").unwrap();
            let advice = "run `cargo xtask bpf` and commit what it wrote";
            assert_eq!(sum(&folder.join(name)), expected, "{name}: {advice}");
            names.push(name);
        }
        assert_eq!(names, ["kernel.h", "telemetry.bpf.c", "telemetry.bpf.o"]);
    }
}
