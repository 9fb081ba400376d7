//! The program cdi-uploadproxy, and its memory as the kernel tells it.

use crate::client::{Client, LONG};
use rustls::RootCertStore;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

pub(crate) struct Program {
    child: Child,
    pub(crate) address: SocketAddr,
    folder: tempfile::TempDir,
}

static NEXT: AtomicU8 = AtomicU8::new(1);

/// The files that the kubelet would mount: the folder of each, its name, its text.
pub(crate) type Mounted = Vec<(&'static str, &'static str, Vec<u8>)>;

impl Program {
    /// Begins with this API server, these files and these words more, and waits until it is ready.
    pub(crate) async fn begin(
        api_server: &str,
        pod: SocketAddr,
        files: Mounted,
        trusts: Arc<RootCertStore>,
        more: &[&str],
    ) -> Program {
        let folder = tempfile::tempdir().unwrap();
        let kubeconfig = serde_json::json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "a",
            "clusters": [{"name": "a", "cluster": {"server": api_server}}],
            "users": [{"name": "a", "user": {}}],
            "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
        });
        std::fs::write(folder.path().join("kubeconfig"), kubeconfig.to_string()).unwrap();
        for (place, name, text) in files {
            mount(folder.path(), place, name, &text);
        }
        let address = free();
        let child = spawn(folder.path(), address, pod, more);
        let mut program = Program { child, address, folder };
        let client = Client::new(address, trusts);
        let since = Instant::now();
        while !is_ready(&client).await {
            let ended = program.child.try_wait().unwrap();
            assert!(ended.is_none() && since.elapsed() < LONG, "{ended:?}: {}", program.log());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        program
    }

    /// A file has another text from now on.
    pub(crate) fn mounts(&self, place: &str, name: &str, text: &[u8]) {
        mount(self.folder.path(), place, name, text);
    }

    /// The most memory that it had so far, in KiB.
    pub(crate) fn most_memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }

    /// Asks it to end.
    pub(crate) fn terminate(&self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    }

    /// It has ended.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Waits until it has ended.
    pub(crate) async fn ended(&mut self) -> ExitStatus {
        let since = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(since.elapsed() < LONG, "it does not end: {}", self.log());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("what cdi-uploadproxy said:\n{}", self.log());
        }
    }
}

/// Writes a file as the kubelet does: whole, or not at all.
fn mount(folder: &Path, place: &str, name: &str, text: &[u8]) {
    let place = folder.join(place);
    std::fs::create_dir_all(&place).unwrap();
    let new: PathBuf = place.join(format!(".{name}.new"));
    std::fs::write(&new, text).unwrap();
    std::fs::rename(new, place.join(name)).unwrap();
}

/// An address that nobody else has: one of loopback that is used here alone, and a port that is free there.
fn free() -> SocketAddr {
    let [.., high, low] = std::process::id().to_be_bytes();
    let host = [127, high | 1, low, NEXT.fetch_add(1, Ordering::Relaxed)];
    TcpListener::bind(SocketAddr::from((host, 0))).unwrap().local_addr().unwrap()
}

fn spawn(folder: &Path, address: SocketAddr, pod: SocketAddr, more: &[&str]) -> Child {
    let log = std::fs::File::create(folder.join("log")).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_cdi-uploadproxy"));
    for place in ["keys", "client", "authorities"] {
        command.arg(format!("--{place}")).arg(folder.join(place));
    }
    command
        .args(["--namespace", "kubevirt", "--listen", &address.to_string(), "--pods-at", &pod.to_string()])
        .args(more)
        .env("KUBECONFIG", folder.join("kubeconfig"))
        .env("CORACLE_LOG", "info")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .unwrap()
}

async fn is_ready(client: &Client) -> bool {
    let Ok(mut connection) = client.try_connect().await else { return false };
    if connection.try_says(b"GET /readyz HTTP/1.1\r\nhost: a\r\n\r\n").await.is_err() {
        return false;
    }
    connection.answer().await.status == 200
}
