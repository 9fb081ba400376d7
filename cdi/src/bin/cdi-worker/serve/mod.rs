//! `cdi-worker serve`: the disk of a PVC, served to the importer pod of a clone and to no other client.
//!
//! ```text
//!  request ─► a page (server.rs)
//!          ─► GET, HEAD /disk ─► client? ─► range? range.rs ─► opened.rs: the disk as a qcow2 that is computed as it is read
//!                                                                     │ pieces of 128 KiB, read by a separate thread
//!                                                                     ▼ piece.rs
//!  TLS_CERT_FILE TLS_KEY_FILE CLIENT_CERT_FILE ─► tls.rs          the answer: 200 or 206, with a strong ETag
//! ```
//!
//! **Content.** The file of the disk, or the block device, as a qcow2 (`disk_format::qcow2::write::View`).
//! Its holes are in no table, so the importer never requests them; it writes each cluster once, and resumes
//! from its journal. The guest's data is never taken for a format.
//!
//! **Changes.** The ETag names the version of the disk (`version.rs`). The disk is checked before and after
//! each piece. If it changed, the connection ends and the piece is not sent. The next request gets the disk
//! as it is then, with another ETag, and the importer begins anew. No VM may run with the disk in the
//! meantime: a disk with the lock of a running QEMU is refused.
//!
//! **Authentication.** Mutual TLS: the certificate of the client must be signed by the given authority, and
//! have the common name of the job. Other clients get 401 and the pages of all workers, and the smaller share
//! of connections (`connections.rs`).
//!
//! **Confinement.** The disk is not parsed. Before it is opened the process confines itself to that volume,
//! read-only, its certificates, and incoming connections (package `guard`). A disk that is a link is refused.
//!
//! **End**: at DEADLINE, or when asked to end; the importer waits for the next pod. virt-controller ends the
//! pod of a complete clone.

mod opened;
mod piece;
mod range;
mod version;

use crate::pod::{self, Termination, owner};
use crate::progress::Progress;
use crate::server::{self, Answer, Client, SharedProgress, Site, pages, text};
use crate::stop::Stop;
use crate::tls::Tls;
use api::job::{Report, Serve, Target};
use cdi::{Error, Result};
use guard::confine::{Process, Use};
use hyper::body::Incoming;
use hyper::header::{ACCEPT_RANGES, ALLOW, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use jiff::Timestamp;
use opened::{Disk, Opened};
use printable::line;
use range::{Part, part};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio_rustls::TlsAcceptor;

/// Path of the disk.
const PATH: &str = "/disk";

/// Serves the disk of the job. `listen`: another address than that of a worker pod.
pub(crate) fn run(listen: Option<&str>) -> ExitCode {
    let termination = Termination::open();
    termination.end(work(listen))
}

fn work(listen: Option<&str>) -> Result<Report> {
    let job: Serve = pod::job()?;
    let deadline = pod::deadline()?;
    let listener = server::bind(listen)?;
    let path = path(&job)?;
    give_up(&path)?;
    let site = Arc::new(Serving {
        disk: Arc::new(Disk::open(path.clone(), job.is_shared)?),
        client: job.client,
        shown: Arc::new(SharedProgress { progress: Mutex::new(Progress::of_clones()), owner: owner() }),
        tls: Tls::open()?,
    });
    let stop = Stop::listen()?;
    let (at, _) = server::start(listener, Arc::clone(&site))?;
    tracing::info!("serves https://{at}{PATH}, which is {}", path.display());
    fetch::runtime()?.block_on(site.until_the_end(deadline, &stop));
    Ok(site.progress().report().clone())
}

fn path(job: &Serve) -> Result<PathBuf> {
    match &job.disk {
        Target::File(path) | Target::Device(path) => Ok(path.clone()),
        Target::Folder(path) => {
            Err(Error::refused(format!("{} is a folder, and a clone is of a disk", path.display())))
        }
    }
}

/// Confines the process. No other thread may have been started before. The folder of a file stays readable,
/// so that a new disk in its place is found.
fn give_up(disk: &Path) -> Result<()> {
    let place = if version::is_device(disk) { disk } else { disk.parent().unwrap_or(disk) };
    let mut process = Process::new().uses(place, Use::Read).accepts();
    for folder in Tls::folders()? {
        process = process.uses(folder, Use::Read);
    }
    for facts in storage::facts() {
        process = process.uses(facts, Use::Read);
    }
    process = process.uses(version::BOOT, Use::Read);
    process.enter();
    Ok(())
}

/// The server of a disk.
struct Serving {
    disk: Arc<Disk>,
    /// The common name of the client that may read it.
    client: String,
    shown: Arc<SharedProgress>,
    tls: Tls,
}

impl Site for Serving {
    fn tls(&self) -> TlsAcceptor {
        self.tls.acceptor()
    }

    fn knows(&self, client: &Client) -> bool {
        client.is_named(&self.client)
    }

    async fn answer(self: Arc<Self>, request: Request<Incoming>, client: Client) -> Answer {
        let path = request.uri().path();
        if path != PATH {
            return pages(&self.shown, request.method(), path)
                .unwrap_or_else(|| text(StatusCode::NOT_FOUND, "there is nothing here\n"));
        }
        if !self.knows(&client) {
            return text(
                StatusCode::UNAUTHORIZED,
                "the certificate of the importer of this clone is needed\n",
            );
        }
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            let mut answer = text(StatusCode::METHOD_NOT_ALLOWED, "the disk is only read\n");
            answer.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return answer;
        }
        // The disk may have to be opened, which blocks.
        let disk = Arc::clone(&self.disk);
        match tokio::task::spawn_blocking(move || disk.now()).await {
            Ok(Ok(opened)) => self.disk_of(&request, opened),
            Ok(Err(e)) => cannot(&e.chain()),
            Err(e) => cannot(&e.to_string()),
        }
    }
}

