//! VMs: what they are, what they ask for, their disks and interfaces.
//!
//! The ConfigMap [`VM_LABELS`] of the installation selects the exported labels of VMs, in upstream's form:
//! `allowlist` and `ignorelist`, names of labels with commas between them. Without it all labels are
//! exported. `*` in `allowlist` stands for all, and `ignorelist` takes precedence.

use super::label_values::{self, LabelValues};
use super::{interfaces, label, names, seconds, system};
use api::quantity::Quantity;
use api::vm::{PrintableStatus, Template, VirtualMachine};
use api::vmi::{Domain, Volume};
use cluster_client::metrics::Page;
use cluster_model::metrics::cut;
use cluster_model::objects::{VM_LABELS, World};
use jiff::Timestamp;
use std::collections::{BTreeMap, BTreeSet};

/// Most labels of a VM that are exported.
const LABELS: usize = 32;

pub(super) fn write(page: &mut Page, world: &World, words: &mut LabelValues, now: Timestamp) {
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for vm in world.vms.all() {
        *counts.entry(vm.metadata.namespace.as_deref().unwrap_or_default()).or_default() += 1;
    }
    let mut family = page.family("kubevirt_number_of_vms");
    for (namespace, count) in counts {
        family.sample(&[("namespace", namespace)], count as f64);
    }
    info(page, world, words, now);
    labels(page, world, words, now);
    times(page, world);
    resources(page, world);
    disks(page, world, words, now);
    let mut family = page.family("kubevirt_vm_vnic_info");
    for vm in world.vms.all() {
        for interface in template(vm).into_iter().flat_map(|template| interfaces::labels(&template.spec)) {
            if !words.try_count(&vm.metadata, ("vnics", label_values::INTERFACES), &interface, now) {
                continue;
            }
            family.sample(&extend_labels(&names(&vm.metadata), &interface), 1.0);
        }
    }
}

fn template(vm: &VirtualMachine) -> Option<&Template> {
    vm.spec.template.as_ref()
}

/// Labels, and more of them.
pub(super) fn extend_labels<'a>(
    first: &[(&'static str, &'a str)],
    more: &'a [(&'static str, String)],
) -> Vec<(&'static str, &'a str)> {
    first.iter().copied().chain(more.iter().map(|(key, value)| (*key, value.as_str()))).collect()
}

fn info(page: &mut Page, world: &World, words: &mut LabelValues, now: Timestamp) {
    let mut family = page.family("kubevirt_vm_info");
    for vm in world.vms.all() {
        let meta = template(vm).and_then(|template| template.metadata.as_ref());
        let [os, workload, flavor] = system(&meta.map(|meta| meta.annotations.clone()).unwrap_or_default());
        let (instancetype, preference) = (vm.spec.instancetype.as_ref(), vm.spec.preference.as_ref());
        let of_user = [
            os,
            workload,
            flavor,
            ("instance_type", label(instancetype.and_then(|one| one.name.as_deref()))),
            ("preference", label(preference.and_then(|one| one.name.as_deref()))),
        ];
        let mut more = words.set(&vm.metadata, "user", of_user, now).to_vec();
        more.extend([
            ("status", printable_status(vm).as_str().to_lowercase()),
            ("status_group", group(&printable_status(vm)).to_owned()),
        ]);
        family.sample(&extend_labels(&names(&vm.metadata), &more), 1.0);
    }
}

fn printable_status(vm: &VirtualMachine) -> PrintableStatus {
    let word = vm.status.as_ref().and_then(|status| status.printable_status.clone());
    word.unwrap_or(PrintableStatus::Stopped)
}

/// Group of a VM's printable status.
fn group(word: &PrintableStatus) -> &'static str {
    use PrintableStatus as P;
    match word {
        P::Running => "running",
        P::Starting | P::Provisioning | P::WaitingForVolumeBinding => "starting",
        P::Migrating | P::WaitingForReceiver => "migrating",
        P::Stopped | P::Stopping | P::Paused | P::Terminating => "non_running",
        _ => "error",
    }
}

