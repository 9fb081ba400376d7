//! Execution of a plan: one function for each flow, each a short list of steps.

use super::facts::{Seek, Stream, enter_at, limits};
use super::partial::Partial;
use super::report::Report;
use super::{Prepared, Request, overlap, plan_output, verify};
use crate::journal::{Conversion, Journal, Mark, Mode, NO_MARK, Position, Tables};
use crate::plan::{self, Flow, Output, Plan};
use crate::run::engine::{End, Engine, Marker, Marks, Size};
use crate::run::front::FrontToBack;
use crate::run::job::{Cut, Reached};
use crate::run::pace::Pace;
use crate::run::packed_qcow2::PackedQcow2;
use crate::run::scratch::Scratch;
use crate::run::sink::{EngineSink, Ordered};
use crate::run::stream::Standings;
use crate::run::sum::DiskSum;
use crate::run::two_passes::{Measured, Woven};
use crate::run::watch::{Phase, Watch};
use crate::run::{stream, tables};
use crate::source::{Identity, SourceSpec};
use crate::spool::Spool;
use crate::target::{
    self, BlockTarget, Claim, Destination, FileOptions, Finished, NullTarget, Order, Started, StdoutTarget,
    Target,
};
use crate::{Detail, Error, ErrorKind, Result};
use container_disk::{Name, run_confined};
use disk_format::qcow2::write::{Compression, Options};
use disk_format::{Format, Image, ReadAt};
use std::path::Path;
use std::time::Instant;
use storage::Storage;

/// A run in progress.
pub(super) struct Run<'a> {
    pub(super) request: &'a Request,
    pub(super) plan: &'a Plan,
    pub(super) watch: &'a Watch,
    pub(super) partial: &'a Partial,
}

/// The result of moving the bytes.
#[derive(Default)]
struct TransferResult {
    /// The size of the target's disk.
    size: u64,
    /// The size of the disk that was read.
    disk: u64,
    sum: DiskSum,
    spool_peak: u64,
    resumed_at: Option<u64>,
}

/// Carries out a plan. `layer`: the target and the folder for its spool, if the plan's target is an image.
pub(super) fn execute(
    prepared: Prepared,
    layer: Option<(Box<dyn Target + '_>, &Path)>,
    partial: &Partial,
    watch: &Watch,
) -> Result<Report> {
    let start = Instant::now();
    let Prepared { request, plan } = prepared;
    let (flow, plan) = plan.begin();
    let (source, facts) = (flow.source().clone(), &plan.facts);
    let run = Run { request: &request, plan: &plan, watch, partial };
    let temp = std::env::temp_dir();
    let done = match (&facts.target, layer) {
        (Destination::Image(_), Some((target, folder))) => {
            run.through(target, flow, None, TargetPaths { spool: folder, written: None })
        }
        (Destination::Image(name), None) => {
            Err(Error::failed(format!("nothing was made ready to write {name}")))
        }
        (Destination::File(path), _) => run.to_file(path, flow),
        (Destination::Device(path), _) => run.to_block(path, flow, &temp),
        (Destination::Null, _) => {
            run.through(Box::new(NullTarget), flow, None, TargetPaths { spool: &temp, written: None })
        }
        (Destination::Stdout, _) => {
            let paths = TargetPaths { spool: &temp, written: None };
            StdoutTarget::new().and_then(|out| run.through(Box::new(out), flow, None, paths))
        }
    };
    // A source that was changed explains any other error.
    let (moved, finished) = done.map_err(|e| match e.is_of_a_whole_disk() {
        true => e,
        false => source.unchanged().err().unwrap_or(e),
    })?;
    let padded = plan::in_sectors(facts, moved.disk)? - moved.disk;
    if padded > 0 {
        tracing::info!(
            bytes = moved.disk,
            padded,
            "zeros follow up to a whole sector, as QEMU reads a raw disk"
        );
    }
    let length_unknown = plan::has_unknown_length(facts, &request.convert_options, source.marks_its_end());
    if length_unknown {
        tracing::warn!(
            "{} did not say how long the disk is: {} bytes came, and a transfer that was cut short would look the same; a checksum \
             tells them apart",
            facts.source.name,
            moved.disk
        );
    }
    Ok(Report {
        schema: "coracle.convert/v1",
        source: facts.source.name.clone(),
        target: facts.target.to_string(),
        layers: facts.layers.iter().map(|(l, _)| l.name()).collect(),
        source_format: facts.source_format().name(),
        target_format: plan_output::output_name(facts),
        virtual_size: facts.guest_size(moved.size),
        bytes_padded: padded,
        bytes_read: watch.read(),
        bytes_written: watch.written() - moved.resumed_at.unwrap_or(0),
        bytes_allocated: (facts.target != Destination::Stdout).then_some(finished.allocated),
        flow: plan.flow.name(),
        spool_peak: moved.spool_peak,
        resumed_at: moved.resumed_at,
        checksum: request.convert_options.checksum.as_ref().map(ToString::to_string),
        length_unknown,
        verified: request.convert_options.verify,
        registries: matches!(request.source, SourceSpec::Image(Name::Registry(_)))
            .then(|| request.options.places.transfer_counts()),
        seconds: start.elapsed().as_secs_f64(),
    })
}

/// Paths that belong to a target.
#[derive(Clone, Copy)]
struct TargetPaths<'a> {
    /// The folder for temporary files.
    spool: &'a Path,
    /// The path where the target can be read back.
    written: Option<&'a Path>,
}

