//! Hostile documents and names are either read or refused.
#![no_main]

#[path = "../src/documents.rs"]
mod documents;

libfuzzer_sys::fuzz_target!(|data: &[u8]| documents::documents(data));
