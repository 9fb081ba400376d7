//! A guest asks for its address of IPv6 in any words.
#![no_main]

#[path = "../src/dhcp6.rs"]
mod dhcp6;

libfuzzer_sys::fuzz_target!(|data: &[u8]| dhcp6::dhcp6(data));
