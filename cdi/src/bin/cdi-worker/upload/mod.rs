//! `cdi-worker upload`: the upload server of a PVC. The body of a request goes through the engine as it arrives.
//!
//! ```text
//!  request ─► route.rs ─┬─ a page (server.rs)
//!                       ├─ POST /upload …       plain.rs ─┐ body.rs, form.rs: its bytes, and checks for completeness
//!                       └─ /upload-tus/ID       tus.rs  ──┤
//!                                                         ▼ slot.rs: one upload at a time, and none after the last
//!                                      conversion.rs ── pipe ──► cdi-worker attempt ──► the disk
//!  TLS_CERT_FILE TLS_KEY_FILE CLIENT_CERT_FILE ─► ../tls.rs: read anew when they change; ../client.rs: CLIENT_NAME
//! ```
//!
//! **One pass.** Nothing is stored on the way. A slow volume slows the client down, through the pipe and its
//! connection, and this process holds a few pieces of 64 KiB. The pipe contains the end mark of the upload
//! (`cdi::source::upload`).
//!
//! **Answers.** 200 when the disk is complete and durable under its name, and no other pod of this PVC will
//! need it again; for `-async` when all bytes came and were valid. 401 without the right certificate, 404 for
//! other methods, 409 when there is a disk already, 503 while another upload runs, 400 if the disk does not
//! fit, 500 with the message of the engine. Refusals come before the body if the client waits for `100
//! Continue`.
//!
//! **Archives.** A job whose target is a folder (contentType `archive`) takes a tar archive at
//! `/upload-archive`, or by `/upload-tus`, and no disk; any other job takes a disk, and no archive. A
//! mixed-up request gets 400.
//!
//! **A broken connection** ends its upload within 2 s, and the next one begins anew. For `upload-tus` (tus
//! 1.0) the pipe stays open for [`PATIENCE`], and the next PATCH continues behind the last byte that was
//! taken. A new pod has no bytes of it, and answers `Upload-Offset: 0`. A waiting upload gives way to a new
//! one.
//!
//! **200 is final**, whichever process is killed after it, by this order: the disk has its name ─► its mark
//! (`cdi::done_marker`), which the next pod finds and ends with ─► the report, which virt-controller reads ─► the
//! termination message ─► the answer. A device has no place for a mark: its answer waits for virt-controller,
//! which deletes the pod when it has recorded the disk, or for [`NOTED`].
//!
//! **End**: after the disk is complete, or at DEADLINE if no upload is in flight, or when asked to end. An
//! upload that waits for its next connection is not in flight: at DEADLINE it is given up, since clients will
//! soon lose access to this pod.

mod body;
mod conversion;
mod form;
mod plain;
mod route;
mod slot;
mod tus;

use crate::attempt_process::AttemptResult;
use crate::connections::Connections;
use crate::earlier;
use crate::pod::{self, owner};
use crate::progress::Progress;
use crate::protocol::{Disk, Fault, Order};
use crate::server::{self, Answer, Client, SharedProgress, Site, pages, text};
use crate::stop::Stop;
use crate::tls::Tls;
use api::job::{Import, Report, Source, Stage, Target, Upload};
use cdi::source::upload::REFUSED;
use cdi::{Error, Result};
use conversion::Conversion;
use hyper::body::Incoming;
use hyper::header::HeaderValue;
use hyper::{Request, StatusCode};
use jiff::Timestamp;
use route::{Kind, Route, route};
use slot::Slot;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

/// The environment variable with the name in the certificates of upload clients.
const CLIENT_NAME: &str = "CLIENT_NAME";
/// Time that a tus upload waits for its next connection, at most until the end of the pod: long enough
/// for a laptop that was closed for an evening.
const PATIENCE: Duration = Duration::from_secs(6 * 60 * 60);
/// The longest time that open connections are served after the disk is complete.
const LINGER: Duration = Duration::from_secs(2);
/// The longest time that the answer about a device waits until virt-controller has recorded the disk.
const NOTED: Duration = Duration::from_secs(10);

/// Options of the command line.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Settings<'a> {
    listen: Option<&'a str>,
    /// Time that requests are served after the disk is complete, also without open connections.
    linger: Option<Duration>,
    patience: Option<Duration>,
}

