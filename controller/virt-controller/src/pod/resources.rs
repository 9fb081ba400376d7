//! Resources of the pod: the guest's memory and CPUs, and the overhead of the programs beside it.
//!
//! ```text
//! memory = guest / overcommit + (launcher + QEMU + processors + threads + screen + TPM + devices of the node + page tables
//!          + reserved) × ratio
//! cpu    = CPUs / allocation ratio, unless the spec sets it; with dedicated CPUs: as many, whole
//! disk   = emptyDisks, unless the spec sets it, + the pod's own files
//! ```
//!
//! **The node's disk.** Overlays and emptyDisks grow in an emptyDir as the guest writes. The pod has no limit
//! of `ephemeral-storage` by default: at a limit the kubelet evicts it and the guest is lost, whereas QEMU
//! pauses the guest on a full disk. A limit in the spec is raised to the size that these disks can grow to.
//! The maximum size of emptyDisks is requested, so that the scheduler does not fill a node with them, and a
//! node with little free disk evicts other pods first. A LimitRange of the namespace with a default limit
//! still sets one, in the API server (docs/how-to/pods.md).
//!
//! A pod is of the class `Guaranteed` only if every container in it has limits that are its requests. So where the
//! launcher's are ([`is_guaranteed`]), those of the small containers beside it are made so, too ([`guarantee`]).

use super::Surroundings;
use api::machine::host_device::{Claimed, Origin};
use api::machine::{Binding, HostDevice, Interface, IoThreads, Machine, Nic, Volume};
use api::quantity::Quantity;
use api::vmi::VirtualMachineInstance;
use cluster_model::config::Config;
use cluster_model::objects::PersistentVolumeClaim;
use serde_json::{Value, json};
use std::collections::BTreeMap;

const MIB: u64 = 1 << 20;
/// The launcher with libvirt inside: 25 MiB as measured, and what a start needs for a moment.
const LAUNCHER: u64 = 40 * MIB;
/// QEMU without its guest: code, devices, queues.
const QEMU: u64 = 64 * MIB;
/// Memory of each of the guest's CPUs: stack, queues.
const PROCESSOR: u64 = 8 * MIB;
/// Memory of the I/O threads.
const THREADS: u64 = 8 * MIB;
/// The memory of a screen, and what VNC keeps of it.
const SCREEN: u64 = 32 * MIB;
/// swtpm, and what swtpm_setup needs for a moment.
const TPM: u64 = 16 * MIB;
/// Memory that the kernel reserves for a device of the node (VFIO), as upstream has it.
const HOST_DEVICES: u64 = 1024 * MIB;
/// Code that is translated for a guest without KVM.
const TRANSLATED: u64 = 128 * MIB;
/// Divisor for page tables: one entry of 8 bytes for every 4 KiB. QEMU's own page tables are this part of the
/// guest, and with KVM the guest's second-level tables come on top.
const PAGE_TABLES: u64 = 512;

/// passt: 15 MiB as measured with a port, and what its connections need; and its sockets, where it listens on every port in both
/// families and protocols, as upstream counts them.
const PASST: u64 = 32 * MIB;
const PASST_OF_ALL_PORTS: u64 = 250 * MIB;

/// A program that asks the guest for a probe, while it runs.
const PROBE: u64 = 16 * MIB;

/// Additional memory of a Guaranteed pod, which is killed when it uses more than it requests.
const GUARANTEED: u64 = 100 * MIB;
/// Bytes of the pod's own files on the node's disk.
const DISK: u64 = 50_000_000;
/// Space of the tables of a qcow2 image beside its content: a divisor, and a minimum.
const TABLES: (u64, u64) = (1024, 4 * MIB);
/// Resource of the node's disk.
const STORAGE: &str = "ephemeral-storage";

