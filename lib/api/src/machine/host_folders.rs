//! Folders of nodes in which a `hostDisk` may lie: the annotation [`HOST_DISK_FOLDERS`] of the KubeVirt
//! object. It is an annotation and not a field, since clients of upstream drop unknown fields from the object
//! when they change it.
//!
//! ```text
//!  kubevirt.io/host-disk-folders ─► HostFolders ─┬─► permits: path of a hostDisk (virt-api, virt-controller, virt-handler)
//!                                                └─► faults: entries without effect: a warning at write, and a condition
//! ```
//!
//! The launcher pod mounts the folder of the file, and virt-handler creates files in it as root. So a folder
//! with parts of the operating system or of the kubelet is never permitted, nor a folder above one. An entry
//! for such a folder has no effect.
//!
//! A launcher pod can access everything in the folder that it mounts. So each namespace has its own folder in
//! a permitted one: `/var/lib/disks/NAMESPACE/web.img`. Permitted folders must not be nested, since the
//! folder of one namespace would contain those of others.

use super::check::is_clean;
use serde_json::Value;

/// Annotation of the KubeVirt object: `/var/lib/disks`, with commas between entries.
pub const HOST_DISK_FOLDERS: &str = "kubevirt.io/host-disk-folders";
/// Entries that are read.
const ENTRIES: usize = 64;
/// Folders of nodes that are never permitted, nor any folder below or above one.
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
    /// Reads the permitted folders of a KubeVirt object. By default there are none.
    pub fn of_cluster(object: &Value) -> HostFolders {
        let named = all_folders(object);
        HostFolders(named.iter().filter(|folder| inner(folder, &named).is_none()).cloned().collect())
    }

    /// Entries of the annotation that have no effect, each with the reason, and the first one beyond the
    /// limit.
    pub fn ineffective_entries(object: &Value) -> Vec<String> {
        let named = all_folders(object);
        let why = |(at, entry): (usize, &str)| {
            let short = |text: &str| text.chars().take(64).collect::<String>();
            let shown = short(entry);
            match folder_of(entry) {
                _ if at == ENTRIES => Some(format!("{shown:?} is entry {}, and {ENTRIES} are read", at + 1)),
                Ok(folder) => inner(&folder, &named).map(|inner| {
                    format!("{shown:?} is not permitted: {:?}, which is named too, lies in it", short(inner))
                }),
                Err(why) => Some(format!("{shown:?} {why}")),
            }
        };
        entries(object).enumerate().take(ENTRIES + 1).filter_map(why).collect()
    }

    /// True if a file of this absolute path may be a disk of VMIs of this namespace: it lies in one of its
    /// folders or below one.
    pub fn permits(&self, path: &str, namespace: &str) -> bool {
        let Some((folder, _)) = path.rsplit_once('/') else { return false };
        is_clean(path) && reserved(folder).is_none() && self.of(namespace).any(|own| is_in(folder, &own))
    }

    /// The folders of a namespace, as messages name them.
    pub fn display_names(&self, namespace: &str) -> String {
        let few: Vec<String> = self.of(namespace).take(4).collect();
        if few.is_empty() { "none is configured".to_owned() } else { few.join(", ") }
    }

    /// Folders of a namespace: the subfolder of its name in each permitted one.
    fn of(&self, namespace: &str) -> impl Iterator<Item = String> {
        self.0.iter().map(move |folder| format!("{folder}/{namespace}"))
    }
}

/// Folders of all entries that are read; they may be nested.
fn all_folders(object: &Value) -> Vec<String> {
    entries(object).take(ENTRIES).filter_map(|entry| folder_of(entry).ok()).collect()
}

/// The folder in the list that lies below this one, if any.
fn inner<'a>(folder: &str, named: &'a [String]) -> Option<&'a str> {
    named.iter().map(String::as_str).find(|other| *other != folder && is_in(other, folder))
}

/// Entries of the annotation.
fn entries(object: &Value) -> impl Iterator<Item = &str> {
    let said = object["metadata"]["annotations"][HOST_DISK_FOLDERS].as_str().unwrap_or_default();
    said.split(',').map(str::trim).filter(|entry| !entry.is_empty())
}

/// The folder of an entry, or the reason why the entry has no effect.
fn folder_of(entry: &str) -> Result<String, String> {
    // A trailing slash means the same folder.
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

/// The reserved folder that contains this one, or lies in it.
fn reserved(folder: &str) -> Option<&'static str> {
    RESERVED.into_iter().find(|reserved| is_in(folder, reserved) || is_in(reserved, folder))
}

/// True if `folder` is `outer`, or lies below it.
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
    fn a_file_in_a_folder_of_its_namespace_or_below_one_is_permitted() {
        let folders = HostFolders::of_cluster(&object(&json!("/var/lib/disks/, /srv,")));
        for path in ["/var/lib/disks/one/a.img", "/var/lib/disks/one/team/a.img", "/srv/one/a.img"] {
            assert!(folders.permits(path, "one"), "{path}");
            assert!(!folders.permits(path, "two") && !folders.permits(path, "on"), "{path}");
        }
        let others = [
            "/var/lib/disks",
            "/var/lib/disks/",
            "/var/lib/disks/a.img",
            "/var/lib/disks/one",
            "/var/lib/disks2/one/a.img",
            "/var/lib/one/a.img",
            "/one/a.img",
            "/srv/one/../two/a.img",
            "/srv/one/./a.img",
            "/srv/one//a.img",
            "/srv//one/a.img",
            "srv/one/a.img",
            "",
        ];
        for path in others {
            assert!(!folders.permits(path, "one"), "{path}");
        }
        for nothing in [json!(null), json!(""), json!(","), json!(7)] {
            assert!(
                !HostFolders::of_cluster(&object(&nothing)).permits("/srv/one/a.img", "one"),
                "{nothing}"
            );
        }
        assert!(!HostFolders::of_cluster(&Value::Null).permits("/srv/one/a.img", "one"));
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
            let [odd] = &HostFolders::ineffective_entries(&said)[..] else { panic!("{folder}") };
            assert!(odd.starts_with(&format!("{folder:?} is not")), "{odd}");
        }
        assert!(
            HostFolders::ineffective_entries(&object(&json!("/srv,/srv/,/srv2,/var/lib/kubelet-disks")))
                .is_empty()
        );
        let nested = HostFolders::ineffective_entries(&object(&json!("/srv,/srv/vms")));
        assert_eq!(nested, [r#""/srv" is not permitted: "/srv/vms", which is named too, lies in it"#]);
        let many: Vec<String> = (0..100).map(|n| format!("/srv/{n}")).collect();
        let many = object(&json!(many.join(",")));
        assert_eq!(
            (HostFolders::of_cluster(&many).0.len(), HostFolders::ineffective_entries(&many).len()),
            (ENTRIES, 1)
        );
    }
}
