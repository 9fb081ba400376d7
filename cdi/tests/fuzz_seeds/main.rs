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

use std::fs;
use std::path::{Path, PathBuf};

fn folder(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds").join(target)
}

fn all_hold(target: &str, least: usize, holds: fn(&[u8])) {
    let inputs: Vec<PathBuf> = fs::read_dir(folder(target)).unwrap().map(|e| e.unwrap().path()).collect();
    assert!(inputs.len() >= least, "the seeds are missing");
    for path in inputs {
        let input = fs::read(&path).unwrap();
        let held = std::panic::catch_unwind(|| holds(&input));
        assert!(held.is_ok(), "{} breaks {target}, see above", path.display());
    }
}

#[test]
fn layers_hold() {
    all_hold("layers", 8, layers::layers);
}

#[test]
fn tar_holds() {
    all_hold("tar", 5, tar::tar);
}

#[test]
fn look_holds() {
    all_hold("look", 12, look::disk);
}

#[test]
fn resume_holds() {
    all_hold("resume", 6, resume::resume);
}
