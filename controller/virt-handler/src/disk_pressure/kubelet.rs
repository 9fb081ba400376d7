//! The kubelet of this node: its eviction thresholds, and whether images lie on the file system with its
//! pods.
//!
//! ```text
//!  /proc/PID/comm, ns/mnt ──► the kubelet: a process of that name among the node's own mounts, so not a pod's
//!       └─ cmdline ─► --eviction-hard, --eviction-soft, --config FILE, --config-dir DIR ─► files below /proc/PID/root
//! ```
//!
//! No right at the API server is needed for that. A kubelet inside another program (k3s) or in a container is
//! not found. Then the kubelet's defaults apply, or the annotation `kubevirt.io/eviction-hard` of the
//! KubeVirt object.
#![expect(clippy::disallowed_methods, reason = "the kernel's own files, read on a thread apart")]

use super::thresholds::{Thresholds, flag};
use crate::error::{Error, Result};
use crate::pod::Folder;
use serde_json::Value;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// Name of the process.
const NAME: &str = "kubelet";
/// Most processes of a node that are checked.
const PROCESSES: usize = 1 << 17;
/// Most configuration files that are read, and bytes of one.
const FILES: usize = 100;
const LARGEST: u64 = 1 << 20;
/// Folders of images, by container runtime.
const IMAGES: [&str; 3] = ["/var/lib/containerd", "/var/lib/containers/storage", "/var/lib/docker"];

/// Settings of the kubelet that say when it evicts.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Kubelet {
    pub(super) thresholds: Thresholds,
    /// Images are, or may be, on the file system with the pods.
    pub(super) has_images: bool,
    /// True if the thresholds are configured: by the kubelet's command line, its configuration, or an
    /// administrator. Otherwise they are defaults.
    pub(super) is_known: bool,
}

impl Kubelet {
    /// Settings of the kubelet of the node whose processes are in `proc`. `pods`: the folder of its pods;
    /// `said`: thresholds that replace its own, in the format of its flag.
    pub(super) fn of_node(proc: &Path, pods: &Path, said: Option<&str>) -> Result<Kubelet> {
        let has_images = has_images(&proc.join("1/root"), pods)?;
        if let Some(said) = said {
            return Ok(Kubelet { thresholds: said.parse()?, has_images, is_known: true });
        }
        match process(proc)? {
            Some(folder) => {
                let thresholds = thresholds(&folder)?;
                Ok(Kubelet { thresholds, has_images, is_known: true })
            }
            None => Ok(Kubelet { thresholds: Thresholds::default(), has_images, is_known: false }),
        }
    }
}

/// Folder of the kubelet's process; `None` if not found.
fn process(proc: &Path) -> Result<Option<PathBuf>> {
    let mounts = |folder: &Path| fs::read_link(folder.join("ns/mnt"));
    let own = mounts(&proc.join("1"))
        .map_err(|e| Error::io(format!("cannot read the mount namespace of {}/1", proc.display()), e))?;
    let is_number = |name: &String| name.chars().all(|letter| letter.is_ascii_digit());
    for number in Folder::open(proc)?.names(PROCESSES)?.into_iter().filter(is_number) {
        let folder = proc.join(number);
        let name = fs::read_to_string(folder.join("comm")).unwrap_or_default();
        // A container may have a process of this name, too.
        if name.trim_end() == NAME && mounts(&folder).is_ok_and(|mounts| mounts == own) {
            return Ok(Some(folder));
        }
    }
    Ok(None)
}

fn thresholds(process: &Path) -> Result<Thresholds> {
    let line = fs::read(process.join("cmdline"))
        .map_err(|e| Error::io("cannot read the command line of the kubelet", e))?;
    let arguments: Vec<String> =
        line.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned()).collect();
    let root = Folder::open(&process.join("root"))?;
    let mut configurations = Vec::new();
    if let Some(path) = flag(&arguments, "--config") {
        let path = Path::new(path);
        let folder = path.parent().and_then(Path::to_str).unwrap_or("/");
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        configurations.push(read(&root.open_in_root(folder)?, name)?);
    }
    if let Some(path) = flag(&arguments, "--config-dir") {
        let folder = root.open_in_root(path)?;
        for name in folder.names(FILES)?.into_iter().filter(|name| name.ends_with(".conf")) {
            configurations.push(read(&folder, &name)?);
        }
    }
    Thresholds::of_kubelet(&arguments, &configurations)
}

fn read(folder: &Folder, name: &str) -> Result<Value> {
    let shown = folder.display_path().join(name);
    let mut text = String::new();
    let read = folder.read(name)?.take(LARGEST).read_to_string(&mut text);
    read.map_err(|e| Error::io(format!("cannot read {}", shown.display()), e))?;
    api::yaml::value(&text).map_err(|wrong| {
        Error::refused(format!("{} is not a kubelet configuration: {}", shown.display(), wrong.what))
    })
}

