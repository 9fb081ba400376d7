//! `cdi-worker export`: the disk of a PVC becomes a container image in a registry.
//!
//! ```text
//!  the pod's process ──order──► attempt-export   confined: it reads the disk, and speaks to the registry
//!    /v1/report ◄──── lines ────┘                attempt.rs; the work itself: cdi::export
//! ```
//!
//! Retries are those of an import: 401 and 403, a name that the registry rejects, and a hostile disk end the
//! job; all other errors lead to another attempt after a pause. The disk is mounted read-only.

pub(crate) mod attempt;

use crate::attempts;
use crate::pod;
use crate::progress::Progress;
use api::job::{Export, Report};
use cdi::Result;
use printable::line;
use std::process::ExitCode;

/// Exports the disk of the job. `listen`: another address than that of a worker pod.
pub(crate) fn run(listen: Option<&str>) -> ExitCode {
    pod::end(work(listen))
}

fn work(listen: Option<&str>) -> Result<Report> {
    let job: Export = pod::job()?;
    let target = line(&job.target.url);
    tracing::info!("exports {} to {target}", job.disk.path().display());
    let progress = Progress::of_export(&target);
    attempts::run(job, progress, listen)
}
