//! A worker pod, as its processes find it: the environment that virt-controller sets, and the last words.

use crate::fault::{self, BASE};
use api::job::{Import, Report, Stage};
use cdi::{Error, Result};
use printable::line;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

/// A job in JSON.
pub(crate) const JOB: &str = "CDI_JOB";
/// The uid of the PVC.
const OWNER: &str = "OWNER_UID";
/// The memory limit of the pod, in bytes.
const LIMIT: &str = "MEMORY_LIMIT";
/// The file of the termination message.
const TERMINATION: &str = "TERMINATION_LOG";
const TERMINATION_USUAL: &str = "/dev/termination-log";
/// The memory limit where nobody says it: that of a worker pod.
const LIMIT_USUAL: u64 = 128 << 20;
/// Of a process that was asked to end.
const ENDED_BY_TERM: u8 = 143;

/// The job in the environment.
pub(crate) fn job() -> Result<Import> {
    let text = std::env::var(JOB)
        .map_err(|_| Error::refused(format!("the environment has no {JOB}: virt-controller sets it")))?;
    // What serde says may repeat a value, and a value may be a secret.
    serde_json::from_str(&text).map_err(|e| {
        Error::refused(format!(
            "{JOB} is not a job of this version: at line {} column {}",
            e.line(),
            e.column()
        ))
    })
}

/// A setting that an upload server cannot do without.
pub(crate) fn setting(name: &str) -> Result<String> {
    match std::env::var(name) {
        Ok(value) if !value.is_empty() => Ok(value),
        _ => Err(Error::refused(format!("the environment has no {name}: virt-controller sets it"))),
    }
}

/// Bytes that an attempt may take.
pub(crate) fn memory() -> Result<u64> {
    let limit = match std::env::var(LIMIT) {
        Err(_) => LIMIT_USUAL,
        Ok(text) => {
            text.parse().map_err(|_| Error::refused(format!("{LIMIT} is {text:?}, not a number of bytes")))?
        }
    };
    Ok(limit.saturating_sub(BASE))
}

/// The uid of the PVC, for metrics.
pub(crate) fn owner() -> String {
    std::env::var(OWNER).unwrap_or_default()
}

/// The last words, and the exit code.
pub(crate) fn end(ended: Result<Report>) -> ExitCode {
    let report = ended.unwrap_or_else(|e| {
        // Nothing was begun: the pod is not as it must be.
        let message = line(&e.chain());
        Report { stage: Stage::Failed, reason: fault::FAILED.to_owned(), message, ..Report::default() }
    });
    let path = std::env::var_os(TERMINATION).map_or_else(|| PathBuf::from(TERMINATION_USUAL), PathBuf::from);
    if let Err(e) =
        std::fs::File::create(&path).and_then(|mut file| file.write_all(report.termination().as_bytes()))
    {
        tracing::warn!("cannot write the termination message {}: {e}", path.display());
    }
    let said = line(&report.message);
    match report.stage {
        Stage::Done => {
            tracing::info!("{said}");
            ExitCode::SUCCESS
        }
        _ if report.deadline_passed => {
            tracing::info!(reason = report.reason, "{said}");
            ExitCode::SUCCESS
        }
        Stage::Failed => {
            tracing::error!(reason = report.reason, "{said}");
            ExitCode::FAILURE
        }
        _ => {
            tracing::warn!(reason = report.reason, "{said}");
            ExitCode::from(ENDED_BY_TERM)
        }
    }
}
