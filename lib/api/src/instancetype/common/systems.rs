//! Preferences for operating systems.

use super::Common;
use crate::instancetype::Role;
use serde_json::{Value, json};

/// An operating system with virtio drivers: name, display name, least vCPUs, least memory.
type System = (&'static str, &'static str, u32, &'static str);

const LINUX: &[System] = &[
    ("alpine", "Alpine Linux", 1, "128Mi"),
    ("centos.stream9", "CentOS Stream 9", 1, "1536Mi"),
    ("centos.stream10", "CentOS Stream 10", 1, "2Gi"),
    ("cirros", "CirrOS", 1, "64Mi"),
    ("debian", "Debian", 1, "512Mi"),
    ("fedora", "Fedora", 1, "1Gi"),
    ("opensuse.leap", "openSUSE Leap", 1, "1Gi"),
    ("opensuse.tumbleweed", "openSUSE Tumbleweed", 1, "1Gi"),
    ("rhel.8", "Red Hat Enterprise Linux 8", 1, "1536Mi"),
    ("rhel.9", "Red Hat Enterprise Linux 9", 1, "1536Mi"),
    ("rhel.10", "Red Hat Enterprise Linux 10", 1, "2Gi"),
    ("ubuntu", "Ubuntu", 1, "1Gi"),
];

/// Versions of Windows, and whether each needs a TPM and secure boot.
const WINDOWS: &[(System, bool)] = &[
    (("windows.10", "Windows 10", 1, "2Gi"), false),
    (("windows.11", "Windows 11", 2, "4Gi"), true),
    (("windows.2k19", "Windows Server 2019", 1, "2Gi"), false),
    (("windows.2k22", "Windows Server 2022", 1, "2Gi"), false),
    (("windows.2k25", "Windows Server 2025", 1, "2Gi"), true),
];

pub(super) fn all() -> impl Iterator<Item = Common> {
    let linux = LINUX.iter().map(|system| common_object(system, "", linux()));
    let windows = WINDOWS.iter().flat_map(|(system, is_locked)| {
        [("", false), (".virtio", true)]
            .map(|(end, is_virtio)| common_object(system, end, windows(*is_locked, is_virtio)))
    });
    linux.chain(windows)
}

fn common_object((name, title, cpus, memory): &System, end: &str, mut spec: Value) -> Common {
    spec["requirements"] = json!({"cpu": {"guest": cpus}, "memory": {"guest": memory}});
    let drivers = if end.is_empty() { "" } else { " with virtio drivers" };
    let family = if name.starts_with("windows") { "windows" } else { "linux" };
    Common {
        role: Role::Preference,
        name: format!("{name}{end}"),
        title: format!("{title}{drivers}"),
        labels: vec![("os-type", family.to_owned())],
        spec,
    }
}

fn linux() -> Value {
    json!({"devices": {
        "preferredDiskBus": "virtio",
        "preferredInterfaceModel": "virtio",
        "preferredRng": {},
    }})
}

/// Preference for Windows, with the enlightenments that every CPU supports.
fn windows(is_locked: bool, is_virtio: bool) -> Value {
    let (disk, interface) = if is_virtio { ("virtio", "virtio") } else { ("sata", "e1000e") };
    let mut spec = json!({
        "clock": {
            "preferredClockOffset": {"utc": {}},
            "preferredTimer": {
                "hpet": {"present": false},
                "hyperv": {},
                "pit": {"tickPolicy": "delay"},
                "rtc": {"tickPolicy": "catchup"},
            },
        },
        "cpu": {"preferredCPUTopology": "sockets"},
        "devices": {
            "preferredAutoattachInputDevice": true,
            "preferredDiskBus": disk,
            "preferredInputBus": "usb",
            "preferredInputType": "tablet",
            "preferredInterfaceModel": interface,
        },
        "features": {
            "preferredAcpi": {},
            "preferredApic": {},
            "preferredHyperv": {
                "frequencies": {},
                "ipi": {},
                "relaxed": {},
                "reset": {},
                "runtime": {},
                "spinlocks": {"spinlocks": 8191},
                "synic": {},
                "synictimer": {"direct": {}},
                "tlbflush": {},
                "vapic": {},
                "vpindex": {},
            },
        },
        "preferredTerminationGracePeriodSeconds": 3600,
    });
    if is_locked {
        spec["firmware"] = json!({"preferredEfi": {"persistent": true, "secureBoot": true}});
        spec["features"]["preferredSmm"] = json!({});
        spec["devices"]["preferredTPM"] = json!({"persistent": true});
    }
    spec
}
