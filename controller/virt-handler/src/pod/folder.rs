//! Folder of one pod on this node.

use super::confined::{Folder, PathHandle};
use super::layout::{Layout, PodPath};
use super::listener::{OwnSocket, PodListener};
use super::process::Process;
use super::socket::{ConnectResult, listen_for_launcher, try_connect};
use crate::blocking::Blocking;
use crate::error::{Error, ErrorKind, Result};
use api::launcher::State;
use futures_util::future::BoxFuture;
use launcher_client::{Cause, Connector, Pauses};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::UnixStream;

/// The node's file system, as its first process and the kubelet see it. virt-handler is in the node's PID
/// namespace.
const NODE: &str = "/proc/1/root";
/// Folder of emptyDirs, below the pod's folder.
const EMPTY_DIR: &str = "volumes/kubernetes.io~empty-dir";
/// Folder with the nodes of block devices, in virt-handler's own folder.
const DEVICES: &str = "block-devices";
/// Largest state file that is read.
const LARGEST: u64 = 1 << 20;
/// Concurrent tasks in a pod's folder: those of its keeper, of metrics, and of virt-api.
const AT_ONCE: usize = 3;
/// Time limit of one task in a pod's folder.
const PATIENCE: Duration = Duration::from_secs(10);

/// The kubelet's folder of pods, and the check that a process belongs to a pod.
#[derive(Clone, Debug)]
pub struct Pods {
    folder: PathBuf,
    /// The node's file system.
    node: PathBuf,
    /// Folder of virt-handler that persists after its end.
    kept: PathBuf,
    belongs: fn(&Process, &str) -> Result<()>,
}

impl Pods {
    /// Pods of the node's kubelet: `/var/lib/kubelet/pods`. Processes are checked by their cgroups.
    pub fn of_kubelet(folder: impl Into<PathBuf>) -> Pods {
        let folder = folder.into();
        Pods { kept: folder.clone(), folder, node: NODE.into(), belongs: Process::check_pod }
    }

    /// Sets the folder of virt-handler that persists after its end.
    #[must_use]
    pub fn keeping(self, kept: impl Into<PathBuf>) -> Pods {
        Pods { kept: kept.into(), ..self }
    }

    /// Fake pods in a folder, with processes outside any pod: for tests.
    pub fn played(folder: impl Into<PathBuf>) -> Pods {
        let folder = folder.into();
        Pods { node: folder.clone(), kept: folder.clone(), folder, belongs: |_, _| Ok(()) }
    }
}

/// Folder of one pod on this node.
#[derive(Clone, Debug)]
pub struct PodFolder {
    /// The folder `/var/lib/kubelet/pods/UID`.
    folder: PathBuf,
    node: PathBuf,
    kept: PathBuf,
    layout: Layout,
    belongs: fn(&Process, &str) -> Result<()>,
    blocking: Blocking,
}

impl PodFolder {
    /// Folder of a pod with this layout.
    pub fn new(pods: &Pods, layout: Layout) -> PodFolder {
        let blocking = Blocking::new(format!("the pod {}", layout.uid), AT_ONCE);
        let (folder, node) = (pods.folder.join(&layout.uid), pods.node.clone());
        PodFolder { folder, node, kept: pods.kept.clone(), layout, belongs: pods.belongs, blocking }
    }

    /// Locations of the pod's parts.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The kubelet's folder, which contains its folder of pods.
    pub(crate) fn kubelet(&self) -> PathBuf {
        self.folder.ancestors().nth(2).map(Path::to_owned).unwrap_or_default()
    }

    /// Refuses a process that does not belong to this pod.
    pub fn check_process(&self, process: &Process) -> Result<()> {
        (self.belongs)(process, &self.layout.uid)
    }

