//! What the containers of a pod ask for, and the class that makes of it.

use super::*;

/// What every container of a pod asks for, the launcher's first.
fn resources(pod: &Value) -> Vec<&Value> {
    let list = |name: &str| pod["spec"][name].as_array().into_iter().flatten();
    list("containers").chain(list("initContainers")).map(|container| &container["resources"]).collect()
}

/// The class that Kubernetes gives to a pod, by its own rule.
fn class(pod: &Value) -> &'static str {
    let amount =
        |amount: &Value| api::quantity::Quantity::parse(amount.as_str()?).ok().map(|amount| amount.nanos());
    let is_guaranteed = |resources: &&Value| {
        ["cpu", "memory"].into_iter().all(|name| {
            let limit = amount(&resources["limits"][name]);
            // A request that nobody writes is the limit.
            let request = amount(&resources["requests"][name]).or(limit);
            limit.is_some_and(|limit| limit > 0) && request == limit
        })
    };
    if resources(pod).iter().all(is_guaranteed) { "Guaranteed" } else { "Burstable" }
}

#[test]
fn a_vmi_whose_limits_are_its_requests_has_a_guaranteed_pod() {
    let of = |resources: Value| {
        let domain = json!({"memory": {"guest": "64Mi"}, "resources": resources});
        let pod = render(json!({"spec": {"domain": domain}}), json!({}), false);
        assert!(resources_of_small(&pod) >= 3, "there are others beside the launcher");
        class(&pod)
    };
    let all = json!({"cpu": "1", "memory": "128Mi"});
    assert_eq!(of(json!({"limits": all})), "Guaranteed");
    assert_eq!(of(json!({"limits": all, "requests": {"cpu": "1000m", "memory": "131072Ki"}})), "Guaranteed");
    assert_eq!(of(json!({"limits": all, "requests": {"cpu": "500m"}})), "Burstable");
    assert_eq!(of(json!({"limits": all, "requests": {"memory": "64Mi"}})), "Burstable");
    assert_eq!(of(json!({"limits": {"cpu": "1"}})), "Burstable");
    assert_eq!(of(json!({"limits": all, "overcommitGuestOverhead": true})), "Burstable");
    assert_eq!(of(json!({})), "Burstable");
}

fn resources_of_small(pod: &Value) -> usize {
    resources(pod).len() - 1
}

#[test]
fn cpus_of_its_own_are_whole_and_on_a_node_that_gives_them() {
    let own = |cpu: Value| {
        let domain = json!({"cpu": cpu, "memory": {"guest": "64Mi", "hugepages": {"pageSize": "2Mi"}}});
        render(json!({"spec": {"domain": domain}}), json!({}), false)
    };
    let pod = own(json!({"cores": 2, "dedicatedCpuPlacement": true}));
    assert_eq!(class(&pod), "Guaranteed");
    let compute = &pod["spec"]["containers"][0];
    for list in ["requests", "limits"] {
        assert_eq!(compute["resources"][list]["cpu"], "2");
        assert_eq!(compute["resources"][list]["hugepages-2Mi"], (64 << 20).to_string());
    }
    assert_eq!(pod["spec"]["nodeSelector"]["cpumanager"], "true");
    assert!(pod["spec"]["nodeSelector"]["kubevirt.io/realtime"].is_null());
    let pod = own(json!({"cores": 2, "dedicatedCpuPlacement": true, "isolateEmulatorThread": true}));
    assert_eq!(pod["spec"]["containers"][0]["resources"]["limits"]["cpu"], "3");
    let realtime =
        json!({"dedicatedCpuPlacement": true, "numa": {"guestMappingPassthrough": {}}, "realtime": {}});
    assert_eq!(own(realtime)["spec"]["nodeSelector"]["kubevirt.io/realtime"], "");
    let shared = own(json!({"cores": 2}));
    assert_eq!((class(&shared), &shared["spec"]["nodeSelector"]["cpumanager"]), ("Burstable", &Value::Null));
}

#[test]
fn huge_pages_are_mounted_where_the_launcher_looks() {
    let change = json!({"spec": {"domain": {"memory": {"guest": "64Mi", "hugepages": {"pageSize": "2Mi"}}}}});
    let pod = render(change, json!({}), true);
    let mounts = pod["spec"]["containers"][0]["volumeMounts"].as_array().unwrap();
    let mount = mounts.iter().find(|mount| mount["mountPath"] == "/dev/hugepages").unwrap();
    let volumes = pod["spec"]["volumes"].as_array().unwrap();
    let volume = volumes.iter().find(|volume| volume["name"] == mount["name"]).unwrap();
    assert_eq!(volume["emptyDir"], json!({"medium": "HugePages"}));
    assert!(!render(json!({}), json!({}), true).to_string().contains("HugePages"));
}

