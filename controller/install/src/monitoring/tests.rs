use super::*;
use crate::tests::options;
use cluster_model::metrics::{self, MetricType};
use std::collections::BTreeSet;

/// Metrics of other programs, with the labels in use: of Prometheus itself, of kube-state-metrics, of the API
/// server.
const OF_OTHERS: &[(&str, &[&str])] = &[
    ("up", &[]),
    ("container_memory_rss", OF_CONTAINER),
    ("container_memory_working_set_bytes", OF_CONTAINER),
    ("kube_node_role", &["node", "role"]),
    ("kube_persistentvolumeclaim_info", &["persistentvolumeclaim"]),
    ("kube_persistentvolumeclaim_labels", &[]),
    ("kube_persistentvolumeclaim_resource_requests_storage_bytes", &["persistentvolumeclaim"]),
    ("kube_pod_container_resource_requests", OF_CONTAINER),
    ("kube_pod_spec_volumes_persistentvolumeclaims_info", &["persistentvolumeclaim"]),
    ("kube_daemonset_status_desired_number_scheduled", &[]),
    ("kube_daemonset_status_number_ready", &[]),
    ("kube_pod_status_phase", &[]),
    ("apiserver_request_total", &["resource", "group", "version", "subresource", "verb"]),
    ("apiserver_requested_deprecated_apis", &["resource", "group", "version", "subresource"]),
];
const OF_CONTAINER: &[&str] = &["container", "node", "resource"];
/// Labels that our recording rules add.
const OF_RECORDS: [(&str, &[&str]); 1] =
    [("pvc:kubevirt_vmsnapshot_labels:info", &["vm_name", "vm_namespace"])];
/// Labels that Prometheus adds to the samples of a pod.
const OF_TARGET: [&str; 4] = ["namespace", "pod", "job", "instance"];

fn rules() -> Vec<Value> {
    let groups = rule(&options())["spec"]["groups"].as_array().cloned().unwrap();
    groups.iter().flat_map(|group| group["rules"].as_array().cloned().unwrap()).collect()
}

/// The expressions of panels and variables, with values for their variables.
fn queries(content: &str) -> Vec<String> {
    let board: Value = serde_json::from_str(content).unwrap();
    let list = |value: &Value| value.as_array().cloned().unwrap();
    let targets = list(&board["panels"]).into_iter().flat_map(|panel| list(&panel["targets"]));
    let mut found: Vec<String> = targets.map(|target| target["expr"].as_str().unwrap().to_owned()).collect();
    for variable in list(&board["templating"]["list"]) {
        if let Some(query) = variable["query"].as_str().and_then(|query| query.strip_prefix("label_values("))
        {
            found.push(query.rsplit_once(',').unwrap().0.to_owned());
        }
    }
    found.iter().map(|query| query.replace("$__rate_interval", "5m")).collect()
}

/// The metric of a name in a query; for a histogram also by its buckets, sum and count.
fn served(name: &str) -> Option<&'static metrics::Metric> {
    let of_histogram = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end));
    let histogram =
        of_histogram.and_then(metrics::find).filter(|metric| metric.metric_type == MetricType::Histogram);
    histogram.or_else(|| metrics::find(name).filter(|metric| metric.metric_type != MetricType::Histogram))
}

