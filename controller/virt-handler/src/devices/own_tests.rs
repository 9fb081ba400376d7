use super::*;
use crate::error::ErrorKind;
use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::PathBuf;

/// A container's root with an empty /dev, and a file of the host beside it.
fn root() -> (tempfile::TempDir, PathBuf) {
    let place = tempfile::tempdir().unwrap();
    fs::create_dir_all(place.path().join("root/dev/net")).unwrap();
    let victim = place.path().join("victim");
    fs::write(&victim, "of the host").unwrap();
    (place, victim)
}

/// A VMI, with a device of the node or without.
fn machine(with_device: bool) -> Machine {
    with(if with_device { json!({"gpus": [{"name": "g", "deviceName": "v.io/gpu"}]}) } else { json!({}) })
}

/// A VMI with these devices.
fn with(mut devices: Value) -> Machine {
    devices["autoattachPodInterface"] = json!(false);
    let networks = match devices.get("interfaces") {
        Some(_) => json!([{"name": "blue", "multus": {"networkName": "blue"}}]),
        None => Value::Null,
    };
    let vmi = json!({
        "metadata": {"name": "a", "namespace": "n"},
        "spec": {"domain": {
            "memory": {"guest": "128Mi"},
            "firmware": {"uuid": "5d307ca9-b3ef-428c-8861-06e72d69f223"},
            "devices": devices,
        }, "networks": networks},
    });
    Machine::check_again(&api::wire::read(vmi).unwrap()).unwrap()
}

/// As in bugs of container runtimes that took a link at /dev/null for the device.
#[test]
fn what_is_no_device_at_a_devices_path_is_not_given_away() {
    let (place, victim) = root();
    let (before, at) = (fs::metadata(&victim).unwrap(), place.path().join("root/dev/kvm"));
    let own = || own_device_nodes(&Folder::open(&place.path().join("root")).unwrap(), &machine(false));
    own().unwrap();
    for target in [victim.as_path(), Path::new("../../victim"), Path::new("net")] {
        symlink(target, &at).unwrap();
        assert_eq!(own().unwrap_err().kind(), ErrorKind::Refused, "{}", target.display());
        fs::remove_file(&at).unwrap();
    }
    fs::hard_link(&victim, &at).unwrap();
    own().unwrap();
    let after = fs::metadata(&victim).unwrap();
    assert_eq!((after.uid(), after.gid(), after.mode()), (before.uid(), before.gid(), before.mode()));
    fs::remove_file(&at).unwrap();

    // A link among the parent folders.
    fs::create_dir(place.path().join("elsewhere")).unwrap();
    fs::hard_link(&victim, place.path().join("elsewhere/tun")).unwrap();
    fs::remove_dir(place.path().join("root/dev/net")).unwrap();
    symlink("../../elsewhere", place.path().join("root/dev/net")).unwrap();
    assert_eq!(own().unwrap_err().kind(), ErrorKind::Refused);
    assert_eq!(fs::metadata(&victim).unwrap().uid(), before.uid());
}

#[test]
fn a_pods_own_node_of_a_device_is_the_launchers() {
    if !rustix::process::geteuid().is_root() {
        return; // only root may make devices
    }
    let (place, _) = root();
    let dev = place.path().join("root/dev");
    fs::create_dir_all(dev.join("vfio")).unwrap();
    fs::create_dir_all(dev.join("bus/usb/001")).unwrap();
    let nodes = ["kvm", "vfio/7", "bus/usb/001/004", "vhost-vsock"].map(|name| dev.join(name));
    for node in &nodes {
        mknodat(CWD, node, FileType::CharacterDevice, Mode::RUSR, makedev(10, 232)).unwrap();
    }
    let folder = Folder::open(&place.path().join("root")).unwrap();
    let owners = || nodes.each_ref().map(|node| fs::metadata(node).unwrap().uid());
    own_device_nodes(&folder, &machine(false)).unwrap();
    assert_eq!(owners(), [107, 0, 0, 0], "the VMI has no devices of the node");
    own_device_nodes(&folder, &with(json!({"autoattachVSOCK": true}))).unwrap();
    assert_eq!(owners(), [107, 0, 0, 107]);
    // An entry that is not a device stays unchanged.
    fs::write(dev.join("vfio/odd"), "").unwrap();
    own_device_nodes(&folder, &machine(true)).unwrap();
    assert_eq!(owners(), [107; 4]);
    assert_eq!(fs::metadata(dev.join("vfio/odd")).unwrap().uid(), 0);
}

#[test]
fn a_function_of_a_card_is_the_launchers() {
    if !rustix::process::geteuid().is_root() {
        return; // only root may make devices
    }
    let (place, _) = root();
    let group = place.path().join("root/dev/vfio/7");
    fs::create_dir_all(group.parent().unwrap()).unwrap();
    mknodat(CWD, &group, FileType::CharacterDevice, Mode::RUSR, makedev(10, 232)).unwrap();
    let card = with(json!({"interfaces": [{"name": "blue", "sriov": {}}]}));
    own_device_nodes(&Folder::open(&place.path().join("root")).unwrap(), &card).unwrap();
    assert_eq!(fs::metadata(&group).unwrap().uid(), 107);
}

#[test]
fn a_macvtap_of_a_binding_plugin_is_the_launchers() {
    if !rustix::process::geteuid().is_root() {
        return; // only root may make devices
    }
    let (place, _) = root();
    let nodes = ["tap12", "tapestry"].map(|name| place.path().join("root/dev").join(name));
    for node in &nodes {
        mknodat(CWD, node, FileType::CharacterDevice, Mode::RUSR, makedev(10, 232)).unwrap();
    }
    let folder = Folder::open(&place.path().join("root")).unwrap();
    let owners = || nodes.each_ref().map(|node| fs::metadata(node).unwrap().uid());
    let mut machine = with(json!({"interfaces": [{"name": "blue", "bridge": {}}]}));
    own_device_nodes(&folder, &machine).unwrap();
    assert_eq!(owners(), [0, 0]);
    machine.interfaces[0].binding = Binding::Tap;
    own_device_nodes(&folder, &machine).unwrap();
    assert_eq!(owners(), [107, 0]);
}

#[test]
fn a_link_among_a_pods_devices_leads_nowhere() {
    let (place, victim) = root();
    fs::create_dir_all(place.path().join("root/dev/vfio")).unwrap();
    symlink(&victim, place.path().join("root/dev/vfio/7")).unwrap();
    let folder = Folder::open(&place.path().join("root")).unwrap();
    assert_eq!(own_device_nodes(&folder, &machine(true)).unwrap_err().kind(), ErrorKind::Refused);
}