impl<'a> TargetPaths<'a> {
    /// For a file: temporary files lie beside it.
    fn file(path: &'a Path) -> TargetPaths<'a> {
        TargetPaths { spool: path.parent().unwrap_or(path), written: Some(path) }
    }
}

impl Run<'_> {
    /// A file target: claimed, perhaps resumed, and renamed to its name only when complete.
    fn to_file(&self, path: &Path, flow: Flow<Seek, Stream>) -> Result<(TransferResult, Finished)> {
        let options = FileOptions {
            size: self.plan.size.filter(|_| self.plan.facts.output == Output::Raw),
            needed: 0,
            preallocate: self.request.convert_options.preallocate,
        };
        let mode = self.request.convert_options.resume;
        if let (Err(why), Mode::Always) = (&self.plan.resume, mode) {
            let what = format!("cannot go on with an earlier run: {why}; leave out --resume");
            return Err(Error::new(ErrorKind::Usage, what));
        }
        let folder = path.parent().unwrap_or(path);
        // A folder that cannot be examined cannot be claimed, and the claim's error names the reason.
        if let Ok(below) = Storage::of_new_file(folder) {
            overlap::refuse(self.request, &**flow.source(), &below)?;
        }
        let claim = Claim::take(path, mode)?;
        if self.plan.resume.is_err() {
            let target = claim.start_anew(options)?;
            self.partial.writes(target.identity()?);
            self.partial.taken(false, self.watch);
            let partial = target.partial();
            return self.through(Box::new(target), flow, None, TargetPaths::file(&partial));
        }
        let started = claim.start(options, &self.conversion(), mode)?;
        self.partial.writes(started.target.identity()?);
        let partial = started.target.partial();
        self.go_on(started, path, flow, TargetPaths::file(&partial))
    }

    fn conversion(&self) -> Conversion {
        Conversion {
            source: self.plan.facts.source.name.clone(),
            identity: self.identity(),
            plan: self.fingerprint(),
            owner: self.request.convert_options.owner.clone(),
        }
    }

