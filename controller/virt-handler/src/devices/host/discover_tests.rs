//! Discovery in fake trees: the hosts of these tests have no such devices.

use super::*;
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

/// Folders that stand for `/sys` and `/proc`.
pub(in super::super) struct Tree(tempfile::TempDir);

impl Tree {
    pub(in super::super) fn new() -> Tree {
        let tree = Tree(tempfile::tempdir().unwrap());
        for folder in ["sys/bus/pci/devices", "sys/bus/pci/drivers", "sys/bus/usb/devices", "proc/1"] {
            fs::create_dir_all(tree.path(folder)).unwrap();
        }
        tree.write("proc/1/mountinfo", "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n");
        tree.write("proc/swaps", "Filename Type Size Used Priority\n/dev/sdx1 partition 1 0 -2\n");
        tree
    }

    pub(in super::super) fn sysfs(&self) -> PathBuf {
        self.path("sys")
    }

    pub(in super::super) fn proc(&self) -> PathBuf {
        self.path("proc")
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
        fs::write(self.path(name), text).unwrap();
    }

    fn link(&self, name: &str, to: &str) {
        drop(fs::remove_file(self.path(name)));
        fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
        symlink(to, self.path(name)).unwrap();
    }

    /// Same layout as the kernel's: the bus has links, and devices have links to their drivers and groups.
    pub(in super::super) fn pci(
        &self,
        address: &str,
        vendor: &str,
        product: &str,
        driver: &str,
        group: Option<u32>,
    ) {
        let device = format!("sys/devices/pci0000:80/{address}");
        self.write(&format!("{device}/vendor"), &format!("0x{vendor}\n"));
        self.write(&format!("{device}/device"), &format!("0x{product}\n"));
        self.write(&format!("{device}/numa_node"), "1\n");
        self.link(
            &format!("sys/bus/pci/devices/{address}"),
            &format!("../../../devices/pci0000:80/{address}"),
        );
        self.drive(address, driver);
        if let Some(group) = group {
            let members = format!("sys/kernel/iommu_groups/{group}/devices");
            self.link(&format!("{members}/{address}"), &format!("../../../../devices/pci0000:80/{address}"));
            self.link(&format!("{device}/iommu_group"), &format!("../../../kernel/iommu_groups/{group}"));
        }
    }

    /// Sets the driver of a PCI device.
    pub(in super::super) fn drive(&self, address: &str, driver: &str) {
        let name = format!("sys/devices/pci0000:80/{address}/driver");
        drop(fs::remove_file(self.path(&name)));
        if !driver.is_empty() {
            fs::create_dir_all(self.path(&format!("sys/bus/pci/drivers/{driver}"))).unwrap();
            self.link(&name, &format!("../../../bus/pci/drivers/{driver}"));
        }
    }

    fn mediated(&self, uuid: &str, kind: &str, name: Option<&str>, group: u32) {
        let device = format!("sys/devices/pci0000:80/{uuid}");
        fs::create_dir_all(self.path(&device)).unwrap();
        fs::create_dir_all(self.path(&format!("sys/kernel/iommu_groups/{group}"))).unwrap();
        let kinds = "sys/devices/pci0000:80/mdev_supported_types";
        fs::create_dir_all(self.path(&format!("{kinds}/{kind}"))).unwrap();
        if let Some(name) = name {
            self.write(&format!("{kinds}/{kind}/name"), &format!("{name}\n"));
        }
        self.link(&format!("{device}/mdev_type"), &format!("../mdev_supported_types/{kind}"));
        self.link(&format!("{device}/iommu_group"), &format!("../../../kernel/iommu_groups/{group}"));
        self.link(&format!("sys/bus/mdev/devices/{uuid}"), &format!("../../../devices/pci0000:80/{uuid}"));
    }

    /// Adds a card for mediated devices: its types, their names by the driver, and the number of free
    /// ones.
    pub(in super::super) fn card(&self, name: &str, kinds: &[(&str, Option<&str>, u32)]) {
        let card = format!("sys/devices/pci0000:80/{name}");
        for (id, called, free) in kinds {
            let kind = format!("{card}/mdev_supported_types/{id}");
            self.write(&format!("{kind}/available_instances"), &format!("{free}\n"));
            self.write(&format!("{kind}/create"), "");
            if let Some(called) = called {
                self.write(&format!("{kind}/name"), &format!("{called}\n"));
            }
        }
        self.link(&format!("sys/class/mdev_bus/{name}"), &format!("../../devices/pci0000:80/{name}"));
    }

