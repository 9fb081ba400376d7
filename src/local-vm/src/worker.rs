//! Jobs on foreign bytes, done for the verbs that start VMs by a process of its own, which gives up
//! everything else.
//!
//! ```text
//!  coracle run ──JobRequest──► coracle apart ──► enters the Permissions of this one job, then reads the image
//!              ◄─Outcome──      └─ its log lines and progress go where ours go
//! ```
//!
//! `run` and `test` start launchers, make sockets and wait for them, so they cannot confine themselves. A
//! confined thread would not help, since threads share one memory. So they read no image at all: each job is
//! one process of the same program (`commands/worker.rs`), confined as `pull` and `convert` are. The process
//! ends with its job, and with the process that started it.
//!
//! **Its answer is checked.** Each image is unpacked into a folder of its own (`folder_of`), made here, and
//! its job may write there and nowhere else. A path in an answer must lead to a plain file below the folder
//! that the job was given. The size of an answer is bounded.

use crate::error::{Error, ErrorKind, Result};
use api::job::Import;
use container_disk::Digest;
use container_disk::locate::Boot;
use error_core::causes;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::io::{self, Read as _, Write as _};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use tracing::level_filters::LevelFilter;

/// Hidden verb that does one job; users do not type it.
pub const VERB: &str = "apart";

/// Exit code of a process that the user interrupted.
pub const INTERRUPTED: u8 = 130;

/// Maximum size of an answer in bytes: its longest texts are the labels of an image.
const ANSWER_MAX: u64 = 4 << 20;

/// A job, and the global flags that it needs.
#[derive(Serialize, Deserialize)]
pub struct JobRequest {
    /// Path of the file with settings of registries.
    pub registries: Option<PathBuf>,
    pub quiet: bool,
    pub job: Task,
}

/// The work of a job. Images are named with their scheme. The first job that opens an image resolves its
/// name; later jobs get the digest ([`PinnedImage`]), since a tag may move between two jobs.
#[derive(Serialize, Deserialize)]
pub enum Task {
    /// Looks up a name in the store, and by the digest if its registry has the image by one. Result: `bool`.
    Here { image: String, digest: Option<String> },
    /// Pulls an image into the store. Result: digest of its manifest for this platform.
    Pull { from: String, to: String },
    /// Reads the labels of an image, by its digest if that is known. Result: [`ImageInfo`].
    Look { image: String, digest: Option<String> },
    /// Looks for a disk in an image. Result: `bool`.
    HasDisk { image: PinnedImage },
    /// Probes a disk file of the user, which must be one that a VM can use. Result: `Format`.
    Judge { path: PathBuf },
    /// Unpacks the disk of an image into its folder. Result: the path.
    Disk { image: PinnedImage, path: Option<String>, folder: PathBuf },
    /// Unpacks a kernel or an initrd into the image's folder. Result: the path.
    Boot { image: PinnedImage, path: String, folder: PathBuf },
    /// Fills a disk. Result: its virtual size in bytes.
    Import(Box<Import>),
}

impl Task {
    /// Description of the job for messages, as a verb with its object.
    pub fn what(&self) -> String {
        match self {
            Task::Here { image, .. } => format!("look for {image}"),
            Task::Pull { from, .. } => format!("pull {from}"),
            Task::Look { image, .. } => format!("look at {image}"),
            Task::HasDisk { image } => format!("look for a disk in {}", image.image),
            Task::Judge { path } => format!("look at {}", path.display()),
            Task::Disk { image, .. } => format!("unpack the disk of {}", image.image),
            Task::Boot { image, path, .. } => format!("unpack {path} of {}", image.image),
            Task::Import(import) => format!("import {}", cdi::import::shown(&import.source)),
        }
    }
}

/// Image of a place, pinned by digest, since its tag may move.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PinnedImage {
    /// Name with its scheme, which says where the image is; messages show it.
    pub image: String,
    pub digest: String,
}

/// Facts of an image that its VM needs.
#[derive(Serialize, Deserialize)]
pub struct ImageInfo {
    /// Digest of the image's manifest for this platform.
    pub digest: String,
    /// Kernel, initrd and command line, by the labels of the image.
    pub boot: Option<Boot>,
}

