//! A guest asks for its address in any words.
#![no_main]

#[path = "../src/dhcp.rs"]
mod dhcp;

libfuzzer_sys::fuzz_target!(|data: &[u8]| dhcp::dhcp(data));
