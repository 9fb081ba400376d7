//! Any body of an HTTP request is answered as an admission review, or refused.
#![no_main]

#[path = "../src/judged.rs"]
mod judged;
#[path = "../src/review.rs"]
mod review;

libfuzzer_sys::fuzz_target!(|data: &[u8]| review::review(data));
