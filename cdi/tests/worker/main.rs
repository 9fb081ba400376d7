//! The program of worker pods, as a pod runs it: what it leaves on the volume, and what it says.

// Helpers of tests are not seen as tests by the lint.
#![allow(clippy::unwrap_used)]

mod again;
mod archives;
mod client;
mod clone;
mod devices;
mod ends;
mod export;
mod failures;
mod full_disk;
mod imports;
mod kills;
mod layers;
mod poll;
mod registry;
mod stores;
mod upload;

use api::job::{Http, Import, Report, Source, Stage, Target};
use cdi::source::Source as _;
use cdi::source::http;
use cdi::source::options::Options;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A pod that does not come to its end.
const PATIENCE: Duration = Duration::from_secs(240);

/// The job that fills `disk.img` in a folder from an address.
fn job(volume: &Path, url: &str) -> Import {
    let http = Http {
        url: url.into(),
        headers: vec![],
        secret_headers: vec![],
        login: None,
        ca: None,
        checksum: None,
        insecure: false,
    };
    Import { source: Source::Http(http), target: Target::File(disk(volume)), size: None, preallocate: false }
}

/// The same with a change of its source.
fn job_with(volume: &Path, url: &str, change: impl FnOnce(&mut Http)) -> Import {
    let mut job = job(volume, url);
    if let Source::Http(http) = &mut job.source {
        change(http);
    }
    job
}

fn disk(volume: &Path) -> PathBuf {
    volume.join("disk.img")
}

/// A pod that runs.
struct Pod {
    process: Child,
    /// Everything it says; comes to its end with the last process of the pod.
    said: Option<JoinHandle<String>>,
    address: Receiver<String>,
    at: Option<String>,
    folder: tempfile::TempDir,
}

/// A pod that has ended.
#[derive(Debug)]
struct Ended {
    code: Option<i32>,
    log: String,
    /// The termination message, where there is one.
    report: Option<Report>,
}

impl Pod {
    fn start(job: &Import) -> Pod {
        Pod::start_with(job, &[])
    }

    fn start_with(job: &Import, environment: &[(&str, &str)]) -> Pod {
        Pod::start_as(&["import"], job, environment)
    }

    fn start_as(words: &[&str], job: &impl serde::Serialize, environment: &[(&str, &str)]) -> Pod {
        Pod::start_words(&[words, &["--listen", "127.0.0.1:0"]].concat(), job, environment)
    }

    /// One that does not listen where the test says, or not at all.
    fn start_words(words: &[&str], job: &impl serde::Serialize, environment: &[(&str, &str)]) -> Pod {
        let folder = tempfile::tempdir().expect("a folder");
        let program = env!("CARGO_BIN_EXE_cdi-worker");
        let mut process = tests::coracle::command(program, folder.path(), words)
            .env("CDI_JOB", serde_json::to_string(job).expect("a job is JSON"))
            .env("OWNER_UID", "0b5c-uid")
            .env("TERMINATION_LOG", folder.path().join("termination-log"))
            .envs(environment.iter().copied())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program can be started");
        let (tell, address) = channel();
        let stderr = BufReader::new(process.stderr.take().expect("a pipe"));
        let said = std::thread::spawn(move || {
            let mut log = String::new();
            for line in stderr.lines() {
                let line = line.expect("it says text");
                if let Some((_, rest)) = line.split_once("serves https://") {
                    let _ = tell.send(rest.split('/').next().unwrap_or_default().to_owned());
                }
                log = log + &line + "\n";
            }
            log
        });
        Pod { process, said: Some(said), address, at: None, folder }
    }

    /// The address of its server.
    fn at(&mut self) -> String {
        self.at.get_or_insert_with(|| self.address.recv_timeout(PATIENCE).expect("it serves")).clone()
    }

    /// A page of its server.
    fn page(&mut self, path: &str) -> Result<String, cdi::Error> {
        let at = self.at();
        let options = Options { insecure_tls: true, retries: 0, ..Options::default() };
        let source = http::Http::open(&format!("https://{at}{path}"), &options)?;
        let mut text = String::new();
        source.stream(0)?.read_to_string(&mut text).map_err(|e| cdi::Error::io("reading", e))?;
        Ok(text)
    }

    /// Looks at the report until it is so.
    #[track_caller]
    fn reports(&mut self, is_so: impl Fn(&Report) -> bool) -> Report {
        let until = Instant::now() + PATIENCE;
        loop {
            let report: Report = match self.page("/v1/report") {
                Ok(text) => serde_json::from_str(&text).expect("a report"),
                Err(e) => panic!("it ended, or does not answer: {}\n{}", e.chain(), self.log()),
            };
            if is_so(&report) {
                return report;
            }
            assert!(Instant::now() < until, "{report:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.process);
        rustix::process::kill_process(pid, signal).expect("it runs");
    }

    fn has_ended(&mut self) -> bool {
        self.process.try_wait().expect("it can be waited for").is_some()
    }

    /// All its processes are gone when this is there.
    fn log(&mut self) -> String {
        let _ = self.process.kill();
        self.said.take().map(|said| said.join().expect("a log")).unwrap_or_default()
    }

    fn wait(mut self) -> Ended {
        let until = Instant::now() + PATIENCE;
        while !self.has_ended() {
            assert!(Instant::now() < until, "it does not end: {}", self.log());
            std::thread::sleep(Duration::from_millis(10));
        }
        let code = self.process.wait().expect("it can be waited for").code();
        let log = self.log();
        let text = std::fs::read_to_string(self.folder.path().join("termination-log")).unwrap_or_default();
        Ended { code, log, report: Report::of_termination(&text) }
    }

    fn run(job: &Import) -> Ended {
        Pod::start(job).wait()
    }
}

impl Drop for Pod {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Ended {
    #[track_caller]
    fn done(self) -> Report {
        let report = self.report.unwrap_or_else(|| panic!("no report: {}", self.log));
        assert_eq!((self.code, report.stage), (Some(0), Stage::Done), "{report:?}\n{}", self.log);
        report
    }

    /// The job ended for this reason, with one sentence.
    #[track_caller]
    fn failed(self, reason: &str) -> Report {
        let report = self.report.unwrap_or_else(|| panic!("no report: {}", self.log));
        assert_eq!((self.code, report.stage), (Some(1), Stage::Failed), "{report:?}\n{}", self.log);
        assert_eq!(report.reason, reason, "{report:?}");
        assert!(!report.message.contains("--"), "no flags in a pod: {}", report.message);
        report
    }
}

/// The mark that the pods of this PVC leave.
const MARK: &str = ".cdi-0b5c-uid.done";

/// The names in a folder, in order, but for the mark.
fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("a folder");
    let mut names: Vec<_> =
        entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.retain(|name| name != MARK);
    names.sort();
    names
}
