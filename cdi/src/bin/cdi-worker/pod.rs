//! A worker pod, as its processes find it: the environment that virt-controller sets, and the last words.

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

/// A job in JSON.
pub(crate) const JOB: &str = "CDI_JOB";
/// The uid of the PVC.
const OWNER: &str = "OWNER_UID";
/// The memory limit of the pod, in bytes.
const LIMIT: &str = "MEMORY_LIMIT";
/// The file of the termination message.
const TERMINATION: &str = "TERMINATION_LOG";
const TERMINATION_USUAL: &str = "/dev/termination-log";
/// The time after which the pod makes room for one with new certificates (RFC 3339).
const DEADLINE: &str = "DEADLINE";
/// The longest sleep: clocks may be set meanwhile.
const NAP: Duration = Duration::from_secs(60);
/// The memory limit where nobody says it: that of a worker pod.
const LIMIT_USUAL: u64 = 128 << 20;
/// Exit code of a process that was asked to end, or found no room to begin: the next pod goes on.
const ENDED_BY_TERM: u8 = 143;

/// The job in the environment.
pub(crate) fn job<T: DeserializeOwned>() -> Result<T> {
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

/// A setting that a server cannot do without.
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

/// The deadline of the pod, where it has one.
pub(crate) fn deadline() -> Result<Option<Timestamp>> {
    let Ok(text) = std::env::var(DEADLINE) else { return Ok(None) };
    let time = text.parse();
    time.map(Some).map_err(|e| {
        Error::refused(format!("{DEADLINE} is {text:?}, not a time as 2026-01-02T03:04:05Z")).because(e)
    })
}

/// Waits for the deadline; for ever where there is none.
pub(crate) async fn until(deadline: Option<Timestamp>) {
    let Some(deadline) = deadline else { return std::future::pending().await };
    loop {
        match Duration::try_from(deadline.duration_since(Timestamp::now())) {
            Ok(left) if !left.is_zero() => tokio::time::sleep(left.min(NAP)).await,
            _ => return,
        }
    }
}

/// The last words, and the exit code.
pub(crate) fn end(ended: Result<Report>) -> ExitCode {
    Termination::open().end(ended)
}

/// The file of the termination message; open, a program that has given up the rest writes it too.
pub(crate) struct Termination {
    path: PathBuf,
    file: io::Result<File>,
}

impl Termination {
    /// Opens it.
    pub(crate) fn open() -> Termination {
        let path =
            std::env::var_os(TERMINATION).map_or_else(|| PathBuf::from(TERMINATION_USUAL), PathBuf::from);
        // What was left there stays until the same is written again.
        let file = File::options().write(true).create(true).truncate(false).open(&path);
        Termination { file, path }
    }

    fn write(self, report: &Report) {
        let written = self.file.and_then(|mut file| file.write_all(report.termination().as_bytes()));
        if let Err(e) = written {
            tracing::warn!("cannot write the termination message {}: {e}", self.path.display());
        }
    }

    /// The last words, and the exit code.
    pub(crate) fn end(self, ended: Result<Report>) -> ExitCode {
        let report = ended.unwrap_or_else(|e| {
            // Nothing was begun: the pod is not as it must be. A node that is full may have room for the next one.
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

/// Leaves the last words where the kubelet looks for them, whatever ends the process.
pub(crate) fn leave(report: &Report) {
    Termination::open().write(report);
}
