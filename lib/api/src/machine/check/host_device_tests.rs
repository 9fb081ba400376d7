// A `json!` reads better where it is handed over than behind a `&`.

use crate::fault::Reason;
use crate::machine::host_device::{Claimed, Display, List};
use crate::machine::{Machine, Settings};
use crate::vmi::VirtualMachineInstance;
use serde_json::{Value, json};

/// In a cluster that permits `v.io/gpu` and `v.io/card`.
fn cluster() -> Settings {
    Settings::of_cluster(&json!({"spec": {"configuration": {
        "developerConfiguration": {"featureGates": ["HostDevices"]},
        "permittedHostDevices": {"pciHostDevices": [
            {"pciVendorSelector": "10de:1eb8", "resourceName": "v.io/gpu"},
            {"pciVendorSelector": "10de:1eb9", "resourceName": "v.io/card", "externalResourceProvider": true},
        ]},
    }}}))
}

fn check(devices: &Value, settings: &Settings) -> Result<Machine, Vec<String>> {
    check_with(devices, &json!({}), settings)
}

/// With these resources of the domain.
fn check_with(devices: &Value, resources: &Value, settings: &Settings) -> Result<Machine, Vec<String>> {
    let networks = match devices.get("interfaces") {
        Some(_) => json!([{"name": "blue", "multus": {"networkName": "blue"}}]),
        None => Value::Null,
    };
    let mut devices = devices.clone();
    devices["autoattachPodInterface"] = json!(false);
    let vmi: VirtualMachineInstance = crate::wire::read(json!({
        "metadata": {"name": "vm", "namespace": "n"},
        "spec": {"domain": {
            "memory": {"guest": "128Mi"},
            "firmware": {"uuid": "5d307ca9-b3ef-428c-8861-06e72d69f223"},
            "devices": devices,
            "resources": resources,
        }, "networks": networks},
    }))
    .unwrap();
    Machine::check(&vmi, settings).map_err(|faults| faults.iter().map(ToString::to_string).collect())
}

fn refused(devices: &Value) -> String {
    check(devices, &cluster()).unwrap_err().join("\n")
}

fn gpu(name: &str) -> Value {
    json!({"name": name, "deviceName": "v.io/gpu"})
}

#[test]
fn permitted_devices_are_taken_gpus_first() {
    let devices = json!({
        "gpus": [gpu("one"), gpu("two")],
        "hostDevices": [{"name": "one", "deviceName": "v.io/card", "tag": "fast"}],
    });
    let machine = check(&devices, &cluster()).unwrap();
    let found: Vec<_> = machine
        .host_devices
        .iter()
        .map(|device| (device.list, device.name.as_str(), device.display))
        .collect();
    assert_eq!(
        found,
        [
            (List::Gpus, "one", Some(Display { ramfb: true })),
            (List::Gpus, "two", None),
            (List::HostDevices, "one", None),
        ]
    );
    assert_eq!(machine.host_devices[2].tag.as_deref(), Some("fast"));
}

/// Its device files would become the launcher's with those of the device.
#[test]
fn beside_a_device_of_the_node_no_resource_is_asked_for_that_is_not_permitted() {
    let (gpu, card) = (json!({"gpus": [gpu("g")]}), json!({"interfaces": [{"name": "blue", "sriov": {}}]}));
    let other = "resource v.io/other is not permitted in permittedHostDevices configuration";
    for list in ["requests", "limits"] {
        let said = |devices: &Value, name: &str, settings: &Settings| {
            let told = check_with(devices, &json!({list: {name: "1", "memory": "256Mi"}}), settings);
            told.err().unwrap_or_default().join("\n")
        };
        for devices in [&gpu, &card] {
            let told = said(devices, "v.io/other", &cluster());
            assert!(
                told.contains(other) && told.contains(&format!("spec.domain.resources.{list}")),
                "{told}"
            );
            assert!(!said(devices, "devices.kubevirt.io/vhost-vsock", &cluster()).is_empty());
            for fine in ["v.io/card", "ephemeral-storage"] {
                assert_eq!(said(devices, fine, &cluster()), "", "{fine}");
            }
            assert_eq!(said(devices, "v.io/other", &Settings::of_checked()), "", "it was judged before");
        }
        assert_eq!(said(&json!({}), "v.io/other", &cluster()), "", "no device file is given away");
    }
}

#[test]
fn a_resource_that_is_not_permitted_is_refused_in_upstreams_words() {
    let said = refused(&json!({"gpus": [{"name": "g", "deviceName": "v.io/other"}]}));
    assert!(said.contains("GPU v.io/other is not permitted in permittedHostDevices configuration"), "{said}");
    let said = refused(&json!({"hostDevices": [{"name": "g", "deviceName": "v.io/other"}]}));
    assert!(
        said.contains("HostDevice v.io/other is not permitted in permittedHostDevices configuration"),
        "{said}"
    );
    // One that was judged before runs on.
    let devices = json!({"gpus": [{"name": "g", "deviceName": "v.io/other"}]});
    assert!(check(&devices, &Settings::of_checked()).is_ok());
    // Nothing is permitted where nothing is said.
    assert!(check(&json!({"gpus": [gpu("g")]}), &Settings::of_cluster(&json!({}))).is_err());
}

