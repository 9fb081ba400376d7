//! References of an image file to other files. Only names are read; no file is opened.
//!
//! Readers refuse images with such references. This module parses the header on its own, so that the name of
//! the other file can still be reported.

use super::field::Fields;

/// A reference to another file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    pub kind: ReferenceKind,
    /// Name of the other file, safe to print. `None` if the header only has a flag for it, or if the name
    /// lies outside of the given bytes.
    pub name: Option<String>,
    /// Format of the other file, according to the image.
    pub format: Option<String>,
}

/// Kind of a reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReferenceKind {
    /// The disk below an overlay.
    BackingFile,
    /// The file with the guest's data.
    DataFile,
}

/// Maximum length of a name, from the format.
const LONGEST: u32 = 1023;
const DATA_FILE_FEATURE: u64 = 1 << 2;
const EXT_END: u32 = 0;
const EXT_BACKING_FORMAT: u32 = 0xe279_2aca;
const EXT_DATA_FILE: u32 = 0x4441_5441;

/// The references of a qcow2 (or qcow1, or QED) image, from the first bytes of its file. 64 KiB are enough
/// for common tools. Other formats have no known references.
pub fn outside(head: &[u8]) -> Vec<Reference> {
    match head.get(..4) {
        Some(b"QFI\xfb") => qcow(head).unwrap_or_default(),
        Some(b"QED\0") => qed(head).into_iter().collect(),
        _ => vec![],
    }
}

fn qcow(head: &[u8]) -> Option<Vec<Reference>> {
    let version = head.be32(4)?;
    let (at, len) = (head.be64(8)?, head.be32(16)?);
    let extensions = Extensions::read(head, version);
    let mut found = vec![];
    if at != 0 {
        let name = (len <= LONGEST).then(|| name(head, at, len)).flatten();
        found.push(Reference { kind: ReferenceKind::BackingFile, name, format: extensions.backing_format });
    }
    let data_file = version >= 3 && head.be64(72).is_some_and(|f| f & DATA_FILE_FEATURE != 0);
    if data_file || extensions.data_file.is_some() {
        let format = Some("raw".into());
        found.push(Reference { kind: ReferenceKind::DataFile, name: extensions.data_file, format });
    }
    Some(found)
}

fn name(head: &[u8], at: u64, len: u32) -> Option<String> {
    let from = usize::try_from(at).ok()?;
    let bytes = head.get(from..from.checked_add(len as usize)?)?;
    printable_name(bytes)
}

/// A file name that is safe to print. It may be longer than a label, and keeps its blanks, unlike
/// `field::text`.
fn printable_name(bytes: &[u8]) -> Option<String> {
    let whole = String::from_utf8_lossy(bytes);
    let name = printable::text(whole.trim_end_matches('\0'), LONGEST as usize);
    (!name.is_empty()).then_some(name)
}

/// The header extensions of qcow2 with references to other files.
#[derive(Default)]
struct Extensions {
    backing_format: Option<String>,
    data_file: Option<String>,
}

impl Extensions {
    fn read(head: &[u8], version: u32) -> Extensions {
        let mut found = Extensions::default();
        let mut at = match version {
            2 => 72,
            3 => head.be32(100).map_or(104, |n| n.max(104) as usize),
            _ => return found,
        };
        // More than a few are invalid. The loop also ends with the bytes.
        for _ in 0..64 {
            let (Some(kind), Some(len)) = (head.be32(at), head.be32(at.saturating_add(4))) else { break };
            let from = at.saturating_add(8);
            let data = head.get(from..from.saturating_add(len as usize));
            match (kind, data) {
                (EXT_END, _) | (_, None) => break,
                (EXT_BACKING_FORMAT, Some(data)) => found.backing_format = printable_name(data),
                (EXT_DATA_FILE, Some(data)) => found.data_file = printable_name(data),
                _ => {}
            }
            at = from.saturating_add((len as usize).next_multiple_of(8));
        }
        found
    }
}

fn qed(head: &[u8]) -> Option<Reference> {
    const BACKING: u64 = 1;
    const RAW: u64 = 4;
    let features = head.le64(16)?;
    if features & BACKING == 0 {
        return None;
    }
    let (at, len) = (head.le32(56)?, head.le32(60)?);
    let name = (len <= LONGEST).then(|| name(head, u64::from(at), len)).flatten();
    let format = (features & RAW != 0).then(|| "raw".into());
    Some(Reference { kind: ReferenceKind::BackingFile, name, format })
}