/// True for a pod of the class `Guaranteed`: the VMI has CPUs of its own, or limits of CPU and memory that are its requests.
pub(super) fn is_guaranteed(vmi: &VirtualMachineInstance) -> bool {
    let domain = &vmi.spec.domain;
    if domain.cpu.as_ref().is_some_and(|cpu| cpu.dedicated_cpu_placement == Some(true)) {
        return true;
    }
    let Some(said) = &domain.resources else { return false };
    let is_limit = |name: &str| {
        let limit = said.limits.get(name).filter(|limit| limit.nanos() > 0);
        // A request of 0 counts as not set.
        let request = said.requests.get(name).filter(|request| request.nanos() > 0);
        limit.is_some_and(|limit| request.is_none_or(|request| request.nanos() == limit.nanos()))
    };
    said.overcommit_guest_overhead != Some(true) && ["cpu", "memory"].into_iter().all(is_limit)
}

/// A container of a Guaranteed pod requests its limits; one that does not makes the whole pod Burstable.
pub(super) fn guarantee(container: &mut Value) {
    let Some(resources) = container.get_mut("resources").and_then(Value::as_object_mut) else { return };
    for name in ["cpu", "memory"] {
        let said = |list: &str| resources.get(list).and_then(|list| list.get(name)).cloned();
        let Some(amount) = said("limits").or_else(|| said("requests")) else { continue };
        for list in ["requests", "limits"] {
            if let Some(list) = resources.entry(list).or_insert_with(|| json!({})).as_object_mut() {
                list.insert(name.to_owned(), amount.clone());
            }
        }
    }
}

/// Takes limits of `ephemeral-storage` from the containers beside a launcher that has none: the kubelet adds up the limits of a
/// pod's containers, and would evict the pod when the guest's disks have grown to those of the small ones.
pub(super) fn unlimit_disk(containers: &mut [Value]) {
    let Some((compute, others)) = containers.split_first_mut() else { return };
    if !compute["resources"]["limits"][STORAGE].is_null() {
        return;
    }
    for other in others {
        if let Some(limits) = other.pointer_mut("/resources/limits").and_then(Value::as_object_mut) {
            limits.remove(STORAGE);
        }
    }
}

/// Bytes that the emptyDisks of a VMI can grow to on the node's disk, and those of its overlays with a known
/// size. The size of a container image's disk is known only after the VMI has started.
fn growing(machine: &Machine, claims: &BTreeMap<String, PersistentVolumeClaim>) -> (u64, u64) {
    let with_tables = |size: u64| size.saturating_add(size / TABLES.0).saturating_add(TABLES.1);
    let (mut empty, mut overlays) = (0_u64, 0_u64);
    for disk in &machine.disks {
        match &disk.volume {
            Volume::Empty { capacity } => empty = empty.saturating_add(with_tables(*capacity)),
            Volume::Ephemeral { claim } => {
                let capacity =
                    claims.get(claim).and_then(|claim| claim.status.capacity.get("storage")?.bytes());
                overlays = overlays.saturating_add(with_tables(capacity.unwrap_or(0)));
            }
            _ => {}
        }
    }
    (empty, overlays)
}

/// Memory of a VMI beyond the overhead of its devices: the reserved overhead of its spec, and programs of its
/// probes.
pub(super) fn extra_memory(vmi: &VirtualMachineInstance) -> u64 {
    let memory = vmi.spec.domain.memory.as_ref();
    let reserved =
        memory.and_then(|memory| memory.reserved_overhead.as_ref()?.added_overhead.as_ref()?.bytes());
    let guaranteed = if is_guaranteed(vmi) { GUARANTEED } else { 0 };
    let probes = super::probes::programs(vmi).saturating_mul(PROBE);
    reserved.unwrap_or(0).saturating_add(probes).saturating_add(guaranteed)
}

