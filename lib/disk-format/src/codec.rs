//! Compression of one cluster, and its decoder: one [`Unpacker`] per thread.

use std::io;
use zstd::zstd_safe::{self, DCtx};

/// Compression of a packed extent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Codec {
    /// Raw DEFLATE without a header (qcow2's "zlib").
    Deflate,
    /// Zstandard. The frame may omit its size.
    Zstd,
}

impl Codec {
    /// The name in options and messages, as `qemu-img` has it.
    pub fn name(self) -> &'static str {
        match self {
            Codec::Deflate => "zlib",
            Codec::Zstd => "zstd",
        }
    }

    /// End of the compressed data, if it can be found without decompressing it.
    pub(crate) fn end(self, packed: &[u8]) -> Option<usize> {
        match self {
            Codec::Deflate => None,
            Codec::Zstd => {
                zstd_safe::find_frame_compressed_size(packed).ok().filter(|&end| end <= packed.len())
            }
        }
    }
}

/// Reusable decompressors. The output never exceeds the length that the caller states, so a decompression
/// bomb ends with the extent.
pub struct Unpacker {
    deflate: libdeflater::Decompressor,
    zstd: Option<DCtx<'static>>,
}

impl Default for Unpacker {
    fn default() -> Self {
        Unpacker { deflate: libdeflater::Decompressor::new(), zstd: None }
    }
}

impl Unpacker {
    /// Decompresses `packed` into exactly `out`. Trailing bytes after the compressed data are allowed, since
    /// qcow2 counts whole sectors. Too little, too much or broken data is an error that says so.
    ///
    /// Both decoders write directly into `out`. They have no window of their own, whatever size a frame
    /// requests.
    pub fn unpack(&mut self, codec: Codec, packed: &[u8], out: &mut [u8]) -> io::Result<()> {
        let filled = match codec {
            Codec::Deflate => self.inflate(packed, out),
            Codec::Zstd => self.frames(packed, out),
        }
        .map_err(|why| broken(codec, why))?;
        if filled == out.len() {
            return Ok(());
        }
        Err(broken(codec, format!("they unpack to {filled} bytes, {} are expected", out.len())))
    }

    fn inflate(&mut self, packed: &[u8], out: &mut [u8]) -> Result<usize, String> {
        use libdeflater::DecompressionError::{BadData, InsufficientSpace};
        let expected = out.len();
        self.deflate.deflate_decompress(packed, out).map_err(|e| match e {
            InsufficientSpace => too_much(expected),
            BadData => "they are damaged or cut short".to_owned(),
        })
    }

    /// Decodes frames until `out` is full. Each frame is measured first, because the decoder rejects trailing
    /// bytes.
    fn frames(&mut self, packed: &[u8], out: &mut [u8]) -> Result<usize, String> {
        let decoder = self.zstd.get_or_insert_with(DCtx::create);
        let (mut rest, mut filled) = (packed, 0);
        loop {
            let frame = zstd_safe::find_frame_compressed_size(rest)
                .ok()
                .and_then(|len| rest.split_at_checked(len))
                .ok_or_else(|| format!("no whole frame at byte {}", packed.len() - rest.len()))?;
            let before = filled;
            filled += decoder.decompress(&mut out[filled..], frame.0).map_err(|code| {
                match zstd_safe::get_error_name(code) {
                    name if name.contains("too small") => too_much(out.len()),
                    name => format!("they are damaged: {name}"),
                }
            })?;
            rest = frame.1;
            let progress = filled > before || !frame.0.is_empty();
            if filled == out.len() || rest.is_empty() || !progress {
                return Ok(filled);
            }
        }
    }
}

fn too_much(expected: usize) -> String {
    format!("they unpack to more than the {expected} bytes expected")
}

fn broken(codec: Codec, why: impl std::fmt::Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{} data cannot be unpacked: {why}", codec.name()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    const CLUSTER: usize = 65536;

    fn text() -> Vec<u8> {
        (0..CLUSTER).map(|i| (i * i / 97) as u8).collect()
    }

    fn deflated(data: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::DeflateEncoder::new(vec![], flate2::Compression::default());
        encoder.write_all(data).unwrap();
        encoder.finish().unwrap()
    }

    /// A frame from a streaming writer: without its size, with a wide window.
    fn sizeless(data: &[u8]) -> Vec<u8> {
        let mut encoder = zstd::Encoder::new(vec![], 3).unwrap();
        encoder.window_log(27).unwrap();
        encoder.write_all(data).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn trailing_bytes_do_not_matter() {
        let mut unpacker = Unpacker::default();
        for (codec, packed) in [
            (Codec::Deflate, deflated(&text())),
            (Codec::Zstd, zstd::bulk::compress(&text(), 3).unwrap()),
            (Codec::Zstd, sizeless(&text())),
        ] {
            for tail in [vec![], vec![0; 511], vec![0xff; 300], packed.clone()] {
                let mut out = vec![0; CLUSTER];
                unpacker.unpack(codec, &[packed.clone(), tail].concat(), &mut out).unwrap();
                assert_eq!(out, text());
            }
        }
    }

    #[test]
    fn too_little_too_much_and_damage_are_told_apart() {
        let mut unpacker = Unpacker::default();
        for (codec, packed) in [(Codec::Deflate, deflated(&text())), (Codec::Zstd, sizeless(&text()))] {
            let mut why = |packed: &[u8], len| {
                unpacker.unpack(codec, packed, &mut vec![0; len]).unwrap_err().to_string()
            };
            assert!(why(&packed, CLUSTER - 1).contains("more than the 65535"), "{codec:?}");
            assert!(why(&packed[..packed.len() / 2], CLUSTER).contains("cannot be unpacked"), "{codec:?}");
            assert!(why(&[0xff; 64], CLUSTER).contains("cannot be unpacked"), "{codec:?}");
            assert!(why(&[], CLUSTER).contains("cannot be unpacked"), "{codec:?}");
            assert!(why(&packed, CLUSTER + 1).contains("65536 bytes, 65537 are expected"), "{codec:?}");
        }
    }

    #[test]
    fn several_frames_fill_one_cluster() {
        let (front, back) = (&text()[..1000], &text()[1000..]);
        let mut out = vec![0; CLUSTER];
        let packed = [sizeless(front), sizeless(&[]), sizeless(back), vec![7; 99]].concat();
        Unpacker::default().unpack(Codec::Zstd, &packed, &mut out).unwrap();
        assert_eq!(out, text());
    }

    #[test]
    fn a_bomb_ends_where_the_cluster_ends() {
        let zeros = vec![0; 64 << 20];
        for (codec, packed) in [(Codec::Deflate, deflated(&zeros)), (Codec::Zstd, sizeless(&zeros))] {
            let error = Unpacker::default().unpack(codec, &packed, &mut vec![0; CLUSTER]).unwrap_err();
            assert!(error.to_string().contains("more than"), "{error}");
        }
    }
}
