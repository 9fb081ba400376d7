//! A hostile qcow2 file that arrives in pieces tells what its tables tell.
#![no_main]

#[path = "../src/qcow2.rs"]
#[allow(dead_code, reason = "each target uses its part")]
mod qcow2;
#[path = "../src/sparse.rs"]
mod sparse;

libfuzzer_sys::fuzz_target!(|data: &[u8]| qcow2::stream(data));
