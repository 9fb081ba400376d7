//! The guest agent answers anything.
#![no_main]

#[path = "../src/agent.rs"]
mod agent;

libfuzzer_sys::fuzz_target!(|data: &[u8]| agent::agent(data));
