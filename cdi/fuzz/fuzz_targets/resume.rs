//! A compressed stream entered at its boundaries tells the same rest.
#![no_main]

#[path = "../src/pack.rs"]
mod pack;
#[path = "../src/read.rs"]
mod read;
#[path = "../src/repair.rs"]
mod repair;
#[path = "../src/resume.rs"]
mod resume;

libfuzzer_sys::fuzz_target!(|data: &[u8]| resume::resume(data));
