//! A program as a hook: the VMI and the domain are its arguments, what it writes is the domain.
//!
//! Its arguments are those of upstream's sidecar-shim, so that the same script serves here and in a sidecar.

use super::{ANSWER, LONGEST, plain};
use crate::error::{Error, ErrorKind, Result};
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// The longest argument that Linux hands to a program.
const ARGUMENT: usize = (128 << 10) - 1;
/// What is kept of its error output: the end.
const ERRORS: usize = 500;
/// The time that what it wrote takes to arrive when it has ended. A child of it may hold its output open for longer: what has come by
/// then is what it wrote.
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
    let output = child.stdout.take().map(|output| Read::of(output, beginning));
    let errors = child.stderr.take().map(|errors| Read::of(errors, end));
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
    let late = |read: Option<Read>| read.map_or_else(Vec::new, Read::late);
    (late(output), late(errors), ended)
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

/// What a stream has said so far, read on a thread of its own, so that a full pipe holds up nobody.
struct Read {
    bytes: Arc<Mutex<Vec<u8>>>,
    ends: Receiver<()>,
}

impl Read {
    /// Each piece is kept as it is said, until no more is wanted: then nothing is read, and who writes gets a signal.
    fn of(mut stream: impl io::Read + Send + 'static, keep: fn(&mut Vec<u8>, &[u8]) -> bool) -> Read {
        let bytes = Arc::<Mutex<Vec<u8>>>::default();
        let (kept, (end, ends)) = (Arc::clone(&bytes), channel());
        thread::spawn(move || {
            let mut piece = [0; 4096];
            while let Ok(count @ 1..) = stream.read(&mut piece) {
                let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                if !keep(&mut kept, piece.get(..count).unwrap_or_default()) {
                    break;
                }
            }
            drop(end.send(()));
        });
        Read { bytes, ends }
    }

    /// All of it; where the stream does not end in time, what has come.
    fn late(self) -> Vec<u8> {
        let _ = self.ends.recv_timeout(LATE);
        std::mem::take(&mut *self.bytes.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The first bytes, and one more than may be.
fn beginning(kept: &mut Vec<u8>, piece: &[u8]) -> bool {
    let left = (LONGEST + 1).saturating_sub(kept.len());
    kept.extend(piece.iter().take(left));
    kept.len() <= LONGEST
}

/// The last bytes.
fn end(kept: &mut Vec<u8>, piece: &[u8]) -> bool {
    kept.extend_from_slice(piece);
    let surplus = kept.len().saturating_sub(ERRORS);
    kept.drain(..surplus);
    true
}