/// Memory beside the guest's, in bytes. `reserved`: additional memory that the VMI requests.
pub(crate) fn overhead(machine: &Machine, config: &Config, reserved: u64) -> u64 {
    let tables = match machine.memory.hugepage {
        // A huge page has one entry, in tables that are too small to count.
        Some(_) => 0,
        None => machine.memory.guest / PAGE_TABLES * if config.use_emulation { 1 } else { 2 },
    };
    let threads =
        machine.io_threads != IoThreads::Default || machine.disks.iter().any(|disk| disk.dedicated_io_thread);
    let sum = [
        LAUNCHER,
        QEMU,
        PROCESSOR.saturating_mul(u64::from(machine.cpu.count())),
        if threads { THREADS } else { 0 },
        if machine.video.is_some() { SCREEN } else { 0 },
        if machine.tpm.is_some() { TPM } else { 0 },
        if machine.has_device_of_node() { HOST_DEVICES } else { 0 },
        if config.use_emulation { TRANSLATED } else { 0 },
        tables,
        plugins(machine),
        passt(machine),
    ];
    let sum = sum.into_iter().fold(reserved, u64::saturating_add);
    // Only an unchanged sum stays exact: a ratio makes whole pages anyway.
    if config.overhead_ratio == 1.0 { sum } else { (sum as f64 * config.overhead_ratio) as u64 }
}

/// Memory of the passt processes.
fn passt(machine: &Machine) -> u64 {
    let all = machine.interfaces.iter().filter(|interface| interface.binding == Binding::Passt);
    let each = all.map(|interface| if interface.ports.is_empty() { PASST_OF_ALL_PORTS } else { PASST });
    each.fold(0, u64::saturating_add)
}

/// Memory of network binding plugins, each counted once.
fn plugins(machine: &Machine) -> u64 {
    let all = machine.interfaces.iter().filter_map(|interface| interface.plugin.as_ref());
    let each: BTreeMap<&str, u64> = all.map(|plugin| (plugin.name.as_str(), plugin.memory)).collect();
    each.into_values().fold(0, u64::saturating_add)
}

pub(super) fn resources(vmi: &VirtualMachineInstance, machine: &Machine, around: &Surroundings<'_>) -> Value {
    let (config, automatic) = (around.config, around.limits);
    let mut asked = PodResources::for_vmi(vmi);
    asked.memory(vmi, machine, config);
    asked.cpu(machine, config);
    if automatic.cpu && !asked.limits.contains_key("cpu") {
        asked.limit_cpu(machine.cpu.count());
    }
    if let Some(ratio) = automatic.memory.filter(|_| !asked.limits.contains_key("memory")) {
        asked.limit_memory(ratio);
    }
    asked.disk(growing(machine, around.claims));
    asked.devices(machine, config);
    asked.render(machine)
}

/// Requests and limits of the pod, as in the spec and as computed.
struct PodResources<'a> {
    said_requests: &'a BTreeMap<String, Quantity>,
    said_limits: &'a BTreeMap<String, Quantity>,
    requests: BTreeMap<String, String>,
    limits: BTreeMap<String, String>,
}

/// Memory that the pod of a VMI requests for its guest.
pub(crate) fn guest_memory(vmi: &VirtualMachineInstance, machine: &Machine, config: &Config) -> u64 {
    let said = vmi.spec.domain.resources.as_ref();
    said.and_then(|said| memory_of(&said.requests).or(memory_of(&said.limits))).unwrap_or_else(|| {
        let guest = machine.memory.guest;
        let part = u128::from(guest) * 100 / u128::from(config.memory_overcommit.max(1));
        // A pod that is killed for what it does not ask for lends nothing out.
        if machine.cpu.dedicated { guest } else { u64::try_from(part).unwrap_or(u64::MAX) }
    })
}

/// A request or limit of memory. One of 0 counts as not set.
fn memory_of(list: &BTreeMap<String, Quantity>) -> Option<u64> {
    list.get("memory").filter(|amount| amount.nanos() > 0).and_then(Quantity::bytes)
}

static NOTHING: BTreeMap<String, Quantity> = BTreeMap::new();