#[test]
fn rules_and_dashboards_ask_for_what_is_served() {
    let recorded: BTreeSet<String> =
        rules().iter().filter_map(|rule| rule["record"].as_str().map(str::to_owned)).collect();
    let of_rules = rules().into_iter().map(|rule| rule["expr"].as_str().unwrap().to_owned());
    let of_boards = DASHBOARDS.iter().flat_map(|(_, content)| queries(content));
    let mut seen = 0;
    for expression in of_rules.chain(of_boards) {
        let (asked, grouped) = promql::read(&expression);
        let mut labels: BTreeSet<&str> = OF_TARGET.into();
        for one in &asked {
            seen += 1;
            if let Some(metric) = served(&one.name) {
                let unknown = one
                    .labels
                    .iter()
                    .find(|label| !metric.has_label(label) && !labels.contains(label.as_str()));
                assert_eq!(unknown, None, "{} has no such label: {expression}", one.name);
                labels.extend(metric.labels);
            } else if let Some((_, others)) = OF_OTHERS.iter().find(|(name, _)| *name == one.name) {
                labels.extend(*others);
            } else {
                assert!(recorded.contains(&one.name), "{} is served by nobody: {expression}", one.name);
                let of_record = OF_RECORDS.iter().filter(|(name, _)| *name == one.name);
                labels.extend(of_record.flat_map(|(_, more)| *more));
            }
        }
        let recorded_only = asked.iter().all(|one| recorded.contains(&one.name));
        let unknown = grouped.iter().find(|label| !labels.contains(label.as_str()) && *label != "le");
        assert!(recorded_only || unknown.is_none(), "{unknown:?} is no label of these: {expression}");
    }
    assert!(seen > 80, "{seen} were found");
}

#[test]
fn every_alert_says_what_it_is_about_and_a_record_is_made_before_it_is_used() {
    let rules = rules();
    let at = |name: &str| rules.iter().position(|rule| rule["record"] == name);
    for (place, rule) in rules.iter().enumerate() {
        let (asked, _) = promql::read(rule["expr"].as_str().unwrap());
        for one in asked {
            assert!(at(&one.name).is_none_or(|made| made < place), "{} is made later", one.name);
        }
        if rule["alert"].is_string() {
            let severity = rule["labels"]["severity"].as_str().unwrap();
            assert!(["info", "warning", "critical"].contains(&severity), "{rule}");
            assert!(rule["annotations"]["summary"].as_str().unwrap().ends_with('.'), "{rule}");
            assert!(!rule["annotations"]["summary"].as_str().unwrap().contains("{{{"), "{rule}");
        }
    }
}

