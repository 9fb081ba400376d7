//! Two virt-handlers in one process, with real sockets, and two pods in folders.

mod cut;
mod hostile;
mod streams;

use super::ports::{Channel, SocketNames};
use super::*;
use crate::pod::layout::{Layout, PodPath};
use crate::pod::{PodFolder, Pods};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::AsRawFd as _;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};
use tokio::time::{sleep, timeout};

pub(super) const UID: &str = "5d307ca9-b3ef-428c-8861-06e72d69f223";
pub(super) const LOCAL: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
/// Far more time than any step takes.
pub(super) const LONG: Duration = Duration::from_secs(60);
/// Time limits that tests can wait for.
pub(super) const SHORT: Limits = Limits {
    handshake: Duration::from_secs(1),
    answer: Duration::from_secs(4),
    silence: Duration::from_secs(3),
};

/// A pod whose launcher's socket would be in a folder of the test.
pub(super) struct Pod {
    pub(super) place: Arc<PodFolder>,
    pub(super) sockets: PathBuf,
    /// The path of the sockets is too long for a socket address.
    folder: File,
    _files: tempfile::TempDir,
}

impl Pod {
    /// A pod that all processes belong to.
    pub(super) fn new() -> Pod {
        Pod::of(Pods::played)
    }

    /// A pod that no process belongs to.
    pub(super) fn empty() -> Pod {
        Pod::of(Pods::of_kubelet)
    }

    fn of(pods: fn(PathBuf) -> Pods) -> Pod {
        let files = tempfile::tempdir().unwrap();
        let uid = "0c9d4d0c-5a6f-4d53-9a27-0d3c1f2d9f11".to_owned();
        let sockets = files.path().join(&uid).join("volumes/kubernetes.io~empty-dir/sockets");
        fs::create_dir_all(&sockets).unwrap();
        let inside = |path: &str| PodPath { volume: "sockets".into(), path: path.into() };
        let layout = Layout {
            uid,
            socket: inside("launcher-sock"),
            root: inside("root"),
            folder: "/root".into(),
            mounts: BTreeMap::new(),
            devices: BTreeMap::new(),
            claims: BTreeMap::new(),
            secrets: BTreeMap::new(),
            beside: BTreeMap::new(),
            filesystems: BTreeMap::new(),
            hooks: Vec::new(),
            kernel: None,
            state: None,
            kvm: false,
        };
        let place = Arc::new(PodFolder::new(&pods(files.path().to_owned()), layout));
        Pod { place, folder: File::open(&sockets).unwrap(), sockets, _files: files }
    }

    fn path(&self, channel: Channel) -> PathBuf {
        let name = SocketNames::new(UID).unwrap().of(channel).to_owned();
        PathBuf::from(format!("/proc/self/fd/{}/{name}", self.folder.as_raw_fd()))
    }

    /// A process of the pod that listens.
    pub(super) fn listen(&self, channel: Channel) -> UnixListener {
        UnixListener::bind(self.path(channel)).unwrap()
    }

    /// A process of the pod that connects.
    pub(super) async fn connect(&self, channel: Channel) -> UnixStream {
        UnixStream::connect(self.path(channel)).await.unwrap()
    }

    pub(super) fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.sockets).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

/// A migration, ready for its first stream.
pub(super) struct Scene {
    pub(super) source: Pod,
    pub(super) target: Pod,
    pub(super) sockets: SourceSockets,
    pub(super) ports: TargetPorts,
    pub(super) certificates: [Certificate; 2],
}

impl Scene {
    pub(super) async fn begin(limits: Limits) -> Scene {
        let (source, target) = (Pod::new(), Pod::new());
        let certificates = [Certificate::generate().unwrap(), Certificate::generate().unwrap()];
        let ports = open_ports(limits, &target, &certificates[1]).await;
        ports.expect(&certificates[0].fingerprint()).unwrap();
        let sockets = open_sockets(limits, &source, ports.ports(), &certificates).await;
        Scene { source, target, sockets, ports, certificates }
    }

    /// A stream of this kind: its ends in the source pod and in the target pod.
    pub(super) async fn stream(&self, channel: Channel) -> (UnixStream, UnixStream) {
        let listener = self.target.listen(channel);
        let (source, accepted) = tokio::join!(self.source.connect(channel), timeout(LONG, listener.accept()));
        (source, accepted.expect("the stream does not arrive").unwrap().0)
    }
}

/// First failure of a stream.
pub(super) trait FirstFailure {
    fn failure(&self) -> Option<String>;
}

impl FirstFailure for SourceSockets {
    fn failure(&self) -> Option<String> {
        self.findings().borrow().failure.clone()
    }
}

impl FirstFailure for TargetPorts {
    fn failure(&self) -> Option<String> {
        self.findings().borrow().failure.clone()
    }
}

pub(super) async fn open_ports(limits: Limits, pod: &Pod, certificate: &Certificate) -> TargetPorts {
    TargetPorts::open_with(limits, LOCAL, certificate, Arc::clone(&pod.place), UID, LONG).await.unwrap()
}

/// Sockets of a source that has the first certificate, and expects the second one.
pub(super) async fn open_sockets(
    limits: Limits,
    pod: &Pod,
    ports: MigrationPorts,
    certificates: &[Certificate; 2],
) -> SourceSockets {
    let pinned = Fingerprint::parse(&certificates[1].fingerprint()).unwrap();
    let tls = tls::connector(&certificates[0], pinned).unwrap();
    SourceSockets::open_with(limits, Arc::clone(&pod.place), UID, LOCAL, ports, tls).await.unwrap()
}

/// Only root gives files to the launcher's user.
pub(super) fn may_give() -> bool {
    rustix::process::geteuid().is_root()
}

/// Waits until the other end has closed its direction, or all of it.
pub(super) async fn is_ended(stream: &mut UnixStream) -> bool {
    let ended = async { while !matches!(stream.read(&mut [0; 4096]).await, Ok(0) | Err(_)) {} };
    timeout(LONG, ended).await.is_ok()
}

pub(super) async fn until(mut is_so: impl FnMut() -> bool) {
    let wait = async {
        while !is_so() {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(LONG, wait).await.expect("it does not happen");
}

/// Sends a message through a stream, and reads it at the other end.
pub(super) async fn passes(from: &mut UnixStream, to: &mut UnixStream, message: &[u8]) {
    let mut read = vec![0; message.len()];
    let (sent, read_all) = tokio::join!(from.write_all(message), timeout(LONG, to.read_exact(&mut read)));
    sent.unwrap();
    read_all.expect("it does not arrive").unwrap();
    assert_eq!(read, message);
}
