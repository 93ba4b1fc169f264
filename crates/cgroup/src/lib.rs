//! The kernel's control groups: found, read, written and given back.
#![forbid(unsafe_code)]
