//! Readers and writers of one serial console, connecting and leaving at any time.
#![no_main]

#[path = "../src/console.rs"]
mod console;
#[path = "../src/tasks.rs"]
mod tasks;

libfuzzer_sys::fuzz_target!(|data: &[u8]| console::console(data));
