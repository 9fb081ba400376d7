//! What is told of VMs and VMIs, as a monitor reads it.

use super::*;
use crate::sim::{Sim, vm, vmi};
use cluster_model::metrics::LONGEST;
use cluster_model::objects::{Key, Kind};
use futures_util::FutureExt as _;
use serde_json::json;
use std::collections::BTreeSet;

/// State that a replica keeps from one page to the next.
#[derive(Default)]
struct Kept {
    times: Times,
    words: LabelValues,
}

fn page(world: &World, kept: &mut Kept, work: Work, now: Timestamp) -> String {
    let snapshot = Snapshot { world: world.clone(), times: kept.times.clone(), work, now };
    super::page(&snapshot, &mut kept.words)
}

fn lines(text: &str, name: &str) -> Vec<String> {
    let with = |line: &&str| line.starts_with(name) && line[name.len()..].starts_with(['{', ' ']);
    text.lines().filter(with).map(str::to_owned).collect()
}

fn vm_info(name: &str, status: &str, group: &str) -> String {
    let none =
        ["os", "workload", "flavor", "instance_type", "preference"].map(|key| format!("{key}=\"<none>\""));
    let of = format!("namespace=\"n\",name=\"{name}\",{}", none.join(","));
    format!("kubevirt_vm_info{{{of},status=\"{status}\",status_group=\"{group}\"}} 1")
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
    let text =
        page(&sim.world, &mut Kept::default(), Work { waiting: 2, ..Work::default() }, Timestamp::UNIX_EPOCH);
    let said = |name: &str| lines(&text, name);
    assert_eq!(said("kubevirt_number_of_vms"), ["kubevirt_number_of_vms{namespace=\"n\"} 2"]);
    assert_eq!(
        said("kubevirt_vm_info"),
        [vm_info("off", "stopped", "non_running"), vm_info("web", "running", "running"),]
    );
    let since = said("kubevirt_vm_running_status_last_transition_timestamp_seconds");
    assert!(since[0].ends_with(" 0") && !since[1].ends_with(" 0"), "{since:?}");
    let [count] = &said("kubevirt_vmi_phase_count")[..] else { panic!("{text}") };
    assert!(
        count.starts_with("kubevirt_vmi_phase_count{node=\"node1\",phase=\"running\",")
            && count.ends_with("} 1")
    );
    for phase in ["pending", "scheduling", "running", "unset"] {
        let name = format!("kubevirt_vmi_migrations_in_{phase}_phase");
        assert_eq!(said(&name), [format!("{name} 0")], "dashboards show that there is none");
    }
    assert!(said("kubevirt_vmi_status_addresses")[0].contains("address=\"10.1.0.7\""));
    assert!(!said("kubevirt_vmi_launcher_memory_overhead_bytes").is_empty());
    assert_eq!(said("kubevirt_allocatable_nodes"), ["kubevirt_allocatable_nodes 1"]);
    assert_eq!(said("kubevirt_nodes_with_kvm"), ["kubevirt_nodes_with_kvm 1"]);
    assert_eq!(
        said("kubevirt_virt_controller_leading_status"),
        ["kubevirt_virt_controller_leading_status 1"]
    );
    assert_eq!(said("kubevirt_workqueue_depth"), ["kubevirt_workqueue_depth{name=\"virt-controller\"} 2"]);
    assert_eq!(
        lines(&standby_page("1"), "kubevirt_virt_controller_leading_status"),
        ["kubevirt_virt_controller_leading_status 0"]
    );
    // A name is begun once, or Prometheus takes none of it.
    let mut names: Vec<&str> = text.lines().filter(|line| line.starts_with("# TYPE")).collect();
    let all = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), all);
}