    /// Last state in the launcher's state file, for a launcher that has ended.
    pub async fn last_state(&self) -> Option<State> {
        let place = self.clone();
        let read = move || -> Result<Vec<u8>> {
            let (folder, name) = place.open_parent(&place.layout.root)?;
            let mut text = Vec::new();
            let file = folder.folder(&name)?.read("state.json")?;
            // A longer file is cut.
            drop(file.take(LARGEST).read_to_end(&mut text));
            Ok(text)
        };
        let text = self.blocking.run("reading the last state", PATIENCE, read).await;
        let text = text.inspect_err(|e| tracing::debug!("{}", e.chain())).ok()?;
        serde_json::from_slice(&text).ok()
    }

    /// Bytes that the launcher's overlays and empty disks of these names use on the node. A missing disk uses
    /// none.
    pub async fn disks(&self, names: Arc<[String]>, within: Duration) -> Result<u64> {
        let place = self.clone();
        let measure = move || -> Result<u64> {
            let folder = place.root()?.folder("disks")?;
            let mut taken = 0_u64;
            for name in names.iter() {
                match folder.metadata(&format!("{name}.qcow2")) {
                    Ok(disk) => taken = taken.saturating_add(disk.allocated()),
                    Err(e) if e.kind() == ErrorKind::NotFound => {}
                    Err(e) => return Err(e),
                }
            }
            Ok(taken)
        };
        self.blocking.run("measuring the disks", within, measure).await
    }

    /// Root folder of the launcher, seen from the node.
    pub fn root(&self) -> Result<Folder> {
        let (folder, name) = self.open_parent(&self.layout.root)?;
        folder.folder(&name)
    }

    /// A folder of the node, by its path in a volume of a pod.
    pub fn of_node(&self, path: &str) -> Result<Folder> {
        Folder::open(&self.node)?.open_in_root(path)
    }

    /// Same as [`PodFolder::of_node`], but refuses links on the way: the path is the folder's real one.
    pub fn of_node_without_links(&self, path: &str) -> Result<Folder> {
        match path.trim_start_matches('/') {
            "" => Folder::open(&self.node),
            path => Folder::open(&self.node)?.folder(path),
        }
    }

    /// Shared device node of a block device for all launchers on this node. It stays after the end of
    /// virt-handler, and so do the locks on it. `own`: the container's own node, whose SELinux label it gets.
    pub fn block_device(&self, own: &PathHandle) -> Result<PathHandle> {
        let number = own.device_number();
        let name = format!("{}:{}", rustix::fs::major(number), rustix::fs::minor(number));
        let node = Folder::open(&self.kept)?.made_for_root(DEVICES)?.block_device(&name, number)?;
        node.label_like(own)?;
        Ok(node)
    }

    /// Process of the container that provides an image beside the launcher. It must belong to this pod.
    pub fn image_process(&self, socket: &PodPath) -> Result<Process> {
        let (folder, name) = self.open_parent(socket)?;
        let shown = || folder.display_path().join(&name).display().to_string();
        match try_connect(folder.held(&name)?)? {
            ConnectResult::Connected(_, Some(process)) => self.check_process(&process).map(|()| process),
            ConnectResult::Connected(_, None) => Err(Error::failed(NOT_SEEN)),
            ConnectResult::Full(_) => {
                Err(Error::failed(format!("connections to {} are not accepted: its queue is full", shown())))
            }
        }
    }

    /// Connects to a socket beside the launcher's own, on which a process of this pod listens. Retries while the
    /// socket's queue is full; the caller sets a time limit.
    pub async fn connect_beside(&self, name: &str) -> Result<UnixStream> {
        let (stream, process) = self.connect(self.beside(name)).await?;
        let process = process.ok_or_else(|| Error::failed(NOT_SEEN))?;
        let place = self.clone();
        let check = move || place.check_process(&process);
        self.blocking.run("checking the listener of a socket", PATIENCE, check).await?;
        Ok(stream)
    }

