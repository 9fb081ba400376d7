//! A guest's serial console, read and typed on: the one way in which tests do it.
//!
//! ```text
//!  a program's output, a socket ─► a thread ─► transcript (the program's own) ─► says, runs: woken by each piece that comes
//!  typed keys ◄─────────────────────────────────────────────────────────────── types, log_in
//! ```
//!
//! Several programs write to the console at once. A text is found though the kernel wrote into it; the output of a command
//! comes from [`Serial::runs`]: the guest packs it with its sum, and writes it again if other output came into it.

#[path = "../../src/commands/test/transcript.rs"]
#[allow(dead_code, reason = "the rest is what `coracle test` uses")]
mod transcript;

use crate::processes;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};
use std::any::Any;
use std::fmt;
use std::io::{Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use transcript::{Transcript, without_kernel};

/// Longer than any step takes on a busy host; only a test that fails waits so long.
const PATIENCE: Duration = Duration::from_secs(540);

/// Longer than the first word of a guest takes on a busy host.
const FIRST_WORD: Duration = Duration::from_secs(240);

/// Message of a kernel one of whose tasks has not let go of its processor for 45 s.
const LOCKUP: &str = "watchdog: BUG: soft lockup";

/// Bytes of the last output that are searched for it: more than come at once.
const LATELY: usize = 16 << 10;

/// Beginning of the message of a panic about a guest that stands still.
const STANDS_STILL: &str = "the guest stands still";

/// Asks a TPM for the public part of the endorsement key that was made with it (TPM2_ReadPublic of 81010001).
const TPM_KEY: &str = "exec 3<>/dev/tpm0; printf '\\x80\\x01\\x00\\x00\\x00\\x0e\\x00\\x00\\x01\\x73\\x81\\x01\\x00\\x01' >&3; \
                       sha256sum <&3; exec 3>&-";

/// Both ways of a guest's serial console.
pub struct Serial {
    /// The program that carries it, which ends with the value.
    child: Option<Child>,
    keys: Box<dyn Write + Send>,
    line: Arc<Line>,
    /// The number of commands whose output was asked for.
    asked: usize,
}

#[derive(Default)]
struct Line {
    said: Mutex<Said>,
    news: Condvar,
}

/// The output so far.
#[derive(Default)]
struct Said {
    bytes: Vec<u8>,
    transcript: Transcript,
    /// The output since the last command.
    asked: Transcript,
    ended: bool,
}

/// True if a guest wrote this so often, by its log: the kernel may have written into it.
pub fn says(log: &[u8], text: &str, times: usize) -> bool {
    let mut transcript = Transcript::default();
    transcript.add(log);
    (0..times).all(|_| transcript.take(text).is_some())
        || String::from_utf8_lossy(log).matches(text).count() >= times
}

impl Serial {
    /// The serial console behind such a command.
    pub fn of(mut command: Command) -> Serial {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = command.spawn().expect("the program can be started");
        let keys = child.stdin.take().expect("a pipe");
        let screen = child.stdout.take().expect("a pipe");
        let mut serial = Serial::on(screen, keys);
        serial.child = Some(child);
        serial
    }

    /// The serial console with this output and these keys.
    pub fn on(mut screen: impl Read + Send + 'static, keys: impl Write + Send + 'static) -> Serial {
        let line = Arc::new(Line::default());
        let into = Arc::clone(&line);
        std::thread::spawn(move || {
            let mut piece = [0; 4096];
            while let Ok(count @ 1..) = screen.read(&mut piece) {
                let mut said = into.said();
                said.bytes.extend_from_slice(&piece[..count]);
                said.transcript.add(&piece[..count]);
                said.asked.add(&piece[..count]);
                into.news.notify_all();
            }
            into.said().ended = true;
            into.news.notify_all();
        });
        Serial { child: None, keys: Box::new(keys), line, asked: 0 }
    }

    /// All that came so far.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.line.said().bytes).into_owned()
    }

    /// Waits until the guest has written this.
    #[track_caller]
    pub fn says(&mut self, text: &str) -> &mut Self {
        self.until(text, |said| said.says(text).then_some(()));
        self
    }

    /// True if the guest writes this within seconds.
    pub fn comes(&self, text: &str) -> bool {
        self.line.wait(Duration::from_secs(10), |said| said.says(text).then_some(())).is_ok()
    }

    /// Waits for the end of the line; gives all that came.
    #[track_caller]
    pub fn ends(&mut self) -> String {
        self.until("an end", |said| said.ended.then_some(()));
        self.text()
    }

    /// Waits for the end of the program that carries the line: whether it was content.
    #[track_caller]
    pub fn succeeded(mut self) -> bool {
        // A terminal goes on for as long as somebody could type.
        self.closes();
        self.child.take().expect("a program").wait().expect("it is ours").success()
    }

    /// Types a line.
    #[track_caller]
    pub fn types(&mut self, line: &str) -> &mut Self {
        self.keys_are(format!("{line}\r").as_bytes());
        self
    }

    /// Types just these keys.
    #[track_caller]
    pub fn keys_are(&mut self, keys: &[u8]) {
        self.keys.write_all(keys).and_then(|()| self.keys.flush()).expect("the console takes it");
    }

    /// Nothing will be typed any more.
    pub fn closes(&mut self) {
        self.keys = Box::new(std::io::sink());
    }

    /// Types a line, if the other end still takes it.
    pub fn tries(&mut self, line: &str) -> bool {
        self.keys.write_all(format!("{line}\r").as_bytes()).is_ok()
    }

    /// Logs in to the smallest guest. Keys that are typed before its prompt are lost.
    #[track_caller]
    pub fn log_in(&mut self) -> &mut Self {
        self.says("tiny login:").types("root").says("/root #")
    }

    /// Ends the guest in order. The line has arrived when it is shown.
    #[track_caller]
    pub fn power_off(&mut self) {
        self.types("poweroff").says("poweroff");
    }

    /// The output of a command, in a shell that waits. The shell keeps its output, packed and with a sum, and writes it
    /// until it came whole; its echo of the typed line holds no mark.
    #[track_caller]
    pub fn runs(&mut self, command: &str) -> String {
        self.types(&format!("o=$({{ {command}; }} 2>&1 | base64 | tr -d '\\n'); s=$(printf %s \"$o\" | sha256sum | cut -c1-64)"));
        for _ in 0..20 {
            self.asked += 1;
            let number = self.asked;
            self.line.said().asked = Transcript::default();
            self.types(&format!("echo \"<\"\"{number}<$s $o>\"; echo \"<\"\"{number}>\""));
            let told = self.until(command, |said| said.asked.take(&format!("<{number}>")));
            if let Some(output) = unpacked(&told, &format!("<{number}<")) {
                return output;
            }
        }
        panic!("what {command:?} prints never came whole: {}", self.text());
    }

    /// The key of the guest's TPM 2.0, by which one TPM is told from another.
    #[track_caller]
    pub fn tpm_key(&mut self) -> String {
        assert_eq!(self.runs("cat /sys/class/tpm/tpm0/tpm_version_major"), "2\n");
        let key = self.runs(TPM_KEY);
        // Not of nothing.
        assert!(key.len() > 64 && !key.starts_with("e3b0c442"), "{key}");
        key
    }

    #[track_caller]
    fn until<T>(&self, what: &str, is: impl FnMut(&mut Said) -> Option<T>) -> T {
        match self.line.wait(PATIENCE, is) {
            Ok(found) => found,
            Err(why) => {
                panic!("{why}, and {what:?} is not in: {}\n{}", self.text(), processes::of_vms())
            }
        }
    }
}