impl<'a> PodResources<'a> {
    fn for_vmi(vmi: &'a VirtualMachineInstance) -> PodResources<'a> {
        let said = vmi.spec.domain.resources.as_ref();
        let (said_requests, said_limits) =
            said.map_or((&NOTHING, &NOTHING), |said| (&said.requests, &said.limits));
        // Devices and other resources are passed on unchanged.
        let others = |said: &BTreeMap<String, Quantity>| -> BTreeMap<String, String> {
            let is_other = |name: &str| !["memory", STORAGE].contains(&name);
            let others = said.iter().filter(|(name, _)| is_other(name));
            others.map(|(name, amount)| (name.clone(), amount.to_string())).collect()
        };
        PodResources {
            said_requests,
            said_limits,
            requests: others(said_requests),
            limits: others(said_limits),
        }
    }

    fn memory(&mut self, vmi: &VirtualMachineInstance, machine: &Machine, config: &Config) {
        let all = overhead(machine, config, extra_memory(vmi));
        let overcommits = vmi.spec.domain.resources.as_ref().and_then(|said| said.overcommit_guest_overhead);
        let beside = if overcommits == Some(true) { 0 } else { all };
        let guest = machine.memory.guest;
        let (said, limit) = (memory_of(self.said_requests), memory_of(self.said_limits));
        let request = match machine.memory.hugepage {
            Some(page) => {
                let name = format!("hugepages-{}", page_name(page));
                self.requests.insert(name.clone(), guest.to_string());
                self.limits.insert(name, guest.to_string());
                // The guest is in huge pages: the rest of the request is for the processes beside it.
                said.or(limit).unwrap_or(0).saturating_sub(guest)
            }
            None => guest_memory(vmi, machine, config),
        };
        let request = request.saturating_add(beside);
        self.requests.insert("memory".to_owned(), request.to_string());
        let limit = limit.map(|limit| match machine.memory.hugepage {
            Some(_) => limit.saturating_sub(guest),
            None => limit,
        });
        // The limit includes the processes beside the guest, even without a request for them.
        if let Some(limit) = limit.map(|limit| limit.saturating_add(all)) {
            self.limits.insert("memory".to_owned(), limit.to_string());
        }
        if machine.cpu.dedicated {
            self.limits.insert("memory".to_owned(), request.to_string());
        }
    }

    fn cpu(&mut self, machine: &Machine, config: &Config) {
        if machine.cpu.dedicated {
            // The kubelet gives dedicated CPUs only for a whole number of them.
            for list in [&mut self.requests, &mut self.limits] {
                list.insert("cpu".to_owned(), machine.cpu.dedicated_count().to_string());
            }
        } else if !self.requests.contains_key("cpu") && !self.limits.contains_key("cpu") {
            let share = config.cpu_request.clone().unwrap_or_else(|| {
                let milli = u64::from(machine.cpu.count()) * 1000 / config.cpu_allocation_ratio.max(1);
                format!("{}m", milli.max(1))
            });
            self.requests.insert("cpu".to_owned(), share);
        }
    }

    /// No request is above its limit.
    fn limit_cpu(&mut self, vcpus: u32) {
        let vcpus = vcpus.to_string();
        let nanos = |text: &str| Quantity::parse(text).map_or(0, |amount| amount.nanos());
        let request = self.requests.get("cpu").filter(|request| nanos(request) > nanos(&vcpus)).cloned();
        self.limits.insert("cpu".to_owned(), request.unwrap_or(vcpus));
    }

    fn limit_memory(&mut self, ratio: f64) {
        let request: u64 = self.requests.get("memory").and_then(|bytes| bytes.parse().ok()).unwrap_or(0);
        let limit = ((request as f64 * ratio) as u64).max(request);
        self.limits.insert("memory".to_owned(), limit.to_string());
    }

    /// Disk of the pod. The spec's values are for the guest, and the pod's own files are added.
    fn disk(&mut self, (empty, overlays): (u64, u64)) {
        let said = |list: &BTreeMap<String, Quantity>| list.get(STORAGE).and_then(Quantity::bytes);
        let with_own = |bytes: u64| match bytes {
            0 => "50M".to_owned(),
            _ => bytes.saturating_add(DISK).to_string(),
        };
        let limit = said(self.said_limits).map(|limit| limit.max(empty.saturating_add(overlays)));
        let request = said(self.said_requests).unwrap_or(empty);
        self.requests.insert(STORAGE.to_owned(), with_own(request));
        if let Some(limit) = limit {
            self.limits.insert(STORAGE.to_owned(), with_own(limit));
        }
    }

    fn devices(&mut self, machine: &Machine, config: &Config) {
        let mut device =
            |name: &str| self.limits.insert(format!("devices.kubevirt.io/{name}"), "1".to_owned());
        if !config.use_emulation {
            device("kvm");
        }
        // An interface of passt has no tap, and a virtual function needs none.
        let has_tap = |interface: &&Interface| !matches!(interface.binding, Binding::Passt | Binding::Sriov);
        let mut taps = machine.interfaces.iter().filter(has_tap);
        if taps.clone().next().is_some() {
            device("tun");
        }
        if !config.use_emulation && taps.any(|interface: &Interface| interface.model == Nic::Virtio) {
            device("vhost-net");
        }
        if machine.vsock {
            device("vhost-vsock");
        }
        self.host_devices(machine);
    }

    /// Host devices: one unit of the resource for each device, added to the spec's values. Kubernetes
    /// requires request and limit to be equal.
    fn host_devices(&mut self, machine: &Machine) {
        let mut counts: BTreeMap<&str, u128> = BTreeMap::new();
        for device in &machine.host_devices {
            if let Origin::Resource(resource) = &device.origin {
                *counts.entry(resource).or_default() += 1;
            }
        }
        for (resource, count) in counts {
            let said =
                [self.said_limits, self.said_requests].map(|said| said.get(resource).map(Quantity::nanos));
            let said = said.into_iter().flatten().max().unwrap_or(0);
            let said = u128::try_from(said).unwrap_or(0).div_ceil(1_000_000_000);
            let all = said.saturating_add(count).to_string();
            self.requests.insert(resource.to_owned(), all.clone());
            self.limits.insert(resource.to_owned(), all);
        }
    }

    fn render(self, machine: &Machine) -> Value {
        let mut resources = json!({"requests": self.requests});
        if !self.limits.is_empty() {
            resources["limits"] = json!(self.limits);
        }
        let claims: Vec<Value> =
            machine.host_devices.iter().filter_map(HostDevice::claimed).map(claim).collect();
        if !claims.is_empty() {
            resources["claims"] = json!(claims);
        }
        resources
    }
}

/// The request of a ResourceClaim whose device the kubelet gives the container.
fn claim(claimed: &Claimed) -> Value {
    json!({"name": claimed.claim, "request": claimed.request})
}

fn page_name(bytes: u64) -> String {
    match bytes {
        _ if bytes >= 1 << 30 && bytes.is_multiple_of(1 << 30) => format!("{}Gi", bytes >> 30),
        _ => format!("{}Mi", bytes >> 20),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::render;
    use serde_json::{Value, json};

    #[test]
    fn a_vmi_asks_for_each_of_its_devices_of_the_node() {
        let permitted = json!({"configuration": {
            "developerConfiguration": {"featureGates": ["HostDevices"]},
            "permittedHostDevices": {"pciHostDevices": [
                {"pciVendorSelector": "10de:1eb8", "resourceName": "v.io/gpu"},
                {"pciVendorSelector": "10de:1eb9", "resourceName": "v.io/card"},
            ]},
        }});
        let resources = |devices: Value, said: Value| {
            let domain = json!({"memory": {"guest": "64Mi"}, "devices": devices, "resources": said});
            let pod = render(json!({"spec": {"domain": domain}}), permitted.clone(), false);
            pod["spec"]["containers"][0]["resources"].clone()
        };
        let device = |name: &str, resource: &str| json!({"name": name, "deviceName": resource});
        let devices = json!({
            "gpus": [device("a", "v.io/gpu"), device("b", "v.io/gpu")],
            "hostDevices": [device("c", "v.io/gpu"), device("d", "v.io/card")],
        });
        let asked = resources(devices.clone(), json!({}));
        for list in ["requests", "limits"] {
            assert_eq!(
                (&asked[list]["v.io/gpu"], &asked[list]["v.io/card"]),
                (&json!("3"), &json!("1")),
                "{list}"
            );
        }
        let more = resources(devices, json!({"limits": {"v.io/gpu": "2"}}));
        assert_eq!((&more["limits"]["v.io/gpu"], &more["requests"]["v.io/gpu"]), (&json!("5"), &json!("5")));
        let bytes = |asked: &Value| asked["requests"]["memory"].as_str().unwrap().parse::<u64>().unwrap();
        let without = resources(json!({}), json!({}));
        assert_eq!(bytes(&asked) - bytes(&without), 1 << 30);
    }

    #[test]
    fn a_pod_asks_for_each_request_of_the_claims_of_its_vmi() {
        let device = |name: &str, claim: &str, request: &str| json!({"name": name, "claimName": claim, "requestName": request});
        let devices = json!({
            "gpus": [device("a", "cards", "gpu")],
            "hostDevices": [device("b", "cards", "nic"), device("c", "own", "card")],
        });
        let permitted =
            json!({"configuration": {"developerConfiguration": {"featureGates": ["HostDevices"]}}});
        let claims = json!([
            {"name": "cards", "resourceClaimTemplateName": "two"}, {"name": "own", "resourceClaimName": "one"},
        ]);
        let domain = json!({"memory": {"guest": "64Mi"}, "devices": devices});
        let spec = json!({"domain": domain, "resourceClaims": claims});
        let pod = render(json!({"spec": spec}), permitted, false);
        assert_eq!(pod["spec"]["resourceClaims"], claims);
        let containers = pod["spec"]["containers"].as_array().unwrap();
        let asked = |name: &str, request: &str| json!({"name": name, "request": request});
        let all = json!([asked("cards", "gpu"), asked("cards", "nic"), asked("own", "card")]);
        assert_eq!(containers[0]["resources"]["claims"], all);
        let others = containers.iter().skip(1);
        assert!(
            others.into_iter().all(|other| other["resources"]["claims"].is_null()),
            "the launcher's alone"
        );
        let plain = render(json!({"spec": {"domain": {"memory": {"guest": "64Mi"}}}}), json!({}), false);
        assert!(plain["spec"]["resourceClaims"].is_null());
        assert!(plain["spec"]["containers"][0]["resources"]["claims"].is_null());
    }

    #[test]
    fn a_vmi_with_vsock_asks_for_the_nodes_device_also_under_emulation() {
        let device = |on: Value, settings: Value| {
            let domain = json!({"memory": {"guest": "64Mi"}, "devices": {"autoattachVSOCK": on}});
            let pod = render(json!({"spec": {"domain": domain}}), settings, false);
            pod["spec"]["containers"][0]["resources"]["limits"]["devices.kubevirt.io/vhost-vsock"].clone()
        };
        let emulated = json!({"configuration": {"developerConfiguration": {"useEmulation": true}}});
        assert_eq!(device(json!(true), json!({})), "1");
        assert_eq!(device(json!(true), emulated), "1");
        assert_eq!(device(json!(false), json!({})), Value::Null);
    }

    #[test]
    fn a_limit_of_no_memory_is_one_that_nobody_has_written() {
        let memory = |resources: Value| {
            let cpu = json!({"cores": 2, "dedicatedCpuPlacement": true});
            let domain = json!({"cpu": cpu, "memory": {"guest": "64Mi"}, "resources": resources});
            let pod = render(json!({"spec": {"domain": domain}}), json!({}), false);
            pod["spec"]["containers"][0]["resources"]["limits"]["memory"].clone()
        };
        let unsaid = memory(json!({}));
        assert!(unsaid.as_str().unwrap().parse::<u64>().unwrap() > 64 << 20, "{unsaid}");
        assert_eq!(memory(json!({"limits": {"memory": "0"}})), unsaid);
    }

    #[test]
    fn passt_needs_no_tap_and_memory_for_its_ports() {
        let of = |interface: Value| {
            let devices = json!({"autoattachPodInterface": false, "interfaces": [interface]});
            let domain = json!({"memory": {"guest": "64Mi"}, "devices": devices});
            let networks = json!([{"name": "default", "pod": {}}]);
            let pod = render(json!({"spec": {"domain": domain, "networks": networks}}), json!({}), false);
            pod["spec"]["containers"][0]["resources"].clone()
        };
        let bytes = |resources: &Value| -> u64 {
            resources["requests"]["memory"].as_str().and_then(|text| text.parse().ok()).unwrap()
        };
        let masquerade = of(json!({"name": "default", "masquerade": {}}));
        let all = of(json!({"name": "default", "passtBinding": {}}));
        let one = of(json!({"name": "default", "passtBinding": {}, "ports": [{"port": 22}]}));
        assert_eq!(bytes(&all), bytes(&masquerade) + (250 << 20));
        assert_eq!(bytes(&one), bytes(&masquerade) + (32 << 20));
        for device in ["tun", "vhost-net"] {
            let name = format!("devices.kubevirt.io/{device}");
            assert_eq!((&masquerade["limits"][&name], &all["limits"][&name]), (&json!("1"), &Value::Null));
        }
    }

    #[test]
    fn a_virtual_function_needs_no_tap_and_memory_that_is_locked() {
        let of = |interface: Value| {
            let devices = json!({"autoattachPodInterface": false, "interfaces": [interface]});
            let domain = json!({"memory": {"guest": "64Mi"}, "devices": devices});
            let networks = json!([{"name": "blue", "multus": {"networkName": "lan"}}]);
            let pod = render(json!({"spec": {"domain": domain, "networks": networks}}), json!({}), false);
            pod["spec"]["containers"][0]["resources"].clone()
        };
        let bytes = |resources: &Value| -> u64 {
            resources["requests"]["memory"].as_str().and_then(|text| text.parse().ok()).unwrap()
        };
        let bridge = of(json!({"name": "blue", "bridge": {}}));
        let function = of(json!({"name": "blue", "sriov": {}}));
        assert_eq!(bytes(&function), bytes(&bridge) + (1 << 30));
        assert_eq!(function["limits"]["devices.kubevirt.io/tun"], Value::Null);
    }

    #[test]
    fn what_a_binding_plugin_needs_is_added_once() {
        use api::machine::network::Plugin;
        let mut object = crate::sim::vmi("web");
        object["spec"]["domain"]["devices"]["autoattachPodInterface"] = Value::Null;
        let mut vmi: super::VirtualMachineInstance = api::wire::read(object).unwrap();
        let config = super::Config::default();
        api::defaults::apply(&mut vmi, &config.defaults_context(api::uuid::of_vm("web")));
        let mut machine = super::Machine::check_again(&vmi).unwrap();
        let mut more = machine.interfaces[0].clone();
        let before = super::overhead(&machine, &config, 0);
        let plugin = |name: &str| Some(Plugin { name: name.into(), memory: 7, ..Plugin::default() });
        machine.interfaces[0].plugin = plugin("one");
        more.plugin = plugin("one");
        machine.interfaces.push(more.clone());
        assert_eq!(super::overhead(&machine, &config, 0), before + 7);
        more.plugin = plugin("other");
        machine.interfaces.push(more);
        assert_eq!(super::overhead(&machine, &config, 0), before + 14);
    }
}
