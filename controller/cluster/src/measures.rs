//! What virt-controller measures: VMs and VMIs as they are, how long their phases took, its own work.
//!
//! Names and labels are those that dashboards look for. Everything but the times is read off the World when somebody
//! asks; nothing is kept for it.

mod cdi;
mod exports;

use api::vm::{PrintableStatus, VirtualMachine};
use api::vmi::{EvictionStrategy, Phase, VirtualMachineInstance};
use api_server::metrics::{Histograms, Is, Page};
use jiff::Timestamp;
use kubernetes::config::Config;
use kubernetes::objects::{Kept as _, World};
use std::collections::BTreeMap;

/// How long phases took, since this program acts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Times {
    between: Histograms,
    from_creation: Histograms,
    from_deletion: Histograms,
}

/// How much this program has to do.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Work {
    /// Objects that wait for a decision.
    pub(crate) waiting: usize,
    /// Decisions that were taken.
    pub(crate) decided: u64,
    /// Plans that failed.
    pub(crate) failed: u64,
}

impl Times {
    /// A VMI was so, and is so now.
    pub(crate) fn saw(&mut self, before: &VirtualMachineInstance, now: &VirtualMachineInstance) {
        let (old, new) = (super::vmi::phase(before), super::vmi::phase(now));
        if old == new || before.metadata.uid != now.metadata.uid {
            return;
        }
        let steps = now.status.as_ref().map_or(&[][..], |status| &status.phase_transition_timestamps);
        let when = |phase: &Phase| {
            let step = steps.iter().rev().find(|step| step.phase.as_ref() == Some(phase))?;
            seconds(step.phase_transition_timestamp.as_deref())
        };
        let Some(end) = when(&new) else { return };
        let took = |since: Option<f64>| since.map(|since| (end - since).max(0.0));
        let phase = || ("phase", new.as_str().to_owned());
        if let Some(took) = took(when(&old)) {
            self.between.took(vec![phase(), ("last_phase", old.as_str().to_owned())], took);
        }
        if let Some(took) = took(seconds(now.metadata.creation_timestamp.as_deref())) {
            self.from_creation.took(vec![phase()], took);
        }
        if let Some(took) = took(seconds(now.metadata.deletion_timestamp.as_deref())) {
            self.from_deletion.took(vec![phase()], took);
        }
    }
}

/// The page of a replica that acts.
pub(crate) fn page(world: &World, times: &Times, work: Work) -> String {
    let mut page = Page::default();
    common(&mut page, &world.facts.version, true);
    vms(&mut page, world);
    vmis(&mut page, world);
    nodes(&mut page, world);
    import_crons(&mut page, world);
    cdi::write(&mut page, world);
    exports::write(&mut page, world);
    page.histogram(
        "kubevirt_vmi_phase_transition_time_seconds",
        "Seconds that a VMI spent in each phase.",
        &times.between,
    );
    page.histogram(
        "kubevirt_vmi_phase_transition_time_from_creation_seconds",
        "Seconds from the creation of a VMI to each of its phases.",
        &times.from_creation,
    );
    page.histogram(
        "kubevirt_vmi_phase_transition_time_from_deletion_seconds",
        "Seconds from the deletion of a VMI to each of its phases.",
        &times.from_deletion,
    );
    let name = [("name", "virt-controller")];
    page.family("kubevirt_workqueue_depth", Is::Gauge, "Objects that wait for a decision.")
        .is(&name, work.waiting as f64);
    page.family("kubevirt_workqueue_adds_total", Is::Counter, "Decisions taken.")
        .is(&name, work.decided as f64);
    page.family("kubevirt_workqueue_retries_total", Is::Counter, "Plans that failed and are decided anew.")
        .is(&name, work.failed as f64);
    page.text()
}

/// The page of a replica in waiting.
pub(crate) fn waiting(version: &str) -> String {
    let mut page = Page::default();
    common(&mut page, version, false);
    page.text()
}

