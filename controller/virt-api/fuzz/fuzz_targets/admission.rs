//! Objects that nearly match our schemas are sent to each webhook.
#![no_main]

#[path = "../src/generate.rs"]
mod generate;
#[path = "../src/judged.rs"]
mod judged;
#[path = "../src/objects.rs"]
mod objects;

libfuzzer_sys::fuzz_target!(|data: &[u8]| objects::admission(data));
