//! The verb `coracle test`.

mod steps;
mod transcript;

use self::steps::{Action, Outcome, Step, again, junit, late, parse, typed};
use self::transcript::{ExitReport, Transcript};
use super::hardware::HardwareArgs;
use super::run::{Naming, Prepared};
use super::start_args::StartArgs;
use super::vms;
use crate::console::close_at_end;
use crate::error::{Error, ErrorKind, Result};
use crate::output_file;
use crate::ui;
use api::launcher::{Exec, Life};
use launcher_client::Access;
use local_vm::client::Client;
use local_vm::imported_disks::ImportedDisks;
use local_vm::kept_disks;
use local_vm::manifest::Selection;
use local_vm::place::Home;
use local_vm::record::Vm;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Boot a VM once and report whether it came up
///
/// SRC is any source of 'coracle run'. The serial console is watched; without
/// --expect and --script the test passes when the guest agent answers or a
/// login prompt appears. The VM is always removed; when the test fails, the
/// VM's console output and screen are kept. A disk file or a device is written
/// to, as by 'coracle run'; an image is only read. Disks of PVCs and DataVolumes
/// are made for the test and removed with it; one that was there before is
/// refused.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    coracle test os:12\n  \
    coracle test os:12 --expect 'login:' --timeout 60\n  \
    coracle test vm.yaml --script steps.toml --junit report.xml")]
pub(crate) struct Args {
    /// Source of the VM: a manifest, image, disk, ISO or http:// address
    #[arg(value_name = "SRC", required_unless_present = "files")]
    source: Option<String>,

    /// Manifest: a file, a folder, or - for standard input
    #[arg(short = 'f', long = "file", value_name = "FILE", conflicts_with = "source")]
    files: Vec<String>,

    /// Text on the console that passes the test; repeated: in this order
    #[arg(short, long, value_name = "TEXT", conflicts_with = "script")]
    expect: Vec<String>,

    /// File with the steps of the test (docs/how-to/run.md)
    #[arg(long, value_name = "FILE")]
    script: Option<PathBuf>,

    /// Seconds from the start of the guest until the test fails; what brings
    /// its disks, such as a download, does not count
    #[arg(short, long, value_name = "SECONDS", default_value_t = 120, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    timeout: u64,

    /// Write a report as JUnit XML; - is standard output
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,

    /// Folder for the console output and the screen of a failed test
    /// [default: NAME-failed]
    #[arg(long, value_name = "DIR")]
    artifacts: Option<PathBuf>,

    /// Show the console output during the test
    #[arg(long)]
    console: bool,

    #[command(flatten)]
    start: StartArgs,

    #[command(flatten)]
    hardware: HardwareArgs,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let steps = steps(args)?;
    args.junit.as_deref().map_or(Ok(()), output_file::check)?;
    let mut prepared =
        Prepared::read(args.source.as_deref(), &args.files, &args.start, &args.hardware, Naming::Test)?;
    let which = args.start.name.clone().map_or(Selection::Only, Selection::Named);
    let own = prepared.objects.choose(&prepared.what, &which)?;
    let own = own.first().and_then(|written| written.object.metadata.name.clone()).unwrap_or_default();
    let name = prepared.name_of_test(&args.start, &own)?;
    // The objects of a VM without a manifest have its name, and the messages that of its source.
    let own = match &prepared.source {
        Some(source) => args.start.name.clone().unwrap_or_else(|| source.name.clone()),
        None => own,
    };
    let guarded = Guarded::new(&prepared, name.as_str());
    let owner = guarded.owner.clone();
    let _guard = Guard::new(guarded)?;
    let vm = prepared.start_as(&args.start, &which, name, &owner)?;
    // Disks are there, and the guest runs.
    let timeout = Duration::from_secs(args.timeout);
    let mut session = Session::open(vm, Instant::now() + timeout, timeout, args.console)?;
    let mut outcomes = vec![];
    for (i, step) in steps.iter().enumerate() {
        let since = Instant::now();
        let failure = session.step(step, i + 1).err();
        let failed = failure.is_some();
        let failure = failure.map(|e| e.to_string());
        outcomes.push(Outcome { name: step.name.clone(), took: since.elapsed(), failure });
        if failed {
            break;
        }
    }
    let report = args.junit.as_deref().map_or(Ok(()), |path| {
        let console = String::from_utf8_lossy(&session.console).into_owned();
        output_file::write(path, junit(&prepared.what, &outcomes, &console).as_bytes())
    });
    result(verdict(args, &mut session, &outcomes, &own), report)
}

