//! Makes Rust of our protocols, and the descriptions of them that servers hand out.
//!
//! Called by `cargo xtask proto` with the folder of the protocols and the folder to write to. No
//! compiler for protocols has to be installed. Each protocol is copied beside what was made of it,
//! so that a test can tell when it changed.

use std::error::Error;
use std::path::PathBuf;
use std::{env, fs};

use prost::Message;

/// The protocols, and the packages that are in them.
const PROTOCOLS: [(&str, &str); 4] = [
    ("agent", "persys.agent.v1"),
    ("control", "persys.control.v1"),
    ("scheduler", "scheduler"),
    ("telemetry", "walras.telemetry.v1"),
];

fn main() -> Result<(), Box<dyn Error>> {
    let mut folders = env::args_os().skip(1).map(PathBuf::from);
    let from = folders.next().ok_or("the folder of the protocols is missing")?;
    let to = folders.next().ok_or("the folder to write to is missing")?;
    fs::create_dir_all(&to)?;
    for (name, package) in PROTOCOLS {
        let protocol = format!("{name}.proto");
        let description = protox::compile([&protocol], [&from])?;
        fs::write(to.join(format!("{name}.bin")), description.encode_to_vec())?;
        tonic_prost_build::configure().btree_map(".").out_dir(&to).compile_fds(description)?;
        // Not Rust of ours, and so not called that: it is included.
        fs::rename(to.join(format!("{package}.rs")), to.join(format!("{name}.rs.in")))?;
        fs::copy(from.join(&protocol), to.join(format!("{name}.from")))?;
    }
    Ok(())
}
