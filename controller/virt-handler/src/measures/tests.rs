//! Metrics of VMIs, and of hostile launchers.

use super::*;
use crate::error::Error;
use crate::filesystems::Filesystems;
use crate::launcher_client::Client;
use crate::pod::Process;
use crate::pod::folder::Open;
use ::launcher_client::{Cause, Connector};
use api::launcher::{GuestFilesystem, GuestLoad, State};
use api::meta::ObjectMeta;
use futures_util::future::BoxFuture;
use std::sync::Arc;

struct Nobody;

impl Connector<Option<Process>> for Nobody {
    fn open(&self) -> BoxFuture<'_, Result<Open, Cause>> {
        Box::pin(async { Err(Error::failed("nobody is there").into()) })
    }
}

fn meta(name: &str) -> ObjectMeta {
    ObjectMeta { namespace: Some("n".into()), name: Some(name.into()), ..ObjectMeta::default() }
}

#[tokio::test]
async fn a_launcher_that_does_not_answer_is_left_out_and_a_seat_ends() {
    let launchers = Launchers::default();
    let client = Client::new("n/a", Arc::new(Nobody));
    let listed = launchers.list(&meta("a"), &client, &Filesystems::default());
    assert!(ask(&launchers).await.is_empty());
    let host = Host::new("/nonexistent".into());
    assert!(page("node1", &launchers, &host).await.contains("kubevirt_vmi_sync_total{node=\"node1\"}"));
    drop(listed);
    assert!(launchers.all().is_empty());
}

#[test]
fn a_launcher_that_says_much_is_told_in_part() {
    let many = (0..5000).map(|n| (format!("vd{n}"), DiskStats::default()));
    let strange = [("x\"} 1".to_owned(), DiskStats::default()), ("y".repeat(99), DiskStats::default())];
    let vcpus = (0..5000).map(|id| (id * 7, VcpuStats::default())).collect();
    let stats = Stats { disks: many.chain(strange).collect(), vcpus, ..Stats::default() };
    let told = bounded(stats);
    assert!(told.vcpus.keys().all(|id| *id < VCPUS));
    assert_eq!(told.disks.len(), MOST);
    assert!(told.disks.keys().all(|name| name.starts_with("vd")));
}

#[test]
fn the_load_of_a_guest_is_told_until_its_agent_cannot_be_asked() {
    let launchers = Launchers::default();
    let client = Client::new("n/a", Arc::new(Nobody));
    let listed = launchers.list(&meta("a"), &client, &Filesystems::default());
    let told = || launchers.all().remove(0).load;
    let load = Some(GuestLoad { load1m: Some(1.0), ..GuestLoad::default() });
    listed.devices(Names::new(), Names::new(), true);
    listed.load(load);
    listed.devices(Names::new(), Names::new(), true);
    assert_eq!(told(), load);
    listed.devices(Names::new(), Names::new(), false);
    assert_eq!(told(), None, "a paused guest is not busy, and one whose agent is gone does not say so");
    listed.load(load);
    listed.load(None);
    assert_eq!(told(), None, "its agent was asked, and did not answer");
}

/// A VMI.
pub(super) fn entry(name: &str) -> Entry {
    Entry {
        namespace: "n".into(),
        name: name.into(),
        uid: format!("uid of {name}"),
        client: Client::new(&format!("n/{name}"), Arc::new(Nobody)),
        pod: (format!("virt-launcher-{name}"), format!("uid of the pod of {name}")),
        process: None,
        has_own_cpus: false,
        has_devices: false,
        disks: Names::new(),
        taps: Names::new(),
        agent: true,
        load: None,
        growing: None,
        filesystems: Filesystems::default(),
    }
}

/// A VMI with a disk and an interface of these names.
fn with_devices(disk: &str, interface: &str) -> Entry {
    Entry {
        disks: [("vda".to_owned(), disk.to_owned())].into(),
        taps: [("tap0".to_owned(), interface.to_owned())].into(),
        load: Some(GuestLoad { load1m: Some(0.5), load5m: Some(2.0), load15m: None }),
        ..entry("web")
    }
}