    /// Adds a mediated device to a card.
    pub(in super::super) fn made(&self, card: &str, kind: &str, uuid: &str, group: u32) {
        let device = format!("sys/devices/pci0000:80/{card}/{uuid}");
        self.write(&format!("{device}/remove"), "");
        fs::create_dir_all(self.path(&format!("sys/kernel/iommu_groups/{group}"))).unwrap();
        self.link(&format!("{device}/mdev_type"), &format!("../mdev_supported_types/{kind}"));
        self.link(&format!("{device}/iommu_group"), &format!("../../../../kernel/iommu_groups/{group}"));
        self.link(
            &format!("sys/bus/mdev/devices/{uuid}"),
            &format!("../../../devices/pci0000:80/{card}/{uuid}"),
        );
    }

    /// Text that was written to a file of a card.
    pub(in super::super) fn written(&self, card: &str, file: &str) -> String {
        fs::read_to_string(self.path(&format!("sys/devices/pci0000:80/{card}/{file}"))).unwrap()
    }

    pub(in super::super) fn usb(&self, port: &str, ids: (&str, &str), place: (u16, u16), class: &str) {
        let device = format!("sys/devices/usb/{port}");
        for (name, text) in [
            ("idVendor", ids.0.to_owned()),
            ("idProduct", ids.1.to_owned()),
            ("busnum", place.0.to_string()),
            ("devnum", place.1.to_string()),
            ("bDeviceClass", class.to_owned()),
        ] {
            self.write(&format!("{device}/{name}"), &format!("{text}\n"));
        }
        self.link(&format!("sys/bus/usb/devices/{port}"), &format!("../../../devices/usb/{port}"));
    }

    fn found(&self, permitted: &Value) -> Discovery {
        self.found_beside(permitted, &UsbAssignments::default())
    }

    /// Discovers devices while pods have these USB devices.
    fn found_beside(&self, permitted: &Value, given: &UsbAssignments) -> Discovery {
        let object = json!({"spec": {"configuration": {"permittedHostDevices": permitted}}});
        let in_use = InUse::read(&self.sysfs(), &self.proc());
        discover(&self.sysfs(), &Permitted::of_cluster(&object), &in_use, given).unwrap()
    }
}

fn gpus(resource: &str) -> Value {
    json!({"pciVendorSelector": "10DE:1EB8", "resourceName": resource})
}

/// Selectors of a mouse and a keyboard.
fn desk(resource: &str) -> Value {
    json!({"usb": [{"resourceName": resource, "selectors": [
        {"vendor": "46d", "product": "c077"}, {"vendor": "45e", "product": "7a5"},
    ]}]})
}

fn ids(found: &Discovery, resource: &str) -> Vec<String> {
    found.units.get(resource).into_iter().flatten().map(|unit| unit.id.clone()).collect()
}

fn addresses(found: &Discovery, resource: &str) -> Vec<String> {
    let units = found.units.get(resource).map_or(&[][..], Vec::as_slice);
    units.iter().flat_map(|unit| unit.addresses.clone()).collect()
}

fn notes(found: &Discovery) -> String {
    found.notes.iter().cloned().collect::<Vec<_>>().join("\n")
}

#[test]
fn pci_devices_of_vfio_are_found_by_their_group() {
    let tree = Tree::new();
    tree.pci("0000:81:00.0", "10de", "1eb8", "vfio-pci", Some(7));
    tree.pci("0000:82:00.0", "10de", "1eb8", "nvidia", Some(8));
    tree.pci("0000:83:00.0", "10de", "1eb8", "vfio-pci", None);
    tree.pci("0000:85:00.0", "10de", "1eb8", "vfio-pci", Some(10));
    tree.write("sys/kernel/iommu_groups/10/name", "vfio-noiommu\n");
    tree.pci("0000:84:00.0", "8086", "10ca", "vfio-pci", Some(9));
    let found = tree.found(&json!({"pciHostDevices": [gpus("v.io/gpu")]}));
    assert_eq!(
        found.units["v.io/gpu"],
        [Unit {
            id: "7".into(),
            prefix: PCI,
            addresses: vec!["0000:81:00.0".into()],
            nodes: vec!["/dev/vfio/vfio".into(), "/dev/vfio/7".into()],
            numa: Some(1),
        }]
    );
    let said = notes(&found);
    assert!(said.contains("0000:82:00.0 is not offered as v.io/gpu: its driver is not vfio-pci"), "{said}");
    assert!(said.contains("0000:83:00.0 is not offered as v.io/gpu: it has no IOMMU group"), "{said}");
    assert!(!said.contains("0000:84"), "nobody asked for it: {said}");
}

