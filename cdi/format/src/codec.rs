//! How one cluster is compressed, and the state that unpacks it: one [`Unpacker`] per thread.

use std::io;

/// How a packed extent is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Codec {
    /// Raw DEFLATE without a header (qcow2's "zlib").
    Deflate,
    /// Zstandard; the frame need not name its size.
    Zstd,
}

/// Reusable decompressors. Output never passes the length the caller states, so a bomb ends where the extent ends.
pub struct Unpacker {
    deflate: libdeflater::Decompressor,
    zstd: Option<zstd::zstd_safe::DCtx<'static>>,
}

impl Default for Unpacker {
    fn default() -> Self {
        Unpacker { deflate: libdeflater::Decompressor::new(), zstd: None }
    }
}

impl Unpacker {
    /// Unpacks `packed` into exactly `out`. Trailing bytes after the compressed data are allowed (the format only
    /// knows whole sectors); too little, too much or broken data is an error that says which.
    pub fn unpack(&mut self, codec: Codec, packed: &[u8], out: &mut [u8]) -> io::Result<()> {
        let _ = (&mut self.deflate, &mut self.zstd, codec, packed, out);
        Err(io::Error::other("not written yet"))
    }
}
