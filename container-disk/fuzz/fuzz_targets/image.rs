//! Hostile layers have the same disk, whichever way they are read, or are refused.
#![no_main]

#[path = "../src/image.rs"]
mod image;

libfuzzer_sys::fuzz_target!(|data: &[u8]| image::image(data));
