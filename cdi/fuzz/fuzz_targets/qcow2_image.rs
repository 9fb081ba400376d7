//! The tables of a hostile qcow2 file: opened, walked in all windows, all data unpacked.
#![no_main]

#[path = "../src/qcow2.rs"]
#[allow(dead_code, reason = "each target uses its part")]
mod qcow2;
#[path = "../src/sparse.rs"]
mod sparse;

libfuzzer_sys::fuzz_target!(|data: &[u8]| qcow2::image(data));
