//! A running process of one of our programs, and its memory according to the kernel.

use serde_json::json;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Time between two checks.
const LOOK: Duration = Duration::from_millis(10);

/// A program that runs in a folder of its own. Dropping this value ends it.
pub struct Running {
    child: Child,
    folder: TempDir,
    /// Time limit to start, and to end.
    patience: Duration,
}

impl Running {
    /// Starts the program. Its KUBECONFIG and its log are in the folder.
    pub fn begin(command: &mut Command, folder: TempDir, api_server: &str, patience: Duration) -> Running {
        let kubeconfig = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "a",
            "clusters": [{"name": "a", "cluster": {"server": api_server}}],
            "users": [{"name": "a", "user": {}}],
            "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
        });
        let path = folder.path().join("kubeconfig");
        std::fs::write(&path, kubeconfig.to_string()).unwrap();
        let log = std::fs::File::create(folder.path().join("log")).unwrap();
        let command = command.env("KUBECONFIG", path).env("CORACLE_LOG", "info");
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().unwrap();
        Running { child, folder, patience }
    }

    /// Waits until `is_ready` returns true.
    pub async fn until(&mut self, is_ready: impl AsyncFn() -> bool) {
        let since = Instant::now();
        while !is_ready().await {
            let ended = self.child.try_wait().unwrap();
            assert!(ended.is_none() && since.elapsed() < self.patience, "{ended:?}: {}", self.log());
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Replaces the text of a file in a mounted folder.
    pub fn mounts(&self, place: &str, name: &str, text: &[u8]) {
        mount(self.folder.path(), place, name, text);
    }

    /// Peak memory so far, in KiB.
    pub fn most_memory(&self) -> u64 {
        self.kib("VmHWM:")
    }

    /// Current memory, in KiB.
    pub fn memory(&self) -> u64 {
        self.kib("VmRSS:")
    }

    /// Number of open files.
    pub fn files(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.child.id())).unwrap().count()
    }

    /// Sends SIGTERM.
    pub fn terminate(&self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    }

    /// True if the program has ended.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Waits until the program has ended.
    pub async fn ended(&mut self) -> ExitStatus {
        let since = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(since.elapsed() < self.patience, "it does not end: {}", self.log());
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Log of the program so far.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// Value of a line of `/proc/PID/status`, in KiB.
    fn kib(&self, name: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("what the program said:\n{}", self.log());
        }
    }
}

/// Writes a file atomically, as the kubelet does.
pub fn mount(folder: &Path, place: &str, name: &str, text: &[u8]) {
    let place = folder.join(place);
    std::fs::create_dir_all(&place).unwrap();
    let new: PathBuf = place.join(format!(".{name}.new"));
    std::fs::write(&new, text).unwrap();
    std::fs::rename(new, place.join(name)).unwrap();
}

/// Address that no other process uses: a loopback address of this process, and a free port.
pub fn free_address() -> SocketAddr {
    static NEXT: AtomicU8 = AtomicU8::new(1);
    let [.., high, low] = std::process::id().to_be_bytes();
    let host = [127, high | 1, low, NEXT.fetch_add(1, Ordering::Relaxed)];
    TcpListener::bind(SocketAddr::from((host, 0))).unwrap().local_addr().unwrap()
}
