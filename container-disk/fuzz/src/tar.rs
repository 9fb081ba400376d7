//! Invariants of any archive, whatever it is read for.

use container_disk::tar::{Archive, End, Fault, Member, Rules, Seekable, Source, Streamed, What};
use std::io::{Cursor, Read};
use std::sync::Arc;

const HEADERS: u64 = 5000;

/// Input of the target: a byte of options, two bytes for the length to which the archive is cut, then the
/// archive.
pub(crate) fn tar(input: &[u8]) {
    let Some((&[options, cut @ ..], input)) = input.split_first_chunk::<3>() else { return };
    let mut bytes = input.to_vec();
    bytes.truncate(512 << 10);
    if options & 1 == 0 {
        bytes.chunks_exact_mut(512).for_each(repair);
    }
    let marked = read(&bytes, End::Mark);
    let sized = read(&bytes, End::Bytes);
    match (&marked, &sized) {
        // The rule without an end mark accepts the same archives, and those that only lack the mark.
        (Ok(marked), sized) => assert!(Ok(marked) == sized.as_ref(), "another end tells other members"),
        (Err(one), Err(other)) => assert!(one.contains("end") || one == other, "{one}, or {other}"),
        (Err(one), Ok(_)) => assert!(one.contains("end mark"), "{one}"),
    }
    if !bytes.is_empty() {
        bytes.truncate(usize::from(u16::from_be_bytes(cut)) % bytes.len());
        if let (Ok(whole), Ok(part)) = (marked, read(&bytes, End::Mark)) {
            assert!(whole == part, "an archive that was cut tells other members");
        }
    }
}

/// The members with their data: in large pieces, in small ones, and by offset. All must agree.
fn read(bytes: &[u8], end: End) -> Result<Vec<(Member, Vec<u8>)>, String> {
    let whole = members(Streamed::new(Cursor::new(bytes.to_vec())), end, bytes.len());
    let pieces = members(Streamed::new(Pieces(Cursor::new(bytes.to_vec()))), end, bytes.len());
    let sought = members(Seekable::new(Arc::new(bytes.to_vec())), end, bytes.len());
    assert!(whole == pieces, "pieces of another length tell other members");
    assert!(whole == sought, "by offset there are other members");
    whole
}

fn members(source: impl Source + 'static, end: End, most: usize) -> Result<Vec<(Member, Vec<u8>)>, String> {
    let mut archive = Archive::new(source, Rules { end, headers: HEADERS });
    let mut all = vec![];
    while let Some(member) = archive.next_member().map_err(told)? {
        let data = archive.peek(most).map_err(told)?;
        let parts = member.name.split('/');
        assert!(member.name.is_empty() || parts.clone().all(|part| !matches!(part, "" | "." | "..")));
        match &member.map {
            None => assert!(member.size == data.len() as u64 || matches!(member.what, What::Note(_))),
            Some(map) => {
                let sum: u64 = map.segments().iter().map(|segment| segment.end - segment.start).sum();
                assert!(sum == data.len() as u64, "a map tells of other data than there is");
                assert!(map.segments().last().is_none_or(|last| last.end <= member.size));
            }
        }
        all.push((member, data));
    }
    archive.drain().map_err(told)?;
    Ok(all)
}

fn told(fault: Fault) -> String {
    match fault {
        Fault::Io(e) => panic!("memory can be read: {e}"),
        Fault::Truncated { at, inside } => format!("it ends inside {inside} at {at}"),
        Fault::Refused { at, what } => format!("{what} at {at}"),
    }
}

/// Corrects the checksum of a header, which would otherwise stop a fuzzer.
fn repair(block: &mut [u8]) {
    if block[257..].starts_with(b"ustar") {
        block[148..156].fill(b' ');
        let sum: u32 = block.iter().map(|&b| u32::from(b)).sum();
        block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    }
}

/// A reader of seven bytes at a time.
struct Pieces(Cursor<Vec<u8>>);

impl Read for Pieces {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        let most = out.len().min(7);
        self.0.read(&mut out[..most])
    }
}