fn common(page: &mut Page, version: &str, leads: bool) {
    page.family("kubevirt_info", Is::Gauge, "The version.").is(&[("kubeversion", version)], 1.0);
    page.family("kubevirt_virt_controller_ready_status", Is::Gauge, "This replica can act.").is(&[], 1.0);
    let leads = if leads { 1.0 } else { 0.0 };
    page.family("kubevirt_virt_controller_leading_status", Is::Gauge, "This replica acts.").is(&[], leads);
    page.requests();
}

// ── VMs ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

/// What the printable status of a VM is counted as.
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

const GROUPS: [&str; 5] = ["running", "starting", "migrating", "non_running", "error"];

fn vms(page: &mut Page, world: &World) {
    let word = |vm: &VirtualMachine| {
        let word = vm.status.as_ref().and_then(|status| status.printable_status.clone());
        word.unwrap_or(PrintableStatus::Stopped)
    };
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for vm in world.vms.all() {
        *counts.entry(vm.metadata.namespace.as_deref().unwrap_or_default()).or_default() += 1;
    }
    let mut family = page.family("kubevirt_number_of_vms", Is::Gauge, "VMs of each namespace.");
    for (namespace, count) in counts {
        family.is(&[("namespace", namespace)], count as f64);
    }
    let mut family = page.family("kubevirt_vm_info", Is::Gauge, "VMs, with their printable status.");
    for vm in world.vms.all() {
        let [namespace, name] = names(&vm.metadata);
        let (status, group) = (word(vm).as_str().to_lowercase(), group(&word(vm)));
        family.is(&[namespace, name, ("status", &status), ("status_group", group)], 1.0);
    }
    let mut family =
        page.family("kubevirt_vm_create_date_timestamp_seconds", Is::Gauge, "Creation times of VMs.");
    for vm in world.vms.all() {
        if let Some(since) = seconds(vm.metadata.creation_timestamp.as_deref()) {
            family.is(&names(&vm.metadata), since);
        }
    }
    for wanted in GROUPS {
        let name = format!("kubevirt_vm_{wanted}_status_last_transition_timestamp_seconds");
        let help = format!("Time since which a VM is {}; 0 for a VM that is not.", wanted.replace('_', " "));
        let mut family = page.family(&name, Is::Gauge, &help);
        for vm in world.vms.all() {
            let since = if group(&word(vm)) == wanted { last_change(vm) } else { None };
            family.is(&names(&vm.metadata), since.unwrap_or(0.0));
        }
    }
}

/// When anything of a VM last changed.
fn last_change(vm: &VirtualMachine) -> Option<f64> {
    let conditions = vm.status.as_ref().map_or(&[][..], |status| &status.conditions);
    let last = conditions.iter().filter_map(|condition| seconds(condition.last_transition_time.as_deref()));
    last.reduce(f64::max).or_else(|| seconds(vm.metadata.creation_timestamp.as_deref()))
}

// ── VMIs ────────────────────────────────────────────────────────────────────────────────────────────────────────────