/// By upstream's labels: the machine type of the domain, and the architecture that the guest tells.
#[test]
fn vmis_are_counted_by_their_systems() {
    let mut sim = Sim::new();
    for (name, os, kernel) in
        [("a", "debian", "6.12"), ("b", "debian", "6.12"), ("c", "debian", "6.1"), ("d", "", "")]
    {
        let mut object = vmi(name);
        object["metadata"]["annotations"] = json!({"vm.kubevirt.io/os": os});
        let guest =
            json!({"kernelRelease": kernel, "machine": "x86_64", "name": "Debian", "versionId": "13"});
        object["status"] =
            json!({"phase": "Running", "machine": {"type": "pc-q35-10.0"}, "guestOSInfo": guest});
        sim.put(Kind::VirtualMachineInstance, object);
    }
    let text = page(&sim.world, &mut Kept::default(), Work::default(), Timestamp::UNIX_EPOCH);
    let counts = lines(&text, "kubevirt_vmi_phase_count");
    let with = |words: &[&str]| -> Vec<&str> {
        let all = counts.iter().filter(|line| words.iter().all(|word| line.contains(word)));
        all.filter_map(|line| line.rsplit_once(' ')).map(|(_, count)| count).collect()
    };
    assert_eq!(with(&["os=\"debian\"", "guest_os_kernel_release=\"6.12\""]), ["2"], "{counts:?}");
    assert_eq!(with(&["os=\"debian\"", "guest_os_kernel_release=\"6.1\""]), ["1"], "{counts:?}");
    assert_eq!(with(&["os=\"<none>\""]), ["1"], "{counts:?}");
    let system =
        ["guest_os_machine=\"pc-q35-10.0\"", "guest_os_arch=\"x86_64\"", "guest_os_version_id=\"13\""];
    assert_eq!(with(&system).len(), 3, "{counts:?}");
    let infos = lines(&text, "kubevirt_vmi_info");
    assert!(infos.iter().all(|line| system.iter().all(|word| line.contains(word))), "{infos:?}");
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
    let mut kept = Kept::default();
    kept.times.record_transition(&vmi("Scheduled"), &vmi("Running"));
    kept.times.record_transition(&vmi("Running"), &vmi("Running"));
    let text = page(&World::default(), &mut kept, Work::default(), Timestamp::UNIX_EPOCH);
    assert!(text.contains(
        "kubevirt_vmi_phase_transition_time_seconds_sum{phase=\"Running\",last_phase=\"Scheduled\"} 1\n"
    ));
    assert!(
        text.contains("kubevirt_vmi_phase_transition_time_from_creation_seconds_sum{phase=\"Running\"} 4\n")
    );
    assert!(
        text.contains(
            "kubevirt_vmi_phase_transition_time_from_creation_seconds_count{phase=\"Running\"} 1\n"
        )
    );
    assert!(!text.contains("from_deletion_seconds_count{"));
}

/// Times are kept for as long as virt-controller leads: a node that invents phases fills no memory.
#[test]
fn phases_that_a_node_invents_are_one_series() {
    let vmi = |number: usize| -> VirtualMachineInstance {
        let phase = format!("Invented-{number}-{}", "x".repeat(300));
        let mut object = vmi("web");
        object["metadata"]["creationTimestamp"] = json!("2026-01-01T00:00:00Z");
        object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        let before = format!("Invented-{}-{}", number.wrapping_sub(1), "x".repeat(300));
        let step = |phase: &str| json!({"phase": phase, "phaseTransitionTimestamp": "2026-01-01T00:00:03Z"});
        object["status"] =
            json!({"phase": phase, "phaseTransitionTimestamps": [step(&before), step(&phase)]});
        api::wire::read(object).unwrap()
    };
    let (mut kept, mut sim) = (Kept::default(), Sim::new());
    let mut before = vmi(1);
    for number in 2..10_002 {
        let now = vmi(number);
        kept.times.record_transition(&before, &now);
        before = now;
    }
    sim.put(Kind::VirtualMachineInstance, serde_json::to_value(&before).unwrap());
    let text = page(&sim.world, &mut kept, Work::default(), Timestamp::UNIX_EPOCH);
    let name = "kubevirt_vmi_phase_transition_time";
    for (suffix, labels) in [
        ("", "phase=\"Other\",last_phase=\"Other\""),
        ("_from_creation", "phase=\"Other\""),
        ("_from_deletion", "phase=\"Other\""),
    ] {
        let name = format!("{name}{suffix}_seconds_count");
        assert_eq!(lines(&text, &name), [format!("{name}{{{labels}}} 10000")]);
    }
    let count = lines(&text, "kubevirt_vmi_phase_count");
    assert_eq!(count.len(), 1);
    assert!(count[0].contains("phase=\"other\""), "{count:?}");
    assert!(text.split('"').all(|word| word.len() <= LONGEST || word.contains('\n')), "a long label");
}