impl Line {
    fn said(&self) -> MutexGuard<'_, Said> {
        self.said.lock().expect("nobody panics with it")
    }

    /// Looks at whatever comes, until it is so, the line ends, or time is up.
    fn wait<T>(
        &self,
        patience: Duration,
        mut is: impl FnMut(&mut Said) -> Option<T>,
    ) -> Result<T, &'static str> {
        let begin = Instant::now();
        let mut said = self.said();
        loop {
            if let Some(found) = is(&mut said) {
                return Ok(found);
            }
            if said.ended {
                return Err("the line has ended");
            }
            let patience = if said.bytes.is_empty() { patience.min(FIRST_WORD) } else { patience };
            let left = patience.saturating_sub(begin.elapsed());
            if said.has_lockup() || left.is_zero() && said.bytes.is_empty() {
                return Err(STANDS_STILL);
            }
            if left.is_zero() {
                return Err("time is up");
            }
            said = self.news.wait_timeout(said, left).expect("nobody panics with it").0;
        }
    }
}

impl Said {
    /// True if the kernel of the guest has told of a lockup lately: it tells again and again.
    fn has_lockup(&self) -> bool {
        let lately = &self.bytes[self.bytes.len().saturating_sub(LATELY)..];
        lately.windows(LOCKUP.len()).any(|found| found == LOCKUP.as_bytes())
    }

    fn says(&self, text: &str) -> bool {
        self.transcript.has(text) || String::from_utf8_lossy(&self.bytes).contains(text)
    }
}

/// Runs a test of a guest again where the guest stood still, twice at most: once in some hundred starts under emulation on a
/// busy host, a kernel stands still in its start or in its end (docs/plan.md).
#[allow(clippy::print_stderr, reason = "the log of a suite tells how often that is")]
pub fn with_another_guest<T>(test: impl Fn() -> T) -> T {
    for _ in 0..2 {
        match catch_unwind(AssertUnwindSafe(&test)) {
            Err(why) if stood_still(&*why) => eprintln!("once more, with another guest"),
            Err(why) => resume_unwind(why),
            Ok(result) => return result,
        }
    }
    test()
}

