//! Reads of a blob at any offset, from any number of threads. See [`fetch::ReadAt`].

use super::source::Source;
use super::transfer::bring;
use bytes::Bytes;
use disk_format::ReadAt;
use fetch::{Expect, Part, PartSink, Permit, Ranged, runtime};
use std::io;
use std::sync::Arc;

/// A blob as [`ReadAt`].
pub(super) struct RemoteAt(fetch::ReadAt<Source>);

impl RemoteAt {
    pub(super) fn new(source: Arc<Source>) -> RemoteAt {
        RemoteAt(fetch::ReadAt::new(source))
    }

    /// True unless the server is known to send only complete blobs. Any other failure of the probe appears
    /// again when the blob is read.
    pub(super) fn knows_ranges(&self) -> bool {
        let source = self.0.file();
        let part = Part { range: 0..1, expect: Expect::Probe, share: 1 };
        let probed = runtime().map(|runtime| runtime.block_on(bring(source, part, &mut DiscardSink)));
        !(matches!(probed, Ok(Err(_))) && source.comes_whole())
    }
}

impl ReadAt for RemoteAt {
    fn size(&self) -> u64 {
        self.0.file().size
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.0.read_exact_at(buf, offset)
    }
}

/// Discards the bytes of a probe.
struct DiscardSink;

impl PartSink for DiscardSink {
    const READER_WAITS: bool = true;

    async fn take(&mut self, _: Bytes, _: &mut Option<Permit<'_>>) {}
}