/// Result of a job.
#[derive(Serialize, Deserialize)]
pub enum Outcome {
    Done(Value),
    Failed { kind: ErrorKind, what: String, because: Vec<String> },
}

/// Runs a job in a process of its own and waits for its result.
pub(crate) fn run_job<T: DeserializeOwned>(
    registries: Option<&Path>,
    is_quiet: bool,
    job: Task,
) -> Result<T> {
    let order = JobRequest { registries: registries.map(Path::to_owned), quiet: is_quiet, job };
    let order = serde_json::to_vec(&order)
        .map_err(|e| Error::failed("cannot hand a job to the process that reads images").because(e))?;
    let mut child = start()?;
    let said = converse(&mut child, &order);
    if said.is_err() {
        // The process failed to answer in full; its work is discarded.
        let _ = child.kill();
    }
    let status = child.wait().map_err(|e| Error::io("cannot wait for the process that reads images", e))?;
    match serde_json::from_slice(&said?) {
        Ok(Outcome::Done(value)) => serde_json::from_value(value).map_err(|e| senseless().because(e)),
        Ok(Outcome::Failed { kind, what, because }) => Err(failed(kind, what, because)),
        Err(_) => Err(ended(status)),
    }
}

/// Folder for all files that are unpacked of one image, and of no other. Two images may share a layer, and a
/// compromised reader of one must not reach the disk of the other.
pub(crate) fn folder_of(disks: &Path, image: &PinnedImage) -> Result<PathBuf> {
    // The digest comes from a process that reads images, and becomes a file name: parsing checks it.
    let digest: Digest = image.digest.parse()?;
    Ok(disks.join(digest.to_string().replace(':', "-")))
}

/// The path of an answer, checked: a plain file below the folder that the job was given.
pub fn within(folder: &Path, path: PathBuf) -> Result<PathBuf> {
    let cannot = |e| Error::io(format!("cannot use {}", path.display()), e);
    let is_file = std::fs::symlink_metadata(&path).map_err(cannot)?.is_file();
    let real = path.canonicalize().map_err(cannot)?;
    let folder = folder.canonicalize().map_err(cannot)?;
    if is_file && real.starts_with(&folder) {
        return Ok(path);
    }
    let what = format!("{} is not a file in {}, where a disk must be", path.display(), folder.display());
    Err(Error::refused(what))
}

impl Outcome {
    /// Converts the result of a job, with all causes of an error.
    pub fn from_result(done: Result<Value>) -> Outcome {
        match done {
            Ok(value) => Outcome::Done(value),
            Err(e) => {
                let because = causes(&e).map(ToString::to_string).collect();
                Outcome::Failed { kind: e.kind(), what: e.to_string(), because }
            }
        }
    }
}

fn start() -> Result<Child> {
    // This very program, even if its file was replaced since.
    let mut command = Command::new("/proc/self/exe");
    command.arg0("coracle").arg(VERB);
    let level = LevelFilter::current();
    let verbose = [LevelFilter::INFO, LevelFilter::DEBUG].iter().filter(|at| level >= **at).count();
    command.args(std::iter::repeat_n("-v", verbose)).stdin(Stdio::piped()).stdout(Stdio::piped());
    end_with_us(&mut command);
    command.spawn().map_err(|e| Error::io("cannot start the process that reads images", e))
}

/// Sends SIGKILL to the child when this process ends, however it does. Its files are then as after a power
/// cut.
#[allow(unsafe_code)]
fn end_with_us(command: &mut Command) {
    use rustix::process::{Signal, set_parent_process_death_signal};
    let ask = || set_parent_process_death_signal(Some(Signal::KILL)).map_err(io::Error::from);
    // SAFETY: between fork and exec only one system call is made, and no memory is taken.
    unsafe {
        command.pre_exec(ask);
    }
}

fn converse(child: &mut Child, order: &[u8]) -> Result<Vec<u8>> {
    let cannot = |e| Error::io("cannot communicate with the process that reads images", e);
    if let Some(mut to) = child.stdin.take()
        && let Err(e) = to.write_all(order)
        // The process has ended already; its exit status says more.
        && e.kind() != io::ErrorKind::BrokenPipe
    {
        return Err(cannot(e));
    }
    let mut said = vec![];
    if let Some(from) = child.stdout.take() {
        from.take(ANSWER_MAX + 1).read_to_end(&mut said).map_err(cannot)?;
    }
    if said.len() as u64 > ANSWER_MAX {
        return Err(senseless());
    }
    Ok(said)
}