#[test]
fn a_group_with_a_device_of_the_node_is_not_offered() {
    let tree = Tree::new();
    let gpu = || tree.found(&json!({"pciHostDevices": [gpus("v.io/gpu")]}));
    tree.pci("0000:81:00.0", "10de", "1eb8", "vfio-pci", Some(7));
    // Its sound card, the bridge above, and a device without a driver.
    tree.pci("0000:81:00.1", "10de", "10f8", "snd_hda_intel", Some(7));
    tree.pci("0000:80:01.0", "8086", "1234", "pcieport", Some(7));
    tree.pci("0000:80:02.0", "8086", "1235", "", Some(7));
    let said = notes(&gpu());
    assert!(said.contains("\"0000:81:00.1\" of the same IOMMU group 7 has a driver of the node"), "{said}");
    tree.drive("0000:81:00.1", "vfio-pci");
    assert_eq!(addresses(&gpu(), "v.io/gpu"), ["0000:81:00.0"]);
}

#[test]
fn nothing_is_offered_twice() {
    let tree = Tree::new();
    tree.pci("0000:81:00.0", "10de", "1eb8", "vfio-pci", Some(7));
    tree.pci("0000:81:00.1", "10de", "10f8", "vfio-pci", Some(7));
    tree.usb("1-1", ("046d", "c077"), (1, 4), "00");
    let sound = json!({"pciVendorSelector": "10de:10f8", "resourceName": "v.io/sound"});
    let mouse = |resource: &str| json!({"resourceName": resource, "selectors": [{"vendor": "046d", "product": "c077"}]});
    let found = tree.found(&json!({
        "pciHostDevices": [gpus("v.io/gpu"), gpus("v.io/other"), sound],
        "usb": [mouse("v.io/mouse"), mouse("v.io/again")],
    }));
    assert_eq!(found.units.keys().collect::<Vec<_>>(), ["v.io/gpu", "v.io/mouse"]);
    let said = notes(&found);
    assert!(said.contains("0000:81:00.1 is not offered as v.io/sound: its IOMMU group 7"), "{said}");
}

#[test]
fn a_resource_of_another_device_plugin_is_left_alone() {
    let tree = Tree::new();
    tree.pci("0000:81:00.0", "10de", "1eb8", "vfio-pci", Some(7));
    let mut rule = gpus("v.io/gpu");
    rule["externalResourceProvider"] = json!(true);
    assert_eq!(tree.found(&json!({"pciHostDevices": [rule]})), Discovery::default());
    assert_eq!(tree.found(&json!({})), Discovery::default());
}

#[test]
fn mediated_devices_are_found_by_the_name_of_their_type() {
    let tree = Tree::new();
    let uuid = |n: u8| format!("83b8f4f2-509f-382f-3c1e-e6bfe0fa10{n:02x}");
    tree.mediated(&uuid(1), "nvidia-222", Some("GRID T4-1Q"), 40);
    tree.mediated(&uuid(2), "nvidia-223", Some("GRID T4-2Q"), 41);
    tree.mediated(&uuid(3), "i915-GVTg_V5_4", None, 42);
    let rule = |name: &str, resource: &str| json!({"mdevNameSelector": name, "resourceName": resource});
    let found = tree.found(&json!({"mediatedDevices": [
        rule("GRID T4-1Q", "v.io/t4"), rule("i915-GVTg_V5_4", "v.io/gvt"), rule("GRID_T4-1Q", "v.io/same"),
    ]}));
    let unit = &found.units["v.io/t4"][0];
    assert_eq!(
        (unit.id.as_str(), unit.prefix, unit.addresses[0].as_str()),
        ("40", MEDIATED, uuid(1).as_str())
    );
    assert_eq!(addresses(&found, "v.io/gvt"), [uuid(3)]);
    assert_eq!(found.units.len(), 2);
}

