//! The only place that prints: facts to standard output, everything else to standard error.

mod log;
mod pace;

use crate::error::{Error, ErrorKind, Result};
use cdi::run::watch::{Phase, Watch};
use cdi::size::human;
use container_disk::progress;
use error_core::causes;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use pace::{Pace, Tempo};
use std::io::{IsTerminal, Write};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Starts logging to standard error. Without `-v` and `RUST_LOG` an entry is a sentence for a person.
pub(crate) fn log(verbose: u8) {
    let level = match verbose {
        // Errors of these libraries are in the program's error message already.
        0 => "warn,kube_client=off,rustls_platform_verifier=off",
        1 => "info",
        _ => "debug",
    };
    let chosen = tracing_subscriber::EnvFilter::try_from_default_env().ok();
    let is_sentence = verbose == 0 && chosen.is_none();
    let filter = chosen.unwrap_or_else(|| level.into());
    let coloured = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // An entry that cannot be written is lost: to tell that on the same file would end the thread.
    let log = log.with_ansi(coloured).log_internal_errors(false);
    match is_sentence {
        true => log.event_format(log::Sentence).init(),
        false => log.without_time().init(),
    }
}

/// Prints to standard output. A closed pipe is not an error.
pub(crate) fn out(text: &str) -> Result<()> {
    match std::io::stdout().lock().write_all(text.as_bytes()) {
        Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Error::io("cannot write to standard output", e))
        }
        _ => Ok(()),
    }
}

/// Prints bytes unchanged and at once, for the output of a guest's console.
pub(crate) fn raw(bytes: &[u8]) -> Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(bytes)
        .and_then(|()| out.flush())
        .map_err(|e| Error::io("cannot write to standard output", e))
}

/// Prints a value as JSON.
pub(crate) fn json(value: &impl serde::Serialize) -> Result<()> {
    let text =
        serde_json::to_string_pretty(value).map_err(|e| Error::failed("cannot write JSON").because(e))?;
    out(&(text + "\n"))
}

/// Prints a message for the user to standard error.
pub(crate) fn say(text: &str) {
    // Standard error may be closed.
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// Prints an error and its chain of causes, once.
pub(crate) fn failure(e: &Error) {
    let mut text = format!("coracle: {e}");
    for cause in causes(e) {
        let said = cause.to_string();
        // Some libraries repeat their cause in their own message.
        if !text.contains(&said) {
            text.push_str("\n  because: ");
            text.push_str(&said);
        }
    }
    say(&text);
}

/// Mode of progress display.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Show {
    /// A bar on a terminal, else a line every few seconds.
    Auto,
    /// No progress is shown.
    Quiet,
}

/// Display of a run's progress, until it is dropped.
pub(crate) struct Progress {
    stop: Option<Sender<()>>,
    /// Returns true if anything was shown.
    thread: Option<JoinHandle<bool>>,
}

/// State of a piece of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Step {
    /// Name of the phase, one word.
    pub(crate) phase: &'static str,
    /// Bytes that are done.
    pub(crate) done: u64,
    /// All bytes; 0 if unknown.
    pub(crate) total: u64,
}

impl Step {
    fn of(watch: &Watch) -> Step {
        let (done, total) = watch.progress();
        Step { phase: watch.phase().name(), done, total }
    }

    fn of_reading(phase: &'static str, watch: &Watch) -> Step {
        Step { phase: reading_phase(watch.phase(), phase), ..Step::of(watch) }
    }
}