fn senseless() -> Error {
    Error::refused("the process that reads images sent an invalid answer; the image may have compromised it")
}

fn ended(status: ExitStatus) -> Error {
    use rustix::process::Signal;
    let by_signal = [Signal::INT, Signal::TERM].iter().any(|end| status.signal() == Some(end.as_raw()));
    if by_signal || status.code() == Some(i32::from(INTERRUPTED)) {
        return Error::new(ErrorKind::Interrupted, "interrupted; the same command goes on");
    }
    Error::failed(format!("the process that reads images ended without an answer ({status})"))
}

fn failed(kind: ErrorKind, what: String, because: Vec<String>) -> Error {
    let cause = because.into_iter().rev().fold(None, |next, what| Some(Box::new(Cause { what, next })));
    let error = Error::new(kind, what);
    match cause {
        Some(cause) => error.because(cause as Box<dyn std::error::Error + Send + Sync>),
        None => error,
    }
}

/// Cause in the chain of a job's error, read from its text.
#[derive(Debug)]
struct Cause {
    what: String,
    next: Option<Box<Cause>>,
}

impl std::fmt::Display for Cause {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for Cause {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.next.as_deref().map(|next| next as _)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_comes_back_with_its_kind_and_its_causes() {
        let inner = Cause { what: "no route".into(), next: None };
        let middle = Cause { what: "cannot connect".into(), next: Some(Box::new(inner)) };
        let error = Error::new(ErrorKind::Auth, "cannot pull").because(middle);
        let text = serde_json::to_vec(&Outcome::from_result(Err(error))).unwrap();
        let Outcome::Failed { kind, what, because } = serde_json::from_slice(&text).unwrap() else {
            panic!("it failed")
        };
        let back = failed(kind, what, because);
        assert_eq!((back.kind(), back.to_string()), (ErrorKind::Auth, "cannot pull".to_owned()));
        let cause = std::error::Error::source(&back).unwrap();
        assert_eq!(cause.to_string(), "cannot connect");
        assert_eq!(cause.source().unwrap().to_string(), "no route");
    }

    #[test]
    fn each_image_has_a_folder_and_what_is_no_digest_has_none() {
        let of = |digest: &str| {
            folder_of(Path::new("/d"), &PinnedImage { image: "store:os:1".into(), digest: digest.into() })
        };
        let (one, other) = (format!("sha256:{}", "a".repeat(64)), format!("sha256:{}", "b".repeat(64)));
        assert_eq!(of(&one).unwrap(), Path::new("/d").join(format!("sha256-{}", "a".repeat(64))));
        assert_ne!(of(&one).unwrap(), of(&other).unwrap());
        for none in ["", "..", "sha256:..", "../../x", "sha256:a/../b"] {
            of(none).unwrap_err();
        }
    }

    #[test]
    fn a_path_that_leads_out_of_the_folder_is_not_used() {
        let place = tempfile::tempdir().unwrap();
        let (disks, secret) = (place.path().join("disks"), place.path().join("secret"));
        std::fs::create_dir_all(disks.join("a")).unwrap();
        std::fs::write(&secret, "s").unwrap();
        std::fs::write(disks.join("a/disk"), "d").unwrap();
        std::os::unix::fs::symlink(&secret, disks.join("a/link")).unwrap();
        std::os::unix::fs::symlink(place.path(), disks.join("out")).unwrap();
        within(&disks, disks.join("a/disk")).unwrap();
        std::fs::create_dir(place.path().join("disks-of-another")).unwrap();
        std::fs::write(place.path().join("disks-of-another/disk"), "d").unwrap();
        let out = [
            place.path().join("disks-of-another/disk"),
            secret,
            disks.join("../secret"),
            disks.join("a/link"),
            disks.join("out/secret"),
            disks.join("a"),
        ];
        for path in out {
            assert_eq!(
                within(&disks, path.clone()).unwrap_err().kind(),
                ErrorKind::Refused,
                "{}",
                path.display()
            );
        }
    }
}