#[test]
fn no_resource_of_kubernetes_is_a_device() {
    for resource in
        ["memory", "cpu", "devices.kubevirt.io/kvm", "x.kubernetes.io/a", "a/b\n", &"a/".repeat(200)]
    {
        for settings in [cluster(), Settings::of_checked()] {
            let devices = json!({"gpus": [{"name": "g", "deviceName": resource}]});
            let said = check(&devices, &settings).unwrap_err().join("\n");
            assert!(said.contains("must be the name of an extended resource"), "{said}");
        }
    }
    assert!(refused(&json!({"gpus": [{"name": "g"}]})).contains("deviceName is a required field"));
}

#[test]
fn host_devices_have_a_gate_and_gpus_have_none() {
    let mut settings = cluster();
    settings.gates = crate::machine::Gates::Some([].into());
    assert!(check(&json!({"gpus": [gpu("g")]}), &settings).is_ok());
    let said = check(&json!({"hostDevices": [gpu("g")]}), &settings).unwrap_err().join("\n");
    assert!(said.contains("Host Devices feature gate is not enabled in kubevirt-config"), "{said}");
}

#[test]
fn names_are_told_apart() {
    let said = refused(&json!({"gpus": [gpu("a.b"), gpu("a_b")]}));
    assert!(said.contains("gpus[1].name 'a_b' must be unique"), "{said}");
    for odd in ["a b", "a'/>", "é", &"a".repeat(64)] {
        assert!(refused(&json!({"gpus": [gpu(odd)]})).contains("gpus[0].name must be no more"), "{odd}");
    }
    assert!(refused(&json!({"gpus": [gpu("")]})).contains("gpus[0].name is a required field"));
}

#[test]
fn a_laptop_has_no_device_plugin_and_no_claims() {
    let said = check(&json!({"hostDevices": [gpu("g")]}), &Settings::of_laptop()).unwrap_err().join("\n");
    assert!(said.contains("spec.domain.devices.hostDevices[0]: not supported yet"), "{said}");
    let said =
        check(&json!({"gpus": [claimed("g", "c", "r")]}), &Settings::of_laptop()).unwrap_err().join("\n");
    assert!(said.contains("spec.domain.devices.gpus[0]: not supported yet"), "{said}");
}

fn claimed(name: &str, claim: &str, request: &str) -> Value {
    json!({"name": name, "claimName": claim, "requestName": request})
}

/// With the ResourceClaim `c`. Nothing is in `permittedHostDevices`, and the gates are as a cluster has them.
fn with_claim(devices: &Value, status: &Value) -> Result<Machine, Vec<String>> {
    without(&[], devices, status)
}

/// Where these gates are closed.
fn without(gates: &[&str], devices: &Value, status: &Value) -> Result<Machine, Vec<String>> {
    let mut devices = devices.clone();
    devices["autoattachPodInterface"] = json!(false);
    let vmi: VirtualMachineInstance = crate::wire::read(json!({
        "metadata": {"name": "vm", "namespace": "n"},
        "spec": {
            "resourceClaims": [{"name": "c", "resourceClaimTemplateName": "gpu"}],
            "domain": {
                "memory": {"guest": "128Mi"},
                "firmware": {"uuid": "5d307ca9-b3ef-428c-8861-06e72d69f223"},
                "devices": devices,
            },
        },
        "status": status,
    }))
    .unwrap();
    let gates = json!({"featureGates": ["HostDevices"], "disabledFeatureGates": gates});
    let object = json!({"spec": {"configuration": {"developerConfiguration": gates}}});
    Machine::check(&vmi, &Settings::of_cluster(&object))
        .map_err(|faults| faults.iter().map(ToString::to_string).collect())
}

#[test]
fn a_device_of_a_claim_needs_no_permission_and_has_the_place_that_the_status_says() {
    let devices = json!({"gpus": [claimed("g", "c", "gpu")], "hostDevices": [claimed("g", "c", "card")]});
    let machine = with_claim(&devices, &Value::Null).unwrap();
    let of = |claim: &str, request: &str| Claimed {
        claim: claim.into(),
        request: request.into(),
        ..Claimed::default()
    };
    let found: Vec<_> =
        machine.host_devices.iter().map(|device| device.claimed().cloned().unwrap()).collect();
    assert_eq!(found, [of("c", "gpu"), of("c", "card")]);
    let told = |name: &str, attributes: Value| json!([{"name": name, "deviceResourceClaimStatus": {"attributes": attributes}}]);
    let status = json!({"deviceStatus": {
        "gpuStatuses": told("g", json!({"pciAddress": "0000:81:00.0"})),
        "hostDeviceStatuses": told("other", json!({"pciAddress": "0000:82:00.0"})),
    }});
    let machine = with_claim(&devices, &status).unwrap();
    let places: Vec<_> =
        machine.host_devices.iter().map(|device| device.claimed().unwrap().pci_address.clone()).collect();
    assert_eq!(places, [Some("0000:81:00.0".to_owned()), None], "another device's place is not its own");
}