    /// Moves the bytes from the position of an earlier run, or from the beginning.
    fn go_on<T: Target>(
        &self,
        started: Started<T>,
        path: &Path,
        flow: Flow<Seek, Stream>,
        paths: TargetPaths<'_>,
    ) -> Result<(TransferResult, Finished)> {
        let Started { target, journal, mark, anew } = started;
        self.partial.taken(mark.is_some(), self.watch);
        // Marks count from the first run on, so that the report of the last one can state the bytes that were
        // not moved again.
        self.watch.count_written(mark.as_ref().map_or(0, |m| m.written));
        if let Some(why) = anew {
            let entry = self.plan.entry().filter(|_| why == NO_MARK);
            let entry = entry.map_or_else(String::new, |entry| format!("; {entry}"));
            tracing::warn!("{} is begun anew: {why}{entry}", path.display());
        }
        let flow = match (flow, &mark) {
            (
                Flow::Stream(stream),
                Some(Mark {
                    position: Position::Stream { boundary, source: sum, behind, image, .. }, ..
                }),
            ) => {
                let source = stream.source.clone();
                // The decoder of the inspection has threads and buffers, and the source may have sent it
                // more.
                drop(stream);
                let sums = (sum.as_ref(), behind.as_ref());
                let facts = &self.plan.facts;
                Flow::Stream(enter_at(self.request, facts, &source, boundary, sums, image.as_ref())?)
            }
            (flow, _) => flow,
        };
        let is_resumed = mark.is_some();
        let done = self.through(Box::new(target), flow, Some((journal, mark)), paths);
        done.map_err(|e| match e.detail() {
            // The source may be right by now.
            Some(Detail::Checksum) if is_resumed => {
                Error::failed(format!("{e}; a part was read by an earlier run, and now all is read anew"))
                    .of_another_version()
            }
            _ => e,
        })
    }

    /// Evidence for a later run that the source is the same. A checksum proves it at the end, whatever the
    /// server states.
    fn identity(&self) -> Option<Identity> {
        let facts = &self.plan.facts.source;
        match (&facts.identity, &self.request.convert_options.checksum) {
            (Some(identity), _) if identity.is_proof() => Some(identity.clone()),
            (_, Some(checksum)) => Some(Identity::of_content(checksum.to_string(), facts.size)),
            (identity, None) => identity.clone(),
        }
    }

    fn fingerprint(&self) -> String {
        let mut text = self.plan.fingerprint();
        if let Some(checksum) = &self.request.convert_options.checksum {
            text.push_str(&format!(" checksum={checksum}"));
        }
        // The marks of a run that does not compare have no sum of the disk before them.
        if self.request.convert_options.verify {
            text.push_str(" verify");
        }
        text
    }

    /// A device target. Beside it are only other devices, so temporary files and the journal have their own
    /// folders.
    fn to_block(
        &self,
        path: &Path,
        flow: Flow<Seek, Stream>,
        temp: &Path,
    ) -> Result<(TransferResult, Finished)> {
        let raw = self.plan.facts.output == Output::Raw;
        let target = BlockTarget::open(path, self.plan.size.filter(|_| raw))?;
        overlap::refuse(self.request, &**flow.source(), &target.storage()?)?;
        let paths = TargetPaths { spool: temp, written: Some(path) };
        let Some(journals) = &self.request.convert_options.journals else {
            return self.through(Box::new(target), flow, None, paths);
        };
        if self.plan.resume.is_err() {
            // With the first written byte the old journal is not true any more.
            target::forget(path, journals)?;
            return self.through(Box::new(target), flow, None, paths);
        }
        let started = target.start(journals, &self.conversion(), self.request.convert_options.resume)?;
        let done = self.go_on(started, path, flow, paths)?;
        target::forget(path, journals)?;
        Ok(done)
    }

    /// Moves the bytes, compares, finishes.
    fn through(
        &self,
        target: Box<dyn Target + '_>,
        flow: Flow<Seek, Stream>,
        journal: Option<(Journal, Option<Mark>)>,
        paths: TargetPaths<'_>,
    ) -> Result<(TransferResult, Finished)> {
        let source = flow.source().clone();
        let moved = self.move_bytes(&*target, flow, journal, paths.spool)?;
        source.unchanged()?;
        if self.request.convert_options.verify {
            target.sync()?;
            verify::compare(self, paths.written, moved.sum, moved.size)?;
        }
        self.watch.enter(Phase::Finishing, 0);
        Ok((moved, target.finish()?))
    }