/// A node with a deprecated machine type.
#[test]
fn what_vmis_have_of_the_node_is_told() {
    let vcpu = |state| VcpuStats { state, ..VcpuStats::default() };
    let vcpus = [VcpuState::Running, VcpuState::Blocked, VcpuState::Offline].into_iter().map(vcpu);
    let stats = Stats { vcpus: (0..).zip(vcpus).collect(), ..Stats::default() };
    let used = |entry: Entry| Used { stats: stats.clone(), filesystems: FilesystemUsage::default(), entry };
    let (shares, unseen) = (entry("shares"), entry("unseen"));
    let owns = Entry { has_own_cpus: true, ..entry("owns") };
    let gpu = Gpu {
        namespace: "n".into(),
        pod: "virt-launcher-shares".into(),
        resource: "nvidia.com/A10".into(),
        uuid: "GPU-1".into(),
    };
    let had = PreviousSample { cpus: [(shares.uid.clone(), 8)].into(), gpus: vec![gpu] };
    machine_types::set_deprecated(vec!["pc-i440fx-2.4".to_owned()]);
    let panicked = State { reason: Some("GuestPanicked".to_owned()), ..State::default() };
    for before in [None, Some(&panicked)] {
        count_panic(before, &panicked, &meta("panicked"));
    }
    let text = page_of("node1", &[used(owns), used(shares), used(unseen)], &had, 2, &[]);
    let of = |name: &str| format!("node=\"node1\",namespace=\"n\",name=\"{name}\"");
    for line in [
        format!("kubevirt_vmi_node_cpu_affinity{{{}}} 2", of("owns")),
        format!("kubevirt_vmi_node_cpu_affinity{{{}}} 16", of("shares")),
        "kubevirt_vmi_gpu_info{node=\"node1\",namespace=\"n\",pod=\"virt-launcher-shares\",\
         resource=\"nvidia.com/A10\",uuid=\"GPU-1\"} 1"
            .to_owned(),
        "kubevirt_vmi_guest_os_panic_total{namespace=\"n\",name=\"panicked\",type=\"unknown\",bugcheck_code=\"unknown\"} 1"
            .to_owned(),
        "kubevirt_node_deprecated_machine_types{machine_type=\"pc-i440fx-2.4\",node=\"node1\"} 1".to_owned(),
        "coracle_vmis_paused_for_disk_pressure{node=\"node1\"} 2".to_owned(),
    ] {
        assert!(text.lines().any(|other| other == line), "{line}\n{text}");
    }
    assert!(!text.contains(&format!("kubevirt_vmi_node_cpu_affinity{{{}}}", of("unseen"))), "{text}");
}

/// Prometheus rejects a page with a longer line.
#[test]
fn no_label_of_a_page_is_longer_than_1024_bytes() {
    let long = "ü".repeat(5000);
    let entry = with_devices(&long, &long);
    let said = GuestFilesystem {
        name: long.clone(),
        mountpoint: "😀".repeat(5000),
        kind: long,
        used_bytes: Some(1),
        total_bytes: Some(8),
    };
    let filesystems = entry.filesystems.to_metrics(vec![said]);
    let stats = Stats {
        disks: [("vda".to_owned(), DiskStats::default())].into(),
        interfaces: [("tap0".to_owned(), InterfaceStats::default())].into(),
        ..Stats::default()
    };
    let text = page_of("node1", &[Used { entry, stats, filesystems }], &PreviousSample::default(), 0, &[]);
    for label in ["drive", "interface", "disk_name", "mount_point", "file_system_type"] {
        assert!(text.contains(&format!("{label}=\"")), "{label}");
    }
    assert!(text.split('"').all(|word| word.len() <= 1024 || word.contains('\n')), "a long label");
}