/// Names of upstream's recording rules (`docs/observability/metrics.md` of KubeVirt 1.9).
const OF_UPSTREAM: &[&str] = &[
    "cluster:kubevirt_api_request_deprecated_total:sum",
    "cluster:kubevirt_nodes_allocatable:count",
    "cluster:kubevirt_nodes_with_kvm:count",
    "cluster:kubevirt_non_schedulable_nodes:sum",
    "cluster:kubevirt_virt_api_pods_running:count",
    "cluster:kubevirt_virt_api_ready:sum",
    "cluster:kubevirt_virt_api_up:sum",
    "cluster:kubevirt_virt_controller_leading:sum",
    "cluster:kubevirt_virt_controller_pods_running:count",
    "cluster:kubevirt_virt_controller_ready:sum",
    "cluster:kubevirt_virt_controller_up:sum",
    "cluster:kubevirt_virt_handler_pods_running:count",
    "cluster:kubevirt_virt_handler_ready:sum",
    "cluster:kubevirt_virt_handler_up:sum",
    "cluster:kubevirt_virt_operator_leading:sum",
    "cluster:kubevirt_virt_operator_pods_running:count",
    "cluster:kubevirt_virt_operator_ready:sum",
    "cluster:kubevirt_virt_operator_up:sum",
    "container:kubevirt_memory_delta_from_requested_bytes:max",
    "kubevirt_allocatable_nodes",
    "kubevirt_api_request_deprecated_total",
    "kubevirt_memory_delta_from_requested_bytes",
    "kubevirt_nodes_with_kvm",
    "kubevirt_number_of_vms",
    "kubevirt_virt_api_up",
    "kubevirt_virt_controller_ready",
    "kubevirt_virt_controller_up",
    "kubevirt_virt_handler_up",
    "kubevirt_virt_operator_leading",
    "kubevirt_virt_operator_ready",
    "kubevirt_virt_operator_up",
    "kubevirt_vm_container_memory_request_margin_based_on_rss_bytes",
    "kubevirt_vm_container_memory_request_margin_based_on_working_set_bytes",
    "kubevirt_vm_created_total",
    "kubevirt_vmi_guest_vcpu_queue",
    "kubevirt_vmi_memory_used_bytes",
    "kubevirt_vmi_migration_data_total_bytes",
    "kubevirt_vmi_phase_count",
    "kubevirt_vmsnapshot_disks_restored_from_source",
    "kubevirt_vmsnapshot_disks_restored_from_source_bytes",
    "kubevirt_vmsnapshot_persistentvolumeclaim_labels",
    "namespace:kubevirt_vm:sum",
    "node:kubevirt_vmi_phase:sum",
    "pod_container:kubevirt_vm_memory_request_margin_based_on_rss_bytes:sum",
    "pod_container:kubevirt_vm_memory_request_margin_based_on_working_set_bytes:sum",
    "pvc:kubevirt_suspected_orphaned_storage_bytes:info",
    "pvc:kubevirt_vmsnapshot_labels:info",
    "vm:kubevirt_vmsnapshot_disks_restored:sum",
    "vm:kubevirt_vmsnapshot_restored_bytes:sum",
    "vmi:kubevirt_vmi_guest_queue_length:sum",
    "vmi:kubevirt_vmi_memory_available_bytes:sum",
    "vmi:kubevirt_vmi_memory_headroom_ratio:sum",
    "vmi:kubevirt_vmi_memory_used_bytes:sum",
    "vmi:kubevirt_vmi_pgmajfaults:rate30m",
    "vmi:kubevirt_vmi_pgmajfaults:rate5m",
    "vmi:kubevirt_vmi_swap_traffic_bytes:rate30m",
    "vmi:kubevirt_vmi_swap_traffic_bytes:rate5m",
    "vmi:kubevirt_vmi_vcpu:count",
];

#[test]
fn what_upstream_records_is_recorded_or_served() {
    let rules = rules();
    let is_there =
        |name: &&str| rules.iter().any(|rule| rule["record"] == *name) || metrics::find(name).is_some();
    let missing: Vec<&str> = OF_UPSTREAM.iter().copied().filter(|name| !is_there(name)).collect();
    assert_eq!(missing, [""; 0]);
}

/// A guest agent and a balloon driver may report anything, so alerts on them are never critical, and there is
/// at most one per VMI.
#[test]
fn what_a_guest_tells_is_never_critical_nor_told_at_once() {
    let of_balloon = |name: &str| {
        let of_host = ["domain_", "actual_", "resident_"];
        let rest = name.strip_prefix("kubevirt_vmi_memory_");
        rest.is_some_and(|rest| !of_host.iter().any(|known| rest.starts_with(known)))
    };
    let by_agent = ["kubevirt_vmi_guest_", "kubevirt_vmi_filesystem_"];
    let mut recorded: BTreeSet<String> = BTreeSet::new();
    let mut seen = 0;
    for rule in rules() {
        let (asked, grouped) = promql::read(rule["expr"].as_str().unwrap());
        let is_told = asked.iter().any(|one| {
            by_agent.iter().any(|begin| one.name.starts_with(begin))
                || of_balloon(&one.name)
                || recorded.contains(&one.name)
        });
        if !is_told {
            continue;
        }
        if let Some(record) = rule["record"].as_str() {
            recorded.insert(record.to_owned());
        } else {
            seen += 1;
            assert_ne!(rule["labels"]["severity"], "critical", "{rule}");
            let lasts = rule["for"].as_str().unwrap().trim_end_matches('m').parse::<u32>();
            assert!(lasts.is_ok_and(|minutes| minutes >= 5), "{rule}");
            let of_records = asked.iter().all(|one| recorded.contains(&one.name));
            assert!(of_records || grouped == ["namespace", "name"], "one of a VMI: {rule}");
        }
        // A record is per VMI too, and an alert contains no text of a guest.
        let words = rule["annotations"]["summary"].as_str().unwrap_or_default();
        let labels: Vec<&str> = words.split("$labels.").skip(1).collect();
        assert!(labels.iter().all(|label| label.starts_with("name")), "{words}");
        assert!(grouped.iter().all(|label| ["namespace", "name"].contains(&label.as_str())), "{rule}");
    }
    assert_eq!(seen, 6, "alerts on what guests tell");
}