/// Result of the verb. A report that was not written does not hide the verdict, which is told first.
fn result(verdict: Result<()>, report: Result<()>) -> Result<()> {
    let Err(unwritten) = report else { return verdict };
    if let Err(e) = &verdict {
        ui::failure(e);
    }
    Err(unwritten)
}

fn verdict(args: &Args, session: &mut Session, outcomes: &[Outcome], own: &str) -> Result<()> {
    let took: Duration = outcomes.iter().map(|outcome| outcome.took).sum();
    let Some(failed) = outcomes.iter().find(|outcome| outcome.failure.is_some()) else {
        ui::say(&format!("coracle: {own} passed, {} step(s) in {:.1} s", outcomes.len(), took.as_secs_f64()));
        return Ok(());
    };
    let folder = args.artifacts.clone().unwrap_or_else(|| PathBuf::from(format!("{own}-failed")));
    let kept = session.keep(&folder);
    let why = failed.failure.as_deref().unwrap_or_default();
    let error = Error::failed(format!("{own} did not pass: {}: {why}", failed.name));
    Err(match kept {
        Ok(()) => error.with_hint(format!("its console is in {}", folder.display())),
        Err(e) => error.because(e),
    })
}

fn steps(args: &Args) -> Result<Vec<Step>> {
    if let Some(path) = &args.script {
        let text = std::fs::read_to_string(path)
            .map_err(|e| Error::io(format!("cannot read {}", path.display()), e))?;
        return parse(&text).map_err(|e| Error::new(e.kind(), format!("{}: {e}", path.display())));
    }
    if args.expect.is_empty() {
        return Ok(vec![Step { name: "the guest is up".into(), action: Action::Up, timeout: None }]);
    }
    let step = |text: &String| Step {
        name: format!("expect {}", text.escape_debug()),
        action: Action::Expect(text.clone()),
        timeout: None,
    };
    Ok(args.expect.iter().map(step).collect())
}

/// The VM of the test, and its disks of the pool.
struct Guarded {
    home: Home,
    name: String,
    /// Mark of this process in the record of the VM: another process may have made a VM of that name.
    owner: String,
    /// Disks of the pool that the test has imported, also those of a manifest.
    imported: ImportedDisks,
}

impl Guarded {
    fn new(prepared: &Prepared, name: &str) -> Guarded {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let owner = format!("{}-{}", std::process::id(), since.as_nanos());
        let (home, imported) = (prepared.images.home.clone(), prepared.objects.imported.clone());
        Guarded { home, name: name.to_owned(), owner, imported }
    }

    /// Removes the VM, and then its disks.
    fn remove(&self) {
        let Guarded { home, name, owner, imported } = self;
        if let Err(e) = vms::remove_owned(home, name, owner) {
            ui::say(&format!("coracle: the VM {name} was not removed: {e}"));
            return;
        }
        for disk in imported.names() {
            match kept_disks::remove(home, &disk, false) {
                Err(e) if e.kind() != ErrorKind::NotFound => {
                    ui::say(&format!("coracle: the disk {disk} was not removed: {e}"));
                }
                _ => {}
            }
        }
    }
}

/// Removes the VM at the end of the test, whatever its result.
struct Guard;

/// VM that a signal handler removes, too.
static GUARDED: Mutex<Option<Guarded>> = Mutex::new(None);