    fn move_bytes(
        &self,
        target: &dyn Target,
        flow: Flow<Seek, Stream>,
        journal: Option<(Journal, Option<Mark>)>,
        folder: &Path,
    ) -> Result<TransferResult> {
        match flow {
            Flow::Tables(Seek { bytes, image, .. }) => self.tables(target, &*image, &*bytes, journal),
            Flow::TablesInOrder(Seek { bytes, image, .. }) => {
                let sum = self.in_order(target, folder, &*image, &*bytes)?;
                let disk = image.virtual_size();
                Ok(TransferResult { size: self.final_size(disk)?, disk, sum, ..TransferResult::default() })
            }
            Flow::Stream(stream) => self.stream(target, stream, journal, folder),
            Flow::StreamInOrder(stream) => self.stream_in_order(target, stream, folder),
            Flow::SpoolThenOrder(stream) => {
                let scratch = Scratch::beside(folder)?;
                let moved = self.stream(&scratch, stream, None, folder)?;
                let (image, bytes) = scratch.image(moved.disk)?;
                let sum = self.in_order(target, folder, &image, &bytes)?;
                scratch.check_written_back()?;
                Ok(TransferResult { sum, spool_peak: moved.spool_peak + scratch.written(), ..moved })
            }
        }
    }

    fn tables(
        &self,
        target: &dyn Target,
        image: &dyn Image,
        bytes: &dyn ReadAt,
        journal: Option<(Journal, Option<Mark>)>,
    ) -> Result<TransferResult> {
        let size = self.final_size(image.virtual_size())?;
        self.watch.enter(Phase::Converting, image.virtual_size());
        let (journal, mark) = journal.unzip();
        let mark = mark.flatten();
        let from = match &mark {
            Some(Mark { position: Position::Table { window, done }, .. }) => {
                Reached { window: *window, file: *done }
            }
            _ => Reached::default(),
        };
        let before = DiskSum::parse(mark.as_ref().and_then(|m| m.sum.as_deref()));
        let earlier = mark.as_ref().map_or(0, |m| m.written);
        self.watch.advance(from.window);
        let cut = Cut { piece: self.plan.piece, gap: self.plan.gap };
        let mut write = |end: &End| {
            let Some(journal) = &journal else { return Ok(None) };
            let position = Position::Table { window: end.reached.window, done: end.reached.file };
            let mark = self.mark(position, earlier.saturating_add(end.written), end.sum.join(before));
            journal.mark(target, &mark).map(Some)
        };
        let marks = journal.is_some().then(|| self.marks(from, &mut write));
        let engine = self.engine(Some(bytes), EngineSink::Any(target), marks);
        let end = engine.run(|feed| tables::any_order(feed, image, cut, from))?;
        self.zero_rest(target, image.virtual_size(), size)?;
        target.set_size(size)?;
        let resumed_at = mark.map(|m| m.written);
        let disk = image.virtual_size();
        Ok(TransferResult { size, disk, sum: end.sum.join(before), resumed_at, ..TransferResult::default() })
    }

