//! Feeds libFuzzer's bytes to the check of the same name; see `src/lib.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| walras_fuzz::load_model(bytes));