#[test]
fn what_vmis_use_is_told_by_the_names_of_their_specs() {
    let mut entry = with_devices("root", "default");
    entry.uid = "u".to_owned();
    let disk = DiskStats { read_bytes: 7, flushes: 3, flush_ns: 1_500_000_000, ..DiskStats::default() };
    let interface = InterfaceStats { sent_bytes: 9, ..InterfaceStats::default() };
    let vcpu = VcpuStats {
        state: VcpuState::Blocked,
        ns: 3_000_000_000,
        wait_ns: None,
        delay_ns: Some(500_000_000),
    };
    let memory = MemoryStats {
        domain: 1 << 27,
        resident: Some(5),
        available: Some(9),
        usable: Some(4),
        ..MemoryStats::default()
    };
    let said = GuestFilesystem {
        name: "vda1".into(),
        mountpoint: "/a\"b".into(),
        kind: "ext4".into(),
        used_bytes: None,
        total_bytes: Some(8),
    };
    let filesystems = entry.filesystems.to_metrics(vec![said]);
    let stats = Stats {
        cpu_ns: 2_500_000_000,
        cpu_user_ns: Some(2_000_000_000),
        cpu_system_ns: None,
        vcpus: [(1, vcpu)].into(),
        dirty_bytes_per_second: Some(3 << 20),
        memory,
        disks: ["vda", "tap0", "made-up"].map(|name| (name.to_owned(), disk)).into(),
        interfaces: ["tap0", "vda", "made-up"].map(|name| (name.to_owned(), interface)).into(),
    };
    let text = page_of("node1", &[Used { entry, stats, filesystems }], &PreviousSample::default(), 0, &[]);
    let of = "node=\"node1\",namespace=\"n\",name=\"web\"";
    let files = "disk_name=\"vda1\",mount_point=\"/a\\\"b\",file_system_type=\"ext4\"";
    for line in [
        format!("kubevirt_vmi_cpu_usage_seconds_total{{{of}}} 2.5"),
        format!("kubevirt_vmi_cpu_user_usage_seconds_total{{{of}}} 2"),
        format!("kubevirt_vmi_vcpu_seconds_total{{{of},id=\"1\",state=\"blocked\"}} 3"),
        format!("kubevirt_vmi_vcpu_delay_seconds_total{{{of},id=\"1\"}} 0.5"),
        format!("kubevirt_vmi_memory_used_bytes{{{of}}} 5"),
        format!("kubevirt_vmi_dirty_rate_bytes_per_second{{{of}}} 3145728"),
        format!("kubevirt_vmi_guest_load_1m{{{of}}} 0.5"),
        format!("kubevirt_vmi_guest_load_5m{{{of}}} 2"),
        format!("kubevirt_vmi_storage_flush_requests_total{{{of},drive=\"root\"}} 3"),
        format!("kubevirt_vmi_storage_flush_times_seconds_total{{{of},drive=\"root\"}} 1.5"),
        format!("kubevirt_vmi_filesystem_capacity_bytes{{{of},{files}}} 8"),
        format!("kubevirt_vmi_memory_domain_bytes{{{of}}} 134217728"),
        format!("kubevirt_vmi_memory_resident_bytes{{{of}}} 5"),
        format!("kubevirt_vmi_storage_read_traffic_bytes_total{{{of},drive=\"root\"}} 7"),
        format!("kubevirt_vmi_network_transmit_bytes_total{{{of},interface=\"default\"}} 9"),
        format!("kubevirt_vmi_network_traffic_bytes_total{{{of},interface=\"default\",type=\"tx\"}} 9"),
    ] {
        assert!(text.lines().any(|other| other == line), "{line}\n{text}");
    }
    for unknown in [
        "kubevirt_vmi_guest_load_15m{",
        "kubevirt_vmi_memory_unused_bytes{",
        "kubevirt_vmi_cpu_system_usage_seconds_total{",
        "kubevirt_vmi_vcpu_wait_seconds_total{",
        "kubevirt_vmi_filesystem_used_bytes{",
    ] {
        assert!(!text.contains(unknown), "{unknown}: what is not known is not told");
    }
    // A launcher may choose device names freely, and change them at each look.
    for (label, count) in [("drive=\"", DISK.len()), ("interface=\"", NETWORK.len() + 2)] {
        assert_eq!(text.matches(label).count(), count, "{label}: a name that is not the spec's\n{text}");
    }
}
