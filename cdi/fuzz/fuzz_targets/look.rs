//! A hostile disk is looked at: partition tables, filesystems, discs.
#![no_main]

#[path = "../src/look.rs"]
mod look;
#[path = "../src/sparse.rs"]
mod sparse;

libfuzzer_sys::fuzz_target!(|data: &[u8]| look::disk(data));