fn vmis(page: &mut Page, world: &World) {
    let node = |vmi: &VirtualMachineInstance| {
        vmi.status.as_ref().and_then(|status| status.node_name.clone()).unwrap_or_default()
    };
    let phase = |vmi: &VirtualMachineInstance| super::vmi::phase(vmi).as_str().to_lowercase();
    let of_cluster = Config::read(world).eviction_strategy;
    let is_evictable = |vmi: &VirtualMachineInstance| is_evictable(vmi, of_cluster.as_ref());
    let mut counts: BTreeMap<(String, String), u64> = BTreeMap::new();
    for vmi in world.vmis.all() {
        *counts.entry((node(vmi), phase(vmi))).or_default() += 1;
    }
    let mut family = page.family("kubevirt_vmi_phase_count", Is::Gauge, "VMIs of each node and phase.");
    for ((node, phase), count) in counts {
        family.is(&[("node", &node), ("phase", &phase)], count as f64);
    }
    let mut family = page.family("kubevirt_vmi_info", Is::Gauge, "VMIs, with their node, phase and guest.");
    for vmi in world.vmis.all() {
        let [namespace, name] = names(&vmi.metadata);
        let (node, phase) = (node(vmi), phase(vmi));
        let guest = vmi.status.as_ref().and_then(|status| status.guest_os_info.as_ref());
        let said = |text: Option<&String>| text.cloned().unwrap_or_default();
        let labels = [
            ("guest_os_kernel_release", said(guest.and_then(|guest| guest.kernel_release.as_ref()))),
            ("guest_os_machine", said(guest.and_then(|guest| guest.machine.as_ref()))),
            ("guest_os_name", said(guest.and_then(|guest| guest.name.as_ref()))),
            ("guest_os_version_id", said(guest.and_then(|guest| guest.version_id.as_ref()))),
        ];
        let evictable = if is_evictable(vmi) { "true" } else { "false" };
        let mut all = vec![namespace, name, ("node", &node), ("phase", &phase), ("evictable", evictable)];
        all.extend(labels.iter().map(|(key, value)| (*key, value.as_str())));
        family.is(&all, 1.0);
    }
    let mut family = page.family(
        "kubevirt_vmi_non_evictable",
        Is::Gauge,
        "VMIs that an eviction cannot live-migrate, though their strategy asks for it.",
    );
    for vmi in world.vmis.all() {
        let [namespace, name] = names(&vmi.metadata);
        let value = if is_evictable(vmi) { 0.0 } else { 1.0 };
        family.is(&[namespace, name, ("node", &node(vmi))], value);
    }
    let mut family = page.family("kubevirt_vmi_status_addresses", Is::Gauge, "Addresses of VMIs.");
    for vmi in world.vmis.all() {
        let [namespace, name] = names(&vmi.metadata);
        for interface in vmi.status.iter().flat_map(|status| &status.interfaces) {
            let network = interface.name.clone().unwrap_or_default();
            for address in &interface.ip_addresses {
                let node = node(vmi);
                let labels = [
                    namespace,
                    name,
                    ("node", &node),
                    ("network_name", &network),
                    ("address", address),
                    ("type", "InternalIP"),
                ];
                family.is(&labels, 1.0);
            }
        }
    }
    let mut family = page.family("kubevirt_vmi_vnic_info", Is::Gauge, "Interfaces of VMIs.");
    for vmi in world.vmis.all() {
        let [namespace, name] = names(&vmi.metadata);
        for interface in &vmi.spec.domain.devices.interfaces {
            let binding = if interface.masquerade.is_some() { "masquerade" } else { "bridge" };
            let model = interface.model.clone().unwrap_or_else(|| "virtio".to_owned());
            let labels = [
                namespace,
                name,
                ("vnic_name", &interface.name),
                ("binding_type", "core"),
                ("binding_name", binding),
                ("model", &model),
            ];
            family.is(&labels, 1.0);
        }
    }
    let mut family = page.family(
        "kubevirt_vmi_launcher_memory_overhead_bytes",
        Is::Gauge,
        "Memory that the launcher pod of a VMI requests beside the guest's.",
    );
    for vmi in world.vmis.all() {
        let note = world.active_pod(vmi).and_then(|pod| {
            pod.meta().annotations.get("kubevirt.io/memory-overhead-bytes")?.parse::<f64>().ok()
        });
        if let Some(bytes) = note {
            family.is(&names(&vmi.metadata), bytes);
        }
    }
}

/// It need not move where its node is emptied, or it can: none can in this version.
fn is_evictable(vmi: &VirtualMachineInstance, of_cluster: Option<&EvictionStrategy>) -> bool {
    !matches!(vmi.spec.eviction_strategy.as_ref().or(of_cluster), Some(EvictionStrategy::LiveMigrate))
}

