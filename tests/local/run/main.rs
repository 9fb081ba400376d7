//! VMs as a user runs them: the program, the launcher beside it, real QEMU, the smallest guest.
//!
//! Tests without a guest (manifests, refusals) run everywhere; the others print that they were skipped if the
//! program virt-launcher was not built.

#![allow(clippy::unwrap_used, clippy::print_stderr)]

mod apart;
mod console;
mod debian;
mod dry;
mod firmware;
mod flags;
mod guest_verbs;
mod hooks;
mod killed;
mod life;
mod linked;
mod manifest;
mod manifests;
mod moved;
mod names;
mod noted;
mod refused;
mod screen;
mod sources;
mod tested;
mod user;
mod volumes;

use std::io::Read as _;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};
use tests::coracle::Ran;
use tests::place::Place;
use tests::serial::says;

const PROGRAM: &str = env!("CARGO_BIN_EXE_coracle");
/// Timeout, longer than anything takes here: Debian boots emulated, maybe beside all other tests.
const PATIENCE: Duration = Duration::from_secs(540);

/// Isolated folders for VMs: the user's own are not touched, and no VM outlives the value.
struct Laptop {
    place: Place,
}

impl Laptop {
    /// Folders without VMs and images.
    fn new() -> Laptop {
        Laptop { place: Place::empty(PROGRAM) }
    }

    /// Folders with the guest `tiny:1` in the store; `None` without a launcher.
    fn with_guest() -> Option<Laptop> {
        if !launcher().is_file() {
            eprintln!("skipped: {} was not built", launcher().display());
            return None;
        }
        let laptop = Laptop::new();
        laptop.build_guest("tiny:1", "vmlinux");
        Some(laptop)
    }

    /// Builds the guest into the store with one of its kernels.
    fn build_guest(&self, image: &str, kernel: &str) {
        let guest = guest();
        let file = |name: &str| guest.join(name).display().to_string();
        let words = std::fs::read_to_string(guest.join("cmdline")).unwrap();
        let (kernel, initrd) = (file(kernel), file("initrd"));
        let build = ["build", "-q", "-t", image, "--kernel", &kernel, "--initrd", &initrd];
        self.run(&[&build[..], &["--cmdline", words.trim()]].concat()).ok();
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.place.command(args);
        command.env("CORACLE_HOME", self.place.path("h"));
        command
    }

    fn run(&self, args: &[&str]) -> Ran {
        Ran::of(self.command(args).output().unwrap())
    }

    /// Starts the guest under this name, emulated.
    fn start(&self, name: &str, more: &[&str]) -> Ran {
        let args = ["run", "-d", "-q", "tiny:1", "--memory", "256M", "--accel", "emulation", "--name", name];
        self.run(&[&args[..], more].concat()).ok()
    }

    /// Status of a VM as JSON.
    fn status(&self, name: &str) -> serde_json::Value {
        self.run(&["status", name, "-o", "json"]).ok().json()
    }

    /// The names that `ps` prints.
    fn names(&self, args: &[&str]) -> Vec<String> {
        let ran = self.run(&[&["ps", "-q"], args].concat()).ok();
        String::from_utf8(ran.out).unwrap().lines().map(str::to_owned).collect()
    }

    /// Removes all VMs.
    fn remove_all(&self) {
        let names = self.run(&["ps", "-q", "-a"]);
        for name in String::from_utf8_lossy(&names.out).lines() {
            let _ = self.command(&["rm", "-f", name]).output();
        }
    }

    /// Serial console log of the guest.
    fn log(&self, name: &str) -> String {
        String::from_utf8_lossy(&self.run(&["logs", name]).ok().out).into_owned()
    }

    /// Waits until the log contains this text.
    #[track_caller]
    fn says(&self, name: &str, text: &str) {
        until(
            || says(self.log(name).as_bytes(), text, 1),
            || format!("{text:?} is not in: {}", self.log(name)),
        );
    }

    /// Processes that use these folders.
    fn processes(&self) -> Vec<String> {
        let home = self.place.path("h").display().to_string();
        let mut found = vec![];
        for entry in std::fs::read_dir("/proc").unwrap().flatten() {
            let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            // The test process has the folder in its arguments too.
            if line.contains(&home) && (line.contains("virt-launcher") || line.contains("qemu-system")) {
                found.push(line);
            }
        }
        found
    }

    /// Asserts that no folder, socket or process of a VM is left.
    #[track_caller]
    fn is_empty(&self) {
        until(|| self.processes().is_empty(), || format!("still there: {:?}", self.processes()));
        for folder in ["h/state/vms", "h/run"] {
            let left = below(&self.place.path(folder));
            assert!(left.is_empty(), "left behind: {left:?}");
        }
    }
}

impl Drop for Laptop {
    fn drop(&mut self) {
        self.remove_all();
    }
}

/// Everything below a folder, including links and sockets, but the mark of a folder of VMs, which stays.
fn below(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let entries = entries.filter(|entry| !entry.path().ends_with("vms/.home"));
    entries.flat_map(|entry| [vec![entry.path()], below(&entry.path())].concat()).collect()
}

/// Waits until a condition holds.
#[track_caller]
fn until(is: impl Fn() -> bool, else_what: impl Fn() -> String) {
    let since = Instant::now();
    while !is() {
        assert!(since.elapsed() < PATIENCE, "{}", else_what());
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The launcher that is built beside the program.
fn launcher() -> PathBuf {
    Path::new(PROGRAM).with_file_name("virt-launcher")
}

/// The folder with the guest's kernel and initrd, built once.
fn guest() -> &'static Path {
    static GUEST: OnceLock<PathBuf> = OnceLock::new();
    GUEST.get_or_init(|| recipe("tiny", &[]))
}

/// Path of a file that a guest's recipe makes, built once.
fn recipe(name: &str, args: &[&str]) -> PathBuf {
    let recipe = Path::new(env!("CARGO_MANIFEST_DIR")).join("images/guests").join(name).join("build");
    let output = Command::new(recipe).args(args).stderr(Stdio::inherit()).output().unwrap();
    assert!(output.status.success(), "the guest {name} cannot be built");
    PathBuf::from(String::from_utf8(output.stdout).unwrap().trim())
}

/// A port that is free now.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Response of a web server at this port, if any.
fn fetched(port: u16) -> Option<String> {
    use std::io::Write as _;
    let mut stream = std::net::TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
    stream.write_all(b"GET / HTTP/1.0\r\n\r\n").ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    text.contains("200 OK").then_some(text)
}