/// Name of a phase of a run that reads a disk for its own sake: what the run calls converting, it does not do.
fn reading_phase(now: Phase, name: &'static str) -> &'static str {
    if now == Phase::Opening { now.name() } else { name }
}

impl Progress {
    /// Shows the progress of a conversion.
    pub(crate) fn of(watch: &Arc<Watch>, show: Show) -> Progress {
        let watch = watch.clone();
        // Holes of a disk are done, and moved by nobody.
        Progress::measured(show, move || (Step::of(&watch), watch.read()))
    }

    /// Shows the progress of a disk that is read for its own sake, in this phase from the first byte on.
    pub(crate) fn of_reading(phase: &'static str, watch: &Arc<Watch>, show: Show) -> Progress {
        let watch = watch.clone();
        Progress::measured(show, move || (Step::of_reading(phase, &watch), watch.read()))
    }

    /// Shows the progress of blobs that are read or copied.
    pub(crate) fn of_blobs(phase: &'static str, blobs: &Arc<progress::Progress>, show: Show) -> Progress {
        let blobs = blobs.clone();
        Progress::measured(show, move || {
            let (done, there) = (blobs.done.load(Relaxed), blobs.there.load(Relaxed));
            (Step { phase, done, total: blobs.total.load(Relaxed) }, done.saturating_sub(there))
        })
    }

    /// Shows the progress that `step` returns.
    pub(crate) fn start(show: Show, step: impl Fn() -> Step + Send + 'static) -> Progress {
        Progress::measured(show, move || {
            let step = step();
            (step, step.done)
        })
    }

    /// Shows the progress that `step` returns with the bytes that this run has moved.
    fn measured(show: Show, step: impl Fn() -> (Step, u64) + Send + 'static) -> Progress {
        if show == Show::Quiet {
            return Progress { stop: None, thread: None };
        }
        let (stop, stopped) = channel();
        let bar = std::io::stderr().is_terminal();
        let thread = std::thread::spawn(move || {
            let wait = |time| stopped.recv_timeout(time) == Err(RecvTimeoutError::Timeout);
            if bar { draw(step, wait) } else { lines(step, wait) }
        });
        Progress { stop: Some(stop), thread: Some(thread) }
    }

    /// Ends the display, and prints a line if it has shown anything: that line is its one end.
    pub(crate) fn finish(mut self, line: &str) {
        if self.end() {
            say(line);
        }
    }

    /// Ends the display. True if it has shown anything.
    fn end(&mut self) -> bool {
        drop(self.stop.take());
        self.thread.take().is_some_and(|thread| thread.join().unwrap_or_default())
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.end();
    }
}

/// Draws a bar: phase, part, bytes, rate, time left.
fn draw(step: impl Fn() -> (Step, u64), wait: impl Fn(Duration) -> bool) -> bool {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(10));
    let (began, mut pace, mut phase) = (Instant::now(), Pace::default(), None);
    while wait(Duration::from_millis(100)) {
        let (now, moved) = step();
        let tempo = pace.sample(began.elapsed(), now, moved);
        if phase != Some(now.phase) {
            phase = Some(now.phase);
            // The style comes first, since the other calls draw.
            bar.set_style(style(now.total > 0));
            bar.set_message(now.phase);
            bar.reset();
        }
        bar.set_prefix(format!("{:>12} {:>10}", tempo.rate(), tempo.left()));
        if now.total > 0 {
            bar.set_length(now.total);
        }
        bar.set_position(now.done);
    }
    bar.finish_and_clear();
    phase.is_some()
}

fn style(sized: bool) -> ProgressStyle {
    let template = if sized {
        "{msg:10} {bar:24} {bytes:>10}/{total_bytes:10} {prefix}"
    } else {
        "{msg:10} {spinner} {bytes:>10} {prefix}"
    };
    ProgressStyle::with_template(template)
        .unwrap_or_else(|_| ProgressStyle::default_bar())
        .progress_chars("━╸─")
}

/// Prints a plain line every few seconds, for logs.
fn lines(step: impl Fn() -> (Step, u64), wait: impl Fn(Duration) -> bool) -> bool {
    const EVERY: u64 = 10;
    let (began, mut pace, mut ticks) = (Instant::now(), Pace::default(), 0_u64);
    // The first sample of a phase is the base of its rate.
    while wait(Duration::from_millis(500)) {
        ticks += 1;
        let (now, moved) = step();
        let tempo = pace.sample(began.elapsed(), now, moved);
        if ticks.is_multiple_of(EVERY) {
            say(&line(now, tempo));
        }
    }
    ticks >= EVERY
}

