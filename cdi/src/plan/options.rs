//! Options of a conversion, with their defaults.

use crate::filter::verify::Digest;
use crate::journal::Mode;
use fetch::{Decoded, LeastRate};
use std::path::PathBuf;

/// Options of a conversion.
#[derive(Debug, Clone)]
pub struct ConvertOptions {
    /// The digest that the source's own bytes must have; to check it, all bytes are read in order.
    pub checksum: Option<Digest>,
    /// Read the target back and compare.
    pub verify: bool,
    /// Allocate the target's blocks.
    pub preallocate: bool,
    /// Threads that decode and write.
    pub threads: usize,
    /// The bound on all buffers together.
    pub memory: u64,
    /// The caller's share of that bound, by purpose.
    pub beside: Vec<(&'static str, u64)>,
    /// The largest disk that is accepted.
    pub max_size: u64,
    /// The size of the target. Unset: the size of the source.
    pub resize: Option<u64>,
    /// Bytes that the target is larger than the source, where `resize` is unset.
    pub growth: u64,
    /// Permission to continue an earlier run.
    pub resume: Mode,
    /// The most requests in flight to a remote source.
    pub connections: usize,
    /// Bytes per second that a web server must give. Unset: no least rate.
    pub least_rate: Option<LeastRate>,
    /// Counts the bytes that decompression makes; they count for the rate, too.
    pub decoded: Decoded,
    /// The owner of the target's volume, for volumes that change owners: files of another owner's run are not
    /// continued.
    pub owner: Option<String>,
    /// The folder for the journal of a device, which has no folder beside it. No other program writes there.
    /// Unset: a run to a device that is cut short is begun anew.
    pub journals: Option<PathBuf>,
}

impl ConvertOptions {
    /// Default options with this number of threads.
    pub fn with_threads(threads: usize) -> ConvertOptions {
        ConvertOptions {
            checksum: None,
            verify: false,
            preallocate: false,
            threads,
            memory: 256 << 20,
            beside: vec![],
            max_size: 16 << 40,
            resize: None,
            growth: 0,
            resume: Mode::Auto,
            connections: 8,
            least_rate: None,
            decoded: Decoded::default(),
            owner: None,
            journals: None,
        }
    }
}