#[test]
fn limits_that_a_quota_counts_are_filled_in_where_nobody_says_them() {
    let of = |resources: Value, cpu, memory| {
        let domain = json!({"cpu": {"cores": 2}, "memory": {"guest": "64Mi"}, "resources": resources});
        let pod =
            limited(json!({"spec": {"domain": domain}}), json!({}), true, AutomaticLimits { cpu, memory });
        pod["spec"]["containers"][0]["resources"].clone()
    };
    let bytes = |amount: &Value| amount.as_str().unwrap().parse::<u64>().unwrap();
    let none = of(json!({}), false, None);
    assert!(none["limits"]["cpu"].is_null() && none["limits"]["memory"].is_null());
    let both = of(json!({}), true, Some(2.0));
    assert_eq!(both["limits"]["cpu"], "2");
    assert_eq!(bytes(&both["limits"]["memory"]), 2 * bytes(&both["requests"]["memory"]));
    assert_eq!(both["requests"], none["requests"], "no request is another for that");
    let said = of(json!({"limits": {"cpu": "3", "memory": "128Mi"}}), true, Some(2.0));
    assert_eq!((&said["limits"]["cpu"], &said["requests"]["cpu"]), (&json!("3"), &json!("3")));
    assert!(bytes(&said["limits"]["memory"]) < 512 << 20);
    let more = of(json!({"requests": {"cpu": "2500m"}}), true, None);
    assert_eq!(more["limits"]["cpu"], "2500m", "no request is above its limit");
}

#[test]
fn what_is_said_of_the_nodes_disk_is_the_guests() {
    let of = |resources: Value| {
        let change = json!({"spec": {"domain": {"resources": resources}}});
        let resources = render(change, json!({}), true)["spec"]["containers"][0]["resources"].clone();
        ["requests", "limits"].map(|list| resources[list]["ephemeral-storage"].clone())
    };
    assert_eq!(of(json!({})), [json!("50M"), Value::Null]);
    assert_eq!(of(json!({"requests": {"ephemeral-storage": "1G"}})), [json!("1050000000"), Value::Null]);
    assert_eq!(of(json!({"limits": {"ephemeral-storage": "20M"}})), [json!("50M"), json!("70000000")]);
}

/// At a limit the kubelet evicts the pod; a disk that is full pauses its guest alone.
#[test]
fn what_a_guest_may_write_to_the_nodes_disk_is_asked_for_and_never_limited() {
    let pod = |resources: Value, settings: Value| {
        let disk = |name: &str| json!({"name": name, "disk": {"bus": "virtio"}});
        let domain = json!({"resources": resources, "devices": {"disks": [disk("root"), disk("scratch"), disk("base")]}});
        let volumes = json!([
            {"name": "root", "containerDisk": {"image": "registry.example/os:1"}},
            {"name": "scratch", "emptyDisk": {"capacity": "1Gi"}},
            {"name": "base", "ephemeral": {"persistentVolumeClaim": {"claimName": "files"}}},
        ]);
        render(json!({"spec": {"domain": domain, "volumes": volumes}}), settings, true)
    };
    let of = |resources: Value| {
        let resources = pod(resources, json!({}))["spec"]["containers"][0]["resources"].clone();
        ["requests", "limits"].map(|list| {
            resources[list]["ephemeral-storage"].as_str().map(|text| text.parse::<u64>().unwrap())
        })
    };
    let [request, limit] = of(json!({}));
    assert!(request.unwrap() > 1 << 30 && limit.is_none(), "{request:?} {limit:?}");
    assert_eq!(
        of(json!({"requests": {"ephemeral-storage": "1M"}})),
        [Some(51_000_000), None],
        "less, where it is said"
    );
    let [request, limit] = of(json!({"limits": {"ephemeral-storage": "20M"}}));
    // The claim of the overlay has 4Gi.
    assert!(limit.unwrap() > 5 << 30 && request <= limit, "{request:?} {limit:?}");
    assert_eq!(of(json!({"limits": {"ephemeral-storage": "10G"}}))[1], Some(10_050_000_000));
    let small = json!({"type": "guest-console-log", "resources": {"limits": {"ephemeral-storage": "10M"}}});
    let settings = json!({"configuration": {"supportContainerResources": [small]}});
    for (said, kept) in [(json!({}), false), (json!({"limits": {"ephemeral-storage": "1G"}}), true)] {
        let pod = pod(said.clone(), settings.clone());
        let containers = pod["spec"]["containers"].as_array().unwrap().iter().skip(1);
        let limited = containers.filter(|other| !other["resources"]["limits"]["ephemeral-storage"].is_null());
        assert_eq!(limited.count() > 0, kept, "{said}: the kubelet adds up what containers have");
    }
}