#[test]
fn usb_devices_are_offered_in_sets_and_never_those_of_the_node() {
    let tree = Tree::new();
    let rule = desk("v.io/desk");
    tree.usb("1-1", ("046d", "c077"), (1, 4), "00");
    tree.usb("1-2.3", ("046d", "c077"), (1, 5), "00");
    assert_eq!(tree.found(&rule).units.len(), 0, "half a set");
    tree.usb("2-1", ("045e", "07a5"), (2, 2), "ef");
    tree.usb("2-2", ("045e", "07a5"), (2, 3), "09");
    let found = tree.found(&rule);
    assert_eq!(
        found.units["v.io/desk"],
        [Unit {
            id: "1-1_2-1".into(),
            prefix: USB,
            addresses: vec!["1:4".into(), "2:2".into()],
            nodes: vec!["/dev/bus/usb/001/004".into(), "/dev/bus/usb/002/002".into()],
            numa: None,
        }],
        "a hub is never offered"
    );
    // A disk of the node, a part of another disk, swap, a network interface.
    let stick = json!({"usb": [{"resourceName": "v.io/stick", "selectors": [{"vendor": "0781", "product": "5567"}]}]});
    tree.usb("3-1", ("0781", "5567"), (3, 9), "00");
    let disk = "sys/devices/usb/3-1/3-1:1.0/host6/target6:0:0/6:0:0:0/block/sdb";
    tree.write(&format!("{disk}/dev"), "8:16\n");
    tree.write(&format!("{disk}/sdb1/dev"), "8:17\n");
    assert_eq!(addresses(&tree.found(&stick), "v.io/stick"), ["3:9"]);
    for (change, why) in [
        ("mounted", "sdb1 on it is mounted"),
        ("swap", "sdb1 on it is swap"),
        ("held", "part of another disk"),
        ("btrfs", "sdb1 on it is part of a btrfs"),
    ] {
        tree.write(
            "proc/1/mountinfo",
            if change == "mounted" { "30 22 8:17 / /data rw - ext4 /dev/sdb1 rw\n" } else { "" },
        );
        tree.write("proc/swaps", if change == "swap" { "/dev/sdb1 partition 1 0 -2\n" } else { "" });
        if change == "held" {
            tree.link(&format!("{disk}/sdb1/holders/dm-0"), "../../dm-0");
        }
        if change == "btrfs" {
            fs::remove_file(tree.path(&format!("{disk}/sdb1/holders/dm-0"))).unwrap();
            tree.write("sys/fs/btrfs/features/raid1c34", "0\n");
            tree.link("sys/fs/btrfs/9c0b1c5e/devices/sdb1", "../../../../devices/usb/3-1");
        }
        let found = tree.found(&stick);
        assert!(found.units.is_empty() && notes(&found).contains(why), "{change}: {}", notes(&found));
    }
    tree.usb("3-2", ("0bda", "8153"), (3, 10), "00");
    let state = |text: &str| tree.write("sys/devices/usb/3-2/3-2:1.0/net/enx0/flags", text);
    let nic =
        json!({"usb": [{"resourceName": "v.io/nic", "selectors": [{"vendor": "0bda", "product": "8153"}]}]});
    state("0x1003\n");
    assert!(notes(&tree.found(&nic)).contains("the network interface enx0 on it is up"));
    state("0x1002\n");
    assert_eq!(addresses(&tree.found(&nic), "v.io/nic"), ["3:10"]);
    // An interface in another network namespace.
    fs::remove_dir_all(tree.path("sys/devices/usb/3-2/3-2:1.0/net/enx0")).unwrap();
    assert!(notes(&tree.found(&nic)).contains("in a network namespace that is not visible"));
}