impl<'a> Settings<'a> {
    /// Parses the command line; `None` if it is invalid.
    pub(crate) fn of(words: &[&'a str]) -> Option<Settings<'a>> {
        let mut settings = Settings::default();
        for pair in words.chunks(2) {
            let &[flag, value] = pair else { return None };
            let seconds = || value.parse().ok().map(Duration::from_secs);
            match flag {
                "--listen" => settings.listen = Some(value),
                "--linger" => settings.linger = Some(seconds()?),
                "--patience" => settings.patience = Some(seconds()?),
                _ => return None,
            }
        }
        Some(settings)
    }
}

/// Waits for uploads until one fills the disk.
pub(crate) fn run(settings: &Settings<'_>) -> ExitCode {
    pod::end(work(settings))
}

fn work(settings: &Settings<'_>) -> Result<Report> {
    let job: Import = pod::job()?;
    if !matches!(job.source, Source::Upload(_)) {
        return Err(Error::refused(format!("the job in {} is not an upload", pod::JOB)));
    }
    if let Some(disk) = earlier::find(&job, &owner())? {
        let mut progress = Progress::of_uploads(job.preallocate);
        progress.done(disk);
        return Ok(progress.report().clone());
    }
    let client_name = pod::setting(CLIENT_NAME)?;
    let deadline = pod::deadline()?;
    let shown = Arc::new(SharedProgress {
        progress: Mutex::new(Progress::of_uploads(job.preallocate)),
        owner: owner(),
    });
    let stop = Stop::listen()?;
    let site = Arc::new(Uploads {
        memory: pod::memory()?,
        job,
        shown,
        stop,
        slot: Slot::default(),
        tls: Tls::open()?,
        client_name,
        patience: settings.patience.unwrap_or(PATIENCE),
        deadline,
        over: watch::Sender::default(),
    });
    let (at, connections) = server::start(server::bind(settings.listen)?, Arc::clone(&site))?;
    tracing::info!("serves https://{at}/v1beta1/upload, and what it does at /v1/report and /metrics");
    fetch::runtime()?.block_on(site.until_the_end(&connections, settings.linger));
    Ok(site.progress().report().clone())
}

/// The end of the server's work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// The disk is complete.
    Done,
    /// The conversion failed after its client had got 200.
    Failed,
}

/// The upload server, with the one slot that all connections share.
pub(crate) struct Uploads {
    job: Import,
    memory: u64,
    shown: Arc<SharedProgress>,
    stop: Stop,
    slot: Slot,
    tls: Tls,
    client_name: String,
    patience: Duration,
    deadline: Option<Timestamp>,
    over: watch::Sender<Option<Outcome>>,
}

impl Site for Uploads {
    fn tls(&self) -> TlsAcceptor {
        self.tls.acceptor()
    }

    fn knows(&self, client: &Client) -> bool {
        client.is_named(&self.client_name)
    }

    async fn answer(self: Arc<Self>, request: Request<Incoming>, client: Client) -> Answer {
        let path = request.uri().path().to_owned();
        match route(request.method(), &path) {
            Route::Page => pages(&self.shown, request.method(), &path)
                .unwrap_or_else(|| text(StatusCode::NOT_FOUND, "there is nothing here\n")),
            Route::Nowhere => text(StatusCode::NOT_FOUND, "there is nothing here\n"),
            Route::Probe => text(StatusCode::OK, ""),
            _ if !self.knows(&client) => {
                let what = format!("a client certificate with the name {} is needed\n", self.client_name);
                body::refuse(request, text(StatusCode::UNAUTHORIZED, what))
            }
            Route::Archive if !self.takes_archives() => {
                let what = "this PVC takes a disk image; an archive wants contentType archive\n";
                body::refuse(request, text(StatusCode::BAD_REQUEST, what))
            }
            Route::Upload(_) if self.takes_archives() => {
                let what = "this PVC takes an archive, at /v1beta1/upload-archive\n";
                body::refuse(request, text(StatusCode::BAD_REQUEST, what))
            }
            Route::Archive => {
                let kind = Kind { is_form: false, is_async: false };
                plain::upload(self, request, client, kind).await
            }
            Route::Upload(kind) => plain::upload(self, request, client, kind).await,
            Route::Tus(id) => tus::answer(self, request, client, id).await,
        }
    }
}

impl Uploads {
    /// True if the content is a tar archive, and the target a folder.
    fn takes_archives(&self) -> bool {
        matches!(self.job.target, Target::Folder(_))
    }

    /// Begins a conversion. `bytes`: the size of the upload, if known.
    async fn begin(&self, bytes: Option<u64>) -> Result<Conversion, Fault> {
        self.progress().receives(bytes);
        let job = Import { source: Source::Upload(Upload { bytes }), ..self.job.clone() };
        let order = Order { job, memory: self.memory, owner: self.shown.owner.clone(), registries: None };
        let started = Conversion::start(order, &self.stop, &self.shown).await;
        started.map_err(|e| Fault {
            reason: crate::fault::FAILED.to_owned(),
            message: printable::line(&e.chain()),
            may_retry: true,
            ..Fault::default()
        })
    }

    /// Ends a failed upload; another one may come. Nothing of it is left, unless the names of an archive were
    /// being published already. That is in the fault's message, and then this pod ends so that the next one
    /// completes the archive.
    async fn fails(&self, fault: &Fault) {
        tracing::warn!(reason = fault.reason, "{}", printable::line(&fault.message));
        let (job, owner) = (self.job.clone(), self.shown.owner.clone());
        let look = tokio::task::spawn_blocking(move || earlier::is_left(&job, &owner));
        if look.await.unwrap_or(false) {
            self.progress().fails(fault);
            self.over.send_replace(Some(Outcome::Failed));
            return;
        }
        self.progress().record_failed_upload(fault);
        self.slot.free();
    }

