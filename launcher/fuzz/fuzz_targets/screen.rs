//! A viewer and QEMU send anything to each other; and a screenshot of QEMU has any content.
#![no_main]

#[path = "../src/screen.rs"]
mod screen;
#[path = "../src/tasks.rs"]
mod tasks;

libfuzzer_sys::fuzz_target!(|data: &[u8]| screen::screen(data));
