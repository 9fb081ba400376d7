//! The committed inputs of fuzz targets.

use std::fs;
use std::path::{Path, PathBuf};

/// Every input in `folder` holds; there are at least so many of them.
pub fn all_hold(folder: &Path, least: usize, holds: fn(&[u8])) {
    let entries = fs::read_dir(folder).expect("the seeds are committed");
    let inputs: Vec<PathBuf> = entries.map(|entry| entry.expect("a seed").path()).collect();
    assert!(inputs.len() >= least, "the seeds are missing");
    for path in inputs {
        let input = fs::read(&path).expect("a seed");
        let held = std::panic::catch_unwind(|| holds(&input));
        assert!(held.is_ok(), "{} breaks it, see above", path.display());
    }
}
