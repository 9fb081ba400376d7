//! A hostile archive has the same members, however its bytes arrive, or is refused.
#![no_main]

#[path = "../src/tar.rs"]
mod tar;

libfuzzer_sys::fuzz_target!(|data: &[u8]| tar::tar(data));
