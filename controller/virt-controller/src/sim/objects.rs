//! Objects as JSON, which several tests begin with.

use cluster_model::objects::FINALIZER;
use serde_json::{Value, json};

/// The KubeVirt object of the installation, with this spec.
pub(crate) fn kubevirt(spec: Value) -> Value {
    json!({"metadata": {"namespace": "kubevirt", "name": "kubevirt"}, "spec": spec})
}

/// A DataVolume of 1 GiB with this source.
pub(crate) fn data_volume(name: &str, source: Value) -> Value {
    json!({"metadata": {"namespace": "n", "name": name}, "spec": data_volume_spec(source)})
}

pub(crate) fn data_volume_spec(source: Value) -> Value {
    json!({"source": source, "storage": storage()})
}

/// Spec of an empty DataVolume.
pub(crate) fn blank() -> Value {
    data_volume_spec(json!({"blank": {}}))
}

/// Storage of 1 GiB, as a DataVolume asks for it.
pub(crate) fn storage() -> Value {
    json!({"resources": {"requests": {"storage": "1Gi"}}})
}

/// A small VMI with an image as its disk, as the webhook lets it in.
pub(crate) fn vmi(name: &str) -> Value {
    json!({
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachineInstance",
        "metadata": {"namespace": "n", "name": name, "labels": {"app": name}, "finalizers": [FINALIZER]},
        "spec": template(),
    })
}

pub(crate) fn vm(name: &str, strategy: &str) -> Value {
    json!({
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachine",
        "metadata": {"namespace": "n", "name": name},
        "spec": {"runStrategy": strategy, "template": {"metadata": {"labels": {"app": name}}, "spec": template()}},
    })
}

/// A VM whose disk is the DataVolume `data`, made from a template of this spec.
pub(crate) fn vm_with_disk(name: &str, strategy: &str, spec: Value) -> Value {
    let mut vm = vm(name, strategy);
    vm["spec"]["dataVolumeTemplates"] = json!([{"metadata": {"name": "data"}, "spec": spec}]);
    vm["spec"]["template"]["spec"]["volumes"] = json!([{"name": "root", "dataVolume": {"name": "data"}}]);
    vm
}

/// Replica set with this number of VMIs.
pub(crate) fn replica_set(name: &str, replicas: u8) -> Value {
    json!({
        "metadata": {"namespace": "n", "name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": template()},
        },
    })
}

fn template() -> Value {
    json!({
        "domain": {
            "memory": {"guest": "128Mi"},
            "devices": {
                "autoattachPodInterface": false,
                "disks": [{"name": "root", "disk": {"bus": "virtio"}}],
            },
        },
        "volumes": [{"name": "root", "containerDisk": {"image": "registry.example/os:1"}}],
    })
}
