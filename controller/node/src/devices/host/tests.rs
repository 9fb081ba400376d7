use super::super::wire::ContainerRequest;
use super::discover::tests::Tree;
use super::*;
use serde_json::json;

fn settings(said: &Value) -> NodeSettings {
    NodeSettings::of(&json!({"spec": {"configuration": {"permittedHostDevices": said}}}))
}

fn pci(selector: &str, resource: &str) -> Value {
    json!({"pciHostDevices": [{"pciVendorSelector": selector, "resourceName": resource}]})
}

fn ask(ids: &[&str]) -> AllocateRequest {
    let ids = ids.iter().map(|id| (*id).to_owned()).collect();
    AllocateRequest { containers: vec![ContainerRequest { ids }] }
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
    let response = given("v.io/gpu", &units, &ask(&["8", "7"]), "rw").unwrap();
    let container = &response.containers[0];
    assert_eq!(container.envs["PCI_RESOURCE_V_IO_GPU"], "0000:82:00.0,0000:81:00.0");
    let paths: Vec<&str> = container.devices.iter().map(|device| device.host_path.as_str()).collect();
    assert_eq!(paths, ["/dev/vfio/7", "/dev/vfio/8", "/dev/vfio/vfio"]);
    assert!(container.devices.iter().all(|device| device.permissions == "rw"));
    let said = given("v.io/gpu", &units, &ask(&["9"]), "rw").unwrap_err();
    assert!(said.contains("\"9\" of v.io/gpu is not there any more"), "{said}");
    let list = told(&units, &Devices::default());
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
    let both = told(&[unit("1-1"), unit("1-2")], &Devices::default());
    let one = told(&[unit("1-2")], &both);
    let state = |devices: &Devices| -> Vec<(String, String)> {
        devices.devices.iter().map(|device| (device.id.clone(), device.health.clone())).collect()
    };
    assert_eq!(state(&one), [("1-2".into(), "Healthy".into()), ("1-1".into(), "Unhealthy".into())]);
    assert_eq!(state(&told(&[unit("1-1"), unit("1-2")], &one)), state(&both), "it is back");
}

#[tokio::test]
async fn plug_ins_begin_and_end_with_the_kubevirt_object() {
    let tree = Tree::new();
    tree.pci("0000:81:00.0", "10de", "1eb8", "vfio-pci", Some(7));
    let folder = tempfile::tempdir().unwrap();
    let roots = Roots { sysfs: tree.sysfs(), proc: tree.proc() };
    let (tell, heard) = watch::channel(Some(settings(&pci("10de:1eb8", "v.io/gpu"))));
    let mut plugins = Plugins {
        folder: folder.path().to_owned(),
        at_kubelet: Blocking::new("the test's folder", 4),
        look: Look {
            roots,
            settings: heard,
            blocking: Blocking::new("the test", 4),
            given: Arc::new(Mutex::new(Some(Given::default()))),
            making: Blocking::new("the test's cards", 1),
            leaving: Arc::default(),
        },
        running: BTreeMap::new(),
        tasks: JoinSet::new(),
        notes: BTreeSet::new(),
    };
    let permitted = |said: &NodeSettings| said.host_devices.clone();
    let first = permitted(&settings(&pci("10de:1eb8", "v.io/gpu")));
    let found = plugins.look.found().await.unwrap();
    plugins.offer(&first, found);
    assert_eq!(plugins.running.keys().collect::<Vec<_>>(), ["v.io/gpu"]);
    let heard = plugins.running["v.io/gpu"].list.subscribe();
    assert_eq!(heard.borrow().devices.len(), 1);

    let give = allocate(plugins.look.clone(), "v.io/gpu".into());
    let response = give(ask(&["7"]), "rw").await.unwrap();
    assert_eq!(response.containers[0].envs["PCI_RESOURCE_V_IO_GPU"], "0000:81:00.0");
    // The node's administrator takes the device back: it is unhealthy, and given to nobody.
    tree.drive("0000:81:00.0", "nvidia");
    assert!(give(ask(&["7"]), "rw").await.unwrap_err().message().contains("not there any more"));
    let found = plugins.look.found().await.unwrap();
    plugins.offer(&first, found);
    assert_eq!(heard.borrow().devices[0].health, "Unhealthy");

    // It is permitted no more.
    let none = settings(&json!({}));
    tell.send(Some(none.clone())).unwrap();
    let found = plugins.look.found().await.unwrap();
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
    let offered = |given: Option<&Given>| {
        look(&roots, &permitted, given).unwrap().units.into_keys().collect::<Vec<_>>()
    };
    assert_eq!(offered(None), ["v.io/gpu"]);
    assert_eq!(offered(Some(&Given::default())), ["v.io/gpu", "v.io/stick"]);
}