/// A line about a step.
fn line(Step { phase, done, total }: Step, tempo: Tempo) -> String {
    if (done, total) == (0, 0) {
        return phase.to_owned();
    }
    let part = if total > 0 { format!(" of {}", human(total)) } else { String::new() };
    let tempo = [tempo.rate(), tempo.left()].into_iter().filter(|text| !text.is_empty());
    let tempo: String = tempo.map(|text| format!(", {text}")).collect();
    format!("{phase}: {}{part}{tempo}", human(done))
}

/// Ends the program on Ctrl-C: complete files stay, and the same command continues after them.
pub(crate) fn on_interrupt_go_on() -> Result<()> {
    let handler = || {
        say("coracle: interrupted; the same command goes on");
        std::process::exit(i32::from(crate::error::code_of(ErrorKind::Interrupted)));
    };
    on_signal(handler)
}

/// Sets the action for a signal that asks the program to end, in place of an earlier one.
pub(crate) fn on_signal(action: impl FnMut() + Send + 'static) -> Result<()> {
    static ACTION: Mutex<Option<Box<dyn FnMut() + Send>>> = Mutex::new(None);
    let mut slot = ACTION.lock().unwrap_or_else(PoisonError::into_inner);
    let first = slot.replace(Box::new(action)).is_none();
    drop(slot);
    if !first {
        return Ok(());
    }
    let handler = || {
        if let Some(action) = ACTION.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            action();
        }
    };
    ctrlc::set_handler(handler).map_err(|e| Error::failed("cannot listen for Ctrl-C").because(e))
}

/// Asks the run to stop on Ctrl-C. A second one, or a run that does not stop within two seconds, ends the
/// program. Written data stays as `.partial` with its journal either way.
pub(crate) fn on_interrupt(watch: Arc<Watch>) -> Result<()> {
    let handler = move || {
        if watch.interrupted() {
            std::process::exit(i32::from(crate::error::code_of(ErrorKind::Interrupted)));
        }
        watch.interrupt();
        let watch = watch.clone();
        std::thread::spawn(move || {
            std::thread::sleep(Duration::from_secs(2));
            let kept = watch.kept().map_or_else(String::new, |how| format!("; {how}"));
            say(&format!("coracle: interrupted{kept}"));
            std::process::exit(i32::from(crate::error::code_of(ErrorKind::Interrupted)));
        });
    };
    on_signal(handler)
}

/// Prints a text to standard error unchanged.
pub(crate) fn err(text: &str) {
    // Standard error may be closed.
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}

/// Ends the program with the exit code of another program.
pub(crate) fn leave(code: i32) -> ! {
    std::process::exit(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `verify` said that it converts.
    #[test]
    fn reading_has_its_own_name_in_each_phase() {
        let names = [Phase::Opening, Phase::Converting, Phase::Placing, Phase::Finishing]
            .map(|phase| reading_phase(phase, "verifying"));
        assert_eq!(names, ["opening", "verifying", "verifying", "verifying"]);
        assert_eq!(Step::of_reading("verifying", &Watch::default()).phase, "opening");
    }

    #[test]
    fn a_line_says_what_is_known() {
        let step = |done, total| Step { phase: "copying", done, total };
        let tempo = Tempo { rate: Some(3 << 20), left: Some(7) };
        for (step, tempo, said) in [
            (step(0, 0), tempo, "copying"),
            (step(1 << 20, 0), Tempo { left: None, ..tempo }, "copying: 1 MiB, 3 MiB/s"),
            (step(1 << 20, 2 << 20), tempo, "copying: 1 MiB of 2 MiB, 3 MiB/s, 7 s left"),
            (step(1 << 20, 2 << 20), Tempo::default(), "copying: 1 MiB of 2 MiB"),
        ] {
            assert_eq!(line(step, tempo), said);
        }
    }
}