#[test]
fn what_a_template_asks_for_is_told_with_its_disks_interfaces_and_labels() {
    let mut sim = Sim::new();
    let mut object = vm("web", "Halted");
    object["metadata"]["labels"] =
        json!({"app.kubernetes.io/name": "a\"b", "app-kubernetes-io/name": "c", "tier": "x"});
    let spec = &mut object["spec"]["template"]["spec"];
    spec["domain"]["cpu"] = json!({"cores": 2, "sockets": 3});
    spec["domain"]["memory"] = json!({"guest": "1Gi"});
    spec["domain"]["resources"] =
        json!({"requests": {"memory": "512Mi", "cpu": "250m"}, "limits": {"cpu": "4", "memory": "2Gi"}});
    spec["domain"]["devices"]["interfaces"] = json!([
        {"name": "default", "masquerade": {}},
        {"name": "second", "bridge": {}, "model": "e1000"},
        {"name": "third", "binding": {"name": "own"}},
    ]);
    spec["networks"] = json!([
        {"name": "default", "pod": {}},
        {"name": "second", "multus": {"networkName": "n/vlan"}},
        {"name": "third", "pod": {}},
    ]);
    spec["volumes"] = json!([
        {"name": "root", "persistentVolumeClaim": {"claimName": "disk"}},
        {"name": "gone", "dataVolume": {"name": "gone"}},
    ]);
    sim.put(Kind::VirtualMachine, object);
    sim.put(
        Kind::PersistentVolumeClaim,
        json!({"metadata": {"namespace": "n", "name": "disk"}, "spec": {
            "volumeMode": "Block", "resources": {"requests": {"storage": "10Gi"}},
        }}),
    );
    let text = page(&sim.world, &mut Kept::default(), Work::default(), Timestamp::UNIX_EPOCH);
    let of = "namespace=\"n\",name=\"web\"";
    let has = |line: String| assert!(text.lines().any(|other| other == line), "{line}\n{text}");
    for (resource, unit, source, value) in [
        ("cpu", "cores", "requests", "0.25"),
        ("cpu", "cores", "domain", "2"),
        ("cpu", "sockets", "domain", "3"),
        ("memory", "bytes", "domain", "536870912"),
        ("memory", "bytes", "guest", "1073741824"),
    ] {
        let what = format!("resource=\"{resource}\",unit=\"{unit}\",source=\"{source}\"");
        has(format!("kubevirt_vm_resource_requests{{{of},{what}}} {value}"));
    }
    assert_eq!(lines(&text, "kubevirt_vm_resource_requests").len(), 5);
    has(format!("kubevirt_vm_resource_limits{{{of},resource=\"cpu\",unit=\"cores\"}} 4"));
    has(format!("kubevirt_vm_resource_limits{{{of},resource=\"memory\",unit=\"bytes\"}} 2147483648"));
    let disk = "persistentvolumeclaim=\"disk\",volume_mode=\"Block\",device=\"root\"";
    assert_eq!(
        lines(&text, "kubevirt_vm_disk_allocated_size_bytes"),
        [format!("kubevirt_vm_disk_allocated_size_bytes{{{of},{disk}}} 10737418240")]
    );
    for (name, kind, network, binding, model) in [
        ("default", "core", "pod networking", "masquerade", "virtio"),
        ("second", "core", "n/vlan", "bridge", "e1000"),
        ("third", "plugin", "pod networking", "own", "virtio"),
    ] {
        has(format!(
            "kubevirt_vm_vnic_info{{{of},vnic_name=\"{name}\",binding_type=\"{kind}\",network=\"{network}\",\
             binding_name=\"{binding}\",model=\"{model}\"}} 1"
        ));
    }
    // Two labels of one name: the first by name, as its text stands.
    has(format!("kubevirt_vm_labels{{{of},label_app_kubernetes_io_name=\"c\",label_tier=\"x\"}} 1"));
}

