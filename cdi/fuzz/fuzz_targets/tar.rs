//! A hostile archive tells one disk, however it arrives, or is refused.
#![no_main]

#[path = "../src/read.rs"]
mod read;
#[path = "../src/repair.rs"]
mod repair;
#[path = "../src/sparse.rs"]
mod sparse;
#[path = "../src/tar.rs"]
mod tar;

libfuzzer_sys::fuzz_target!(|data: &[u8]| tar::tar(data));
