//! A program as a hook: the VMI and the domain are its arguments, what it writes is the domain.
//!
//! Its arguments are those of upstream's sidecar-shim, so that the same script serves here and in a sidecar. What it leaves running
//! when it ends may go on, and is not waited for.

use super::{ANSWER, LONGEST, plain};
use crate::error::{Error, ErrorKind, Result};
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// The longest argument that Linux hands to a program.
const ARGUMENT: usize = (128 << 10) - 1;
/// What is kept of its error output: the end.
const ERRORS: usize = 500;
/// The pause between two looks at it.
const LOOK: Duration = Duration::from_millis(5);

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
    let mut child = command.spawn().map_err(|e| {
        let hint = match e.kind() {
            io::ErrorKind::NotFound => "; is there the interpreter that its first line names?",
            io::ErrorKind::PermissionDenied => "; is it executable?",
            _ => "",
        };
        Error::io(format!("{} cannot be started{hint}", called()), e)
    })?;
    let waited = wait(&mut child, ANSWER);
    if !waited.as_ref().is_ok_and(|written| written.status.is_some()) {
        kill(&mut child);
    }
    let Written { output, errors, status } =
        waited.map_err(|e| Error::io(format!("{} cannot be waited for", called()), e))?;
    let errors = plain(&String::from_utf8_lossy(&errors));
    let failed = |why: String| {
        let said = if errors.is_empty() { String::new() } else { format!(": {errors}") };
        Error::new(ErrorKind::Failed, format!("{} {why}{said}", called()))
    };
    match status {
        _ if output.len() > LONGEST => return Err(failed(format!("wrote more than {LONGEST} bytes"))),
        None => return Err(failed(format!("did not end within {} s", ANSWER.as_secs()))),
        Some(status) if !status.success() => return Err(failed(format!("ended with {status}"))),
        Some(_) => {}
    }
    match String::from_utf8(output) {
        Ok(xml) if !xml.trim().is_empty() => Ok(xml),
        Ok(_) => Err(failed("wrote no domain to its standard output".into())),
        Err(_) => Err(failed("wrote what is not text".into())),
    }
}

/// What a program wrote, and how it ended.
#[derive(Default)]
struct Written {
    output: Vec<u8>,
    /// The end of its error output.
    errors: Vec<u8>,
    /// Nothing: it has not ended.
    status: Option<ExitStatus>,
}

/// Waits for the end of the program, and reads meanwhile what it writes, so that a full pipe does not hold it up. Nothing is read
/// that came later: what it left behind may keep the pipes open, and write as long as it likes.
fn wait(child: &mut Child, within: Duration) -> io::Result<Written> {
    let until = Instant::now() + within;
    let (mut output, mut errors) = (child.stdout.take(), child.stderr.take());
    let mut written = Written::default();
    loop {
        // First this: what it wrote before its end is in the pipes then.
        written.status = child.try_wait()?;
        let more = (waiting(output.as_mut())?, waiting(errors.as_mut())?);
        let is_idle = more.0.is_empty() && more.1.is_empty();
        written.output.extend(more.0);
        written.errors.extend(more.1);
        let surplus = written.errors.len().saturating_sub(ERRORS);
        written.errors.drain(..surplus);
        let is_over = written.status.is_some() || written.output.len() > LONGEST || Instant::now() >= until;
        if is_over {
            return Ok(written);
        }
        if is_idle {
            thread::sleep(LOOK);
        }
    }
}

/// What waits in a pipe: no more than is there now, so that nobody is waited for.
fn waiting(pipe: Option<&mut (impl Read + AsFd)>) -> io::Result<Vec<u8>> {
    let Some(pipe) = pipe else { return Ok(Vec::new()) };
    let count = rustix::io::ioctl_fionread(&*pipe)?;
    let mut bytes = Vec::new();
    pipe.take(count.min(LONGEST as u64 + 1)).read_to_end(&mut bytes)?;
    Ok(bytes)
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