    /// Ends an upload whose connection broke.
    async fn breaks(&self, why: &str) {
        let message = format!("{why}; the next upload begins anew");
        let fault = Fault {
            reason: crate::fault::INTERRUPTED.to_owned(),
            message,
            may_retry: true,
            ..Fault::default()
        };
        self.fails(&fault).await;
    }

    /// Completes the disk; `answer` is called before the process may end.
    async fn done(&self, id: Option<String>, disk: Disk, answer: impl FnOnce()) {
        if !self.progress().done(disk) {
            // The process was asked to end a moment ago. The client gets no success; the next pod may find
            // the disk.
            return;
        }
        self.slot.done(id);
        let report = self.progress().report().clone();
        // A failure is logged there.
        drop(tokio::task::spawn_blocking(move || pod::leave(&report)).await);
        self.over.send_replace(Some(Outcome::Done));
        if let Target::Device(_) = &self.job.target {
            tokio::select! {
                () = self.stop.asked() => {}
                () = tokio::time::sleep(NOTED) => {}
            }
        }
        answer();
    }

    /// Handles the end of an upload that was answered before its disk was durable.
    async fn done_behind(&self, ended: AttemptResult) {
        match ended {
            AttemptResult::Done(disk) => self.done(None, disk, || ()).await,
            AttemptResult::Failed(fault) => {
                self.progress().fails(&fault);
                self.over.send_replace(Some(Outcome::Failed));
            }
        }
    }

    async fn until_the_end(&self, connections: &Connections, linger: Option<Duration>) {
        let mut over = self.over.subscribe();
        tokio::select! {
            biased;
            // The sender is a part of `self`.
            over = over.wait_for(Option::is_some) => if over.is_err() || over.is_ok_and(|over| *over == Some(Outcome::Failed)) {
                return;
            },
            () = self.stop.asked() => self.progress().stops(),
            () = self.late() => return self.progress().record_passed_deadline(),
        }
        if self.progress().report().stage != Stage::Done {
            return;
        }
        let usual = if let Target::Device(_) = &self.job.target { NOTED + LINGER } else { LINGER };
        tokio::select! {
            () = async { self.stop.asked().await; let _ = tokio::time::timeout(LINGER, all_closed(connections)).await; } => {}
            () = tokio::time::sleep(linger.unwrap_or(usual)) => {}
            () = all_closed(connections), if linger.is_none() => {}
        }
    }

    /// Waits until the deadline has passed and nothing is in flight; no upload is accepted any more then.
    async fn late(&self) {
        pod::until(self.deadline).await;
        self.slot.close().await;
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.shown.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn all_closed(connections: &Connections) {
    while connections.open() > 0 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The answer for a failed upload. Tools match its first words.
fn failure(fault: &Fault) -> Answer {
    let (status, more) = match fault.reason.as_str() {
        crate::fault::TOO_SMALL => {
            (StatusCode::BAD_REQUEST, "effective image size is larger than the reported available storage: ")
        }
        _ => (StatusCode::INTERNAL_SERVER_ERROR, ""),
    };
    let mut answer = text(status, format!("Saving stream failed: {more}{}", printable::line(&fault.message)));
    // Tells clients that retry by themselves to stop.
    if let Ok(reason) = HeaderValue::try_from(&fault.reason)
        && !fault.may_retry
    {
        answer.headers_mut().insert(REFUSED, reason);
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_says_whether_another_attempt_may_help() {
        let of = |reason: &str, may_retry: bool| {
            failure(&Fault {
                reason: reason.to_owned(),
                message: "m".to_owned(),
                may_retry,
                ..Fault::default()
            })
        };
        let refused = of("InvalidImage", false);
        assert_eq!(refused.status(), StatusCode::INTERNAL_SERVER_ERROR);
        assert_eq!(refused.headers()[REFUSED], "InvalidImage");
        assert_eq!(of("DataVolumeTooSmall", false).status(), StatusCode::BAD_REQUEST);
        assert!(!of("NoSpace", true).headers().contains_key(REFUSED));
    }

    #[test]
    fn the_command_line_says_an_address_and_times() {
        let seconds = |n| Some(Duration::from_secs(n));
        let settings = Settings::of(&["--listen", "127.0.0.1:0", "--patience", "3", "--linger", "0"]);
        let expected = Settings { listen: Some("127.0.0.1:0"), linger: seconds(0), patience: seconds(3) };
        assert_eq!(settings, Some(expected));
        assert_eq!(Settings::of(&[]), Some(Settings::default()));
        for wrong in [&["--listen"][..], &["--linger", "soon"], &["x", "y"]] {
            assert_eq!(Settings::of(wrong), None);
        }
    }
}
