//! Hostile documents and names are read or refused.
#![no_main]

#[path = "../src/documents.rs"]
mod documents;

libfuzzer_sys::fuzz_target!(|data: &[u8]| documents::documents(data));