/// Paths of mounts are chosen by tenants: links with arbitrary characters.
#[test]
fn mounts_that_cannot_be_read_keep_usb_devices_alone() {
    let tree = Tree::new();
    tree.pci("0000:81:00.0", "10de", "1eb8", "vfio-pci", Some(7));
    tree.usb("3-1", ("0781", "5567"), (3, 9), "00");
    let disk = "sys/devices/usb/3-1/3-1:1.0/host6/target6:0:0/6:0:0:0/block/sdb";
    tree.write(&format!("{disk}/dev"), "8:16\n");
    let rules = json!({
        "pciHostDevices": [gpus("v.io/gpu")],
        "usb": [{"resourceName": "v.io/stick", "selectors": [{"vendor": "0781", "product": "5567"}]}],
    });
    let mounts = tree.path("proc/1/mountinfo");
    fs::write(&mounts, b"22 1 8:1 /\xff /x rw - ext4 /dev/sda1 rw\n").unwrap();
    assert_eq!(addresses(&tree.found(&rules), "v.io/stick"), ["3:9"]);
    fs::write(
        &mounts,
        b"22 1 8:1 /\xff /x rw - ext4 /dev/sda1 rw\n30 22 8:16 / /data rw - ext4 /dev/sdb rw\n",
    )
    .unwrap();
    assert!(notes(&tree.found(&rules)).contains("sdb on it is mounted"));
    fs::remove_file(&mounts).unwrap();
    fs::create_dir(&mounts).unwrap();
    let found = tree.found(&rules);
    assert_eq!(addresses(&found, "v.io/gpu"), ["0000:81:00.0"]);
    assert!(!found.units.contains_key("v.io/stick"));
    assert!(notes(&found).contains("cannot find out which devices the node uses"), "{}", notes(&found));
}

/// A guest that removes a device of its set does not bring the others into the set of another guest.
#[test]
fn a_usb_device_that_was_given_is_part_of_no_other_set() {
    let tree = Tree::new();
    tree.usb("1-1", ("046d", "c077"), (1, 4), "00");
    tree.usb("1-2", ("046d", "c077"), (1, 5), "00");
    tree.usb("1-3", ("045e", "07a5"), (1, 6), "00");
    tree.usb("1-4", ("045e", "07a5"), (1, 7), "00");
    assert_eq!(ids(&tree.found(&desk("v.io/desk")), "v.io/desk"), ["1-1_1-3", "1-2_1-4"]);
    let mut given = UsbAssignments::default();
    assert!(given.note("v.io/desk", &tree.found(&desk("v.io/desk")).units["v.io/desk"][0]));
    assert_eq!(ids(&tree.found_beside(&desk("v.io/desk"), &given), "v.io/desk"), ["1-1_1-3", "1-2_1-4"]);
    fs::remove_file(tree.path("sys/bus/usb/devices/1-3")).unwrap();
    let found = tree.found_beside(&desk("v.io/desk"), &given);
    assert_eq!(ids(&found, "v.io/desk"), ["1-2_1-4"]);
    assert!(
        notes(&found).contains("USB device 1-1 is not offered: a pod was given it as part of 1-1_1-3"),
        "{}",
        notes(&found)
    );
    // Not into another resource either.
    let found = tree.found_beside(&desk("v.io/other"), &given);
    assert_eq!(ids(&found, "v.io/other"), ["1-2_1-4"]);
    // After it is plugged in again, no pod has the device.
    tree.usb("1-1", ("046d", "c077"), (1, 8), "00");
    tree.usb("1-3", ("045e", "07a5"), (1, 9), "00");
    assert_eq!(ids(&tree.found_beside(&desk("v.io/desk"), &given), "v.io/desk"), ["1-1_1-3", "1-2_1-4"]);
}

/// A device that is plugged in again counts as another one: the earlier set does not take it from a pod that
/// was given it since.
#[test]
fn a_set_that_was_given_takes_no_device_of_another_pod() {
    let tree = Tree::new();
    let rule = desk("v.io/desk");
    tree.usb("1-1", ("046d", "c077"), (1, 4), "00");
    tree.usb("1-2", ("046d", "c077"), (1, 5), "00");
    tree.usb("1-4", ("045e", "07a5"), (1, 7), "00");
    let mut given = UsbAssignments::default();
    assert!(given.note("v.io/desk", &tree.found(&rule).units["v.io/desk"][0]));
    tree.usb("1-4", ("045e", "07a5"), (1, 9), "00");
    let found = tree.found_beside(&rule, &given);
    assert_eq!(ids(&found, "v.io/desk"), ["1-2_1-4"]);
    assert!(given.note("v.io/desk", &found.units["v.io/desk"][0]));
    let found = tree.found_beside(&rule, &given);
    assert_eq!(ids(&found, "v.io/desk"), ["1-2_1-4"]);
    assert!(notes(&found).contains("USB device 1-1 is not offered"), "{}", notes(&found));
}

