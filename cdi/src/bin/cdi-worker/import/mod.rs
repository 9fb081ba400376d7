//! `cdi-worker import`: fills the disk of the job.

use crate::attempts;
use crate::earlier;
use crate::pod::{self, owner};
use crate::progress::Progress;
use api::job::{Import, Report, Source, Target};
use cdi::Result;
use printable::line;
use std::process::ExitCode;

/// Fills the disk of the job. `listen`: another address than that of a worker pod.
pub(crate) fn run(listen: Option<&str>) -> ExitCode {
    pod::end(work(listen))
}

fn work(listen: Option<&str>) -> Result<Report> {
    let job: Import = pod::job()?;
    if let Some(disk) = earlier::find(&job, &owner())? {
        let mut progress = Progress::new("", job.preallocate);
        progress.done(disk);
        return Ok(progress.report().clone());
    }
    let source = line(&cdi::import::shown(&job.source));
    tracing::info!("imports {source} to {}", target(&job));
    let is_clone = matches!(job.source, Source::Clone(_));
    let progress = Progress::new(&source, job.preallocate).of_clone(is_clone);
    attempts::run(job, progress, listen)
}

fn target(job: &Import) -> std::path::Display<'_> {
    match &job.target {
        Target::File(path) | Target::Device(path) | Target::Folder(path) => path.display(),
    }
}
