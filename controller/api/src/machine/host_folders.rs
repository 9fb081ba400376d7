//! Folders of nodes in which a `hostDisk` may lie: the annotation [`HOST_DISK_FOLDERS`] of the KubeVirt object. It is an annotation
//! and not a field, since clients of upstream take fields that they do not know out of the object when they change it.
//!
//! ```text
//!  kubevirt.io/host-disk-folders ─► HostFolders ─┬─► permits: path of a hostDisk (virt-api, virt-controller, virt-handler)
//!                                                └─► faults: entries without effect: a warning at write, and a condition
//! ```
//!
//! The launcher pod mounts the folder of the file, and virt-handler creates files in it as root. So a folder that holds a part of
//! the operating system or of the kubelet is never permitted, and neither is one above it; an entry for one has no effect.

use super::check::is_clean;
use serde_json::Value;

/// The annotation of the KubeVirt object: `/var/lib/disks`, with commas between several.
pub const HOST_DISK_FOLDERS: &str = "kubevirt.io/host-disk-folders";
/// Entries that are read.
const ENTRIES: usize = 64;
/// Folders of nodes that are never permitted, nor is what lies below or above one.
const RESERVED: [&str; 33] = [
    "/bin",
    "/boot",
    "/dev",
    "/etc",
    "/home",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/opt/cni",
    "/proc",
    "/root",
    "/run",
    "/sbin",
    "/sys",
    "/tmp",
    "/usr",
    "/var/lib/calico",
    "/var/lib/cni",
    "/var/lib/containerd",
    "/var/lib/containers",
    "/var/lib/crio",
    "/var/lib/docker",
    "/var/lib/etcd",
    "/var/lib/k0s",
    "/var/lib/kubelet",
    "/var/lib/kubevirt-node-labeller",
    "/var/lib/rancher",
    "/var/lib/systemd",
    "/var/log",
    "/var/run",
    "/var/snap",
    "/var/spool",
];

/// Folders of nodes in which a `hostDisk` may lie.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostFolders(Vec<String>);

impl HostFolders {
    /// The folders that a KubeVirt object permits: none, unless it names some.
    pub fn of_cluster(object: &Value) -> HostFolders {
        HostFolders(entries(object).take(ENTRIES).filter_map(|entry| folder_of(entry).ok()).collect())
    }

    /// Entries of the annotation that have no effect, and why; of those that are not read the first.
    pub fn odd(object: &Value) -> Vec<String> {
        let why = |(at, entry): (usize, &str)| {
            let shown: String = entry.chars().take(64).collect();
            match folder_of(entry) {
                _ if at == ENTRIES => Some(format!("{shown:?} is entry {}, and {ENTRIES} are read", at + 1)),
                Ok(_) => None,
                Err(why) => Some(format!("{shown:?} {why}")),
            }
        };
        entries(object).enumerate().take(ENTRIES + 1).filter_map(why).collect()
    }

    /// True if a file of this absolute path may be a disk: it lies in a permitted folder or below one.
    pub fn permits(&self, path: &str) -> bool {
        let Some((folder, _)) = path.rsplit_once('/') else { return false };
        is_clean(path) && reserved(folder).is_none() && self.0.iter().any(|own| is_in(folder, own))
    }
}

/// What the annotation says, one by one.
fn entries(object: &Value) -> impl Iterator<Item = &str> {
    let said = object["metadata"]["annotations"][HOST_DISK_FOLDERS].as_str().unwrap_or_default();
    said.split(',').map(str::trim).filter(|entry| !entry.is_empty())
}

/// The folder of an entry, or why the entry has no effect.
fn folder_of(entry: &str) -> Result<String, String> {
    // A slash at the end means the same folder.
    let folder = entry.strip_suffix('/').unwrap_or(entry);
    if !folder.is_empty() && !is_clean(folder) {
        return Err(
            "is not the absolute path of a folder, without . and .., such as /var/lib/disks".to_owned()
        );
    }
    match reserved(folder) {
        Some(reserved) => Err(format!(
            "is not permitted: {reserved} belongs to the node, and so does what lies below or above it"
        )),
        None => Ok(folder.to_owned()),
    }
}

/// The reserved folder that this one is in, or that is in this one.
fn reserved(folder: &str) -> Option<&'static str> {
    RESERVED.into_iter().find(|reserved| is_in(folder, reserved) || is_in(reserved, folder))
}

/// `folder` is `outer`, or lies below it.
fn is_in(folder: &str, outer: &str) -> bool {
    folder.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn object(folders: &Value) -> Value {
        json!({"metadata": {"annotations": {HOST_DISK_FOLDERS: folders}}})
    }

    #[test]
    fn a_file_in_a_permitted_folder_or_below_one_is_permitted() {
        let folders = HostFolders::of_cluster(&object(&json!("/var/lib/disks/, /srv,")));
        for path in ["/var/lib/disks/a.img", "/var/lib/disks/team/a.img", "/srv/a.img"] {
            assert!(folders.permits(path), "{path}");
        }
        let others = [
            "/var/lib/disks",
            "/var/lib/disks/",
            "/var/lib/disks2/a.img",
            "/var/lib/a.img",
            "/a.img",
            "/srv/../etc/shadow",
            "/srv/./a.img",
            "/srv//a.img",
            "srv/a.img",
            "",
        ];
        for path in others {
            assert!(!folders.permits(path), "{path}");
        }
        for nothing in [json!(null), json!(""), json!(","), json!(7)] {
            assert!(!HostFolders::of_cluster(&object(&nothing)).permits("/srv/a.img"), "{nothing}");
        }
        assert!(!HostFolders::of_cluster(&Value::Null).permits("/srv/a.img"));
    }

    #[test]
    fn no_folder_of_the_node_is_permitted_whatever_the_object_says() {
        let wrong = [
            "/",
            "/etc",
            "/etc/kubernetes/manifests",
            "/var",
            "/var/lib",
            "/var/lib/kubelet/pods",
            "/proc/1/root",
            "/run/containerd",
            "/usr/lib",
            "relative",
            "/srv/../etc",
            "/srv//",
            "/opt/cni/bin",
            "/dev/shm",
        ];
        for folder in wrong {
            let said = object(&json!(folder));
            assert_eq!(HostFolders::of_cluster(&said), HostFolders::default(), "{folder}");
            let [odd] = &HostFolders::odd(&said)[..] else { panic!("{folder}") };
            assert!(odd.starts_with(&format!("{folder:?} is not")), "{odd}");
        }
        assert!(HostFolders::odd(&object(&json!("/srv,/var/lib/kubelet-disks"))).is_empty());
        let many: Vec<String> = (0..100).map(|n| format!("/srv/{n}")).collect();
        let many = object(&json!(many.join(",")));
        assert_eq!((HostFolders::of_cluster(&many).0.len(), HostFolders::odd(&many).len()), (ENTRIES, 1));
    }
}
