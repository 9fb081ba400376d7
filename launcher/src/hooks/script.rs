//! A program as a hook: the VMI and the domain are its arguments, what it writes is the domain.
//!
//! Its arguments are those of upstream's sidecar-shim, so that the same script serves here and in a sidecar.

use super::{ANSWER, LONGEST, plain};
use crate::error::{Error, ErrorKind, Result};
use std::io::{self, Read};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

/// The longest argument that Linux hands to a program.
const ARGUMENT: usize = (128 << 10) - 1;
/// What is kept of its error output: the end.
const ERRORS: usize = 500;
/// The time that what it wrote takes to arrive when it has ended. A child of it may hold its output open.
const LATE: Duration = Duration::from_secs(2);

/// The domain as the program wants it.
pub(super) fn on_define_domain(path: &Path, xml: &str, vmi: &str) -> Result<String> {
    let called = || format!("the hook {}", path.display());
    for (what, text) in [("VMI", vmi), ("domain", xml)] {
        if text.len() > ARGUMENT {
            return Err(Error::refused(format!(
                "{} cannot be given the {what}, which has {} bytes: a program takes arguments of at most {ARGUMENT}",
                called(),
                text.len()
            )));
        }
    }
    let mut command = Command::new(path);
    command.args(["--vmi", vmi, "--domain", xml]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let child = command.spawn().map_err(|e| {
        let hint = match e.kind() {
            io::ErrorKind::NotFound => "; is there the interpreter that its first line names?",
            io::ErrorKind::PermissionDenied => "; is it executable?",
            _ => "",
        };
        Error::io(format!("{} cannot be started{hint}", called()), e)
    })?;
    let (output, errors, ended) = wait(child, ANSWER);
    let errors = plain(&String::from_utf8_lossy(&errors));
    let failed = |why: String| {
        let said = if errors.is_empty() { String::new() } else { format!(": {errors}") };
        Error::new(ErrorKind::Failed, format!("{} {why}{said}", called()))
    };
    match ended.map_err(|e| failed(format!("cannot be waited for: {e}")))? {
        None => return Err(failed(format!("did not end within {} s", ANSWER.as_secs()))),
        _ if output.len() > LONGEST => return Err(failed(format!("wrote more than {LONGEST} bytes"))),
        Some(status) if !status.success() => return Err(failed(format!("ended with {status}"))),
        Some(_) => {}
    }
    match String::from_utf8(output) {
        Ok(xml) if !xml.trim().is_empty() => Ok(xml),
        Ok(_) => Err(failed("wrote no domain to its standard output".into())),
        Err(_) => Err(failed("wrote what is not text".into())),
    }
}

type Ended = io::Result<Option<std::process::ExitStatus>>;

/// Its output, the end of its error output, and how it ended; nothing if it did not in time.
fn wait(mut child: Child, within: Duration) -> (Vec<u8>, Vec<u8>, Ended) {
    let until = Instant::now() + within;
    let output = child.stdout.take().map(|output| {
        read(output, |output| {
            let mut bytes = Vec::new();
            // What it writes beyond is not read: it gets a signal.
            let _ = output.take(LONGEST as u64 + 1).read_to_end(&mut bytes);
            bytes
        })
    });
    let errors = child.stderr.take().map(|errors| read(errors, end));
    let ended = loop {
        match child.try_wait() {
            Ok(Some(status)) => break Ok(Some(status)),
            Ok(None) if Instant::now() < until => thread::sleep(Duration::from_millis(5)),
            Ok(None) => {
                kill(&mut child);
                break Ok(None);
            }
            Err(e) => {
                kill(&mut child);
                break Err(e);
            }
        }
    };
    let late = |bytes: Option<Receiver<Vec<u8>>>| bytes.and_then(|bytes| bytes.recv_timeout(LATE).ok());
    (late(output).unwrap_or_default(), late(errors).unwrap_or_default(), ended)
}

/// Ends it, and what it started.
fn kill(child: &mut Child) {
    let group = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw);
    if let Some(group) = group {
        // It may have ended at this moment.
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    }
    let _ = child.wait();
}

/// Reads on a thread of its own, so that a full pipe holds up nobody.
fn read<R: Read + Send + 'static>(
    from: R,
    all: impl FnOnce(R) -> Vec<u8> + Send + 'static,
) -> Receiver<Vec<u8>> {
    let (tell, told) = channel();
    thread::spawn(move || drop(tell.send(all(from))));
    told
}

/// The last bytes of a stream.
fn end(mut stream: impl Read) -> Vec<u8> {
    let (mut kept, mut piece) = (Vec::new(), [0; 1024]);
    while let Ok(count @ 1..) = stream.read(&mut piece) {
        kept.extend_from_slice(piece.get(..count).unwrap_or_default());
        let surplus = kept.len().saturating_sub(ERRORS);
        kept.drain(..surplus);
    }
    kept
}
