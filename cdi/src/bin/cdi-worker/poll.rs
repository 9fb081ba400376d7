//! `cdi-worker poll`: requests the version of an image, once.
//!
//! ```text
//!  CDI_JOB (JSON of api::job::Poll) ──► one request ──► termination message: Report with the digest, or with a reason
//! ```
//!
//! The process reads the mounted Secrets first. Then it confines itself to the network, the certificates and
//! the file of the termination message. It serves nothing, and only the engine repeats requests, since
//! virt-controller starts the next pod. Text of a server is sanitised for a log and a condition.

use crate::attempt::places;
use crate::fault;
use crate::pod::{self, Termination};
use crate::settings;
use api::job::{Import, Poll, Report, Source, Stage, Target};
use cdi::Result;
use cdi::import;
use printable::line;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

/// Polls for the version.
pub(crate) fn run() -> ExitCode {
    // A confined process could not open it.
    let last = Termination::open();
    last.end(work())
}

fn work() -> Result<Report> {
    let Poll { source } = pod::job()?;
    let registry = match &source {
        Source::Registry(registry) => Some(registry),
        _ => None,
    };
    let registries = settings::write(registry)?;
    tracing::info!("polls {}", line(&import::shown(&source)));
    let found = places(registries.as_deref()).and_then(|places| {
        import::version(&source, Arc::new(places), |permissions| {
            permissions.enter();
            Ok(())
        })
    });
    Ok(match found {
        Ok(digest) => Report {
            stage: Stage::Done,
            message: format!("the version is {digest}"),
            digest,
            ..Report::default()
        },
        Err(error) => {
            // The reasons are those of an import, which needs a target.
            let target = Target::File(PathBuf::from("/data/disk.img"));
            let fault = fault::of(&error, &Import { source, target, size: None, preallocate: false });
            Report { stage: Stage::Failed, reason: fault.reason, message: fault.message, ..Report::default() }
        }
    })
}
