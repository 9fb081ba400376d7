use super::super::wire::ContainerRequest;
use super::discover::tests::Tree;
use super::*;
use serde_json::json;
use std::io::{Read as _, Seek as _};

fn settings(said: &Value) -> NodeSettings {
    NodeSettings::from_kubevirt(&json!({"spec": {"configuration": {"permittedHostDevices": said}}}))
}

fn pci(selector: &str, resource: &str) -> Value {
    json!({"pciHostDevices": [{"pciVendorSelector": selector, "resourceName": resource}]})
}

fn ask(ids: &[&str]) -> AllocateRequest {
    let ids = ids.iter().map(|id| (*id).to_owned()).collect();
    AllocateRequest { containers: vec![ContainerRequest { ids }] }
}

fn look_at(tree: &Tree, settings: watch::Receiver<Option<NodeSettings>>) -> DeviceScanner {
    DeviceScanner {
        roots: Roots { sysfs: tree.sysfs(), proc: tree.proc() },
        settings,
        blocking: Blocking::new("the test", 4),
        given: Arc::new(Mutex::new(Some(UsbAssignments::default()))),
        making: Blocking::new("the test's cards", 1),
        mediated: Arc::default(),
    }
}

#[test]
fn a_container_is_given_nodes_and_variables() {
    let unit = |id: &str, prefix, address: &str, node: &str| Unit {
        id: id.into(),
        prefix,
        addresses: vec![address.into()],
        nodes: vec!["/dev/vfio/vfio".into(), node.into()],
        numa: Some(1),
    };
    let units = [
        unit("7", api::machine::host_device::PCI, "0000:81:00.0", "/dev/vfio/7"),
        unit("8", api::machine::host_device::PCI, "0000:82:00.0", "/dev/vfio/8"),
    ];
    let response = allocation("v.io/gpu", &units, &ask(&["8", "7"]), "rw").unwrap();
    let container = &response.containers[0];
    assert_eq!(container.envs["PCI_RESOURCE_V_IO_GPU"], "0000:82:00.0,0000:81:00.0");
    let paths: Vec<&str> = container.devices.iter().map(|device| device.host_path.as_str()).collect();
    assert_eq!(paths, ["/dev/vfio/7", "/dev/vfio/8", "/dev/vfio/vfio"]);
    assert!(container.devices.iter().all(|device| device.permissions == "rw"));
    let said = allocation("v.io/gpu", &units, &ask(&["9"]), "rw").unwrap_err();
    assert!(said.contains("\"9\" of v.io/gpu is not there any more"), "{said}");
    let list = device_list(&units, &Devices::default());
    assert_eq!(list.devices[0].topology.as_ref().unwrap().nodes[0].id, 1);
}

#[test]
fn a_unit_that_is_gone_is_told_as_unhealthy() {
    let unit = |id: &str| Unit {
        id: id.into(),
        prefix: api::machine::host_device::USB,
        addresses: vec!["1:2".into()],
        nodes: Vec::new(),
        numa: None,
    };
    let both = device_list(&[unit("1-1"), unit("1-2")], &Devices::default());
    let one = device_list(&[unit("1-2")], &both);
    let state = |devices: &Devices| -> Vec<(String, String)> {
        devices.devices.iter().map(|device| (device.id.clone(), device.health.clone())).collect()
    };
    assert_eq!(state(&one), [("1-2".into(), "Healthy".into()), ("1-1".into(), "Unhealthy".into())]);
    assert_eq!(state(&device_list(&[unit("1-1"), unit("1-2")], &one)), state(&both), "it is back");
}

#[tokio::test]
async fn plug_ins_begin_and_end_with_the_kubevirt_object() {
    let tree = Tree::new();
    tree.pci("0000:81:00.0", "10de", "1eb8", "vfio-pci", Some(7));
    let folder = tempfile::tempdir().unwrap();
    let (tell, heard) = watch::channel(Some(settings(&pci("10de:1eb8", "v.io/gpu"))));
    let mut plugins = Plugins {
        folder: folder.path().to_owned(),
        at_kubelet: Blocking::new("the test's folder", 4),
        look: look_at(&tree, heard),
        running: BTreeMap::new(),
        tasks: JoinSet::new(),
        notes: BTreeSet::new(),
    };
    let permitted = |said: &NodeSettings| said.host_devices.clone();
    let first = permitted(&settings(&pci("10de:1eb8", "v.io/gpu")));
    let found = plugins.look.discover().await.unwrap();
    plugins.offer(&first, found);
    assert_eq!(plugins.running.keys().collect::<Vec<_>>(), ["v.io/gpu"]);
    let heard = plugins.running["v.io/gpu"].list.subscribe();
    assert_eq!(heard.borrow().devices.len(), 1);

    let give = allocate(plugins.look.clone(), "v.io/gpu".into());
    let response = give(ask(&["7"]), "rw").await.unwrap();
    assert_eq!(response.containers[0].envs["PCI_RESOURCE_V_IO_GPU"], "0000:81:00.0");
    // The node's administrator takes the device back: it is unhealthy, and given to no pod.
    tree.drive("0000:81:00.0", "nvidia");
    assert!(give(ask(&["7"]), "rw").await.unwrap_err().message().contains("not there any more"));
    let found = plugins.look.discover().await.unwrap();
    plugins.offer(&first, found);
    assert_eq!(heard.borrow().devices[0].health, "Unhealthy");

    // The settings no longer permit it.
    let none = settings(&json!({}));
    tell.send(Some(none.clone())).unwrap();
    let found = plugins.look.discover().await.unwrap();
    plugins.offer(&permitted(&none), found);
    assert!(plugins.running.is_empty());
    assert_eq!(*heard.borrow(), Devices::default(), "the kubelet hears it");
}

