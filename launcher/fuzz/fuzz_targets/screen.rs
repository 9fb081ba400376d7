//! A viewer and QEMU say anything to each other; and what QEMU calls a picture.
#![no_main]

#[path = "../src/screen.rs"]
mod screen;
#[path = "../src/tasks.rs"]
mod tasks;

libfuzzer_sys::fuzz_target!(|data: &[u8]| screen::screen(data));
