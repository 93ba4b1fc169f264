//! Holds a pod: the first process of its sandbox, which only has to be there.
//!
//! The runtime starts it before the containers and kills it after them; it waits for that and does
//! nothing else. It never returns, because the sandbox would be gone.

fn main() {
    loop {
        std::thread::park();
    }
}
