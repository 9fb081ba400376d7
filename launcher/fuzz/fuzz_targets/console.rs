//! Readers and writers of one serial line, who come, stay away and leave as they like.
#![no_main]

#[path = "../src/console.rs"]
mod console;
#[path = "../src/tasks.rs"]
mod tasks;

libfuzzer_sys::fuzz_target!(|data: &[u8]| console::console(data));