impl Serving {
    fn disk_of(&self, request: &Request<Incoming>, opened: Arc<Opened>) -> Answer {
        let size = opened.size();
        let (status, range) = match part(request.headers(), opened.etag(), size) {
            Part::Whole => (StatusCode::OK, 0..size),
            Part::Range(range) => (StatusCode::PARTIAL_CONTENT, range),
            Part::Nowhere => {
                let mut answer =
                    text(StatusCode::RANGE_NOT_SATISFIABLE, "there is one range of bytes in an answer\n");
                set(&mut answer, CONTENT_RANGE, &format!("bytes */{size}"));
                return answer;
            }
        };
        let etag = opened.etag().to_owned();
        let length = range.end.saturating_sub(range.start);
        let mut answer = if request.method() == Method::HEAD {
            text(status, "")
        } else {
            Response::new(piece::pieces(opened, range.clone(), Arc::clone(&self.shown)))
        };
        *answer.status_mut() = status;
        set(&mut answer, ETAG, &etag);
        set(&mut answer, CONTENT_LENGTH, &length.to_string());
        set(&mut answer, CONTENT_TYPE, "application/octet-stream");
        set(&mut answer, ACCEPT_RANGES, "bytes");
        if status == StatusCode::PARTIAL_CONTENT {
            let last = range.end.saturating_sub(1);
            set(&mut answer, CONTENT_RANGE, &format!("bytes {}-{last}/{size}", range.start));
        }
        answer
    }

    async fn until_the_end(&self, deadline: Option<Timestamp>, stop: &Stop) {
        tokio::select! {
            () = stop.asked() => self.progress().stops(),
            () = pod::until(deadline) => self.progress().record_passed_deadline(),
        }
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.shown.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn set(answer: &mut Answer, name: hyper::header::HeaderName, value: &str) {
    // Digits and letters are always valid in a header.
    if let Ok(value) = HeaderValue::from_str(value) {
        answer.headers_mut().insert(name, value);
    }
}

/// The answer to a failed read; the importer tries again.
fn cannot(why: &str) -> Answer {
    tracing::warn!("the disk cannot be read: {}", line(why));
    text(StatusCode::SERVICE_UNAVAILABLE, "the disk cannot be read now\n")
}
