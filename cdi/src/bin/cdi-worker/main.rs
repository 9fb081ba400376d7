//! `cdi-worker`: the program of the pods that fill disks. One static program, with a subcommand for each kind
//! of work.
//!
//! ```text
//!  cdi-worker import     the container of an importer pod: starts attempts until the disk is complete
//!    │  CDI_JOB (JSON of api::job::Import), OWNER_UID, MEMORY_LIMIT, TERMINATION_LOG          import/mod.rs
//!    │  onto a device also PERMIT_FILE, POD_UID: no attempt begins before virt-controller permits it      permit.rs
//!    │
//!    ├─ :8443  /v1/report  /metrics  /healthz      TLS by a certificate made at start        server.rs, connections.rs, page.rs
//!    │           ▲ api::job::Report, as it is now                                            progress.rs
//!    │           │
//!    ├─ cdi-worker attempt   one process per attempt, confined to the source and the volume
//!    │     ◄── job ──┘ lines of JSON: planned, moved, done, failed                           attempt.rs, protocol.rs
//!    │     it runs cdi::import with the journal beside the disk, so that the next attempt, or the next pod, continues;
//!    │     for a device it is in the pod's own /tmp, so that the next attempt of the pod continues;
//!    │     where the target is a folder, it unpacks an archive into it (cdi::unpack)
//!    │
//!    └─ termination message: Report::termination(); exit code 0, 1 (Failed), or 143 (asked to end, or no space to begin)        pod.rs
//!
//!  cdi-worker upload     the container of an upload pod: the same, with the bytes sent to :8443      upload/mod.rs
//!    │  also TLS_CERT_FILE, TLS_KEY_FILE, CLIENT_CERT_FILE, CLIENT_NAME, DEADLINE
//!    └─ cdi-worker attempt   one process per upload, which gets its bytes through its standard input
//!
//!  cdi-worker serve      the container of the source pod of a clone: serves a disk to one importer pod      serve/mod.rs
//!       CDI_JOB is an api::job::Serve; TLS_CERT_FILE, TLS_KEY_FILE, CLIENT_CERT_FILE, DEADLINE; it parses nothing of the disk
//!
//!  cdi-worker export     the container of an export pod: the same as of an import, with a job api::job::Export;
//!    └─ cdi-worker attempt-export   it reads the disk, and writes to a registry                    export/mod.rs
//!
//!  cdi-worker poll       the container of the pod that polls for a DataImportCron: one request     poll.rs
//! ```
//!
//! **Two processes**, as with `coracle run`: the one that reads foreign bytes is confined (package `guard`)
//! and can neither listen nor start processes. The one that listens reads no foreign byte of a disk. The
//! lines of an attempt are limited in length and sanitised for the log. Each attempt reads the mounted
//! Secrets anew. An attempt ends at once with its parent process.
//!
//! **Retries** of an import, and of an export (`attempts.rs`). After an error that may be temporary there is
//! another attempt after 5 s, then 10 s, up to 5 min; the pause is short again after an attempt that came
//! further than all before it. If the same bytes are moved again and again to the same place the pauses grow,
//! so there is no download loop. A missing source, a refused login, a wrong checksum, a hostile or too large
//! image end the job (`fault.rs`).

mod attempt;
mod attempt_process;
mod attempts;
mod client;
mod connections;
mod earlier;
mod export;
mod fault;
mod import;
mod labels;
mod page;
mod permit;
mod pod;
mod poll;
mod progress;
mod protocol;
mod serve;
mod server;
mod settings;
mod stop;
mod tls;
mod trust;
mod upload;

use std::process::ExitCode;

const IMPORT: &str = <api::job::Import as protocol::Job>::ATTEMPT;
const EXPORT: &str = <api::job::Export as protocol::Job>::ATTEMPT;

const USAGE: &str = "usage: cdi-worker poll | import [--listen ADDRESS:PORT] | export [--listen ADDRESS:PORT] | serve [--listen ADDRESS:PORT] | upload [--listen ADDRESS:PORT] [--linger SECONDS] \
     [--patience SECONDS]";

fn main() -> ExitCode {
    let filter = tracing_subscriber::EnvFilter::try_from_env("CORACLE_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("info"));
    let entries = || printable::Entries(std::io::stderr());
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(entries).with_ansi(false);
    // An entry that cannot be written is lost: to tell that on the same file would end the thread.
    log.log_internal_errors(false).init();
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["poll"] => trusting(poll::run),
        ["import"] => trusting(|| import::run(None)),
        ["import", "--listen", address] => trusting(|| import::run(Some(address))),
        ["serve"] => serve::run(None),
        ["serve", "--listen", address] => serve::run(Some(address)),
        ["export"] => export::run(None),
        ["export", "--listen", address] => export::run(Some(address)),
        [IMPORT] => attempt::run(),
        [EXPORT] => export::attempt::run(),
        ["upload", words @ ..] => match upload::Settings::of(words) {
            Some(settings) => upload::run(&settings),
            None => wrong(),
        },
        _ => wrong(),
    }
}

/// Does work that connects to foreign servers, once the trust store is complete.
fn trusting(work: impl FnOnce() -> ExitCode) -> ExitCode {
    match trust::write() {
        Ok(()) => work(),
        Err(e) => pod::end(Err(e)),
    }
}

fn wrong() -> ExitCode {
    tracing::error!("{USAGE}");
    ExitCode::from(2)
}