impl Guard {
    fn new(guarded: Guarded) -> Result<Guard> {
        *GUARDED.lock().unwrap_or_else(PoisonError::into_inner) = Some(guarded);
        ui::on_signal(|| {
            clean();
            std::process::exit(i32::from(crate::error::code_of(ErrorKind::Interrupted)));
        })?;
        Ok(Guard)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        clean();
    }
}

fn clean() {
    // The lock is held until the VM is removed: a signal and the end of the test may both get here.
    let mut guarded = GUARDED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(guarded) = guarded.take() {
        guarded.remove();
    }
}

/// A VM under test, with the output of its console.
struct Session {
    vm: Vm,
    client: Client,
    deadline: Instant,
    whole: Duration,
    keys: UnixStream,
    said: Receiver<Vec<u8>>,
    transcript: Transcript,
    console: Vec<u8>,
    show: bool,
}

impl Session {
    fn open(vm: Vm, deadline: Instant, whole: Duration, show: bool) -> Result<Session> {
        let client = vm.client()?;
        let stream = client.console(Access::Write)?;
        close_at_end(&vm, &client, &stream)?;
        let cannot = |e| Error::io("cannot use the console", e);
        let keys = stream.socket.try_clone().map_err(cannot)?;
        let (tell, said) = channel();
        let (first, mut socket) = (stream.first, stream.socket);
        std::thread::spawn(move || {
            let send = |bytes: &[u8]| tell.send(bytes.to_vec()).is_ok();
            if !send(&first) {
                return;
            }
            let mut buffer = vec![0; 64 << 10];
            while let Ok(count) = socket.read(&mut buffer) {
                if count == 0 || !send(&buffer[..count]) {
                    return;
                }
            }
        });
        let (transcript, console) = Default::default();
        Ok(Session { vm, client, deadline, whole, keys, said, transcript, console, show })
    }

