//! Header extensions. They are parsed within the first cluster, and kept only as far as error messages need
//! them.

use super::refuse;
use crate::{ErrorKind, Result};

const END: u32 = 0;
const FEATURE_NAMES: u32 = 0x6803_f857;
const DATA_FILE: u32 = 0x4441_5441;
/// Size of an entry in the feature name table: feature type, bit number, name.
const FEATURE: usize = 48;

/// Result of the walk over the extensions.
pub(super) enum Extensions {
    /// The end marker or the end of the cluster was reached.
    Done(FeatureNames),
    /// Number of bytes from the beginning of the file that are needed to continue.
    Need(usize),
}

/// Names of features, from the image itself.
#[derive(Default)]
pub(super) struct FeatureNames {
    table: Vec<u8>,
}

impl FeatureNames {
    /// The name of an incompatible feature by its bit number.
    pub(super) fn incompatible(&self, bit: u32) -> Option<String> {
        let named = |entry: &&[u8]| entry[0] == 0 && u32::from(entry[1]) == bit;
        let entry = self.table.chunks_exact(FEATURE).find(named)?;
        Some(printable_name(&entry[2..]))
    }
}

/// Walks the extensions that start at `from` and may extend to `cluster`.
pub(super) fn walk(head: &[u8], from: usize, cluster: usize, whole: bool) -> Result<Extensions> {
    let mut names = FeatureNames::default();
    let mut at = from;
    // An extension has at least 8 bytes, so the walk ends.
    while at + 8 <= cluster {
        let Some((kind, len)) = extension(head, at) else {
            return more(head, at + 8, whole);
        };
        let end = at + 8 + len;
        if end > cluster {
            let what =
                format!("header extension {kind:#010x} has {len} bytes, it reaches past the first cluster");
            return Err(refuse(ErrorKind::Malformed, at as u64 + 4, what));
        }
        if kind == END {
            break;
        }
        let Some(data) = head.get(at + 8..end) else {
            return more(head, end, whole);
        };
        if kind == FEATURE_NAMES {
            names.table = data.to_vec();
        }
        at = end.next_multiple_of(8);
    }
    Ok(Extensions::Done(names))
}

/// The name of the external data file, if an extension has it.
pub(super) fn data_file(head: &[u8], from: usize) -> Option<&[u8]> {
    let mut at = from;
    loop {
        let (kind, len) = extension(head, at)?;
        let data = head.get(at + 8..at.checked_add(8)?.checked_add(len)?)?;
        match kind {
            END => return None,
            DATA_FILE => return Some(data),
            _ => at = (at + 8 + len).next_multiple_of(8),
        }
    }
}

/// A name from the image as printable text, to appear between quotation marks.
pub(super) fn printable_name(name: &[u8]) -> String {
    let name = name.split(|&b| b == 0).next().unwrap_or_default();
    printable::text(&String::from_utf8_lossy(name), 100).replace('"', "\\\"")
}

fn extension(head: &[u8], at: usize) -> Option<(u32, usize)> {
    let word = |at: usize| head.get(at..at + 4)?.try_into().ok().map(u32::from_be_bytes);
    Some((word(at)?, usize::try_from(word(at + 4)?).ok()?))
}

fn more(head: &[u8], need: usize, whole: bool) -> Result<Extensions> {
    if whole {
        let what = format!(
            "the header extensions are cut short: they need {need} bytes, the file has {}",
            head.len()
        );
        return Err(refuse(ErrorKind::Truncated, head.len() as u64, what));
    }
    Ok(Extensions::Need(need))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_made_printable() {
        assert_eq!(printable_name(b"base.qcow2"), "base.qcow2");
        assert_eq!(printable_name(b"a\x1b[31m\"b\n\0hidden"), "a [31m\\\"b ");
        assert_eq!(printable_name("a\u{202e}b".as_bytes()), "a b", "what turns the text around");
        assert_eq!(printable_name(&[0xff, b'x']), "\u{fffd}x");
        assert_eq!(printable_name(&[b'y'; 2000]).chars().count(), 100);
    }

    #[test]
    fn a_walk_asks_for_what_it_needs_and_never_leaves_the_cluster() {
        let mut head = vec![0; 512];
        head[104..112].copy_from_slice(&[0x11, 0, 0, 0, 0, 0, 0, 5]);
        assert!(matches!(walk(&head[..110], 104, 512, false), Ok(Extensions::Need(112))));
        assert!(matches!(walk(&head[..114], 104, 512, false), Ok(Extensions::Need(117))));
        assert!(matches!(walk(&head[..117], 104, 512, false), Ok(Extensions::Need(128))));
        assert_eq!(walk(&head[..117], 104, 512, true).err().map(|e| e.kind()), Some(ErrorKind::Truncated));
        assert!(matches!(walk(&head, 104, 512, true), Ok(Extensions::Done(_))));
        for len in [u32::MAX, 401, 0x8000_0000] {
            head[108..112].copy_from_slice(&len.to_be_bytes());
            let error = walk(&head, 104, 512, true).err().unwrap();
            assert_eq!((error.kind(), error.offset()), (ErrorKind::Malformed, Some(108)), "{error}");
        }
        head[108..112].copy_from_slice(&400_u32.to_be_bytes());
        assert!(matches!(walk(&head, 104, 512, true), Ok(Extensions::Done(_))), "exactly to the end");
    }

    #[test]
    fn a_feature_table_of_odd_length_is_no_trouble() {
        for len in [0, 1, 2, 47, 48, 49, 95, 97] {
            let mut table = vec![0; len];
            if len >= FEATURE {
                table[1] = 9;
                table[2..6].copy_from_slice(b"name");
            }
            let names = FeatureNames { table };
            assert_eq!(names.incompatible(9).as_deref(), (len >= FEATURE).then_some("name"));
        }
    }
}
