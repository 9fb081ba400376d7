//! Compressed files as the usual tools write them.

use cdi::filter::Layer;
use std::io::Write;
use xz2::stream::{Action, Check, Filters, LzmaOptions, Stream};

/// `plain`, compressed as one unit.
pub(crate) fn pack(layer: Layer, plain: &[u8]) -> Vec<u8> {
    match layer {
        Layer::Gzip => {
            let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            gzip.write_all(plain).and_then(|()| gzip.finish()).expect("memory")
        }
        Layer::Xz => xz(&[plain], Check::Crc32),
        Layer::Zstd => zstd::bulk::compress(plain, 1).expect("memory"),
        Layer::Tar => tar(plain),
    }
}

/// An .xz stream with so many blocks.
pub(crate) fn xz(blocks: &[&[u8]], check: Check) -> Vec<u8> {
    let mut options = LzmaOptions::new_preset(0).expect("a preset");
    options.dict_size(64 << 10);
    let mut stream = Stream::new_stream_encoder(Filters::new().lzma2(&options), check).expect("an encoder");
    let mut out = Vec::new();
    for (i, block) in blocks.iter().enumerate() {
        let last = i + 1 == blocks.len();
        let (mut rest, start) = (*block, stream.total_in());
        loop {
            out.reserve(64 << 10);
            let action = if last { Action::Finish } else { Action::FullFlush };
            let status = stream.process_vec(rest, &mut out, action).expect("an encoder");
            rest = &block[usize::try_from(stream.total_in() - start).expect("in memory")..];
            if status == xz2::stream::Status::StreamEnd {
                break;
            }
        }
    }
    out
}

/// An archive of one file.
fn tar(plain: &[u8]) -> Vec<u8> {
    let mut file = vec![0; 512];
    file[..8].copy_from_slice(b"disk.img");
    file[100..108].copy_from_slice(b"0000644\0");
    file[124..136].copy_from_slice(format!("{:011o}\0", plain.len()).as_bytes());
    file[156] = b'0';
    file[257..265].copy_from_slice(b"ustar\x0000");
    crate::repair::repair(&mut file);
    file.extend_from_slice(plain);
    file.resize(file.len().next_multiple_of(512) + 1024, 0);
    file
}
