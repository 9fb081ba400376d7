//! The folder of one pod on this node.

use super::beneath::Folder;
use super::layout::{Inside, Layout};
use super::process::Process;
use crate::node::error::{Error, Kind, Result};
use crate::node::launcher_client::Door;
use api::launcher::State;
use std::io::Read as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// Where the kubelet keeps an emptyDir of a pod, below the pod's folder.
const EMPTY_DIR: &str = "volumes/kubernetes.io~empty-dir";
/// The longest state that is read from a file.
const LARGEST: u64 = 1 << 20;

/// The folder of one pod on this node.
#[derive(Clone, Debug)]
pub struct Place {
    /// `/var/lib/kubelet/pods/UID`
    folder: PathBuf,
    layout: Layout,
}

impl Place {
    /// The folder of a pod, below where the kubelet keeps them.
    pub fn new(pods: &Path, layout: Layout) -> Place {
        Place { folder: pods.join(&layout.uid), layout }
    }

    /// Where the pod's parts are.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The last state that the launcher wrote down; for one that is gone.
    pub fn last_state(&self) -> Option<State> {
        let read = || -> Result<Vec<u8>> {
            let (folder, name) = self.inside(&self.layout.root)?;
            let mut text = Vec::new();
            let file = folder.folder(&name)?.read("state.json")?;
            // Whatever it is, it is not longer than that.
            drop(file.take(LARGEST).read_to_end(&mut text));
            Ok(text)
        };
        let text = read().inspect_err(|e| tracing::debug!("{}", e.chain())).ok()?;
        serde_json::from_slice(&text).ok()
    }

    /// The launcher's own folder, from the node's side.
    pub fn root(&self) -> Result<Folder> {
        let (folder, name) = self.inside(&self.layout.root)?;
        folder.folder(&name)
    }

    /// A folder that is missing tells nothing of the launcher (the kubelet's may not be mounted here): it is a failure, and
    /// never the "not there" that a missing socket is.
    fn inside(&self, inside: &Inside) -> Result<(Folder, String)> {
        let open = || Folder::open(&self.folder)?.folder(EMPTY_DIR)?.folder(&inside.volume);
        let folder = open().map_err(|e| match e.kind() {
            Kind::NotFound => Error::failed("the pod has no folder on this node").because(e),
            _ => e,
        });
        Ok((folder?, inside.path.clone()))
    }
}

impl Place {
    /// The container beside the launcher that holds an image out: a process of this pod, or nobody.
    pub fn beside(&self, socket: &Inside) -> Result<Process> {
        let (folder, name) = self.inside(socket)?;
        let (_connection, process) = folder.held(&name)?.connect()?;
        Process::of_pod(process, &self.layout.uid)
    }
}

impl Door for Place {
    fn open(&self) -> Result<(UnixStream, u32)> {
        let (folder, name) = self.inside(&self.layout.socket)?;
        folder.held(&name)?.connect()
    }
}
