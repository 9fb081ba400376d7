//! The program virt-api, and its memory as the kernel tells it.

use crate::client::{Client, LONG, answer, say};
use kubernetes::uploads::PRIVATE_KEY;
use rustls::RootCertStore;
use std::net::{SocketAddr, TcpListener};
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

impl Program {
    /// Begins with this API server, and waits until it is ready.
    pub(crate) async fn begin(api_server: &str, trusts: Arc<RootCertStore>) -> Program {
        let folder = tempfile::tempdir().unwrap();
        let kubeconfig = serde_json::json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "a",
            "clusters": [{"name": "a", "cluster": {"server": api_server}}],
            "users": [{"name": "a", "user": {}}],
            "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
        });
        std::fs::write(folder.path().join("kubeconfig"), kubeconfig.to_string()).unwrap();
        std::fs::create_dir(folder.path().join("signing-key")).unwrap();
        let address = free();
        let child = spawn(&folder, address);
        let mut program = Program { child, address, folder };
        let client = Client::new(address, trusts, None);
        let since = Instant::now();
        while !is_ready(&client).await {
            let ended = program.child.try_wait().unwrap();
            assert!(ended.is_none() && since.elapsed() < LONG, "{ended:?}: {}", program.log());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        program
    }

    /// The Secret with the key of upload tokens is there from now on.
    pub(crate) fn signs_by(&self, key: &[u8]) {
        let folder = self.folder.path().join("signing-key");
        std::fs::write(folder.join("new"), key).unwrap();
        std::fs::rename(folder.join("new"), folder.join(PRIVATE_KEY)).unwrap();
    }

    /// The most memory that it had so far, in KiB.
    pub(crate) fn most_memory(&self) -> u64 {
        self.kib("VmHWM:")
    }

    /// The memory that it has, in KiB.
    pub(crate) fn memory(&self) -> u64 {
        self.kib("VmRSS:")
    }

    /// Its open files.
    pub(crate) fn files(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.child.id())).unwrap().count()
    }

    /// Asks it to end.
    pub(crate) fn terminate(&self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
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

    /// The value of a line of the kernel's account of this process.
    fn kib(&self, name: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("what virt-api said:\n{}", self.log());
        }
    }
}

/// An address that nobody else has: one of loopback that is used here alone, and a port that is free there.
fn free() -> SocketAddr {
    let [.., high, low] = std::process::id().to_be_bytes();
    let host = [127, high | 1, low, NEXT.fetch_add(1, Ordering::Relaxed)];
    TcpListener::bind(SocketAddr::from((host, 0))).unwrap().local_addr().unwrap()
}

fn spawn(folder: &tempfile::TempDir, address: SocketAddr) -> Child {
    let log = std::fs::File::create(folder.path().join("log")).unwrap();
    Command::new(env!("CARGO_BIN_EXE_virt-api"))
        .args(["--namespace", "kubevirt", "--listen", &address.to_string(), "--signing-key"])
        .arg(folder.path().join("signing-key"))
        .env("KUBECONFIG", folder.path().join("kubeconfig"))
        .env("CORACLE_LOG", "info")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .unwrap()
}

async fn is_ready(client: &Client) -> bool {
    let asked = async {
        let mut connection = client.try_connect().await?;
        say(&mut connection, b"GET /readyz HTTP/1.1\r\nhost: a\r\n\r\n").await?;
        answer(&mut connection).await
    };
    asked.await.is_ok_and(|answer| answer.status == 200)
}
