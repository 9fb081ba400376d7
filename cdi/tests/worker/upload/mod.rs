//! The program of upload pods, as the upload proxy finds it.

mod archives;
mod plain;
mod refusals;
mod strangers;
mod times;
mod tus;

use super::client::{Answer, Authority, Connection, Identity, NAME};
use super::{Ended, PATIENCE, Pod, disk, names};
use api::job::{Import, Report, Source, Stage, Target, Upload};
use cdi::convert::{Request, prepare};
use cdi::plan::{ConvertOptions, Output};
use cdi::run::watch::Watch;
use cdi::source::{Options, SourceSpec};
use cdi::target::Destination;
use std::time::{Duration, Instant};
use tests::http::pattern;

/// An upload pod that runs, and its volume.
pub(super) struct Server {
    pub(super) pod: Pod,
    authority: Authority,
    proxy: Identity,
    pub(super) volume: tempfile::TempDir,
    /// The Secret with its certificates.
    secret: tempfile::TempDir,
}

impl Server {
    pub(super) fn start() -> Server {
        Server::start_with(None, &[], &[])
    }

    pub(super) fn of_size(size: u64) -> Server {
        Server::start_with(Some(size), &[], &[])
    }

    /// A server whose volume takes the files of an archive.
    pub(super) fn of_archives() -> Server {
        let volume = tempfile::tempdir().expect("it can be made");
        let target = Target::Folder(volume.path().to_owned());
        Server::start_on(volume, target, None, &[], &[])
    }

    /// A server on the volume of an earlier one.
    pub(super) fn on(target: Target) -> Server {
        let beside = tempfile::tempdir().expect("it can be made");
        Server::start_on(beside, target, None, &[], &[])
    }

    fn start_with(size: Option<u64>, words: &[&str], environment: &[(&str, &str)]) -> Server {
        let volume = tempfile::tempdir().expect("it can be made");
        let target = Target::File(disk(volume.path()));
        Server::start_on(volume, target, size, words, environment)
    }

    fn start_on(
        volume: tempfile::TempDir,
        target: Target,
        size: Option<u64>,
        words: &[&str],
        environment: &[(&str, &str)],
    ) -> Server {
        let secret = tempfile::tempdir().expect("it can be made");
        let authority = Authority::new();
        authority.mount(&authority.sign("server"), secret.path());
        let proxy = authority.sign(NAME);
        let job = Import { source: Source::Upload(Upload::default()), target, size, preallocate: false };
        let path = |name: &str| secret.path().join(name).to_str().expect("a plain path").to_owned();
        let (chain, key, clients) = (path("tls.crt"), path("tls.key"), path("ca.crt"));
        let own = [
            ("TLS_CERT_FILE", chain.as_str()),
            ("TLS_KEY_FILE", &key),
            ("CLIENT_CERT_FILE", &clients),
            ("CLIENT_NAME", NAME),
        ];
        let pod = Pod::start_as(&[&["upload"], words].concat(), &job, &[&own, environment].concat());
        Server { pod, authority, proxy, volume, secret }
    }

    /// A connection of the upload proxy.
    pub(super) fn connect(&mut self) -> Connection {
        let at = self.pod.at();
        self.authority.connect(&at, Some(&self.proxy)).expect("a connection")
    }

    pub(super) fn post(&mut self, path: &str, body: &[u8]) -> Answer {
        self.connect().post(path, body)
    }

    /// An upload of so many bytes, of which these have been sent.
    fn begin(&mut self, path: &str, length: usize, sent: &[u8]) -> Connection {
        let mut connection = self.connect();
        connection.head(&format!("POST {path}"), &[("Content-Length", &length.to_string())]);
        connection.send(sent).expect("the server takes them");
        connection
    }

    /// Asks again while another upload has the place.
    fn post_when_free(&mut self, path: &str, body: &[u8]) -> Answer {
        let until = Instant::now() + PATIENCE;
        loop {
            let answer = self.post(path, body);
            if answer.status != 503 {
                return answer;
            }
            assert!(Instant::now() < until, "{answer:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub(super) fn disk(&self) -> Vec<u8> {
        std::fs::read(disk(self.volume.path())).expect("the disk")
    }

    fn names(&self) -> Vec<String> {
        names(self.volume.path())
    }

    /// The pod ends well.
    #[track_caller]
    fn done(self) -> Report {
        let report = self.pod.wait().done();
        assert_eq!(report.message, "Upload Complete");
        report
    }
}

/// The disk as qcow2.
fn qcow2(raw: &[u8]) -> Vec<u8> {
    let folder = tempfile::tempdir().expect("it can be made");
    let (from, to) = (folder.path().join("a.img"), folder.path().join("a.qcow2"));
    std::fs::write(&from, raw).expect("it can be made");
    let (watch, convert_options) = (Watch::default(), ConvertOptions::with_threads(1));
    let output = Output::Qcow2 { cluster_bits: 16, compress: None };
    let request = Request::new(
        SourceSpec::Path(from),
        Destination::File(to.clone()),
        Options::default(),
        convert_options,
    );
    prepare(Request { output, ..request }, &watch)
        .expect("it can be made")
        .run(&watch)
        .expect("it can be made");
    std::fs::read(to).expect("it can be made")
}

/// A form of a browser with this part `file`.
fn form(content: &[u8]) -> Vec<u8> {
    let part = |name: &str| format!("--b0\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n");
    [part("note").as_bytes(), b"hello\r\n", part("file").as_bytes(), content, b"\r\n--b0--\r\n"].concat()
}

const FORM: (&str, &str) = ("Content-Type", "multipart/form-data; boundary=b0");