/// True if images share the file system of the pods, or if no folder of images is found. A file system of the same size counts as
/// shared, since a subvolume has a device number of its own. The kubelet evaluates two file systems separately.
fn has_images(node: &Path, pods: &Path) -> Result<bool> {
    let pods = Folder::open(pods)?;
    let (device, size) = (pods.device()?, pods.capacity()?);
    let node = Folder::open(node)?;
    let mut is_apart = false;
    for folder in IMAGES.iter().filter_map(|path| node.open_in_root(path).ok()) {
        if folder.device()? == device || folder.capacity()? == size {
            return Ok(true);
        }
        is_apart = true;
    }
    Ok(!is_apart)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    const GIB: u64 = 1 << 30;

    /// A fake node: processes and files in a folder.
    struct Node(tempfile::TempDir);

    impl Node {
        fn new() -> Node {
            let node = Node(tempfile::tempdir().unwrap());
            node.process(1, "systemd", "mnt:[1]", &["/sbin/init"]);
            fs::create_dir_all(node.path("files/etc/kubelet.d")).unwrap();
            symlink(node.path("files"), node.path("1/root")).unwrap();
            node
        }

        fn path(&self, path: &str) -> PathBuf {
            self.0.path().join(path)
        }

        fn process(&self, number: u32, name: &str, mounts: &str, words: &[&str]) {
            let folder = self.path(&number.to_string());
            fs::create_dir_all(folder.join("ns")).unwrap();
            symlink(mounts, folder.join("ns/mnt")).unwrap();
            fs::write(folder.join("comm"), format!("{name}\n")).unwrap();
            fs::write(folder.join("cmdline"), words.join("\0") + "\0").unwrap();
        }

        fn kubelet(&self, words: &[&str]) {
            self.process(77, "kubelet", "mnt:[1]", words);
            symlink(self.path("files"), self.path("77/root")).unwrap();
        }

        fn look(&self) -> Result<Kubelet> {
            Kubelet::of_node(self.0.path(), self.0.path(), None)
        }

        fn line(&self) -> u64 {
            self.look().unwrap().thresholds.bytes(100 * GIB, true) / GIB
        }
    }

    #[test]
    fn thresholds_are_those_of_the_files_that_the_kubelet_is_told() {
        let node = Node::new();
        fs::write(node.path("files/etc/k.yaml"), "evictionHard: {nodefs.available: 5%}\n").unwrap();
        fs::write(node.path("files/etc/kubelet.d/10.conf"), "evictionHard: {nodefs.available: 7%}\n")
            .unwrap();
        fs::write(node.path("files/etc/kubelet.d/readme"), "evictionHard: {nodefs.available: 9%}\n").unwrap();
        node.kubelet(&["kubelet", "--config=/etc/k.yaml"]);
        assert_eq!(node.line(), 5);
        fs::write(node.path("77/cmdline"), "kubelet\0--config\0/etc/k.yaml\0--config-dir=/etc/kubelet.d\0")
            .unwrap();
        assert_eq!(node.line(), 7);
        fs::write(node.path("77/cmdline"), "kubelet\0--config=/etc/none.yaml\0").unwrap();
        assert!(node.look().unwrap_err().to_string().contains("none.yaml"));
    }

    #[test]
    fn a_container_with_a_process_of_that_name_is_not_the_kubelet() {
        let node = Node::new();
        node.process(50, "kubelet", "mnt:[2]", &["kubelet", "--eviction-hard=nodefs.available<99%"]);
        let found = node.look().unwrap();
        assert!(!found.is_known);
        assert_eq!(found.thresholds, Thresholds::default());
        node.kubelet(&["kubelet", "--eviction-hard=nodefs.available<4%"]);
        assert!(node.look().unwrap().is_known);
        assert_eq!(node.line(), 4);
    }

    #[test]
    fn an_administrator_says_the_thresholds_of_a_kubelet_that_is_not_found() {
        let node = Node::new();
        let of = |said| Kubelet::of_node(node.0.path(), node.0.path(), Some(said));
        assert_eq!(of("nodefs.available<3Gi").unwrap().thresholds.bytes(100 * GIB, true), 3 * GIB);
        assert!(of("nodefs.available<little").unwrap_err().to_string().contains("nodefs.available<little"));
    }

    #[test]
    fn images_of_the_same_file_system_count() {
        let node = Node::new();
        assert!(node.look().unwrap().has_images, "none are found: they may be anywhere");
        fs::create_dir_all(node.path("files/var/lib/containerd")).unwrap();
        assert!(node.look().unwrap().has_images);
        // /proc is a file system of another size.
        fs::remove_dir(node.path("files/var/lib/containerd")).unwrap();
        let apart = |pods: &str| has_images(Path::new("/"), Path::new(pods)).unwrap();
        if Path::new("/var/lib/docker").exists() || Path::new("/var/lib/containerd").exists() {
            assert!(!apart("/proc"));
        }
    }
}
