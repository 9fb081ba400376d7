//! A program as a hook. Its arguments are the VMI and the domain, its output is the changed domain.
//!
//! Its arguments are those of upstream's sidecar-shim, so that the same script works here and in a sidecar.
//! Processes that it leaves running may go on, and are not waited for.

use super::{ANSWER, LONGEST, plain};
use crate::error::{Error, ErrorKind, Result};
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Longest argument that Linux passes to a program.
const ARGUMENT: usize = (128 << 10) - 1;
/// Bytes of the error output that are kept: the last ones.
const ERRORS: usize = 500;
/// Pause between two checks of the program.
const LOOK: Duration = Duration::from_millis(5);

/// The domain after the change by the program.
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
    let ScriptOutput { output, errors, status } =
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
        Ok(_) => Err(failed("wrote no domain XML to its standard output".into())),
        Err(_) => Err(failed("wrote output that is not UTF-8".into())),
    }
}

/// Output of a program, and its end.
#[derive(Default)]
struct ScriptOutput {
    output: Vec<u8>,
    /// Last bytes of the error output.
    errors: Vec<u8>,
    /// Exit status; `None` if the program has not ended.
    status: Option<ExitStatus>,
}

/// Waits for the end of the program, and reads its output meanwhile, so that a full pipe does not block it.
/// Output after the end is not read: processes that it left running may keep the pipes open, and write
/// without an end.
fn wait(child: &mut Child, within: Duration) -> io::Result<ScriptOutput> {
    let until = Instant::now() + within;
    let (mut output, mut errors) = (child.stdout.take(), child.stderr.take());
    let mut written = ScriptOutput::default();
    loop {
        // Checked first: output before the end is then in the pipes.
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

/// The bytes that are in a pipe now, without waiting for more.
fn waiting(pipe: Option<&mut (impl Read + AsFd)>) -> io::Result<Vec<u8>> {
    let Some(pipe) = pipe else { return Ok(Vec::new()) };
    let count = rustix::io::ioctl_fionread(&*pipe)?;
    let mut bytes = Vec::new();
    pipe.take(count.min(LONGEST as u64 + 1)).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Kills the program and the processes that it started.
fn kill(child: &mut Child) {
    let group = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw);
    if let Some(group) = group {
        // The program may have ended just now.
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    }
    let _ = child.wait();
}