#[test]
fn each_list_has_its_gate_for_claims_and_says_so_once_in_upstreams_words() {
    let gpus = json!({"gpus": [claimed("g", "c", "a"), claimed("h", "c", "b")]});
    let said = without(&["GPUsWithDRA"], &gpus, &Value::Null).unwrap_err();
    assert_eq!(said.len(), 1, "{said:?}");
    let words = "vmi.spec.domain.devices.gpus contains DRA enabled GPUs but feature gate is not enabled";
    assert!(said[0].contains(words), "{said:?}");
    let others = json!({"hostDevices": [claimed("g", "c", "a")]});
    let said = without(&["HostDevicesWithDRA"], &others, &Value::Null).unwrap_err().join("\n");
    let words = "vmi.spec.domain.devices.hostDevices contains DRA enabled HostDevices but feature gate is not enabled";
    assert!(said.contains(words), "{said}");
}

#[test]
fn a_device_of_a_claim_names_both_and_no_resource() {
    let refused = |devices: Value| with_claim(&devices, &Value::Null).unwrap_err().join("\n");
    let said = refused(json!({"gpus": [{"name": "g", "claimName": "c"}]}));
    assert!(said.contains("requestName is required for DRA GPU"), "{said}");
    let said = refused(json!({"hostDevices": [{"name": "g", "requestName": "r"}]}));
    assert!(said.contains("claimName is required for DRA HostDevice"), "{said}");
    let mut both = claimed("g", "c", "r");
    both["deviceName"] = json!("v.io/gpu");
    let said = refused(json!({"gpus": [both]}));
    assert!(said.contains("contains GPUs with both deviceName and claimRequest"), "{said}");
    let said = refused(json!({"gpus": [claimed("g", "other", "r")]}));
    assert!(said.contains("vmi.spec.resourceClaims must specify all claims used"), "{said}");
    let said = refused(json!({"gpus": [claimed("g", "c", "r")], "hostDevices": [claimed("h", "c", "r")]}));
    assert!(
        said.contains("duplicate claimName/requestName pair \"c/r\" between GPUs[0] and HostDevices[0]"),
        "{said}"
    );
    let said = refused(json!({"gpus": [claimed("g", "c", "r"), claimed("h", "c", "r")]}));
    assert!(said.contains("gpus[1]: duplicate claimName/requestName pair \"c/r\""), "{said}");
    let said = refused(json!({"gpus": [claimed("g", "c", "../r")]}));
    assert!(said.contains("requestName does not conform"), "{said}");
}

#[test]
fn a_guest_has_one_frame_buffer_and_a_screen_to_draw_on() {
    let with = |display: Value| {
        let mut gpu = gpu("g");
        gpu["virtualGPUOptions"] = json!({"display": display});
        gpu
    };
    let display = |devices: Value| check(&devices, &cluster()).unwrap().host_devices[0].display;
    let on = |ramfb| Some(Display { ramfb });
    assert_eq!(display(json!({"gpus": [with(json!({}))]})), on(true));
    assert_eq!(display(json!({"gpus": [with(json!({"ramFB": {"enabled": false}}))]})), on(false));
    assert_eq!(display(json!({"gpus": [with(json!({"enabled": false}))]})), None);
    assert_eq!(display(json!({"gpus": [gpu("g")], "autoattachGraphicsDevice": false})), None);
    let said = refused(&json!({"gpus": [with(json!({}))], "autoattachGraphicsDevice": false}));
    assert!(said.contains("not allowed when autoattachGraphicsDevice is set to false"), "{said}");
    let mut second = with(json!({"ramFB": {}}));
    second["name"] = json!("h");
    let said = refused(&json!({"gpus": [gpu("g"), second.clone()]}));
    assert!(said.contains("gpus[1].virtualGPUOptions.display.ramFB"), "{said}");
    let said = refused(&json!({"gpus": [second], "video": {"type": "ramfb"}}));
    assert!(said.contains("a guest has one"), "{said}");
}

#[test]
fn there_are_no_more_devices_than_root_ports() {
    let gpus = |count: usize| json!({"gpus": (0..count).map(|n| gpu(&format!("g{n}"))).collect::<Vec<_>>()});
    assert!(check(&gpus(24), &cluster()).is_ok());
    assert!(refused(&gpus(25)).contains("no more than 24 gpus and hostDevices"));
    let vmi: VirtualMachineInstance =
        crate::wire::read(json!({"metadata": {"name": "a"}, "spec": {"domain": {"devices": gpus(25)}}}))
            .unwrap();
    let faults = Machine::check(&vmi, &cluster()).unwrap_err();
    assert!(faults.iter().any(|fault| fault.reason == Reason::Invalid));
}