    fn stream(
        &self,
        target: &dyn Target,
        stream: Stream,
        journal: Option<(Journal, Option<Mark>)>,
        folder: &Path,
    ) -> Result<TransferResult> {
        let Stream { mut reader, counted, boundaries, sums, from, position, .. } = stream;
        let is_summed = self.request.convert_options.checksum.is_some();
        self.watch.enter(Phase::Converting, self.plan.facts.source.size.unwrap_or(0));
        self.watch.follow(Some(counted));
        let (journal, mark) = journal.unzip();
        let spool = Spool::beside(folder, self.plan.spool.unwrap_or(0))?;
        let mut image = disk_format::stream(self.plan.facts.format, limits(self.request))?;
        let has_tables = !matches!(self.plan.facts.format, Format::Raw | Format::Iso);
        let mut standings = Standings::wanted(has_tables && journal.is_some());
        if let Some((front, tables)) = position {
            let gone_on = run_confined(|| {
                image.push(0, &front, false).and_then(|_| image.resume_from(&tables.position()))
            })?;
            gone_on.map_err(|e| Error::from(e).of_another_version())?;
            standings = standings.later(tables.front, tables.digest);
        }
        let earlier = mark.as_ref().and_then(Option::as_ref).map_or(0, |m| m.written);
        let (mut last, mut written) = (from, earlier);
        let mut write = |end: &End| {
            let standing = standings.last_before(end.reached.file);
            // Without its tables the data behind this position cannot be placed.
            let until = match &standing {
                Some(standing) => standing.at,
                None if has_tables => return Ok(None),
                None => end.reached.file,
            };
            match (&journal, boundaries.last_before(until)) {
                (Some(journal), Some(boundary)) if boundary.output > last => {
                    let behind = sums.first_behind(boundary.input).filter(|_| is_summed);
                    let source = sums.last_before(boundary.input).filter(|_| is_summed);
                    if is_summed && (source.is_none() || behind.is_none()) {
                        return Ok(None);
                    }
                    let image = match standing {
                        None => None,
                        Some(standing) => match standings.digest(standing.front) {
                            Some(digest) => Some(Tables::new(standing, digest)),
                            // Without the digest a later run could not tell if it gets the same tables.
                            None => return Ok(None),
                        },
                    };
                    last = boundary.output;
                    written = earlier.saturating_add(end.written_before(last)).max(written);
                    let guest = boundary.output;
                    let position = Position::Stream { guest, boundary, source, behind, image };
                    journal.mark(target, &self.mark(position, written, DiskSum::default())).map(Some)
                }
                // No new boundary where the stream could be entered again.
                _ => Ok(None),
            }
        };
        let mut arrived = stream::Arrived::default();
        let reached = Reached { window: 0, file: from };
        let marks = journal.is_some().then(|| self.marks(reached, &mut write));
        let engine = self.engine(None, EngineSink::Any(target), marks);
        let end = engine.run(|feed| {
            arrived =
                stream::arrive(feed, &mut *image, &mut *reader, from, stream::PIECE, (&spool, &standings))?;
            Ok(())
        })?;
        drop(reader);
        self.watch.follow(None);
        self.watch.enter(Phase::Placing, spool.peak());
        let spooled = spool.of_size(arrived.file_size);
        let placed = self
            .engine(Some(&spooled), EngineSink::Any(target), None)
            .run(|feed| stream::place(feed, &mut *image, &spooled))?;
        spool.check_written_back()?;
        let disk =
            image.virtual_size().ok_or_else(|| Error::failed("the stream ended and its disk has no size"))?;
        let size = self.final_size(disk)?;
        self.zero_rest(target, disk, size)?;
        target.set_size(size)?;
        let resumed_at = mark.flatten().map(|m| m.written);
        Ok(TransferResult { size, disk, sum: end.sum.join(placed.sum), spool_peak: spool.peak(), resumed_at })
    }

    fn stream_in_order(&self, target: &dyn Target, stream: Stream, folder: &Path) -> Result<TransferResult> {
        let Stream { mut reader, counted, .. } = stream;
        self.watch.enter(Phase::Converting, self.plan.facts.source.size.unwrap_or(0));
        self.watch.follow(Some(counted));
        let mut image = disk_format::stream(self.plan.facts.format, limits(self.request))?;
        let (spool, none) = (Spool::beside(folder, 0)?, Standings::default());
        let mut end = End::default();
        self.ordered(target, folder, self.plan.size, |sink| {
            let piece = tables::STRETCH as usize;
            end = self.engine(None, EngineSink::Ordered(sink), None).run(|feed| {
                let end =
                    stream::arrive(feed, &mut *image, &mut *reader, 0, piece, (&spool, &none))?.file_size;
                tables::grow(feed, end, self.final_size(end)?)
            })?;
            Ok(())
        })?;
        self.watch.follow(None);
        let disk =
            image.virtual_size().ok_or_else(|| Error::failed("the stream ended and its disk has no size"))?;
        Ok(TransferResult { size: self.final_size(disk)?, disk, sum: end.sum, ..TransferResult::default() })
    }

    /// Converts an image that can be read by offset, to a target that is written front to back.
    fn in_order(
        &self,
        target: &dyn Target,
        folder: &Path,
        image: &dyn Image,
        bytes: &dyn ReadAt,
    ) -> Result<DiskSum> {
        let disk = image.virtual_size();
        let size = self.final_size(disk)?;
        if plan::reads_twice(&self.plan.facts, self.plan.flow) {
            return self.in_two_passes(target, image, bytes, size);
        }
        self.watch.enter(Phase::Converting, disk);
        let mut end = End::default();
        self.ordered(target, folder, Some(size), |sink| {
            end = self.engine(Some(bytes), EngineSink::Ordered(sink), None).run(|feed| {
                tables::guest_order(feed, image, self.plan.gap)?;
                tables::grow(feed, disk, size)
            })?;
            Ok(())
        })?;
        Ok(end.sum)
    }

