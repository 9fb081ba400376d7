//! `cdi-worker attempt`: one attempt at a job, in a confined process.

use crate::fault;
use crate::labels;
use crate::protocol::{Disk, Fault, Job, Order, ProgressLine};
use api::job::{Source, Target};
use cdi::done_marker::DoneMarker;
use cdi::permissions::Permissions;
use cdi::plan::ConvertOptions;
use cdi::run::watch::{Phase, Watch};
use cdi::{Error, Result, import};
use container_disk::open::Places;
use container_disk::registry::config::Readers;
use fetch::Decoded;
use fetch::least_rate::WORKER_RATE;
use guard::confine::{Attributes, set_attributes};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead as _, Read as _, Write as _};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

/// The most bytes of an order; the environment of a process takes less.
const LONGEST: u64 = 1 << 20;
/// Time between two progress lines.
pub(crate) const PERIOD: Duration = Duration::from_millis(250);
/// Mode of a disk: access for QEMU, which has the same user, and for its group.
const MODE: u32 = 0o660;

/// Executes the order on the standard input.
pub(crate) fn run() -> ExitCode {
    with_order(work)
}

/// The same for any kind of job, which `work` does.
pub(crate) fn with_order<J: Job>(work: fn(&Order<J>) -> ProgressLine) -> ExitCode {
    let said = match order() {
        Ok(order) => work(&order),
        Err(e) => ProgressLine::Failed(Fault {
            reason: fault::FAILED.to_owned(),
            message: e.chain(),
            may_retry: false,
            ..Fault::default()
        }),
    };
    let is_done = matches!(said, ProgressLine::Done(_));
    say(&said);
    if is_done { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Reads one line, and no byte behind it: the end of the input is awaited by another thread, or an upload
/// follows.
fn order<J: Job>() -> Result<Order<J>> {
    let mut line = vec![];
    let cannot = |e| Error::io("cannot read the order of this attempt", e);
    io::stdin().lock().take(LONGEST).read_until(b'\n', &mut line).map_err(cannot)?;
    serde_json::from_slice(&line).map_err(|e| {
        Error::refused("standard input does not hold an order of 'cdi-worker import'").because(e)
    })
}

fn work(order: &Order) -> ProgressLine {
    let watch = Arc::new(Watch::default());
    match moved(order, &watch) {
        Ok(done) => done,
        Err(e) => ProgressLine::Failed(fault::of(&e, &order.job)),
    }
}

fn moved(order: &Order, watch: &Arc<Watch>) -> Result<ProgressLine> {
    let job = &order.job;
    let threads = thread::available_parallelism().map_or(2, usize::from);
    let owner = Some(order.owner.clone()).filter(|owner| !owner.is_empty());
    // The folder of temporary files is the pod's own, and lasts as long as the pod.
    let journals =
        owner.as_ref().filter(|_| matches!(job.target, Target::Device(_))).map(|_| std::env::temp_dir());
    let convert_options = ConvertOptions {
        memory: order.memory,
        owner,
        journals,
        least_rate: Some(WORKER_RATE),
        ..ConvertOptions::with_threads(threads)
    };
    let decoded = convert_options.decoded.clone();
    let places = Arc::new(places(order.registries.as_deref())?);
    // Dropping this sender ends the progress thread.
    let (going_on, ended) = channel::<()>();
    let ready = |permissions: &Permissions| {
        permissions.enter();
        // The input of an upload contains its own end mark.
        if !matches!(job.source, Source::Upload(_)) {
            let watch = Arc::clone(watch);
            start("asked to end", move || end_when_asked(&watch))?;
        }
        start("progress", {
            let watch = Arc::clone(watch);
            move || tell(&watch, &decoded, &ended)
        })
    };
    if let Target::Folder(_) = &job.target {
        let prepared = import::unpack(job, places, convert_options, watch, ready)?;
        planned(&prepared.plan_text());
        let unpacked = prepared.run(watch)?;
        drop(going_on);
        tracing::info!("{}", printable::line(&unpacked.sentence()));
        return Ok(ProgressLine::Done(Disk { size: unpacked.bytes, ..Disk::default() }));
    }
    let prepared = import::prepare(job, places, convert_options, watch, ready)?;
    let places = Arc::clone(prepared.places());
    planned(&prepared.plan_text());
    let report = prepared.run(watch)?;
    drop(going_on);
    if let Target::File(path) = &job.target {
        allow_group(path);
    }
    if let Some(mark) = DoneMarker::of(&job.target, &order.owner)
        && let Err(e) = mark.set()
    {
        // The disk itself is complete; after a kill the next pod does not know that.
        tracing::warn!("{}", printable::line(&e.chain()));
    }
    tracing::info!("{}", printable::line(&report.sentence()));
    let labels = match &job.source {
        Source::Registry(registry) => labels::of(registry, &places).unwrap_or_else(|e| {
            tracing::warn!("the labels of the image are not known: {}", printable::line(&e.chain()));
            BTreeMap::new()
        }),
        _ => BTreeMap::new(),
    };
    let (size, resumed) = (report.virtual_size, report.resumed_at.unwrap_or(0));
    let length_unknown = report.length_unknown;
    Ok(ProgressLine::Done(Disk { size, resumed, labels, length_unknown, ..Disk::default() }))
}

/// The places of images. The cluster's settings of registries do not belong to the DataVolume: if they are
/// wrong it waits until an administrator has corrected them, and then another pod replaces this one.
pub(crate) fn places(registries: Option<&Path>) -> Result<Places> {
    let places = Places::new(registries.map(Path::to_owned)).read_by(Readers::Cluster);
    if registries.is_some() {
        places.registries().map_err(|e| {
            let what = "the ConfigMap coracle-registries of the installation has settings that are wrong";
            Error::failed(format!("{what}: {}", e.chain()))
        })?;
    }
    Ok(places)
}

/// Logs the plan, and reports that the work begins.
pub(crate) fn planned(text: &str) {
    for line in text.lines() {
        tracing::info!("{}", printable::line(line));
    }
    say(&ProgressLine::Planned);
}

pub(crate) fn start(name: &str, work: impl FnOnce() + Send + 'static) -> Result<()> {
    let started = thread::Builder::new().name(name.to_owned()).spawn(work);
    started.map(drop).map_err(|e| Error::io("cannot start a thread", e))
}

/// Stops the run at the end of the input, with a mark in the journal.
pub(crate) fn end_when_asked(watch: &Watch) {
    let mut rest = [0; 64];
    while io::stdin().lock().read(&mut rest).is_ok_and(|n| n > 0) {}
    watch.interrupt();
}

fn tell(watch: &Watch, decoded: &Decoded, ended: &Receiver<()>) {
    let mut is_whole = false;
    while ended.recv_timeout(PERIOD) == Err(RecvTimeoutError::Timeout) {
        let phase = watch.phase();
        if phase != Phase::Opening {
            let (done, total) = watch.progress();
            // Later phases count other bytes, and few.
            let is_finishing = phase != Phase::Converting;
            say(&ProgressLine::Moved { done, total, is_finishing, decoded: decoded.get() });
            if phase == Phase::Finishing && !std::mem::replace(&mut is_whole, true) {
                say(&ProgressLine::Whole);
            }
        }
    }
}

/// Makes the disk, which the engine created, accessible for its group.
fn allow_group(path: &Path) {
    let file = File::options().write(true).open(path);
    if let Err(e) = file.and_then(|file| set_attributes(&file, Attributes::Mode(MODE))) {
        // The file system chooses the modes; the disk itself is complete.
        tracing::warn!("{} has not got the mode {MODE:04o}: {e}", path.display());
    }
}

/// Writes a line for the parent process. An error is ignored, since the parent is gone then.
pub(crate) fn say(said: &ProgressLine) {
    if let Ok(mut line) = serde_json::to_vec(said) {
        line.push(b'\n');
        let mut out = io::stdout().lock();
        let _ = out.write_all(&line).and_then(|()| out.flush());
    }
}
