//! The folder of one pod on this node.

use super::beneath::{Folder, Held};
use super::layout::{Inside, Layout};
use super::process::Process;
use super::socket::{Tried, try_connect};
use crate::blocking::Blocking;
use crate::error::{Error, ErrorKind, Result};
use api::launcher::State;
use futures_util::future::BoxFuture;
use launcher_client::{Cause, Connector, Pauses};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The node's own files, as its first process has them, and the kubelet with it. virt-handler is in the node's namespace of
/// processes.
const NODE: &str = "/proc/1/root";
/// Where the kubelet keeps an emptyDir of a pod, below the pod's folder.
const EMPTY_DIR: &str = "volumes/kubernetes.io~empty-dir";
/// The folder with the nodes of block devices, in virt-handler's own folder.
const DEVICES: &str = "block-devices";
/// The longest state that is read from a file.
const LARGEST: u64 = 1 << 20;
/// How many looks into a pod's folder may be at work at once: those of its keeper, of who measures, and of virt-api.
const AT_ONCE: usize = 3;
/// How long one look into a pod's folder may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Where the kubelet keeps pods, and how it is known that a process is of one.
#[derive(Clone, Debug)]
pub struct Pods {
    folder: PathBuf,
    /// The node's own files.
    node: PathBuf,
    /// A folder of virt-handler's own that outlives it.
    kept: PathBuf,
    belongs: fn(&Process, &str) -> Result<()>,
}

impl Pods {
    /// Those of the node's kubelet: `/var/lib/kubelet/pods`. The kernel's groups say whose a process is.
    pub fn of_kubelet(folder: impl Into<PathBuf>) -> Pods {
        let folder = folder.into();
        Pods { kept: folder.clone(), folder, node: NODE.into(), belongs: Process::is_of_pod }
    }

    /// The same, with a folder of virt-handler's own that outlives it.
    #[must_use]
    pub fn keeping(self, kept: impl Into<PathBuf>) -> Pods {
        Pods { kept: kept.into(), ..self }
    }

    /// Pods that are played in a folder, by processes that are in no pod: for tests.
    pub fn played(folder: impl Into<PathBuf>) -> Pods {
        let folder = folder.into();
        Pods { node: folder.clone(), kept: folder.clone(), folder, belongs: |_, _| Ok(()) }
    }
}

/// The folder of one pod on this node.
#[derive(Clone, Debug)]
pub struct PodFolder {
    /// `/var/lib/kubelet/pods/UID`
    folder: PathBuf,
    node: PathBuf,
    kept: PathBuf,
    layout: Layout,
    belongs: fn(&Process, &str) -> Result<()>,
    blocking: Blocking,
}

impl PodFolder {
    /// The folder of a pod, below where the kubelet keeps them.
    pub fn new(pods: &Pods, layout: Layout) -> PodFolder {
        let blocking = Blocking::new(format!("the pod {}", layout.uid), AT_ONCE);
        let (folder, node) = (pods.folder.join(&layout.uid), pods.node.clone());
        PodFolder { folder, node, kept: pods.kept.clone(), layout, belongs: pods.belongs, blocking }
    }

    /// Where the pod's parts are.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The kubelet's own folder, in which it keeps its pods.
    pub(crate) fn kubelet(&self) -> PathBuf {
        self.folder.ancestors().nth(2).map(Path::to_owned).unwrap_or_default()
    }

    /// Refuses a process that is not of this pod.
    pub fn owns(&self, process: &Process) -> Result<()> {
        (self.belongs)(process, &self.layout.uid)
    }

    /// The last state that the launcher wrote down; for one that is gone.
    pub async fn last_state(&self) -> Option<State> {
        let place = self.clone();
        let read = move || -> Result<Vec<u8>> {
            let (folder, name) = place.inside(&place.layout.root)?;
            let mut text = Vec::new();
            let file = folder.folder(&name)?.read("state.json")?;
            // Whatever it is, it is not longer than that.
            drop(file.take(LARGEST).read_to_end(&mut text));
            Ok(text)
        };
        let text = self.blocking.run("reading the last state", PATIENCE, read).await;
        let text = text.inspect_err(|e| tracing::debug!("{}", e.chain())).ok()?;
        serde_json::from_slice(&text).ok()
    }

