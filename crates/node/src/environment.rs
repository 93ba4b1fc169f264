//! The environment, which nothing else reads.

/// What the environment says, for what systemd and others hand over there.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "this is the loader that may read it")]
pub fn environment(name: &str) -> Option<std::ffi::OsString> {
    std::env::var_os(name)
}