#[test]
fn a_dashboard_has_a_name_a_data_source_and_panels_that_do_not_overlap() {
    let mut uids = BTreeSet::new();
    for (file, content) in DASHBOARDS {
        let board: Value = serde_json::from_str(content).unwrap();
        assert!(uids.insert(board["uid"].as_str().unwrap().to_owned()), "{file}");
        let mut taken = BTreeSet::new();
        let mut ids = BTreeSet::new();
        for panel in board["panels"].as_array().unwrap() {
            assert!(ids.insert(panel["id"].as_u64().unwrap()), "{file}: {}", panel["title"]);
            assert_eq!(panel["datasource"]["uid"], "${datasource}", "{file}: {}", panel["title"]);
            let place = |name: &str| panel["gridPos"][name].as_u64().unwrap();
            for x in place("x")..place("x") + place("w") {
                for y in place("y")..place("y") + place("h") {
                    assert!(x < 24 && taken.insert((x, y)), "{file}: {}", panel["title"]);
                }
            }
        }
    }
}

/// A compromised node cannot report metrics of other programs to Prometheus, or exceed the limits.
#[test]
fn of_a_page_our_names_are_taken_within_limits() {
    let spec = service_monitor(&options())["spec"].clone();
    for limit in ["sampleLimit", "labelLimit", "labelNameLengthLimit", "labelValueLengthLimit"] {
        assert!(spec[limit].as_u64().is_some_and(|limit| limit > 0), "{limit}");
    }
    // A label of 256 characters fits, whatever they are.
    assert!(spec["labelValueLengthLimit"].as_u64() >= Some(256 * 4));
    let endpoint = &spec["endpoints"][0];
    let rule = json!([{"sourceLabels": ["__name__"], "regex": "(kubevirt|coracle)_.+", "action": "keep"}]);
    assert_eq!(endpoint["metricRelabelings"], rule);
    let is_taken = |name: &str| {
        ["kubevirt_", "coracle_"]
            .iter()
            .any(|begin| name.strip_prefix(begin).is_some_and(|rest| !rest.is_empty()))
    };
    for metric in metrics::TABLE.iter().flat_map(|(_, all)| *all) {
        assert!(is_taken(metric.name), "{} would be left out", metric.name);
    }
    assert!(!OF_OTHERS.iter().any(|(name, _)| is_taken(name)));
}

/// All rights of Prometheus: to find our pods, and to read `/metrics`.
#[test]
fn a_monitor_may_find_our_pods_and_read_their_metrics() {
    let monitor = Monitor { namespace: "monitoring".into(), account: "prometheus-k8s".into() };
    let objects = objects(&options(), &monitor);
    let read = json!(["get", "list", "watch"]);
    for role in objects.iter().filter(|object| object["rules"].is_array()) {
        assert_eq!(role["metadata"]["namespace"], "kubevirt");
        for rule in role["rules"].as_array().unwrap() {
            assert_eq!(rule["verbs"], read);
        }
    }
    let bound: Vec<&Value> = objects.iter().filter(|object| object["roleRef"].is_object()).collect();
    assert_eq!(bound.len(), 2);
    for binding in bound {
        let account =
            json!([{"kind": "ServiceAccount", "name": "prometheus-k8s", "namespace": "monitoring"}]);
        assert_eq!(binding["subjects"], account);
    }
}
