//! The environment of a worker pod, as virt-controller sets it, and the termination message.

use crate::fault::{self, BASE};
use api::job::{Report, Stage};
use cdi::{Error, Result};
use jiff::Timestamp;
use printable::line;
use serde::de::DeserializeOwned;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// The environment variable with the job in JSON.
pub(crate) const JOB: &str = "CDI_JOB";
/// The environment variable with the uid of the PVC.
const OWNER: &str = "OWNER_UID";
/// The environment variable with the memory limit of the pod, in bytes.
const LIMIT: &str = "MEMORY_LIMIT";
/// The environment variable with the file of the termination message.
const TERMINATION: &str = "TERMINATION_LOG";
const TERMINATION_USUAL: &str = "/dev/termination-log";
/// The environment variable with the time after which a pod with new certificates replaces this one (RFC
/// 3339).
const DEADLINE: &str = "DEADLINE";
/// The longest sleep, since the clock may be set in the meantime.
const NAP: Duration = Duration::from_secs(60);
/// The memory limit if the variable is unset: that of a worker pod.
const LIMIT_USUAL: u64 = 128 << 20;
/// Exit code of a process that was asked to end, or found no space to begin: the next pod continues.
const ENDED_BY_TERM: u8 = 143;

/// The job in the environment.
pub(crate) fn job<T: DeserializeOwned>() -> Result<T> {
    let text = std::env::var(JOB)
        .map_err(|_| Error::refused(format!("the environment has no {JOB}: virt-controller sets it")))?;
    // The message of serde may quote a value, and a value may be a secret.
    serde_json::from_str(&text).map_err(|e| {
        Error::refused(format!(
            "{JOB} is not a job of this version: at line {} column {}",
            e.line(),
            e.column()
        ))
    })
}

/// A variable that a server requires.
pub(crate) fn setting(name: &str) -> Result<String> {
    match std::env::var(name) {
        Ok(value) if !value.is_empty() => Ok(value),
        _ => Err(Error::refused(format!("the environment has no {name}: virt-controller sets it"))),
    }
}

/// Memory of an attempt, in bytes.
pub(crate) fn memory() -> Result<u64> {
    let limit = match std::env::var(LIMIT) {
        Err(_) => LIMIT_USUAL,
        Ok(text) => {
            text.parse().map_err(|_| Error::refused(format!("{LIMIT} is {text:?}, not a number of bytes")))?
        }
    };
    Ok(limit.saturating_sub(BASE))
}

/// The uid of the PVC.
pub(crate) fn owner() -> String {
    std::env::var(OWNER).unwrap_or_default()
}

/// The deadline of the pod, if it has one.
pub(crate) fn deadline() -> Result<Option<Timestamp>> {
    let Ok(text) = std::env::var(DEADLINE) else { return Ok(None) };
    let time = text.parse();
    time.map(Some).map_err(|e| {
        Error::refused(format!("{DEADLINE} is {text:?}, not a time as 2026-01-02T03:04:05Z")).because(e)
    })
}

/// Waits for the deadline; without one, for ever.
pub(crate) async fn until(deadline: Option<Timestamp>) {
    let Some(deadline) = deadline else { return std::future::pending().await };
    loop {
        match Duration::try_from(deadline.duration_since(Timestamp::now())) {
            Ok(left) if !left.is_zero() => tokio::time::sleep(left.min(NAP)).await,
            _ => return,
        }
    }
}

/// Writes the termination message, and returns the exit code.
pub(crate) fn end(ended: Result<Report>) -> ExitCode {
    Termination::open().end(ended)
}

/// The open file of the termination message, for a program that confines itself later.
pub(crate) struct Termination {
    path: PathBuf,
    file: io::Result<File>,
}

impl Termination {
    /// Opens the file before the program confines itself. A failure to open it is logged when it is written.
    pub(crate) fn open() -> Termination {
        let path =
            std::env::var_os(TERMINATION).map_or_else(|| PathBuf::from(TERMINATION_USUAL), PathBuf::from);
        // An old message stays until it is overwritten.
        let file = File::options().write(true).create(true).truncate(false).open(&path);
        Termination { file, path }
    }

    fn write(self, report: &Report) {
        let written = self.file.and_then(|mut file| file.write_all(report.termination().as_bytes()));
        if let Err(e) = written {
            tracing::warn!("cannot write the termination message {}: {e}", self.path.display());
        }
    }

    /// Writes the termination message, and returns the exit code.
    pub(crate) fn end(self, ended: Result<Report>) -> ExitCode {
        let report = ended.unwrap_or_else(|e| {
            // The work did not begin, since the pod's environment is wrong. A full node may have space for
            // the next pod.
            let (stage, reason) = match fault::is_full(&e) {
                true => (Stage::Waiting, fault::NO_SPACE),
                false => (Stage::Failed, fault::FAILED),
            };
            Report { stage, reason: reason.to_owned(), message: line(&e.chain()), ..Report::default() }
        });
        self.write(&report);
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
}

/// Writes the termination message early, so that the kubelet finds it however the process ends.
pub(crate) fn leave(report: &Report) {
    Termination::open().write(report);
}
