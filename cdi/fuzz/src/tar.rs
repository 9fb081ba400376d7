//! Invariants for any archive.

use crate::read::{Pieces, all, refusal};
use crate::repair::repair;
use crate::sparse;
use cdi::Error;
use cdi::filter::{self, Budget, Layer};

/// Bytes that are taken from an archive; the holes of a sparse file may be endless.
const MOST: usize = 1 << 20;

/// Three bytes: whether checksums are set right, and where it is cut. Then a sparse file.
pub(crate) fn tar(input: &[u8]) {
    let Some((&[options, cut @ ..], input)) = input.split_first_chunk::<3>() else { return };
    let mut file = sparse::expand(input);
    file.truncate(512 << 10);
    if options & 1 == 0 {
        repair(&mut file);
    }
    let whole = read(&file, 1 << 20, 10_000);
    let pieces = read(&file, 700, 1 + usize::from(options) * 10);
    match (&whole, &pieces) {
        (Ok(whole), Ok(pieces)) => assert!(whole == pieces, "pieces of another length tell other bytes"),
        (Err(a), Err(b)) => assert!(a.to_string() == b.to_string(), "{a}, but in pieces: {b}"),
        _ => panic!("pieces of another length are refused, or only they are taken"),
    }
    if !file.is_empty() {
        file.truncate(usize::from(u16::from_be_bytes(cut)) % file.len());
        if let (Ok(whole), Ok(part)) = (whole, read(&file, 1 << 20, 10_000)) {
            assert!(whole == part, "an archive that was cut tells other bytes");
        }
    }
}

fn read(file: &[u8], longest: usize, step: usize) -> Result<Vec<u8>, Error> {
    let budget = Budget { threads: 1, memory: 1 << 20, beside: 0 };
    let source = Box::new(Pieces::new(file.to_vec(), longest));
    let tar = filter::open(Layer::Tar, source, budget, None, None).map_err(refusal)?;
    let mut tar = filter::limit::Limited::new(tar, Layer::Tar, MOST as u64, 0);
    all(&mut tar, step, MOST)
}