/// Labels of VMs that are exported: an allowed set if the settings limit them, without the ignored ones.
struct LabelFilter<'a> {
    allowed: Option<BTreeSet<&'a str>>,
    ignored: BTreeSet<&'a str>,
}

impl<'a> LabelFilter<'a> {
    fn read(world: &'a World) -> LabelFilter<'a> {
        let map = world.config_maps.get(&world.facts.namespace, VM_LABELS);
        let names = |key: &str| {
            let text = map.and_then(|map| map.object["data"][key].as_str())?;
            Some(text.split(',').map(str::trim).filter(|name| !name.is_empty()).collect::<BTreeSet<_>>())
        };
        LabelFilter {
            allowed: names("allowlist").filter(|names| !names.contains("*")),
            ignored: names("ignorelist").unwrap_or_default(),
        }
    }

    fn allows(&self, name: &str) -> bool {
        !self.ignored.contains(name) && self.allowed.as_ref().is_none_or(|allowed| allowed.contains(name))
    }
}

/// Labels of VMs, with names that Prometheus permits. Two labels of the same name are exported once. A VM
/// whose labels change all the time is exported without labels.
fn labels(page: &mut Page, world: &World, words: &mut LabelValues, now: Timestamp) {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    let wanted = LabelFilter::read(world);
    let mut family = page.family("kubevirt_vm_labels");
    for vm in world.vms.all() {
        let mut said: BTreeMap<String, &str> = BTreeMap::new();
        for (key, value) in vm.metadata.labels.iter().filter(|(key, _)| wanted.allows(key)).take(LABELS) {
            said.entry(format!("label_{}", key.chars().map(plain).collect::<String>())).or_insert(value);
        }
        if !words.try_export(&vm.metadata, ("labels", label_values::SETS), &said, now) {
            said.clear();
        }
        let mut all: Vec<(&str, &str)> = names(&vm.metadata).to_vec();
        all.extend(said.iter().map(|(key, value)| (key.as_str(), *value)));
        family.sample(&all, 1.0);
    }
}

fn times(page: &mut Page, world: &World) {
    let mut family = page.family("kubevirt_vm_create_date_timestamp_seconds");
    for vm in world.vms.all() {
        if let Some(since) = seconds(vm.metadata.creation_timestamp.as_deref()) {
            family.sample(&names(&vm.metadata), since);
        }
    }
    for (wanted, name) in [
        ("running", "kubevirt_vm_running_status_last_transition_timestamp_seconds"),
        ("starting", "kubevirt_vm_starting_status_last_transition_timestamp_seconds"),
        ("migrating", "kubevirt_vm_migrating_status_last_transition_timestamp_seconds"),
        ("non_running", "kubevirt_vm_non_running_status_last_transition_timestamp_seconds"),
        ("error", "kubevirt_vm_error_status_last_transition_timestamp_seconds"),
    ] {
        let mut family = page.family(name);
        for vm in world.vms.all() {
            let since = if group(&printable_status(vm)) == wanted { last_change(vm) } else { None };
            family.sample(&names(&vm.metadata), since.unwrap_or(0.0));
        }
    }
}

/// Time of the last change of a condition that upstream considers. A new VM has none, and counts from its
/// creation.
fn last_change(vm: &VirtualMachine) -> Option<f64> {
    let conditions = vm.status.as_ref().map_or(&[][..], |status| &status.conditions);
    let of_status =
        conditions.iter().filter(|is| ["Ready", "Failure", "Paused"].contains(&is.r#type.as_str()));
    let last = of_status.filter_map(|condition| seconds(condition.last_transition_time.as_deref()));
    last.reduce(f64::max).or_else(|| seconds(vm.metadata.creation_timestamp.as_deref()))
}

fn resources(page: &mut Page, world: &World) {
    let asked = world.vms.all().filter_map(|vm| {
        // The values of an instance type are included if it can be used, because the VMI is created with
        // them.
        let made = crate::vm::sizes::measured(world, vm);
        let domain = &made.as_ref().or(template(vm))?.spec.domain;
        Some((names(&vm.metadata), requests(domain), limits(domain)))
    });
    let asked: Vec<(_, Vec<Request>, Vec<Limit>)> = asked.collect();
    let mut family = page.family("kubevirt_vm_resource_requests");
    for ([namespace, name], requests, _) in &asked {
        for (resource, unit, source, value) in requests {
            let of = [*namespace, *name, ("resource", *resource), ("unit", *unit), ("source", *source)];
            family.sample(&of, *value);
        }
    }
    let mut family = page.family("kubevirt_vm_resource_limits");
    for ([namespace, name], _, limits) in &asked {
        for (resource, unit, value) in limits {
            family.sample(&[*namespace, *name, ("resource", *resource), ("unit", *unit)], *value);
        }
    }
}

type Limit = (&'static str, &'static str, f64);

fn limits(domain: &Domain) -> Vec<Limit> {
    let limits = domain.resources.as_ref().map(|resources| &resources.limits);
    let of = |(resource, unit): (&'static str, &'static str)| {
        Some((resource, unit, number(limits?.get(resource)?)))
    };
    [("cpu", "cores"), ("memory", "bytes")].into_iter().filter_map(of).collect()
}

type Request = (&'static str, &'static str, &'static str, f64);

fn requests(domain: &Domain) -> Vec<Request> {
    let requests = domain.resources.as_ref().map(|resources| &resources.requests);
    let asked = |resource: &str| requests.and_then(|requests| requests.get(resource)).map(number);
    let memory = domain.memory.as_ref();
    let page = memory.and_then(|memory| memory.hugepages.as_ref()?.page_size.as_deref());
    let count = |what: fn(&api::vmi::Cpu) -> Option<u32>| domain.cpu.as_ref().and_then(what).map(f64::from);
    let all = [
        ("cpu", "cores", "requests", asked("cpu")),
        ("cpu", "cores", "domain", count(|cpu| cpu.cores)),
        ("cpu", "threads", "domain", count(|cpu| cpu.threads)),
        ("cpu", "sockets", "domain", count(|cpu| cpu.sockets)),
        ("memory", "bytes", "domain", asked("memory")),
        ("memory", "bytes", "guest", memory.and_then(|memory| memory.guest.as_ref()).map(number)),
        (
            "memory",
            "bytes",
            "hugepages",
            page.and_then(|page| Quantity::parse(page).ok()).as_ref().map(number),
        ),
    ];
    all.into_iter()
        .filter_map(|(resource, unit, source, value)| Some((resource, unit, source, value?)))
        .collect()
}

fn number(quantity: &Quantity) -> f64 {
    quantity.nanos() as f64 / 1e9
}

fn disks(page: &mut Page, world: &World, words: &mut LabelValues, now: Timestamp) {
    let mut family = page.family("kubevirt_vm_disk_allocated_size_bytes");
    for vm in world.vms.all() {
        let [(_, namespace), (_, name)] = names(&vm.metadata);
        for volume in template(vm).into_iter().flat_map(|template| &template.spec.volumes) {
            let Some(claim) = claim(volume) else { continue };
            let Some(spec) = world.pvcs.get(namespace, claim).map(|claim| &claim.spec) else { continue };
            let size = spec.resources.as_ref().and_then(|resources| resources.requests.get("storage"));
            let device = cut(&volume.name);
            let labels = [
                ("namespace", namespace),
                ("name", name),
                ("persistentvolumeclaim", claim),
                ("volume_mode", spec.volume_mode.as_deref().unwrap_or("Filesystem")),
                ("device", &device),
            ];
            if let Some(size) = size
                && words.try_count(&vm.metadata, ("disks", label_values::DISKS), &labels, now)
            {
                family.sample(&labels, number(size));
            }
        }
    }
}

/// The PVC of a volume.
fn claim(volume: &Volume) -> Option<&str> {
    let own = volume.persistent_volume_claim.as_ref().map(|source| &source.claim_name);
    let below = || Some(&volume.ephemeral.as_ref()?.persistent_volume_claim.as_ref()?.claim_name);
    own.or_else(|| volume.data_volume.as_ref().map(|source| &source.name)).or_else(below).map(String::as_str)
}
