//! Alerts, by upstream's names. Those on snapshots and virt-operator are missing, since these do not exist. `VirtHandlerDaemonSetRolloutFailing` and `VirtLauncherPodsStuckFailed` need
//! kube-state-metrics, `KubeVirtDeprecatedAPIRequested` needs the metrics of the API server; each is silent
//! without.

use serde_json::{Value, json};

/// Types of file systems that are always full.
const FULL: &str = "CDFS|iso9660|udf|squashfs|cramfs|tmpfs|devtmpfs|ramfs|overlay";

struct Alert {
    name: &'static str,
    expression: String,
    /// Time for which the expression must be true.
    lasts: &'static str,
    severity: &'static str,
    /// Impact on the operation of KubeVirt.
    impact: &'static str,
    summary: String,
}

fn alert(
    name: &'static str,
    (lasts, severity, impact): (&'static str, &'static str, &'static str),
    expression: impl Into<String>,
    summary: impl Into<String>,
) -> Alert {
    Alert { name, expression: expression.into(), lasts, severity, impact, summary: summary.into() }
}

impl Alert {
    fn rule(&self, part_of: &str) -> Value {
        json!({
            "alert": self.name,
            "expr": self.expression,
            "for": self.lasts,
            "labels": {
                "severity": self.severity,
                "operator_health_impact": self.impact,
                "kubernetes_operator_part_of": "kubevirt",
                "kubernetes_operator_component": part_of,
            },
            "annotations": {"summary": self.summary},
        })
    }
}

type Urgency = (&'static str, &'static str, &'static str);
const CRITICAL: Urgency = ("10m", "critical", "critical");
const WARNING: Urgency = ("10m", "warning", "warning");
/// Alerts about VMs, not about the installation.
const OF_VM: Urgency = ("10m", "warning", "none");
/// Alerts on numbers reported by a guest, which may be invented. They are never critical, although some are
/// upstream, and never immediate. There is one per VMI, and its text has no words of the guest.
const OF_GUEST: Urgency = ("5m", "warning", "none");

/// Alerts on the control plane and on VMs, for a control plane in this namespace.
pub(super) fn of_kubevirt(namespace: &str) -> Vec<Value> {
    let mut alerts = Vec::new();
    for (names, program) in NAMES.iter().zip(["api", "controller", "handler"]) {
        alerts.extend(of_program(names, program));
        alerts.push(failed_requests(names[3], namespace, program));
    }
    alerts.extend(of_replicas());
    alerts.push(alert(
        "VirtHandlerDaemonSetRolloutFailing",
        ("15m", "warning", "warning"),
        format!(
            "kube_daemonset_status_desired_number_scheduled{{namespace=\"{namespace}\",daemonset=\"virt-handler\"}} - \
             kube_daemonset_status_number_ready{{namespace=\"{namespace}\",daemonset=\"virt-handler\"}} != 0"
        ),
        "Some virt-handler pods have not been ready for 15 minutes.",
    ));
    alerts.push(of_old_versions());
    alerts.extend(of_vms());
    alerts.iter().map(|alert| alert.rule("kubevirt")).collect()
}

/// Names of the alerts down, none ready, few ready, and request errors; in the order of the programs.
const NAMES: [[&str; 4]; 3] = [
    ["VirtAPIDown", "NoReadyVirtAPI", "LowReadyVirtAPICount", "VirtApiRESTErrorsBurst"],
    [
        "VirtControllerDown",
        "NoReadyVirtController",
        "LowReadyVirtControllersCount",
        "VirtControllerRESTErrorsBurst",
    ],
    ["VirtHandlerDown", "NoReadyVirtHandler", "LowReadyVirtHandlerCount", "VirtHandlerRESTErrorsBurst"],
];

fn of_program(names: &[&'static str; 4], program: &str) -> [Alert; 3] {
    let (up, ready) = (
        format!("cluster:kubevirt_virt_{program}_up:sum"),
        format!("cluster:kubevirt_virt_{program}_ready:sum"),
    );
    let program = format!("virt-{program}");
    [
        alert(names[0], CRITICAL, format!("{up} == 0"), format!("No {program} has answered for 10 minutes.")),
        alert(
            names[1],
            CRITICAL,
            format!("{ready} == 0"),
            format!("No {program} has been ready for 10 minutes."),
        ),
        alert(
            names[2],
            WARNING,
            format!("{ready} < {up}"),
            format!("Some pods of {program} answer and are not ready."),
        ),
    ]
}

fn failed_requests(name: &'static str, namespace: &str, program: &str) -> Alert {
    let of = format!("namespace=\"{namespace}\",pod=~\"virt-{program}-.*\"");
    let rate = |more: &str| format!("sum(rate(kubevirt_rest_client_requests_total{{{of}{more}}}[5m]))");
    let expression = format!("{} / {} >= 0.8", rate(",code=~\"(4|5)[0-9][0-9]\""), rate(""));
    let summary =
        format!("80% of the requests of virt-{program} to the API server have failed for 5 minutes.");
    alert(name, ("5m", "critical", "critical"), expression, summary)
}

fn of_replicas() -> [Alert; 5] {
    let many = "cluster:kubevirt_nodes_allocatable:count > 1";
    [
        alert(
            "LowVirtAPICount",
            ("1h", "warning", "warning"),
            format!("({many}) and (cluster:kubevirt_virt_api_up:sum < 2)"),
            "Fewer than two virt-api pods answer in a cluster of several nodes.",
        ),
        alert(
            "LowVirtControllersCount",
            WARNING,
            format!("({many}) and (cluster:kubevirt_virt_controller_ready:sum < 2)"),
            "Fewer than two virt-controller pods are ready in a cluster of several nodes.",
        ),
        alert(
            "NoLeadingVirtController",
            CRITICAL,
            "cluster:kubevirt_virt_controller_leading:sum == 0",
            "No virt-controller has led for 10 minutes.",
        ),
        alert(
            "LowKVMNodesCount",
            ("5m", "warning", "warning"),
            format!(
                "({many}) and (cluster:kubevirt_nodes_with_kvm:count < 2) and \
                 (sum(kubevirt_configuration_emulation_enabled) or vector(0)) == 0"
            ),
            "Fewer than two nodes offer KVM.",
        ),
        alert(
            "KubeVirtNoAvailableNodesToRunVMs",
            ("5m", "warning", "critical"),
            "cluster:kubevirt_nodes_allocatable:count == 0",
            "No node takes VMs.",
        ),
    ]
}

/// Alert on requests to deprecated versions. Upstream counts them in virt-api, which sees only writes. The
/// API server's metrics count all.
fn of_old_versions() -> Alert {
    let requests =
        "apiserver_request_total{group=~\"kubevirt\\\\.io|.+\\\\.kubevirt\\\\.io\",verb!~\"LIST|WATCH\"}";
    // A counter that has just appeared has no increase yet.
    let new = format!(
        "(round(increase({requests}[10m])) > 0 and {requests} offset 10m) or ({requests} != 0 unless {requests} offset 10m)"
    );
    let of = "on (resource, group, version) apiserver_requested_deprecated_apis";
    let version = "{{ $labels.resource }}.{{ $labels.group }}/{{ $labels.version }}";
    alert(
        "KubeVirtDeprecatedAPIRequested",
        ("0m", "info", "none"),
        format!("sum by (resource, group, version) ({new}) and {of}"),
        format!("{{{{ $value }}}} requests in the last 10 minutes used the deprecated {version}."),
    )
}

fn of_vms() -> Vec<Alert> {
    let files = format!("{{file_system_type!~\"{FULL}\",mount_point!=\"System Reserved\"}}");
    let full = format!(
        "max by (namespace, name) (kubevirt_vmi_filesystem_used_bytes{files} / \
         kubevirt_vmi_filesystem_capacity_bytes{files} * 100)"
    );
    let file = "a file system of VMI {{ $labels.name }} in namespace {{ $labels.namespace }}";
    let vm = "VM {{ $labels.name }} in namespace {{ $labels.namespace }}";
    let has_memory = "vmi:kubevirt_vmi_memory_available_bytes:sum > 0";
    vec![
        alert(
            "OrphanedVirtualMachineInstances",
            WARNING,
            "sum by (node) (kubevirt_vmi_phase_count{phase=~\"scheduled|running\",node!=\"\"}) > 0 \
             unless on (node) kubevirt_vmi_sync_total",
            "VMIs run on node {{ $labels.node }}, whose virt-handler has not answered for 10 minutes.",
        ),
        alert(
            "VirtLauncherPodsStuckFailed",
            ("10m", "critical", "critical"),
            "cluster:kubevirt_virt_launcher_failed:count >= 200",
            "200 launcher pods or more have been Failed for 10 minutes, and are not deleted.",
        ),
        alert(
            "OutdatedVirtualMachineInstanceWorkloads",
            ("24h", "warning", "none"),
            "max(kubevirt_vmi_number_of_outdated) != 0",
            "Some VMIs have run in outdated launcher pods for a day after an update.",
        ),
        alert(
            "VMCannotBeEvicted",
            ("1m", "warning", "none"),
            "kubevirt_vmi_non_evictable * on (namespace, name) group_left () \
             max by (namespace, name) (kubevirt_vmi_info{phase=\"running\"}) == 1",
            format!("{vm} has the eviction strategy LiveMigrate and cannot be live-migrated."),
        ),
        // Each migration is a series, which counts although its object may be gone.
        alert(
            "KubeVirtVMIExcessiveMigrations",
            ("0m", "warning", "none"),
            "count by (namespace, vmi) (max by (namespace, vmi, vmim) (\
             max_over_time(kubevirt_vmi_migration_succeeded[1d]))) >= 12",
            "VMI {{ $labels.vmi }} in namespace {{ $labels.namespace }} has migrated {{ $value }} times in 24 hours.",
        ),
        alert(
            "VirtualMachineStuckInUnhealthyState",
            OF_VM,
            "sum by (namespace, name, status) (kubevirt_vm_info{status=~\"provisioning|starting|terminating\"} == 1 \
             or kubevirt_vm_info{status_group=\"error\"} == 1) unless on (namespace, name) kubevirt_vmi_info",
            format!("{vm} has been {{{{ $labels.status }}}} for 10 minutes without a VMI."),
        ),
        alert(
            "VirtualMachineStuckOnNode",
            ("5m", "warning", "none"),
            "sum by (namespace, name, status) (kubevirt_vm_info{status=~\"starting|stopping|terminating\"} == 1 \
             or kubevirt_vm_info{status_group=\"error\"} == 1) \
             and on (namespace, name) kubevirt_vmi_info{phase=~\"scheduled|running\"}",
            format!("{vm} has been {{{{ $labels.status }}}} on its node for 5 minutes."),
        ),
        alert(
            "KubeVirtVMGuestMemoryPressure",
            OF_GUEST,
            format!(
                "vmi:kubevirt_vmi_memory_headroom_ratio:sum < 0.05 and (vmi:kubevirt_vmi_pgmajfaults:rate5m > 5 \
                 or vmi:kubevirt_vmi_swap_traffic_bytes:rate5m > 1048576) and {has_memory}"
            ),
            format!("{vm} has little memory left, and swaps."),
        ),
        alert(
            "KubeVirtVMGuestMemoryAvailableLow",
            ("30m", "info", "none"),
            format!(
                "vmi:kubevirt_vmi_memory_headroom_ratio:sum < 0.03 and vmi:kubevirt_vmi_swap_traffic_bytes:rate30m < 2048 \
                 and vmi:kubevirt_vmi_pgmajfaults:rate30m < 1 and {has_memory}"
            ),
            format!("{vm} has had less than 3% of its memory left for 30 minutes."),
        ),
        alert(
            "GuestVCPUQueueHighWarning",
            OF_GUEST,
            "kubevirt_vmi_guest_vcpu_queue > 10",
            format!("More than 10 processes of {vm} wait for a vCPU or a disk."),
        ),
        alert(
            "GuestVCPUQueueHighCritical",
            OF_GUEST,
            "kubevirt_vmi_guest_vcpu_queue > 20",
            format!("More than 20 processes of {vm} wait for a vCPU or a disk."),
        ),
        alert(
            "VMNonRecoverableOSPanic",
            OF_GUEST,
            "sum by (namespace, name) (increase(kubevirt_vmi_guest_os_panic_total[24h])) > 5",
            format!("The guest of {vm} has panicked more than five times in 24 hours."),
        ),
        alert(
            "GuestFilesystemAlmostOutOfSpace",
            OF_GUEST,
            format!("{full} >= 85"),
            format!("{{{{ printf \"%.0f\" $value }}}}% of {file} is used."),
        ),
    ]
}

/// Alerts about CDI: its installation, DataVolumes, DataImportCrons and StorageProfiles.
pub(super) fn of_cdi() -> Vec<Value> {
    let info = "kubevirt_cdi_storageprofile_info";
    let alerts = [
        alert(
            "CDINotReady",
            ("5m", "critical", "critical"),
            "max(kubevirt_cdi_cr_ready) == 0",
            "The CDI object has not been available for 5 minutes: disks are not filled.",
        ),
        alert(
            "CDIDataImportCronOutdated",
            ("15m", "warning", "none"),
            "sum by (ns, cron_name) (kubevirt_cdi_dataimportcron_outdated{pending=\"false\"}) > 0",
            "DataImportCron {{ $labels.cron_name }} in namespace {{ $labels.ns }} does not lead to the newest image.",
        ),
        alert(
            "CDIStorageProfilesIncomplete",
            ("5m", "info", "none"),
            format!("sum by (storageclass, provisioner) ({info}{{complete=\"false\"}}) > 0"),
            "Of StorageClass {{ $labels.storageclass }} it is not known which access modes it has: see its StorageProfile.",
        ),
        alert(
            "CDINoDefaultStorageClass",
            ("5m", "warning", "none"),
            "max(kubevirt_cdi_datavolume_pending) > 0",
            "DataVolumes wait for a default StorageClass.",
        ),
        alert(
            "CDIMultipleDefaultVirtStorageClasses",
            ("5m", "warning", "none"),
            format!("count({info}{{virtdefault=\"true\"}}) > 1"),
            "Several StorageClasses are the default for VMs.",
        ),
        alert(
            "CDIDefaultStorageClassDegraded",
            ("5m", "warning", "none"),
            format!(
                "{info}{{virtdefault=\"true\",degraded=\"true\"}} == 1 or \
                 ({info}{{default=\"true\",degraded=\"true\"}} == 1 unless on () {info}{{virtdefault=\"true\"}})"
            ),
            "The default StorageClass {{ $labels.storageclass }} lacks ReadWriteMany or quick clones.",
        ),
    ];
    alerts.iter().map(|alert| alert.rule("cdi")).collect()
}