    /// Listens on a new socket beside the launcher's own, to which the launcher's user and root may connect. A
    /// socket of this name that was left over is replaced.
    pub async fn listen_beside(&self, name: &str) -> Result<PodListener> {
        let (place, path) = (self.clone(), self.beside(name));
        let listen = move || {
            let (folder, path) = place.open_parent(&path)?;
            let (folder, name) = match path.rsplit_once('/') {
                Some((parent, name)) => (folder.folder(parent)?, name),
                None => (folder, path.as_str()),
            };
            let (listener, file) = listen_for_launcher(&folder, name)?;
            Ok((listener, OwnSocket { folder, name: name.to_owned(), file }))
        };
        let (listener, socket) = self.blocking.run("making a socket", PATIENCE, listen).await?;
        PodListener::new(self.blocking.clone(), listener, socket)
    }

    /// Refuses a connection of a process that does not belong to this pod.
    pub async fn check_client(&self, stream: UnixStream) -> Result<UnixStream> {
        let cannot = |e| Error::io("cannot use a connection of the pod", e);
        let (place, stream) = (self.clone(), stream.into_std().map_err(cannot)?);
        let check = move || {
            let process = Process::peer(&stream)?.ok_or_else(|| Error::failed(NOT_SEEN))?;
            place.check_process(&process).map(|()| stream)
        };
        let stream = self.blocking.run("checking the client of a socket", PATIENCE, check).await?;
        UnixStream::from_std(stream).map_err(cannot)
    }

    /// Path beside the launcher's socket.
    fn beside(&self, name: &str) -> PodPath {
        let PodPath { volume, path } = &self.layout.socket;
        let path =
            path.rsplit_once('/').map_or_else(|| name.to_owned(), |(parent, _)| format!("{parent}/{name}"));
        PodPath { volume: volume.clone(), path }
    }

    /// Connects to a socket in an emptyDir, and identifies the listening process if it is visible. Retries while
    /// the socket's queue is full.
    async fn connect(&self, socket: PodPath) -> Result<(UnixStream, Option<Process>)> {
        const DOING: &str = "connecting to the launcher";
        let place = self.clone();
        let first = move || {
            let (folder, name) = place.open_parent(&socket)?;
            try_connect(folder.held(&name)?)
        };
        let mut tried = self.blocking.run(DOING, PATIENCE, first).await?;
        let mut pauses = Pauses::default();
        loop {
            match tried {
                ConnectResult::Connected(stream, process) => {
                    let stream = UnixStream::from_std(stream);
                    let stream = stream.map_err(|e| Error::io("cannot use the launcher's socket", e))?;
                    return Ok((stream, process));
                }
                ConnectResult::Full(socket) => {
                    pauses.next().await;
                    tried = self.blocking.run(DOING, PATIENCE, move || try_connect(socket)).await?;
                }
            }
        }
    }

    /// Opens the parent folder of a path in an emptyDir. A missing folder says nothing about the launcher
    /// (the kubelet's folder may not be mounted here). So it is a failure, and not the `NotFound` of a
    /// missing socket.
    fn open_parent(&self, inside: &PodPath) -> Result<(Folder, String)> {
        let open = || Folder::open(&self.folder)?.folder(EMPTY_DIR)?.folder(&inside.volume);
        let folder = open().map_err(|e| match e.kind() {
            ErrorKind::NotFound => Error::failed("the pod has no folder on this node").because(e),
            _ => e,
        });
        Ok((folder?, inside.path.clone()))
    }
}

/// Error if processes of pods are not visible.
pub const NOT_SEEN: &str = "the launcher's process is not visible: virt-handler must run with hostPID: true";

/// Connection to a launcher, and the listening process; `None` if the pod's processes are not visible.
pub type Open = launcher_client::Open<Option<Process>>;

impl Connector<Option<Process>> for PodFolder {
    /// Retries while the socket's queue is full; the caller sets a time limit.
    fn open(&self) -> BoxFuture<'_, Result<Open, Cause>> {
        Box::pin(async move {
            let (stream, peer) = self.connect(self.layout.socket.clone()).await?;
            Ok(Open { stream: stream.into(), peer })
        })
    }
}