    /// Bytes that the overlays and empty disks of the launcher with these names take on the node. A disk that
    /// is missing takes none.
    pub async fn disks(&self, names: Arc<[String]>, within: Duration) -> Result<u64> {
        let place = self.clone();
        let measure = move || -> Result<u64> {
            let folder = place.root()?.folder("disks")?;
            let mut taken = 0_u64;
            for name in names.iter() {
                match folder.look(&format!("{name}.qcow2")) {
                    Ok(disk) => taken = taken.saturating_add(disk.allocated()),
                    Err(e) if e.kind() == ErrorKind::NotFound => {}
                    Err(e) => return Err(e),
                }
            }
            Ok(taken)
        };
        self.blocking.run("measuring the disks", within, measure).await
    }

    /// The launcher's own folder, from the node's side.
    pub fn root(&self) -> Result<Folder> {
        let (folder, name) = self.inside(&self.layout.root)?;
        folder.folder(&name)
    }

    /// A folder of the node, by the path that a pod's volume names it by.
    pub fn of_node(&self, path: &str) -> Result<Folder> {
        Folder::open(&self.node)?.within(path)
    }

    /// The same where no part of the path is a link, as its name says: nothing that was put there leads elsewhere.
    pub fn of_node_without_links(&self, path: &str) -> Result<Folder> {
        match path.trim_start_matches('/') {
            "" => Folder::open(&self.node),
            path => Folder::open(&self.node)?.folder(path),
        }
    }

    /// The one node of a block device for all launchers on this node. It stays when virt-handler ends, so that the locks on it
    /// do; `own` is the node that the container has, whose SELinux label it gets.
    pub fn block_device(&self, own: &Held) -> Result<Held> {
        let number = own.device_number();
        let name = format!("{}:{}", rustix::fs::major(number), rustix::fs::minor(number));
        let node = Folder::open(&self.kept)?.made_for_root(DEVICES)?.block_device(&name, number)?;
        node.label_like(own)?;
        Ok(node)
    }

    /// The container beside the launcher that holds an image out: a process of this pod, or nobody.
    pub fn beside(&self, socket: &Inside) -> Result<Process> {
        let (folder, name) = self.inside(socket)?;
        let shown = || folder.shown().join(&name).display().to_string();
        match try_connect(folder.held(&name)?)? {
            Tried::Connected(_, Some(process)) => self.owns(&process).map(|()| process),
            Tried::Connected(_, None) => Err(Error::failed(NOT_SEEN)),
            Tried::Full(_) => Err(Error::failed(format!("nobody takes connections from {}", shown()))),
        }
    }

    /// A folder that is missing tells nothing of the launcher (the kubelet's may not be mounted here): it is a failure, and
    /// never the "not there" that a missing socket is.
    fn inside(&self, inside: &Inside) -> Result<(Folder, String)> {
        let open = || Folder::open(&self.folder)?.folder(EMPTY_DIR)?.folder(&inside.volume);
        let folder = open().map_err(|e| match e.kind() {
            ErrorKind::NotFound => Error::failed("the pod has no folder on this node").because(e),
            _ => e,
        });
        Ok((folder?, inside.path.clone()))
    }
}

/// What to do where processes of pods are not seen.
pub const NOT_SEEN: &str =
    "the launcher's process is not seen from here: virt-handler must run with hostPID: true";

/// A connection to a launcher, and the process that listens; none where the pod's processes are not seen from here.
pub type Open = launcher_client::Open<Option<Process>>;

impl Connector<Option<Process>> for PodFolder {
    /// For as long as the socket's queue is full it is tried again; whoever asked gives up in time.
    fn open(&self) -> BoxFuture<'_, Result<Open, Cause>> {
        const DOING: &str = "connecting to the launcher";
        Box::pin(async move {
            let place = self.clone();
            let first = move || {
                let (folder, name) = place.inside(&place.layout.socket)?;
                try_connect(folder.held(&name)?)
            };
            let mut tried = self.blocking.run(DOING, PATIENCE, first).await?;
            let mut pauses = Pauses::default();
            loop {
                match tried {
                    Tried::Connected(stream, process) => {
                        let stream = tokio::net::UnixStream::from_std(stream);
                        let stream = stream.map_err(|e| Error::io("cannot use the launcher's socket", e))?;
                        return Ok(Open { stream: stream.into(), peer: process });
                    }
                    Tried::Full(socket) => {
                        pauses.next().await;
                        tried = self.blocking.run(DOING, PATIENCE, move || try_connect(socket)).await?;
                    }
                }
            }
        })
    }
}