#[test]
fn the_last_transition_is_that_of_the_conditions_that_upstream_looks_at() {
    let mut sim = Sim::new();
    let mut object = vm("web", "Halted");
    object["status"] = json!({"printableStatus": "Running", "conditions": [
        {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:10Z"},
        {"type": "Paused", "status": "False", "lastTransitionTime": "2026-01-01T00:00:05Z"},
        {"type": "LiveMigratable", "status": "False", "lastTransitionTime": "2026-01-01T00:01:00Z"},
    ]});
    sim.put(Kind::VirtualMachine, object);
    let text = page(&sim.world, &mut Kept::default(), Work::default(), Timestamp::UNIX_EPOCH);
    let since = lines(&text, "kubevirt_vm_running_status_last_transition_timestamp_seconds");
    assert!(since[0].ends_with(" 1767225610"), "{since:?}");
}

#[test]
fn what_a_user_wrote_is_cut_and_a_vmi_with_an_old_launcher_is_counted() {
    let mut sim = Sim::new();
    let mut object = vmi("web");
    object["metadata"]["labels"] = json!({"kubevirt.io/outdatedLauncherImage": ""});
    object["metadata"]["annotations"] = json!({"vm.kubevirt.io/os": "x".repeat(5000)});
    sim.put(Kind::VirtualMachineInstance, object);
    let text = page(&sim.world, &mut Kept::default(), Work::default(), Timestamp::UNIX_EPOCH);
    assert_eq!(lines(&text, "kubevirt_vmi_number_of_outdated"), ["kubevirt_vmi_number_of_outdated 1"]);
    let info = lines(&text, "kubevirt_vmi_info");
    assert!(info[0].contains("outdated=\"true\""), "{info:?}");
    assert!(info[0].contains(&format!("os=\"{}\"", "x".repeat(LONGEST))), "{info:?}");
}

#[test]
fn a_vmi_is_not_evictable_where_it_has_to_migrate_and_cannot_or_that_is_not_known() {
    for (strategy, migratable, value) in [
        (json!("LiveMigrate"), Some("True"), 0),
        (json!("LiveMigrate"), Some("False"), 1),
        (json!("LiveMigrate"), None, 1),
        (json!("LiveMigrateIfPossible"), Some("False"), 0),
        (json!("None"), None, 0),
        (json!(null), None, 0),
    ] {
        let mut sim = Sim::new();
        let mut object = vmi("web");
        object["spec"]["evictionStrategy"] = strategy.clone();
        let said = migratable.map(|status| json!({"type": "LiveMigratable", "status": status}));
        object["status"] = json!({"phase": "Running", "nodeName": "node1", "conditions": said.as_slice()});
        sim.put(Kind::VirtualMachineInstance, object);
        let text = page(&sim.world, &mut Kept::default(), Work::default(), Timestamp::UNIX_EPOCH);
        let found = lines(&text, "kubevirt_vmi_non_evictable");
        assert!(found[0].ends_with(&format!("}} {value}")), "{strategy} {migratable:?}: {found:?}");
    }
}

#[test]
fn plans_are_measured_while_they_run_and_when_they_end() {
    let mut kept = Kept::default();
    kept.times.record_wait(0.3);
    kept.times.record_plan(0.02);
    kept.times.record_plan(99.0);
    let text = page(
        &World::default(),
        &mut kept,
        Work { longest: 7.5, unfinished: 9.0, ..Work::default() },
        Timestamp::UNIX_EPOCH,
    );
    let name = "name=\"virt-controller\"";
    for line in [
        format!("kubevirt_workqueue_longest_running_processor_seconds{{{name}}} 7.5"),
        format!("kubevirt_workqueue_unfinished_work_seconds{{{name}}} 9"),
        format!("kubevirt_workqueue_work_duration_seconds_bucket{{{name},le=\"0.025\"}} 1"),
        format!("kubevirt_workqueue_queue_duration_seconds_bucket{{{name},le=\"0.25\"}} 0"),
        format!("kubevirt_workqueue_queue_duration_seconds_sum{{{name}}} 0.3"),
        format!("kubevirt_workqueue_work_duration_seconds_count{{{name}}} 2"),
    ] {
        assert!(text.lines().any(|other| other == line), "{line}\n{text}");
    }
}

/// Whoever collects measures keeps each name: a guest must not make as many as it likes.
#[test]
fn a_guest_that_tells_ever_new_systems_and_addresses_is_told_in_part() {
    let mut sim = Sim::new();
    sim.put(Kind::VirtualMachineInstance, vmi("web"));
    sim.put(Kind::VirtualMachineInstance, vmi("other"));
    let (mut kept, mut said) =
        (Kept::default(), BTreeMap::from([("info", 0), ("status_addresses", 0_usize)]));
    let mut all = BTreeSet::new();
    let mut look = |sim: &mut Sim, name: &str, release: &str, address: &str, at: i64| {
        let status = json!({"status": {
            "guestOSInfo": {"name": "Debian", "kernelRelease": release},
            "interfaces": [{"name": "default", "ipAddresses": ["10.0.0.1", address]}],
        }});
        sim.change(&Key::new(Kind::VirtualMachineInstance, "n", name), status);
        let now = Timestamp::from_second(at).unwrap();
        let text = page(&sim.world, &mut kept, Work::default(), now);
        for (name, count) in &mut said {
            for line in lines(&text, &format!("kubevirt_vmi_{name}")) {
                *count += usize::from(all.insert(line));
            }
        }
        (text, said.clone())
    };
    for at in 0..200 {
        let address = format!("10.0.1.{at}");
        let (text, _) = look(&mut sim, "web", &format!("6.{at}"), &address, at);
        let of_web =
            lines(&text, "kubevirt_vmi_info").into_iter().filter(|line| line.contains("name=\"web\""));
        assert_eq!(of_web.count(), 1, "a VMI is told of, whatever its guest says");
        assert!(text.contains("address=\"10.0.0.1\""), "what was known is told on");
    }
    let (text, said) = look(&mut sim, "web", "6.0", "10.0.1.0", 300);
    // The systems, the one that stands for more, and that of the other VMI.
    let most = (label_values::SETS + 1 + 1, label_values::ADDRESSES);
    assert_eq!((said["info"], said["status_addresses"]), most);
    assert!(text.contains("guest_os_kernel_release=\"6.0\"") && text.contains("address=\"10.0.1.0\""));
    let (text, _) = look(&mut sim, "web", "7", "10.0.2.1", 300);
    let many = format!("guest_os_kernel_release=\"{}\"", label_values::MANY);
    assert!(text.contains(&many) && !text.contains("10.0.2.1"), "{text}");
    let (text, _) = look(&mut sim, "other", "7", "10.0.2.1", 300);
    assert!(text.contains("guest_os_kernel_release=\"7\"") && text.contains("10.0.2.1"), "each for itself");
    let (text, _) = look(&mut sim, "web", "7", "10.0.2.1", 300 + 25 * 3600);
    assert!(!text.contains(&many), "a day later there is room: {text}");
}

/// As a guest, so a user: each change of labels, annotations, instance types, interfaces or disks would be a name for ever.
#[test]
fn a_vm_that_is_changed_without_end_is_told_in_part() {
    let mut sim = Sim::new();
    sim.put(Kind::VirtualMachine, vm("web", "Halted"));
    sim.put(Kind::VirtualMachine, vm("other", "Halted"));
    sim.put(
        Kind::PersistentVolumeClaim,
        json!({"metadata": {"namespace": "n", "name": "disk"}, "spec": {"resources": {"requests": {"storage": "1Gi"}}}}),
    );
    let key = Key::new(Kind::VirtualMachine, "n", "web");
    let families = ["labels", "info", "vnic_info", "disk_allocated_size_bytes"];
    let (mut kept, mut told) = (Kept::default(), BTreeMap::<&str, BTreeSet<String>>::new());
    let mut last = "none".to_owned();
    let mut look = |sim: &mut Sim, number: i64, at: i64| {
        let name = format!("x{number}");
        let template = json!({
            "metadata": {"annotations": {"vm.kubevirt.io/os": name}},
            "spec": {
                "networks": [{"name": name, "pod": {}}],
                "domain": {"devices": {"interfaces": [{"name": name, "masquerade": {}}]}},
                "volumes": [{"name": name, "persistentVolumeClaim": {"claimName": "disk"}}],
            },
        });
        let mut labels = json!({(std::mem::replace(&mut last, name.clone())): null});
        labels[&name] = json!(name);
        let spec = json!({"preference": {"name": name}, "template": template});
        sim.change(&key, json!({"metadata": {"labels": labels}, "spec": spec}));
        let text = page(&sim.world, &mut kept, Work::default(), Timestamp::from_second(at).unwrap());
        for family in families {
            let lines = lines(&text, &format!("kubevirt_vm_{family}"));
            let of_web = lines.into_iter().filter(|line| line.contains("name=\"web\""));
            told.entry(family).or_default().extend(of_web);
        }
        (text, families.map(|family| told[family].len()))
    };
    for number in 0..1000 {
        look(&mut sim, number, number);
    }
    let (text, most) = look(&mut sim, 1000, 1000);
    // The sets, and what stands for more; of interfaces and disks no more are told.
    assert_eq!(
        most,
        [label_values::SETS + 1, label_values::SETS + 1, label_values::INTERFACES, label_values::DISKS]
    );
    assert!(text.contains("kubevirt_vm_labels{namespace=\"n\",name=\"web\"} 1"), "{text}");
    assert!(text.contains(&format!("preference=\"{}\"", label_values::MANY)), "{text}");
    let (text, _) = look(&mut sim, 7, 1001);
    assert!(
        text.contains("label_x7=\"x7\"") && text.contains("preference=\"x7\""),
        "what was known is told on"
    );
    let (text, _) = look(&mut sim, 2000, 1001 + 25 * 3600);
    assert!(
        text.contains("label_x2000=") && !text.contains(label_values::MANY),
        "a day later there is room: {text}"
    );
}

/// A machine type is told by virt-handler, and its node may be a stranger's.
#[test]
fn machine_types_that_a_node_invents_are_told_in_part() {
    let mut sim = Sim::new();
    let key = sim.put(Kind::VirtualMachineInstance, vmi("web"));
    let (mut kept, mut told) = (Kept::default(), BTreeSet::new());
    for number in 0..1000 {
        sim.change(&key, json!({"status": {"machine": {"type": format!("pc-q35-{number}")}}}));
        let text = page(&sim.world, &mut kept, Work::default(), Timestamp::UNIX_EPOCH);
        told.extend(lines(&text, "kubevirt_vmi_info"));
        told.extend(lines(&text, "kubevirt_vmi_phase_count"));
    }
    assert_eq!(told.len(), 2 * (label_values::SETS + 1));
}

/// A page that is too long is not taken at all: nobody fills it for others.
#[test]
fn the_disks_and_interfaces_of_a_namespace_are_told_in_part() {
    let mut sim = Sim::new();
    for namespace in ["n", "other"] {
        let meta = json!({"namespace": namespace, "name": "disk"});
        let spec = json!({"resources": {"requests": {"storage": "1Gi"}}});
        sim.put(Kind::PersistentVolumeClaim, json!({"metadata": meta, "spec": spec}));
    }
    let disk = |number| json!({"name": format!("d{number}"), "persistentVolumeClaim": {"claimName": "disk"}});
    let mut put = |namespace: &str, number: usize, disks: usize| {
        let mut object = vm(&format!("web-{number}"), "Halted");
        object["metadata"]["namespace"] = json!(namespace);
        let spec = &mut object["spec"]["template"]["spec"];
        spec["networks"] = json!([{"name": "default", "pod": {}}]);
        spec["domain"]["devices"]["interfaces"] = json!([{"name": "default", "masquerade": {}}]);
        spec["volumes"] = (0..disks).map(disk).collect();
        sim.put(Kind::VirtualMachine, object);
    };
    (0..=label_values::OF_NAMESPACE / label_values::DISKS)
        .for_each(|number| put("n", number, label_values::DISKS));
    put("other", 0, 1);
    let mut kept = Kept::default();
    for _ in 0..2 {
        let text = page(&sim.world, &mut kept, Work::default(), Timestamp::UNIX_EPOCH);
        let told = |namespace: &str| {
            let families = ["kubevirt_vm_disk_allocated_size_bytes", "kubevirt_vm_vnic_info"];
            let all = families.into_iter().flat_map(|family| lines(&text, family));
            all.filter(|line| line.contains(&format!("namespace=\"{namespace}\""))).count()
        };
        assert_eq!([told("n"), told("other")], [label_values::OF_NAMESPACE, 2]);
    }
}

/// The count of a VM of an instance type is what its VMI would be made of.
#[test]
fn what_an_instance_type_gives_is_asked_for_too() {
    let mut sim = Sim::new();
    let given = json!({"cpu": {"guest": 4}, "memory": {"guest": "2Gi"}});
    sim.put(
        Kind::VirtualMachineClusterInstancetype,
        json!({"metadata": {"name": "big", "uid": "1", "generation": 1}, "spec": given}),
    );
    for (name, of) in [("web", "big"), ("lost", "gone")] {
        let mut object = vm(name, "Halted");
        object["spec"]["instancetype"] = json!({"name": of});
        object["spec"]["template"]["spec"]["domain"] = json!({"devices": {}});
        sim.put(Kind::VirtualMachine, object);
    }
    let text = page(&sim.world, &mut Kept::default(), Work::default(), Timestamp::UNIX_EPOCH);
    let all = lines(&text, "kubevirt_vm_resource_requests");
    let of = |source: &str, value: &str| {
        all.iter().any(|line| line.contains("name=\"web\"") && line.contains(source) && line.ends_with(value))
    };
    assert!(of("resource=\"memory\",unit=\"bytes\",source=\"guest\"", " 2147483648"), "{all:?}");
    assert!(of("resource=\"cpu\"", " 4"), "{all:?}");
    assert!(all.iter().all(|line| !line.contains("name=\"lost\"")), "what is not known is not told: {all:?}");
}

#[test]
fn labels_of_vms_are_told_as_the_config_map_says() {
    let mut sim = Sim::new();
    let mut object = vm("web", "Halted");
    object["metadata"]["labels"] = json!({"app": "a", "tier": "b", "owner/name": "c"});
    sim.put(Kind::VirtualMachine, object);
    let told = |sim: &mut Sim, data: Option<serde_json::Value>| {
        let key =
            Key::new(Kind::ConfigMap, sim.world.facts.namespace.clone(), cluster_model::objects::VM_LABELS);
        if let Some(data) = data {
            let meta = json!({"namespace": key.namespace, "name": key.name});
            sim.put(Kind::ConfigMap, json!({"metadata": meta, "data": data}));
        }
        assert!(sim.world.dependents(&key).is_empty(), "it decides nothing");
        let text = page(&sim.world, &mut Kept::default(), Work::default(), Timestamp::UNIX_EPOCH);
        let line = lines(&text, "kubevirt_vm_labels").remove(0);
        ["label_app", "label_owner_name", "label_tier"].map(|name| line.contains(name))
    };
    assert_eq!(told(&mut sim, None), [true, true, true]);
    assert_eq!(told(&mut sim, Some(json!({"allowlist": "app , owner/name,"}))), [true, true, false]);
    assert_eq!(told(&mut sim, Some(json!({"allowlist": "*", "ignorelist": "app"}))), [false, true, true]);
    assert_eq!(
        told(&mut sim, Some(json!({"allowlist": "app,tier", "ignorelist": "app"}))),
        [false, false, true]
    );
    assert_eq!(told(&mut sim, Some(json!({"allowlist": ""}))), [false, false, false]);
    assert_eq!(told(&mut sim, Some(json!({"ignorelist": "tier"}))), [true, true, false]);
    assert_eq!(told(&mut sim, Some(json!({"allowlist": 7}))), [true, true, true], "what is no text is none");
}

/// The loop hands a snapshot over and goes on. A third scrape waits until a page is complete.
#[tokio::test]
async fn the_loop_does_not_wait_for_a_page() {
    let snapshot = || Snapshot {
        world: World::default(),
        times: Times::default(),
        work: Work::default(),
        now: Timestamp::UNIX_EPOCH,
    };
    let renderer = Renderer::start();
    let (to, mut asked) = mpsc::channel(4);
    let mut pages = Vec::new();
    for _ in 0..2 {
        let (ask, page) = tokio::sync::oneshot::channel();
        to.send(ask).await.unwrap();
        pages.push(page);
    }
    renderer.next(&mut asked).await.unwrap().render(snapshot());
    assert!(pages[0].try_recv().is_err(), "no task but this one has run");
    let second = renderer.next(&mut asked).now_or_never();
    assert!(second.is_none(), "a second snapshot would fill the memory");
    assert!((&mut pages[0]).await.unwrap().contains("kubevirt_info"));
    renderer.next(&mut asked).await.unwrap().render(snapshot());
    assert!((&mut pages[1]).await.unwrap().contains("kubevirt_info"));
}

/// A client waits five seconds for a page, and asks again.
#[tokio::test]
async fn a_scrape_whose_client_has_gone_is_not_rendered() {
    let renderer = Renderer::start();
    let (to, mut asked) = mpsc::channel(2);
    let (gone, waits) = (tokio::sync::oneshot::channel().0, tokio::sync::oneshot::channel());
    to.send(gone).await.unwrap();
    to.send(waits.0).await.unwrap();
    let scrape = renderer.next(&mut asked).await.unwrap();
    assert!(asked.try_recv().is_err(), "the first one was left out");
    let (world, times) = (World::default(), Times::default());
    scrape.render(Snapshot { world, times, work: Work::default(), now: Timestamp::UNIX_EPOCH });
    assert!(waits.1.await.unwrap().contains("kubevirt_virt_controller_leading_status"));
}