fn stood_still(why: &(dyn Any + Send)) -> bool {
    why.downcast_ref::<String>().is_some_and(|why| why.starts_with(STANDS_STILL))
}

/// The output behind a mark; `None` where its sum is another's.
fn unpacked(told: &str, mark: &str) -> Option<String> {
    let told = without_kernel(told);
    let (_, frame) = told.split_once(mark)?;
    let (sum, packed) = frame.split_once('>')?.0.split_once(' ')?;
    let found = hex::encode(Sha256::digest(packed));
    let bytes = STANDARD.decode(packed).ok().filter(|_| found == sum)?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

impl fmt::Debug for Serial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Serial").field("text", &self.text()).finish_non_exhaustive()
    }
}

impl Drop for Serial {
    fn drop(&mut self) {
        // The process may have ended with its VM.
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead as _, BufReader};
    use std::os::unix::net::UnixStream;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread::JoinHandle;

    /// A guest that is played: what it says first, and then to each line that is typed.
    fn guest(
        first: &'static str,
        answer: impl Fn(usize, &str) -> String + Send + 'static,
    ) -> (Serial, JoinHandle<()>) {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let serial = Serial::on(ours.try_clone().unwrap(), ours);
        let played = std::thread::spawn(move || {
            theirs.write_all(first.as_bytes()).unwrap();
            let typed = BufReader::new(theirs.try_clone().unwrap()).split(b'\r');
            for (number, line) in typed.enumerate() {
                let line = String::from_utf8(line.unwrap()).unwrap();
                // The echo, wrapped as a terminal wraps it.
                let echo: Vec<_> = line.as_bytes().chunks(40).map(String::from_utf8_lossy).collect();
                theirs
                    .write_all(format!("{}\r\n{}", echo.join("\r\n"), answer(number, &line)).as_bytes())
                    .unwrap();
            }
        });
        (serial, played)
    }

    fn frame(number: usize, output: &str) -> (String, String) {
        let packed = STANDARD.encode(output);
        let sum = hex::encode(Sha256::digest(&packed));
        (format!("<{number}<{sum} {packed}>\r\n"), format!("<{number}>\r\n"))
    }

    #[test]
    fn what_is_said_is_found_though_the_kernel_says_something_too() {
        let (mut serial, _) = guest("tiny lo[    1.000000] sd 0: late\r\ngin: ", |number, _| match number {
            0 => "~ [    2.000000] x\r\n# \r\n/root [    3.000000] y\r\n# ".to_owned(),
            _ => String::new(),
        });
        serial.log_in();
        assert!(!serial.text().contains("tiny login:"), "the guest is not played as it should be");
        let log = b"tiny re[    1.000000] z\r\nady\r\ntiny ready";
        assert!(
            says(log, "tiny ready", 2)
                && !says(log, "tiny ready", 3)
                && !says(b"tiny re\r\nady", "tiny ready", 1)
        );
    }

    /// A line is cut by the prompt of another program, then swallowed, then cut by the kernel, which does no harm.
    #[test]
    fn an_output_is_asked_for_until_it_is_whole() {
        let (mut serial, _) = guest("/root # ", |number, line| {
            let (said, end) = frame(number, "a\n\nb\n");
            let (one, other) = said.split_at(20);
            match number {
                0 => {
                    assert!(line.starts_with("o=$({ cat a; } 2>&1 "), "{line}");
                    String::new()
                }
                1 => format!("{one}\r\n\r\ntiny login: {other}{end}"),
                2 => end,
                3 => format!("{one}[    1.234567] a > b\r\n{other}{end}# "),
                _ => panic!("asked once too often"),
            }
        });
        assert_eq!(serial.runs("cat a"), "a\n\nb\n");
    }

    #[test]
    fn a_guest_whose_kernel_has_locked_up_is_tried_again() {
        let tries = AtomicUsize::new(0);
        let result = with_another_guest(|| {
            let lockup =
                "[   52.833068] watchdog: BUG: soft lockup - CPU#0 stuck for 45s! [kworker/0:1:17]\r\n";
            let first = if tries.fetch_add(1, Ordering::Relaxed) < 2 { lockup } else { "tiny login: " };
            let (mut serial, _) = guest(first, |_, _| "/root # ".to_owned());
            serial.log_in();
            tries.load(Ordering::Relaxed)
        });
        assert_eq!(result, 3);
        let fails = || with_another_guest(|| panic!("{}", "a word is missing".to_owned()));
        assert!(catch_unwind(AssertUnwindSafe(fails)).is_err());
    }

    #[test]
    fn a_line_that_ends_is_not_waited_for() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut serial = Serial::on(ours.try_clone().unwrap(), ours);
        drop(theirs);
        assert_eq!(serial.ends(), "");
        assert!(!serial.comes("anything"));
    }
}
