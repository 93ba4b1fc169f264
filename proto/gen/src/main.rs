//! Makes Rust of `agent.proto`, and the description of it that servers hand out.
//!
//! Called by `cargo xtask proto` with the folder of the protocol and the folder to write to. No
//! compiler for protocols has to be installed. The protocol itself is copied beside what was made
//! of it, so that a test can tell when it changed.

use std::error::Error;
use std::path::PathBuf;
use std::{env, fs};

use prost::Message;

const PROTOCOL: &str = "agent.proto";

fn main() -> Result<(), Box<dyn Error>> {
    let mut folders = env::args_os().skip(1).map(PathBuf::from);
    let from = folders.next().ok_or("the folder of the protocol is missing")?;
    let to = folders.next().ok_or("the folder to write to is missing")?;
    let description = protox::compile([PROTOCOL], [&from])?;
    fs::create_dir_all(&to)?;
    fs::write(to.join("agent.bin"), description.encode_to_vec())?;
    tonic_prost_build::configure().btree_map(".").out_dir(&to).compile_fds(description)?;
    // Not Rust of ours, and so not called that: it is included.
    fs::rename(to.join("persys.agent.v1.rs"), to.join("agent.rs.in"))?;
    fs::copy(from.join(PROTOCOL), to.join("agent.from"))?;
    Ok(())
}
