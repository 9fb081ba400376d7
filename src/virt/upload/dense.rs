//! Upload of a sparse disk without its holes: as a qcow2 file with its data, which our upload server can
//! read.
//!
//! ```text
//!  a raw file with holes ─► Dense (a qcow2, made while it is read) ─► tus ─► the upload pod, which reads any qcow2
//! ```
//!
//! The qcow2 of a Dense follows from the map of the holes, which is read once: a broken upload continues in
//! the same file, as long as the disk does not change.

use crate::error::{Error, Result};
use cdi::filter;
use cdi::source::{FileSource, Source as _, SparseFile};
use disk_format::qcow2::write::Dense;
use disk_format::{Format, ReadAt as _};
use std::io;

/// Maximum number of data runs in the map, which takes 24 MiB of memory.
const RUNS: usize = 1 << 20;
/// Minimum number of bytes that must be saved.
const LEAST: u64 = 1 << 20;

/// The qcow2 of a raw disk that begins as something else, which a server would take it for: a guest wrote that. `None` if the disk
/// begins as a raw one.
pub(super) fn undisguised(file: &FileSource) -> Result<Option<Dense<SparseFile>>> {
    let name = &file.facts().name;
    let refused = || refusal(name);
    let (disk, size) = file.sparse().zip(file.facts().size).ok_or_else(refused)?;
    let head = head_of(&disk, size).map_err(|e| Error::io(format!("cannot read {name}"), e))?;
    if begins_raw(&head) {
        return Ok(None);
    }
    Dense::new(disk, RUNS).ok().flatten().map(Some).ok_or_else(refused)
}

/// Refusal to send a raw disk as it is, where it begins as another format.
pub(super) fn refusal(name: &str) -> Error {
    let what = format!(
        "{name} is a raw disk of a VM, and begins as another format, which the server would take it for"
    );
    Error::refused(what)
        .with_hint(format!("'coracle convert -f raw {name} COPY.qcow2' makes a disk that says what it is"))
}

/// The qcow2 of a raw disk, if it is smaller than the disk by at least [`LEAST`].
pub(super) fn dense(file: &FileSource) -> Option<Dense<SparseFile>> {
    let size = file.facts().size.filter(|size| *size > LEAST && size.is_multiple_of(512))?;
    let disk = file.sparse()?;
    // A block device, and a file on a file system without holes, count as all data.
    if !begins_raw(&head_of(&disk, size).ok()?) {
        return None;
    }
    // A disk that no qcow2 can hold is sent as it is.
    let dense = Dense::new(disk, RUNS).ok()??;
    (dense.size().checked_add(LEAST)? <= size).then_some(dense)
}

fn head_of(disk: &SparseFile, size: u64) -> io::Result<Vec<u8>> {
    let mut head = vec![0; usize::try_from(size).unwrap_or(usize::MAX).min(Format::HEAD)];
    disk.read_exact_at(&mut head, 0)?;
    Ok(head)
}

/// True for the first bytes of a raw disk, of which a server decodes nothing.
fn begins_raw(head: &[u8]) -> bool {
    let is_plain = filter::detect(head).is_none() && filter::refused_layer(head).is_none();
    is_plain && matches!(Format::probe(head), Format::Raw | Format::Iso)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::unix::fs::FileExt as _;

    /// The guest of a raw disk chose by a header which disk the cluster imported, and its size.
    #[test]
    fn a_raw_disk_that_begins_as_another_format_is_sent_as_the_data_of_a_qcow2() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("disk.img");
        let of = |head: &[u8]| {
            std::fs::write(&path, [head, &[7; 8192]].concat()).unwrap();
            undisguised(&FileSource::open(&path).unwrap()).unwrap()
        };
        assert!(of(b"boot").is_none());
        for head in [&b"QFI\xfb\0\0\0\x03"[..], b"\x1f\x8b\x08", b"KDMV"] {
            let mut front = [0; 32];
            of(head).unwrap().read_exact_at(&mut front, 0).unwrap();
            assert_eq!(front[..4], *b"QFI\xfb");
            let size = u64::from_be_bytes(front[24..].try_into().unwrap());
            assert_eq!(size, (8192 + head.len() as u64).next_multiple_of(512), "{head:?}");
        }
    }

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
