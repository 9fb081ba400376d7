//! The inputs of the fuzz targets in `cdi/fuzz/seeds`: seeds, and every input that once broke something.

// Helpers of tests are not seen as tests by the lint.
#![allow(clippy::unwrap_used)]

#[path = "../../fuzz/src/layers.rs"]
mod layers;
#[path = "../../fuzz/src/look.rs"]
mod look;
mod make;
#[path = "../../fuzz/src/pack.rs"]
mod pack;
#[path = "../../fuzz/src/read.rs"]
mod read;
#[path = "../../fuzz/src/repair.rs"]
mod repair;
#[path = "../../fuzz/src/resume.rs"]
mod resume;
#[path = "../../fuzz/src/sparse.rs"]
mod sparse;
#[path = "../../fuzz/src/tar.rs"]
mod tar;

use ::tests::seeds::all_hold;
use std::path::{Path, PathBuf};

fn folder(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds").join(target)
}

#[test]
fn layers_hold() {
    all_hold(&folder("layers"), 8, layers::layers);
}

#[test]
fn tar_holds() {
    all_hold(&folder("tar"), 5, tar::tar);
}

#[test]
fn look_holds() {
    all_hold(&folder("look"), 12, look::disk);
}

#[test]
fn resume_holds() {
    all_hold(&folder("resume"), 6, resume::resume);
}
