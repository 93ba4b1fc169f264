//! Permits over real sockets: statuses, versions, signatures, restarts, and hostile peers.

mod hostile;
mod served;
mod skew;
mod world;
