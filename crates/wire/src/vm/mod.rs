//! Messages about virtual machines: between agent and scheduler ([`permit`]), between agent and
//! guest ([`informant`]), how they prove who they are ([`auth`]), and what a goal is made of
//! ([`goal`]).
//!
//! The names are those of the documents that agents, schedulers and guests were written after, so
//! that old and new ones understand each other. Reading is strict: what is unknown, of another
//! kind, twice there or too long is refused as a whole.

pub mod amount;
pub mod auth;
pub mod goal;
pub mod informant;
pub mod permit;