    /// The same for a qcow2 whose tables are found by a first reading.
    fn in_two_passes(
        &self,
        target: &dyn Target,
        image: &dyn Image,
        bytes: &dyn ReadAt,
        size: u64,
    ) -> Result<DiskSum> {
        let disk = image.virtual_size();
        let options = self.qcow2(size);
        let read = |sink: &dyn Ordered| {
            self.engine(Some(bytes), EngineSink::Ordered(sink), None).run(|feed| {
                tables::guest_order(feed, image, self.plan.gap)?;
                tables::grow(feed, disk, size)
            })
        };
        if self.request.layout.0.get().is_none() {
            self.watch.enter(Phase::Measuring, disk);
            let before = self.watch.written();
            let measured = Measured::default();
            let sink = PackedQcow2::to(&measured, options.clone(), self.watch)?;
            read(&sink)?;
            let size = sink.finish()?.file_size;
            self.watch.forget_written_since(before);
            // No other thread has this request.
            let _ = self.request.layout.0.set(measured.layout(size));
        }
        let layout = self.request.layout.0.get().ok_or_else(|| Error::failed("the disk was not measured"))?;
        self.watch.enter(Phase::Converting, disk);
        let woven = Woven::new(target, layout)?;
        let sink = PackedQcow2::to(&woven, options, self.watch)?;
        let end = read(&sink)?;
        woven.finish(sink.finish()?.file_size)?;
        Ok(end.sum)
    }

    /// Options of a qcow2 of this size.
    fn qcow2(&self, size: u64) -> Options {
        let Output::Qcow2 { cluster_bits, compress } = self.plan.facts.output else {
            return Options::new(size);
        };
        let compress = compress.map(|(codec, level)| Compression { codec, level });
        Options { cluster_bits, compress, ..Options::new(size) }
    }

    /// Calls `work` with the sink for the output format. A qcow2 is written by offset, so one for standard
    /// output is first assembled in a temporary file.
    fn ordered(
        &self,
        target: &dyn Target,
        folder: &Path,
        size: Option<u64>,
        work: impl FnOnce(&dyn Ordered) -> Result<()>,
    ) -> Result<()> {
        let Output::Qcow2 { .. } = self.plan.facts.output else {
            size.map_or(Ok(()), |size| target.announce(size))?;
            return work(&FrontToBack { target, watch: self.watch });
        };
        let virtual_size =
            size.ok_or_else(|| Error::failed("a qcow2 cannot be begun without the disk's size"))?;
        let options = self.qcow2(virtual_size);
        let write = |target: &dyn Target| -> Result<u64> {
            let sink = PackedQcow2::create(target, options.clone(), self.watch)?;
            work(&sink)?;
            Ok(sink.finish()?.file_size)
        };
        if target.order() == Order::Any {
            let size = write(target)?;
            return target.set_size(size);
        }
        let scratch = Scratch::beside(folder)?;
        let size = write(&scratch)?;
        scratch.copy_to(size, target)
    }

    fn engine<'e>(
        &self,
        bytes: Option<&'e dyn ReadAt>,
        sink: EngineSink<'e>,
        marks: Option<Marks<'e>>,
    ) -> Engine<'e>
    where
        Self: 'e,
    {
        let size = Size {
            workers: self.plan.workers,
            readers: self.plan.readers,
            buffers: self.plan.buffers,
            sum: self.request.convert_options.verify,
        };
        Engine { bytes, sink, watch: self.watch, size, marks }
    }

    /// `from`: the position where the run begins.
    fn marks<'e>(&self, from: Reached, write: Marker<'e>) -> Marks<'e> {
        Marks { pace: Pace::new(self.request.journal_every), last: from, write }
    }

    fn mark(&self, position: Position, written: u64, sum: DiskSum) -> Mark {
        let sum = self.request.convert_options.verify.then(|| sum.to_string());
        Mark { position, written, sum }
    }
}
