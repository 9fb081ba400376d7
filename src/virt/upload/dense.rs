//! Upload of a sparse disk without its holes: as a qcow2 file with its data, which our upload server can
//! read.
//!
//! ```text
//!  a raw file with holes ─► Dense (a qcow2, made while it is read) ─► tus ─► the upload pod, which reads any qcow2
//! ```
//!
//! The qcow2 of a Dense follows from the map of the holes, which is read once: a broken upload continues in
//! the same file, as long as the disk does not change.

use cdi::filter;
use cdi::source::{FileSource, Source as _, SparseFile};
use disk_format::qcow2::write::Dense;
use disk_format::{Format, ReadAt as _};

/// Maximum number of data runs in the map, which takes 24 MiB of memory.
const RUNS: usize = 1 << 20;
/// Minimum number of bytes that must be saved.
const LEAST: u64 = 1 << 20;

/// The qcow2 of a raw disk, if it is smaller than the disk by at least [`LEAST`].
pub(super) fn dense(file: &FileSource) -> Option<Dense<SparseFile>> {
    let size = file.facts().size.filter(|size| *size > LEAST && size.is_multiple_of(512))?;
    let disk = file.sparse()?;
    // A block device, and a file on a file system without holes, count as all data.
    let mut head = vec![0; usize::try_from(size).unwrap_or(usize::MAX).min(Format::HEAD)];
    disk.read_exact_at(&mut head, 0).ok()?;
    let is_plain = filter::detect(&head).is_none() && filter::refused_layer(&head).is_none();
    let is_raw = matches!(Format::probe(&head), Format::Raw | Format::Iso);
    if !is_plain || !is_raw {
        return None;
    }
    // A disk that no qcow2 can hold is sent as it is.
    let dense = Dense::new(disk, RUNS).ok()??;
    (dense.size().checked_add(LEAST)? <= size).then_some(dense)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::unix::fs::FileExt as _;

    #[test]
    fn only_a_raw_disk_with_holes_is_sent_without_them() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("disk.img");
        let of = |size: u64, head: &[u8], full: bool| {
            let file = File::create(&path).unwrap();
            file.set_len(size).unwrap();
            file.write_all_at(head, 0).unwrap();
            if full {
                file.write_all_at(&vec![1; size as usize - 4096], 4096).unwrap();
            }
            dense(&FileSource::open(&path).unwrap()).map(|dense| dense.size())
        };
        let sparse = of(64 << 20, b"boot", false);
        assert!(sparse.is_some_and(|size| size < 1 << 20), "{sparse:?}");
        for (size, head, full) in [
            (8 << 20, &b"boot"[..], true),
            (64 << 20, b"QFI\xfb\0\0\0\x03", false),
            (64 << 20, b"\x1f\x8b\x08", false),
            (64 << 20, b"KDMV", false),
            ((64 << 20) + 1, b"boot", false),
            (512, b"boot", false),
        ] {
            assert_eq!(of(size, head, full), None, "{size} {head:?} {full}");
        }
    }
}
