//! `--verify`: the target is read back, before its final rename, and compared with the written bytes.

use super::execute::Run;
use crate::plan::Output;
use crate::run::engine::{Engine, Size};
use crate::run::holes::{DataMap, Sparse};
use crate::run::job::{Cut, Reached};
use crate::run::sink::EngineSink;
use crate::run::sum::DiskSum;
use crate::run::tables;
use crate::run::watch::Phase;
use crate::source::{FileSource, Source};
use crate::target::NullTarget;
use crate::{Error, ErrorKind, Result};
use container_disk::write_behind;
use disk_format::{Format, Image, Limits};
use std::path::Path;
use std::sync::Arc;

/// Compares the file `path` (a `.partial` or a device) with the sum of the written bytes, all of which were
/// synced. A difference may be anywhere, also before the last mark, so no later run may continue this one.
pub(super) fn compare(run: &Run<'_>, written: Option<&Path>, wrote: DiskSum, size: u64) -> Result<()> {
    let Some(path) = written else {
        let what = "--verify cannot read standard output back; write to a file";
        return Err(Error::new(ErrorKind::Usage, what));
    };
    let source: Arc<dyn Source> = Arc::new(FileSource::open(path)?);
    if let Some(file) = source.file() {
        run.partial.refuse_other(file, path)?;
        // Compares the device, and not the page cache.
        write_behind::write_out(file);
    }
    let bytes =
        source.read_at().ok_or_else(|| Error::failed(format!("{} cannot be read back", path.display())))?;
    let of_target = |e: Error| e.of(&path.display().to_string());
    let image: Box<dyn Image> = match run.plan.facts.output {
        Output::Raw => Box::new(Sparse::new(Format::Raw, size, move || {
            source.data_map().unwrap_or_else(|| Box::new(std::iter::once(0..size))) as DataMap
        })),
        Output::Qcow2 { .. } => disk_format::open(Format::Qcow2, bytes.clone(), Limits::default())
            .map_err(|e| of_target(e.into()))?,
    };
    run.watch.enter(Phase::Verifying, image.virtual_size());
    let cut = Cut { piece: run.plan.piece, gap: run.plan.gap };
    let size = Size { workers: run.plan.workers, readers: 0, buffers: 2 * run.plan.workers + 1, sum: true };
    let sink = EngineSink::Any(&NullTarget);
    let engine = Engine { bytes: Some(&*bytes), sink, watch: run.watch, size, marks: None };
    let written = run.watch.written();
    let read =
        engine.run(|feed| tables::any_order(feed, &*image, cut, Reached::default()).map_err(of_target))?;
    run.watch.forget_written_since(written);
    if read.sum == wrote {
        return Ok(());
    }
    let what = format!(
        "{} does not read back as it was written: the storage below it changed or lost data, and nothing of it is kept; \
         look at its health before trying again, which begins anew",
        path.display()
    );
    Err(Error::failed(what).of_lost_data())
}
