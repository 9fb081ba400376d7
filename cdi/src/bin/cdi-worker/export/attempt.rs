//! One attempt at an export, in a process with access to the disk and the network only.

use crate::attempt::{PERIOD, end_when_asked, places, planned, say, start, with_order};
use crate::fault;
use crate::protocol::{Disk, Order, ProgressLine};
use api::job::Export;
use cdi::Result;
use cdi::export::{Steps, prepare};
use cdi::permissions::Permissions;
use cdi::plan::ConvertOptions;
use cdi::run::watch::Watch;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;

/// Executes the order on the standard input.
pub(crate) fn run() -> ExitCode {
    with_order(work)
}

fn work(order: &Order<Export>) -> ProgressLine {
    match moved(order) {
        Ok(done) => done,
        Err(e) => ProgressLine::Failed(fault::of_export(&e, &order.job)),
    }
}

fn moved(order: &Order<Export>) -> Result<ProgressLine> {
    let (watch, steps) = (Arc::new(Watch::default()), Arc::new(Steps::default()));
    let threads = thread::available_parallelism().map_or(2, usize::from);
    let convert_options = ConvertOptions { memory: order.memory, ..ConvertOptions::with_threads(threads) };
    // Dropping this sender ends the progress thread.
    let (going_on, ended) = channel::<()>();
    let ready = |permissions: &Permissions| {
        permissions.enter();
        let asked = Arc::clone(&watch);
        start("asked to end", move || end_when_asked(&asked))?;
        let (watch, steps) = (Arc::clone(&watch), Arc::clone(&steps));
        start("progress", move || tell(&watch, &steps, &ended))
    };
    let prepared =
        prepare(&order.job, Arc::new(places(order.registries.as_deref())?), convert_options, &watch, ready)?;
    planned(&prepared.plan_text());
    let exported = prepared.run(&watch, &steps)?;
    drop(going_on);
    tracing::info!("{}", printable::line(&exported.sentence()));
    let resumed = if exported.was_there { exported.size } else { 0 };
    Ok(ProgressLine::Done(Disk { size: exported.size, resumed, digest: exported.digest, ..Disk::default() }))
}

fn tell(watch: &Watch, steps: &Steps, ended: &Receiver<()>) {
    while ended.recv_timeout(PERIOD) == Err(RecvTimeoutError::Timeout) {
        let (done, total, is_finishing) = steps.progress(watch);
        if total > 0 || is_finishing {
            say(&ProgressLine::Moved { done, total, is_finishing, decoded: 0 });
        }
    }
}
