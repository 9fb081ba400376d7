//! A client of the launcher's socket sends anything.
#![no_main]

#[path = "../src/server.rs"]
mod server;
#[path = "../src/tasks.rs"]
mod tasks;

libfuzzer_sys::fuzz_target!(|data: &[u8]| server::server(data));
