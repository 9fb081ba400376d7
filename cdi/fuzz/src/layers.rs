//! Invariants for any file that is read as a stream: its layers are removed, its format detected, its disk
//! rebuilt.

use crate::pack::pack;
use crate::read::{Pieces, all, refusal};
use crate::repair::repair;
use cdi::filter::stack::{DEPTH, Options, Stack, stack};
use cdi::filter::{Budget, Layer};
use cdi::source::options::Decoded;
use cdi::{Error, Result};
use disk_format::{Format, Limits, rebuild};

/// Bytes that may come out of any layer.
const LIMIT: usize = 1 << 20;

/// Four bytes: how it is read, what is wrapped around the rest, where it is cut.
pub(crate) fn layers(input: &[u8]) {
    let Some((&[options, wraps, cut @ ..], bytes)) = input.split_first_chunk::<4>() else { return };
    let how = How {
        threads: 1 + usize::from(options & 1),
        memory: [3, 8, 64, 64][usize::from(options >> 1 & 3)] << 20,
        longest: [7, 1000, 1 << 20, 1 << 20][usize::from(options >> 3 & 3)],
    };
    let mut file = bytes.to_vec();
    if options & 0x20 != 0 {
        repair(&mut file);
    }
    let bare = (wraps != 0 && options & 0x40 != 0).then(|| how.read(file.clone()));
    let around: Vec<Layer> = [0, 2, 4, 6].iter().filter_map(|bits| wrap(wraps >> bits)).collect();
    file = around.iter().fold(file, |file, &layer| pack(layer, &file));

    let whole = how.read(file.clone());
    if let Ok(whole) = &whole {
        disk(&whole.bytes, how.longest);
    }
    match (&bare, &whole) {
        (Some(Ok(bare)), Ok(whole)) => {
            assert!(bare.bytes == whole.bytes, "layers around a file change what is inside");
        }
        (Some(Ok(bare)), Err(e)) => {
            let too_deep = bare.layers.len() + around.len() > DEPTH;
            assert!(too_deep || how.memory < 64 << 20, "layers around a file break it: {e}");
        }
        _ => {}
    }
    if options & 0x80 != 0 && !file.is_empty() {
        file.truncate(usize::from(u16::from_be_bytes(cut)) % file.len());
        if let (Ok(whole), Ok(part)) = (whole, how.read(file)) {
            let other = part.layers != whole.layers;
            assert!(other || whole.bytes.starts_with(&part.bytes), "a file that was cut tells other bytes");
        }
    }
}

fn wrap(bits: u8) -> Option<Layer> {
    [None, Some(Layer::Gzip), Some(Layer::Xz), Some(Layer::Zstd)][usize::from(bits & 3)]
}

struct How {
    threads: usize,
    memory: u64,
    longest: usize,
}

struct Peeled {
    layers: Vec<Layer>,
    bytes: Vec<u8>,
}

impl How {
    fn read(&self, file: Vec<u8>) -> Result<Peeled, Error> {
        let most = LIMIT.max(file.len());
        let budget = Budget { threads: self.threads, memory: self.memory, beside: 0 };
        let options = Options { budget, limit: LIMIT as u64, on_boundary: None, decoded: Decoded::default() };
        let source = Box::new(Pieces::new(file, self.longest));
        let Stack { layers, mut reader, .. } = stack(source, &options).map_err(refusal)?;
        let most = if layers.is_empty() { most } else { LIMIT };
        let bytes = all(&mut reader, self.longest.min(100_000), most)?;
        Ok(Peeled { layers, bytes })
    }
}

/// The output is a disk, or is refused.
fn disk(bytes: &[u8], longest: usize) {
    let limits = Limits { max_size: 4 << 20, table_memory: 64 << 10 };
    let format = Format::probe(&bytes[..bytes.len().min(Format::HEAD)]);
    // A piece is longer than what may be asked for again.
    let rebuilt = disk_format::stream(format, limits).and_then(|mut image| {
        rebuild::from_stream(&mut *image, bytes, || longest.max(4096), limits.max_size)
    });
    match rebuilt {
        Ok(disk) if matches!(format, Format::Raw | Format::Iso) => {
            assert!(disk == bytes, "a raw disk changes")
        }
        Ok(_) => {}
        Err(e) => assert!(!e.to_string().contains(rebuild::WRONG), "{e}"),
    }
}
