//! Compression of one piece, independent of all others.

use crate::manifest::{IMAGE_LAYER_GZIP_MEDIA_TYPE, IMAGE_LAYER_MEDIA_TYPE, IMAGE_LAYER_ZSTD_MEDIA_TYPE};
use libdeflater::{CompressionLvl, Compressor};
use std::io;

/// Compression of a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Compression {
    None,
    /// gzip, which every client reads.
    Gzip,
    /// zstd. Smaller and several times faster; clients since about 2021 read it.
    Zstd,
}

impl Compression {
    /// The name in options and messages.
    pub fn name(self) -> &'static str {
        match self {
            Compression::None => "none",
            Compression::Gzip => "gzip",
            Compression::Zstd => "zstd",
        }
    }

    /// The media type of such a layer in an OCI manifest.
    pub fn media_type(self) -> &'static str {
        match self {
            Compression::None => IMAGE_LAYER_MEDIA_TYPE,
            Compression::Gzip => IMAGE_LAYER_GZIP_MEDIA_TYPE,
            Compression::Zstd => IMAGE_LAYER_ZSTD_MEDIA_TYPE,
        }
    }
}

/// Bytes of tar that are compressed together. A change of this value changes the digest of every layer.
pub(super) const PIECE: usize = 1 << 20;
const GZIP_LEVEL: i32 = 6;
const ZSTD_LEVEL: i32 = 3;

/// The compressor of one thread.
pub(super) struct Packer {
    method: Method,
    /// The compressed form of a piece of zeros, which disks are full of.
    zeros: Vec<u8>,
}

enum Method {
    None,
    Gzip(Compressor),
    Zstd(Option<zstd::bulk::Compressor<'static>>),
}

impl Packer {
    pub(super) fn new(compression: Compression) -> Packer {
        let method = match compression {
            Compression::None => Method::None,
            Compression::Gzip => {
                Method::Gzip(Compressor::new(CompressionLvl::new(GZIP_LEVEL).unwrap_or_default()))
            }
            Compression::Zstd => Method::Zstd(None),
        };
        Packer { method, zeros: Vec::new() }
    }

    pub(super) fn pack(&mut self, plain: &[u8], packed: &mut Vec<u8>) -> io::Result<()> {
        if plain.len() != PIECE || plain.iter().any(|&b| b != 0) {
            return self.method.pack(plain, packed);
        }
        if self.zeros.is_empty() {
            self.method.pack(plain, &mut self.zeros)?;
        }
        packed.clone_from(&self.zeros);
        Ok(())
    }
}

impl Method {
    fn pack(&mut self, plain: &[u8], packed: &mut Vec<u8>) -> io::Result<()> {
        match self {
            Method::None => {
                packed.clear();
                packed.extend_from_slice(plain);
            }
            Method::Gzip(compressor) => {
                packed.resize(compressor.gzip_compress_bound(plain.len()), 0);
                let n = compressor.gzip_compress(plain, packed).map_err(io::Error::other)?;
                packed.truncate(n);
            }
            Method::Zstd(compressor) => {
                let compressor = match compressor {
                    Some(compressor) => compressor,
                    None => compressor.insert(zstd::bulk::Compressor::new(ZSTD_LEVEL)?),
                };
                packed.clear();
                packed.reserve(zstd::zstd_safe::compress_bound(plain.len()));
                compressor.compress_to_buffer(plain, packed)?;
            }
        }
        Ok(())
    }
}
