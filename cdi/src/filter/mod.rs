//! What lies between a source's bytes and the disk image: compression and archives, each `Read → Read`, one idea per
//! file, each under a bound. [`detect`] names the next layer from the first bytes; the plan stacks them.

use std::sync::Arc;

/// A layer around the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Layer {
    /// RFC 1952, all members.
    Gzip,
    /// The .xz container, all streams, blocks in parallel.
    Xz,
    /// Zstandard, all frames.
    Zstd,
    /// An archive with one disk in it.
    Tar,
}

/// A place where a compressed stream can be entered again: everything before it has been decoded.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Boundary {
    /// Offset in the compressed bytes.
    pub input: u64,
    /// Offset in the decoded bytes.
    pub output: u64,
    /// What the decoder must remember (for xz: the stream header and what the index will say). Opaque, small.
    pub state: Vec<u8>,
}

/// Told each boundary when the decoder has passed it (its output up to there has been handed on).
pub type OnBoundary = Arc<dyn Fn(Boundary) + Send + Sync>;

/// What a layer asks of the machine, read from its first bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Need {
    /// Bytes of memory without which it cannot be decoded at all (xz dictionary, zstd window).
    pub least: u64,
    /// Bytes each further block decoded in parallel adds; 0 where the layer cannot be parallel.
    pub per_thread: u64,
}
