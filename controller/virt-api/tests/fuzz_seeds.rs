//! Replay of the fuzz inputs in `controller/virt-api/fuzz/seeds`: seeds, and every input that once failed.

// The lint does not recognize helpers of tests as test code.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

#[path = "../fuzz/src/generate.rs"]
mod generate;
#[path = "../fuzz/src/judged.rs"]
mod judged;
#[path = "../fuzz/src/objects.rs"]
mod objects;
#[path = "../fuzz/src/review.rs"]
mod review;

use ::tests::seeds::all_hold;
use std::path::{Path, PathBuf};

fn folder(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds").join(target)
}

#[test]
fn objects_hold() {
    all_hold(&folder("admission"), 16, objects::admission);
}

#[test]
fn reviews_hold() {
    all_hold(&folder("review"), 6, review::review);
}
