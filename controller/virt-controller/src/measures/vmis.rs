//! VMIs: where and how they are, and what of them is outdated or cannot move.

use super::label_values::{self, LabelValues};
use super::vms::extend_labels;
use super::{interfaces, label, names, system};
use crate::pod::MEMORY_OVERHEAD;
use api::instancetype::{MatcherKind, Role};
use api::vmi::{ConditionType, EvictionStrategy, VirtualMachineInstance};
use cluster_client::metrics::Page;
use cluster_model::conditions::is_true;
use cluster_model::metrics::cut;
use cluster_model::objects::{OUTDATED, StoredObject as _, World};
use jiff::Timestamp;
use std::collections::BTreeMap;

type Labels = Vec<(&'static str, String)>;

pub(super) fn write(page: &mut Page, world: &World, words: &mut LabelValues, now: Timestamp) {
    let mut counts: BTreeMap<Labels, u64> = BTreeMap::new();
    for vmi in world.vmis.all() {
        *counts.entry(shared_labels(vmi, words, now)).or_default() += 1;
    }
    let mut family = page.family("kubevirt_vmi_phase_count");
    for (labels, count) in counts {
        family.sample(&extend_labels(&[], &labels), count as f64);
    }
    info(page, world, words, now);
    let of_cluster = world.config().eviction_strategy.as_ref();
    let mut family = page.family("kubevirt_vmi_non_evictable");
    for vmi in world.vmis.all() {
        let [namespace, name] = names(&vmi.metadata);
        let value = if is_evictable(vmi, of_cluster) { 0.0 } else { 1.0 };
        family.sample(&[namespace, name, ("node", &node(vmi))], value);
    }
    let outdated = world.vmis.all().filter(|vmi| is_outdated(vmi)).count();
    page.family("kubevirt_vmi_number_of_outdated").sample(&[], outdated as f64);
    addresses(page, world, words, now);
    let mut family = page.family("kubevirt_vmi_vnic_info");
    for vmi in world.vmis.all() {
        for interface in interfaces::labels(&vmi.spec) {
            if !words.try_count(&vmi.metadata, ("vnics", label_values::INTERFACES), &interface, now) {
                continue;
            }
            family.sample(&extend_labels(&names(&vmi.metadata), &interface), 1.0);
        }
    }
    let mut family = page.family("kubevirt_vmi_launcher_memory_overhead_bytes");
    for vmi in world.vmis.all() {
        let note = world
            .active_pod(vmi)
            .and_then(|pod| pod.meta().annotations.get(MEMORY_OVERHEAD)?.parse::<f64>().ok());
        if let Some(bytes) = note {
            family.sample(&names(&vmi.metadata), bytes);
        }
    }
}

pub(super) fn node(vmi: &VirtualMachineInstance) -> String {
    vmi.status.as_ref().and_then(|status| status.node_name.clone()).unwrap_or_default()
}

fn phase(vmi: &VirtualMachineInstance) -> String {
    super::phase(&crate::vmi::phase(vmi)).to_lowercase()
}

fn is_outdated(vmi: &VirtualMachineInstance) -> bool {
    vmi.metadata.labels.contains_key(OUTDATED)
}

fn info(page: &mut Page, world: &World, words: &mut LabelValues, now: Timestamp) {
    let of_cluster = world.config().eviction_strategy.as_ref();
    let word = |is: bool| if is { "true" } else { "false" }.to_owned();
    let mut family = page.family("kubevirt_vmi_info");
    for vmi in world.vmis.all() {
        let pod = world.active_pod(vmi).and_then(|pod| pod.meta().name.clone());
        let mut labels = shared_labels(vmi, words, now);
        labels.extend([
            ("evictable", word(is_evictable(vmi, of_cluster))),
            ("outdated", word(is_outdated(vmi))),
            ("vmi_pod", label(pod.as_deref())),
        ]);
        family.sample(&extend_labels(&names(&vmi.metadata), &labels), 1.0);
    }
}

/// Labels of a VMI that it shares with others: its node, its configuration, and its guest's operating system.
fn shared_labels(vmi: &VirtualMachineInstance, words: &mut LabelValues, now: Timestamp) -> Labels {
    let status = vmi.status.as_ref();
    let guest = status.and_then(|status| status.guest_os_info.as_ref());
    let said = |text: Option<&String>| cut(text.map_or("", String::as_str));
    let annotations = &vmi.metadata.annotations;
    let made_with = |role: Role| {
        let kinds = MatcherKind::ALL.iter().filter(|kind| kind.role == role);
        let mut names = kinds.filter_map(|kind| annotations.get(kind.annotation()));
        label(names.next().map(String::as_str))
    };
    // Upstream's word for the machine type that libvirt gave the domain.
    let machine = status.and_then(|status| status.machine.as_ref()).map(|machine| &machine.r#type);
    let of_guest = [
        ("guest_os_machine", said(machine)),
        ("guest_os_kernel_release", said(guest.and_then(|guest| guest.kernel_release.as_ref()))),
        ("guest_os_arch", said(guest.and_then(|guest| guest.machine.as_ref()))),
        ("guest_os_name", said(guest.and_then(|guest| guest.name.as_ref()))),
        ("guest_os_version_id", said(guest.and_then(|guest| guest.version_id.as_ref()))),
    ];
    let [os, workload, flavor] = system(annotations);
    let of_user = [
        ("instance_type", made_with(Role::Instancetype)),
        ("preference", made_with(Role::Preference)),
        os,
        workload,
        flavor,
    ];
    let mut labels = vec![("node", node(vmi)), ("phase", phase(vmi))];
    labels.extend(words.set(&vmi.metadata, "guest", of_guest, now));
    labels.extend(words.set(&vmi.metadata, "user", of_user, now));
    labels
}

fn addresses(page: &mut Page, world: &World, words: &mut LabelValues, now: Timestamp) {
    let mut family = page.family("kubevirt_vmi_status_addresses");
    for vmi in world.vmis.all() {
        let [namespace, name] = names(&vmi.metadata);
        for interface in vmi.status.iter().flat_map(|status| &status.interfaces) {
            for address in &interface.ip_addresses {
                let place = [cut(interface.name.as_deref().unwrap_or_default()), cut(address)];
                if !words.try_count(&vmi.metadata, ("addresses", label_values::ADDRESSES), &place, now) {
                    continue;
                }
                let [network, address] = &place;
                let node = node(vmi);
                let labels = [
                    namespace,
                    name,
                    ("node", &node),
                    ("network_name", network),
                    ("address", address),
                    ("type", "InternalIP"),
                ];
                family.sample(&labels, 1.0);
            }
        }
    }
}

/// False if the VMI has to be live-migrated before its node is drained, and cannot be, or virt-handler has not decided on that yet.
fn is_evictable(vmi: &VirtualMachineInstance, of_cluster: Option<&EvictionStrategy>) -> bool {
    let strategy = vmi.spec.eviction_strategy.as_ref().or(of_cluster);
    let said = vmi.status.as_ref().map_or(&[][..], |status| &status.conditions);
    strategy != Some(&EvictionStrategy::LiveMigrate) || is_true(said, &ConditionType::LiveMigratable)
}