#[test]
fn without_knowing_what_pods_have_no_usb_device_is_offered() {
    let tree = Tree::new();
    tree.pci("0000:81:00.0", "10de", "1eb8", "vfio-pci", Some(7));
    tree.usb("3-1", ("0781", "5567"), (3, 9), "00");
    let mut rules = pci("10de:1eb8", "v.io/gpu");
    rules["usb"] =
        json!([{"resourceName": "v.io/stick", "selectors": [{"vendor": "0781", "product": "5567"}]}]);
    let (permitted, roots) =
        (settings(&rules).host_devices, Roots { sysfs: tree.sysfs(), proc: tree.proc() });
    let offered = |given: Option<&UsbAssignments>| {
        scan(&roots, &permitted, given).unwrap().units.into_keys().collect::<Vec<_>>()
    };
    assert_eq!(offered(None), ["v.io/gpu"]);
    assert_eq!(offered(Some(&UsbAssignments::default())), ["v.io/gpu", "v.io/stick"]);
}

/// A node with a mediated device that virt-handler created, and the folder of its kubelet, where no pod has a
/// device.
fn node_with_mediated() -> (Tree, tempfile::TempDir, String) {
    let (tree, folder) = (Tree::new(), tempfile::tempdir().unwrap());
    let uuid = api::uuid::of_mediated(CARD, "nvidia-222", 0);
    tree.card(CARD, &[("nvidia-222", Some("GRID T4-1Q"), 0)]);
    tree.made(CARD, "nvidia-222", &uuid, 7);
    std::fs::write(folder.path().join("kubelet_internal_checkpoint"), assignments::tests::NOBODY).unwrap();
    (tree, folder, uuid)
}

const CARD: &str = "0000:81:00.0";

#[tokio::test]
async fn two_looks_at_once_remove_no_mediated_device() {
    let (tree, folder, uuid) = node_with_mediated();
    let look = look_at(&tree, watch::channel(None).1);
    let removed = || tree.written(CARD, &format!("{uuid}/remove"));
    for _ in 0..2 {
        look.make(folder.path(), Some(Vec::new())).await;
        assert_eq!(removed(), "");
    }
    for since in look.mediated().leaving.values_mut() {
        *since -= EXAMINE;
    }
    look.make(folder.path(), Some(Vec::new())).await;
    assert_eq!(removed(), "1");
}

#[tokio::test]
async fn a_mediated_device_that_was_to_go_is_offered_where_the_node_leaves_them_alone() {
    let (tree, folder, _) = node_with_mediated();
    let vgpu = json!({"mediatedDevices": [{"mdevNameSelector": "GRID T4-1Q", "resourceName": "v.io/vgpu"}]});
    let look = look_at(&tree, watch::channel(Some(settings(&vgpu))).1);
    for (types, count) in [(Some(Vec::new()), 0), (None, 1)] {
        look.make(folder.path(), types).await;
        let found = look.discover().await.unwrap();
        assert_eq!(found.units.get("v.io/vgpu").map_or(0, Vec::len), count, "{found:?}");
    }
}

#[tokio::test]
async fn what_a_driver_refuses_is_a_warning_once() {
    let (tree, folder) = (Tree::new(), tempfile::tempdir().unwrap());
    tree.card(CARD, &[("nvidia-222", None, 64)]);
    let types = tree.sysfs().join("class/mdev_bus").join(CARD).join("mdev_supported_types");
    std::fs::remove_file(types.join("nvidia-222/create")).unwrap();
    let look = look_at(&tree, watch::channel(None).1);
    let mut file = tempfile::tempfile().unwrap();
    let log = tracing_subscriber::fmt().with_ansi(false).with_writer(Mutex::new(file.try_clone().unwrap()));
    let log = tracing::subscriber::set_default(log.finish());
    for _ in 0..2 {
        look.make(folder.path(), Some(vec!["nvidia-222".to_owned()])).await;
    }
    drop(log);
    let mut text = String::new();
    file.rewind().unwrap();
    file.read_to_string(&mut text).unwrap();
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(text.contains(" WARN ") && text.contains("nvidia-222/create"), "{text}");
}
