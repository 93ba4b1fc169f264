//! Gives back what a daemon that was killed had changed, before anything else is done.

use tracing::{info, warn};
use walras_cgroup::{Group, Layout, Original};

use walras_node::store::Store;

/// Gives back what cgroups came with before the daemon that wrote to them was killed. What cannot
/// be given back now is kept for the next time.
pub fn restore_left_behind(layout: &Layout, store: &mut Store, originals: Vec<Original>) -> usize {
    let mut done = Vec::new();
    let mut restored = 0;
    for original in originals {
        let (path, identity) = (original.path.clone(), original.identity);
        let adopted = Group::open(layout, &path).and_then(|group| group.adopt_again(original));
        match adopted.and_then(|mut adopted| adopted.restore()) {
            Ok(_) => {
                info!("{path}: has back what it came with");
                restored += 1;
                done.push(identity);
            }
            Err(error) if error.is_gone() => done.push(identity),
            Err(error) => warn!("{path}: cannot be given back what it came with: {error}"),
        }
    }
    if let Err(error) = store.forget_originals(&done) {
        warn!("{error}");
    }
    restored
}