#[test]
fn a_hostile_tree_leads_nowhere() {
    let tree = Tree::new();
    let outside = tree.path("outside");
    for (name, text) in [("vendor", "0x10de"), ("device", "0x1eb8")] {
        tree.write(&format!("outside/{name}"), text);
    }
    fs::create_dir_all(tree.path("outside/vfio-pci")).unwrap();
    // Names that are not addresses.
    for name in ["0000:81:00", "0000:81:20.0", "a\nb", "é", "0000:81:00.0 "] {
        let device = format!("sys/bus/pci/devices/{name}");
        tree.write(&format!("{device}/vendor"), "0x10de\n");
        tree.write(&format!("{device}/device"), "0x1eb8\n");
    }
    // Devices that are links out of the tree, by both kinds of link.
    tree.link("sys/bus/pci/devices/0000:90:00.0", outside.to_str().unwrap());
    tree.link("sys/bus/pci/devices/0000:91:00.0", "../../../../outside");
    // A driver and a group that only look like real ones.
    tree.pci("0000:92:00.0", "10de", "1eb8", "", Some(7));
    tree.link("sys/devices/pci0000:80/0000:92:00.0/driver", "../../../../outside/vfio-pci");
    tree.pci("0000:93:00.0", "10de", "1eb8", "vfio-pci", None);
    fs::create_dir_all(tree.path("sys/elsewhere/8")).unwrap();
    fs::create_dir_all(tree.path("sys/kernel/iommu_groups/8")).unwrap();
    tree.link("sys/devices/pci0000:80/0000:93:00.0/iommu_group", "../../../elsewhere/8");
    // Texts that are not numbers, too long, or links.
    tree.pci("0000:94:00.0", "10de", "1eb8", "vfio-pci", Some(9));
    tree.write("sys/devices/pci0000:80/0000:94:00.0/vendor", &"0".repeat(1 << 20));
    tree.pci("0000:95:00.0", "10de", "1eb8", "vfio-pci", Some(10));
    tree.link("sys/devices/pci0000:80/0000:95:00.0/vendor", "../0000:92:00.0/vendor");
    // A group with a member without an address.
    tree.pci("0000:96:00.0", "10de", "1eb8", "vfio-pci", Some(11));
    tree.write("sys/kernel/iommu_groups/11/devices/odd", "");
    let found = tree.found(&json!({"pciHostDevices": [gpus("v.io/gpu")]}));
    assert_eq!(found.units, BTreeMap::new());
    let said = notes(&found);
    assert!(!said.contains("0000:90") && !said.contains("0000:91") && !said.contains("0000:94"), "{said}");
    // USB and mediated devices.
    tree.usb("1-1", ("046d", "c077"), (0, 4), "00");
    tree.usb("1-2", ("046d", "c077"), (1, 1000), "00");
    tree.usb("1-3:1.0", ("046d", "c077"), (1, 4), "00");
    tree.usb("usb1", ("046d", "c077"), (1, 1), "00");
    tree.mediated("not-a-uuid", "t", None, 50);
    let found = tree.found(&json!({
        "usb": [{"resourceName": "v.io/usb", "selectors": [{"vendor": "046d", "product": "c077"}]}],
        "mediatedDevices": [{"mdevNameSelector": "t", "resourceName": "v.io/t"}],
    }));
    assert_eq!(found, Discovery::default());
}

#[test]
fn thousands_of_devices_have_an_end() {
    let tree = Tree::new();
    for n in 0..3000_u32 {
        let address = format!("{:04x}:{:02x}:{:02x}.{}", n / 2048, (n / 256) % 8, (n / 8) % 32, n % 8);
        tree.pci(&address, "10de", "1eb8", "vfio-pci", Some(n));
    }
    let found = tree.found(&json!({"pciHostDevices": [gpus("v.io/gpu")]}));
    assert_eq!(found.units["v.io/gpu"].len(), UNITS);
    assert!(found.notes.len() <= NOTES + 1);
}