// ── Nodes ───────────────────────────────────────────────────────────────────────────────────────────────────────────

fn nodes(page: &mut Page, world: &World) {
    let takes = world.nodes.all().filter(|node| node.takes_vmis() && !node.cordoned).count();
    page.family("kubevirt_allocatable_nodes", Is::Gauge, "Nodes that take VMIs.").is(&[], takes as f64);
    let kvm = world.nodes.all().filter(|node| node.kvm).count();
    page.family("kubevirt_nodes_with_kvm", Is::Gauge, "Nodes that offer KVM.").is(&[], kvm as f64);
}

// ── DataImportCrons ─────────────────────────────────────────────────────────────────────────────────────────────────

fn import_crons(page: &mut Page, world: &World) {
    let mut family = page.family(
        "kubevirt_cdi_dataimportcron_outdated",
        Is::Gauge,
        "DataImportCrons whose DataSource does not lead to the newest image.",
    );
    for cron in world.data_import_crons.all() {
        let said = |kind: &str| {
            let mut all = cron.status.iter().flat_map(|status| &status.conditions);
            all.find(|said| said.r#type == kind)
        };
        let is_outdated = said("UpToDate").is_none_or(|said| said.status != "True");
        let is_pending = said("Progressing").is_some_and(|said| said.reason.as_deref() == Some("Pending"));
        let [(_, namespace), (_, name)] = names(&cron.metadata);
        let pending = if is_pending { "true" } else { "false" };
        let labels = [("ns", namespace), ("cron_name", name), ("pending", pending)];
        family.is(&labels, if is_outdated { 1.0 } else { 0.0 });
    }
}

fn names(meta: &api::meta::ObjectMeta) -> [(&'static str, &str); 2] {
    [
        ("namespace", meta.namespace.as_deref().unwrap_or_default()),
        ("name", meta.name.as_deref().unwrap_or_default()),
    ]
}

/// Seconds since 1970 of a time as objects hold it.
fn seconds(time: Option<&str>) -> Option<f64> {
    let time: Timestamp = time?.parse().ok()?;
    Some(time.as_second() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::{Sim, vm, vmi};
    use kubernetes::objects::{Key, Kind};
    use serde_json::json;

    fn lines(text: &str, name: &str) -> Vec<String> {
        let with = |line: &&str| line.starts_with(name) && line[name.len()..].starts_with(['{', ' ']);
        text.lines().filter(with).map(str::to_owned).collect()
    }

    #[test]
    fn a_data_import_cron_is_outdated_until_its_datasource_leads_to_the_newest_image() {
        let mut sim = Sim::new();
        let meta = json!({"namespace": "n", "name": "images"});
        let key =
            sim.put(Kind::DataImportCron, json!({"metadata": meta, "spec": {"managedDataSource": "os"}}));
        let said = |sim: &Sim| {
            let text = page(&sim.world, &Times::default(), Work::default());
            lines(&text, "kubevirt_cdi_dataimportcron_outdated")
        };
        let labels = "{ns=\"n\",cron_name=\"images\",pending=\"false\"}";
        assert_eq!(said(&sim), [format!("kubevirt_cdi_dataimportcron_outdated{labels} 1")]);
        sim.change(&key, json!({"status": {"conditions": [{"type": "UpToDate", "status": "True"}]}}));
        assert_eq!(said(&sim), [format!("kubevirt_cdi_dataimportcron_outdated{labels} 0")]);
    }

    #[test]
    fn vms_and_vmis_are_told_as_they_are() {
        let mut sim = Sim::new();
        sim.put(Kind::VirtualMachine, vm("web", "Always"));
        sim.put(Kind::VirtualMachine, vm("off", "Halted"));
        sim.put(
            Kind::Node,
            json!({
                "metadata": {"name": "node1", "labels": {"kubevirt.io/schedulable": "true"}},
                "status": {"allocatable": {"devices.kubevirt.io/kvm": "1k"}},
            }),
        );
        sim.settle();
        sim.boot(&Key::new(Kind::VirtualMachineInstance, "n", "web"));
        let address = json!([{"name": "default", "ipAddresses": ["10.1.0.7"]}]);
        sim.change(
            &Key::new(Kind::VirtualMachineInstance, "n", "web"),
            json!({"status": {"interfaces": address}}),
        );
        let text = page(&sim.world, &Times::default(), Work { waiting: 2, ..Work::default() });
        let said = |name: &str| lines(&text, name);
        assert_eq!(said("kubevirt_number_of_vms"), ["kubevirt_number_of_vms{namespace=\"n\"} 2"]);
        assert_eq!(
            said("kubevirt_vm_info"),
            [
                "kubevirt_vm_info{namespace=\"n\",name=\"off\",status=\"stopped\",status_group=\"non_running\"} 1",
                "kubevirt_vm_info{namespace=\"n\",name=\"web\",status=\"running\",status_group=\"running\"} 1",
            ]
        );
        let since = said("kubevirt_vm_running_status_last_transition_timestamp_seconds");
        assert!(since[0].ends_with(" 0") && !since[1].ends_with(" 0"), "{since:?}");
        assert_eq!(
            said("kubevirt_vmi_phase_count"),
            ["kubevirt_vmi_phase_count{node=\"node1\",phase=\"running\"} 1"]
        );
        assert!(said("kubevirt_vmi_status_addresses")[0].contains("address=\"10.1.0.7\""));
        assert!(!said("kubevirt_vmi_launcher_memory_overhead_bytes").is_empty());
        assert_eq!(said("kubevirt_allocatable_nodes"), ["kubevirt_allocatable_nodes 1"]);
        assert_eq!(said("kubevirt_nodes_with_kvm"), ["kubevirt_nodes_with_kvm 1"]);
        assert_eq!(
            said("kubevirt_virt_controller_leading_status"),
            ["kubevirt_virt_controller_leading_status 1"]
        );
        assert_eq!(
            said("kubevirt_workqueue_depth"),
            ["kubevirt_workqueue_depth{name=\"virt-controller\"} 2"]
        );
        assert_eq!(
            lines(&waiting("1"), "kubevirt_virt_controller_leading_status"),
            ["kubevirt_virt_controller_leading_status 0"]
        );
        // A name is begun once, or Prometheus takes none of it.
        let mut names: Vec<&str> = text.lines().filter(|line| line.starts_with("# TYPE")).collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
    }

    #[test]
    fn how_long_a_phase_took_is_counted_once() {
        let vmi = |phase: &str| -> VirtualMachineInstance {
            let mut object = vmi("web");
            object["metadata"]["creationTimestamp"] = json!("2026-01-01T00:00:00Z");
            object["status"] = json!({"phase": phase, "phaseTransitionTimestamps": [
                {"phase": "Scheduled", "phaseTransitionTimestamp": "2026-01-01T00:00:03Z"},
                {"phase": "Running", "phaseTransitionTimestamp": "2026-01-01T00:00:04Z"},
            ]});
            api::wire::read(object).unwrap()
        };
        let mut times = Times::default();
        times.saw(&vmi("Scheduled"), &vmi("Running"));
        times.saw(&vmi("Running"), &vmi("Running"));
        let text = page(&World::default(), &times, Work::default());
        assert!(text.contains(
            "kubevirt_vmi_phase_transition_time_seconds_sum{phase=\"Running\",last_phase=\"Scheduled\"} 1\n"
        ));
        assert!(
            text.contains(
                "kubevirt_vmi_phase_transition_time_from_creation_seconds_sum{phase=\"Running\"} 4\n"
            )
        );
        assert!(text.contains(
            "kubevirt_vmi_phase_transition_time_from_creation_seconds_count{phase=\"Running\"} 1\n"
        ));
        assert!(!text.contains("from_deletion_seconds_count{"));
    }
}