    fn step(&mut self, step: &Step, number: usize) -> Result<()> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        let patience = step.timeout.map_or(left, |timeout| timeout.min(left));
        let told = step.timeout.unwrap_or(self.whole);
        let until = Instant::now() + patience;
        match &step.action {
            Action::Expect(text) => {
                let what = format!("{:?} on the console", text);
                self.wait(until, told, &what, |session| session.transcript.take(text).map(drop))
            }
            Action::Up => self.wait(until, told, "login and no guest agent", |session| {
                let agent = || session.client.state().is_ok_and(|state| state.agent);
                (session.transcript.has("login:") || agent()).then_some(())
            }),
            Action::Send(text) => self.type_in(text),
            Action::Run { command, exit, contains } => {
                // Input during a login would be lost.
                self.wait(until, told, "prompt of a shell", |session| {
                    session.transcript.prompts().then_some(())
                })?;
                let (line, mark) = typed(command, number);
                self.type_in(&line)?;
                let mut output = String::new();
                let code = loop {
                    let found = self.wait(until, told, "exit code of the command", |session| {
                        Some(session.transcript.code(&mark)).filter(|found| *found != ExitReport::NotYet)
                    })?;
                    match found {
                        ExitReport::Code(rest, code) => {
                            output += &rest;
                            break code;
                        }
                        ExitReport::Damaged(part) => output += &part,
                        ExitReport::NotYet => {}
                    }
                    self.type_in(&again(number))?;
                };
                judge(code, *exit, &output, contains.as_deref())
            }
            Action::Exec { command, exit, contains } => {
                let (program, rest) =
                    command.split_first().ok_or_else(|| Error::new(ErrorKind::Usage, "no program"))?;
                let timeout = Some(patience.as_secs().max(1));
                let exec = Exec { command: program.clone(), args: rest.to_vec(), input: None, timeout };
                let done = self.client.exec(&exec, patience + Duration::from_secs(5))?;
                judge(done.exit_code, *exit, &(done.stdout + &done.stderr), contains.as_deref())
            }
            Action::Screenshot(path) => output_file::write(path, &self.client.screenshot()?),
            Action::End => {
                let state = self.vm.wait_for_end(&self.client, Some(patience))?;
                self.drain();
                match state.life {
                    Life::Failed => Err(Error::failed(state.message.unwrap_or_else(|| "it failed".into()))),
                    _ => Ok(()),
                }
            }
        }
    }

    fn type_in(&mut self, text: &str) -> Result<()> {
        self.keys.write_all(text.as_bytes()).map_err(|e| Error::io("cannot type on the console", e))
    }

    /// Waits until `is` returns a value; it is called for each output of the console, and every half second.
    fn wait<T>(
        &mut self,
        until: Instant,
        told: Duration,
        what: &str,
        is: impl Fn(&mut Session) -> Option<T>,
    ) -> Result<T> {
        loop {
            if let Some(found) = is(self) {
                return Ok(found);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(late(what, told, &self.transcript));
            }
            match self.said.recv_timeout(left.min(Duration::from_millis(500))) {
                Ok(bytes) => self.heard(&bytes),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    if let Some(found) = is(self) {
                        return Ok(found);
                    }
                    return Err(self.gone(what));
                }
            }
        }
    }

    fn heard(&mut self, bytes: &[u8]) {
        if self.show {
            // An error of standard output is not a failure of the guest.
            let _ = ui::raw(bytes);
        }
        self.transcript.add(bytes);
        self.console.extend_from_slice(bytes);
        // The end of the output matters most for a failure.
        const MOST: usize = 16 << 20;
        if self.console.len() > MOST {
            self.console.drain(..MOST / 2);
        }
    }

    fn drain(&mut self) {
        while let Ok(bytes) = self.said.recv_timeout(Duration::from_millis(100)) {
            self.heard(&bytes);
        }
    }

    fn gone(&self, what: &str) -> Error {
        let ended = self.vm.wait_for_end(&self.client, Some(Duration::from_secs(2)));
        let why =
            ended.ok().and_then(|state| state.message).unwrap_or_else(|| "its console broke off".into());
        Error::failed(format!("no {what} before the VM ended: {why}"))
    }

    /// Saves console output and screen of a failed test.
    fn keep(&mut self, folder: &Path) -> Result<()> {
        self.drain();
        std::fs::create_dir_all(folder)
            .map_err(|e| Error::io(format!("cannot make {}", folder.display()), e))?;
        output_file::write(&folder.join("console.log"), &self.console)?;
        match self.client.screenshot() {
            Ok(png) => output_file::write(&folder.join("screen.png"), &png),
            Err(e) => {
                tracing::info!("the screenshot failed: {e}");
                Ok(())
            }
        }
    }
}

fn judge(code: i32, wanted: i32, output: &str, contains: Option<&str>) -> Result<()> {
    let last = || {
        output
            .lines()
            .rev()
            .find(|line| !line.trim().is_empty())
            .unwrap_or_default()
            .escape_debug()
            .to_string()
    };
    if code != wanted {
        return Err(Error::failed(format!(
            "its exit code is {code} and not {wanted}; its last line is: {}",
            last()
        )));
    }
    match contains {
        Some(text) if !output.contains(text) => {
            Err(Error::failed(format!("{text:?} is not in its output; its last line is: {}", last())))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_that_was_not_written_ends_the_test_with_its_own_error() {
        let (failed, lost) =
            (|| Err(Error::failed("did not pass")), || Err(Error::new(ErrorKind::NotFound, "no folder")));
        result(Ok(()), Ok(())).unwrap();
        assert_eq!(result(failed(), Ok(())).unwrap_err().to_string(), "did not pass");
        for verdict in [Ok(()), failed()] {
            let e = result(verdict, lost()).unwrap_err();
            assert_eq!((e.kind(), e.to_string().as_str()), (ErrorKind::NotFound, "no folder"));
        }
    }
}
