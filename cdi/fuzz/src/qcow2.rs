//! Invariants for any qcow2 file. A violation panics, here and in the regression test of `lib/disk-format`.

use crate::sparse;
use disk_format::{Error, ErrorKind, Format, Limits, open, rebuild, stream as arrive};
use std::sync::Arc;

const LIMITS: Limits = Limits { max_size: 4 << 20, table_memory: 64 << 10 };

/// The tables can be walked without a gap, an overlap or a panic, or the image is refused.
pub(crate) fn image(input: &[u8]) {
    let _ = by_tables(&Arc::new(sparse::expand(input)));
}

/// The first four bytes cut the pieces; what comes out is what the tables say.
pub(crate) fn stream(input: &[u8]) {
    let Some((cuts, input)) = input.split_first_chunk::<4>() else { return };
    let file = Arc::new(sparse::expand(input));
    let tables = by_tables(&file);
    let mut cut =
        cuts.iter().cycle().map(|&c| 1 + usize::from(c) * usize::from(c) * (1 + file.len() / 100_000));
    let arrived = arrive(Format::Qcow2, LIMITS).and_then(|mut reader| {
        rebuild::from_stream(&mut *reader, &file, || cut.next().unwrap_or(1), LIMITS.max_size)
    });
    match (tables, checked(arrived)) {
        (Ok(tables), Ok(arrived)) => assert!(tables == arrived, "a stream tells other bytes than the tables"),
        // Data that is named twice, or lies in what was skipped, has gone by.
        (Ok(_), Err(e)) => {
            assert!(
                e.kind() == ErrorKind::Malformed && e.to_string().contains("already read from the stream"),
                "{e}"
            )
        }
        // The tables of snapshots are not looked at as they pass.
        (Err(e), Ok(_)) => assert!(e.to_string().contains("snapshot"), "{e}"),
        (Err(_), Err(_)) => {}
    }
}

fn by_tables(file: &Arc<Vec<u8>>) -> Result<Vec<u8>, Error> {
    let image = open(Format::Qcow2, file.clone(), LIMITS);
    checked(image.and_then(|image| rebuild::from_image(&*image, file, LIMITS.max_size)))
}

fn checked(result: Result<Vec<u8>, Error>) -> Result<Vec<u8>, Error> {
    if let Err(e) = &result {
        assert!(!e.to_string().contains(rebuild::WRONG), "{e}");
    }
    result
}
