//! Rules and alerts of `coracle manifests --monitoring`, checked by Prometheus itself.

#![allow(clippy::unwrap_used)]

use install::InstallOptions;
use install::monitoring::{Monitor, objects};
use serde_json::{Value, json};
use tests::prometheus::promtool;

/// The groups of the PrometheusRule.
fn groups() -> Value {
    let wishes = InstallOptions {
        namespace: "kubevirt".into(),
        registry: "registry.example".into(),
        version: "1".into(),
        pull_policy: None,
        pull_secret: None,
    };
    let monitor = Monitor { namespace: "monitoring".into(), account: "prometheus-k8s".into() };
    let all = objects(&wishes, &monitor);
    let rule = all.iter().find(|object| object["kind"] == "PrometheusRule").unwrap();
    json!({"groups": rule["spec"]["groups"]})
}

#[test]
fn promtool_takes_the_rules() {
    let checked = promtool(&["check", "rules"], &groups(), &[]).ok();
    let said = String::from_utf8_lossy(&checked.out).into_owned();
    assert!(said.contains("SUCCESS"), "{said}");
}

/// Series of one sample a minute, and the alerts that fire at their end.
fn alerts(series: &[(&str, &str)], at: &str, wanted: &[(&str, Value)], silent: &[&str]) {
    let series: Vec<Value> =
        series.iter().map(|(series, values)| json!({"series": series, "values": values})).collect();
    let groups = groups();
    let rules =
        groups["groups"].as_array().unwrap().iter().flat_map(|group| group["rules"].as_array().unwrap());
    let rules: Vec<&Value> = rules.collect();
    let mut tests: Vec<Value> = Vec::new();
    for (name, labels) in wanted {
        let rule = rules.iter().find(|rule| rule["alert"] == *name).unwrap();
        let mut all = rule["labels"].clone();
        all.as_object_mut().unwrap().extend(labels["labels"].as_object().unwrap().clone());
        let summary = json!({"summary": labels["summary"]});
        let alert = json!({"exp_labels": all, "exp_annotations": summary});
        tests.push(json!({"eval_time": at, "alertname": name, "exp_alerts": [alert]}));
    }
    tests.extend(silent.iter().map(|name| json!({"eval_time": at, "alertname": name, "exp_alerts": []})));
    let test = json!({
        "rule_files": ["rules.yml"],
        "evaluation_interval": "1m",
        "tests": [{"interval": "1m", "input_series": series, "alert_rule_test": tests}],
    });
    promtool(&["test", "rules"], &test, &[("rules.yml", &groups)]).ok();
}

#[test]
fn a_healthy_cluster_is_silent() {
    let up = |program: &str| format!("up{{namespace=\"kubevirt\",pod=\"virt-{program}-a\"}}");
    let other = |program: &str| format!("up{{namespace=\"kubevirt\",pod=\"virt-{program}-b\"}}");
    let mut series = Vec::new();
    for program in ["api", "controller", "handler"] {
        series.extend([up(program), other(program)]);
        let ready = |pod: &str| format!("kubevirt_virt_{program}_ready_status{{pod=\"{pod}\"}}");
        series.extend([ready("a"), ready("b")]);
    }
    series.push("kubevirt_virt_controller_leading_status{pod=\"a\"}".into());
    series.push("kubevirt_cdi_cr_ready".into());
    series.push("kubevirt_vmi_phase_count{node=\"one\",phase=\"running\"}".into());
    series.push("kubevirt_vmi_sync_total{node=\"one\"}".into());
    series.push("kubevirt_vmi_info{namespace=\"n\",name=\"web\",phase=\"running\"}".into());
    series.push(
        "kubevirt_vm_info{namespace=\"n\",name=\"web\",status=\"running\",status_group=\"running\"}".into(),
    );
    let series: Vec<(&str, &str)> = series
        .iter()
        .map(|series| (series.as_str(), "1x60"))
        .chain([
            ("kubevirt_allocatable_nodes", "2x60"),
            ("kubevirt_nodes_with_kvm", "2x60"),
            ("kubevirt_vmi_number_of_outdated", "0x60"),
            ("kubevirt_vmi_non_evictable{namespace=\"n\",name=\"web\"}", "0x60"),
            ("kubevirt_cdi_datavolume_pending", "0x60"),
            ("kube_pod_status_phase{namespace=\"n\",pod=\"virt-launcher-web\",phase=\"Failed\"}", "1x60"),
            (
                "apiserver_request_total{group=\"kubevirt.io\",version=\"v1\",resource=\"virtualmachines\",verb=\"GET\"}",
                "0+5x60",
            ),
        ])
        .collect();
    let groups = groups();
    let rules =
        groups["groups"].as_array().unwrap().iter().flat_map(|group| group["rules"].as_array().unwrap());
    let all: Vec<&str> = rules.filter_map(|rule| rule["alert"].as_str()).collect();
    assert!(all.len() > 25, "{all:?}");
    alerts(&series, "60m", &[], &all);
}

#[test]
fn an_alert_names_what_it_is_about() {
    let series = [
        ("kubevirt_vmi_phase_count{node=\"one\",phase=\"running\"}", "1x60"),
        ("kubevirt_vmi_phase_count{node=\"two\",phase=\"running\"}", "3x60"),
        ("kubevirt_vmi_sync_total{node=\"one\"}", "5x60"),
        ("kubevirt_vmi_non_evictable{namespace=\"n\",name=\"web\",node=\"one\"}", "1x60"),
        ("kubevirt_vmi_info{namespace=\"n\",name=\"web\",phase=\"running\"}", "1x60"),
        ("kubevirt_virt_controller_ready_status{pod=\"a\"}", "0x60"),
        (
            "kubevirt_vm_info{namespace=\"n\",name=\"off\",status=\"errorunschedulable\",status_group=\"error\"}",
            "1x60",
        ),
        ("kube_pod_status_phase{namespace=\"n\",pod=\"virt-launcher-web\",phase=\"Failed\"}", "150x60"),
        ("kube_pod_status_phase{namespace=\"m\",pod=\"virt-launcher-web\",phase=\"Failed\"}", "50x60"),
        (
            "apiserver_request_total{group=\"kubevirt.io\",version=\"v1alpha3\",resource=\"virtualmachines\",verb=\"GET\"}",
            "0+1x60",
        ),
        (
            "apiserver_requested_deprecated_apis{group=\"kubevirt.io\",version=\"v1alpha3\",resource=\"virtualmachines\"}",
            "1x60",
        ),
    ];
    let old = "10 requests in the last 10 minutes used the deprecated virtualmachines.kubevirt.io/v1alpha3.";
    let failed = "200 launcher pods or more have been Failed for 10 minutes, and are not deleted.";
    let stuck = "VM off in namespace n has been errorunschedulable for 10 minutes without a VMI.";
    let orphaned = "VMIs run on node two, whose virt-handler has not answered for 10 minutes.";
    let evicted = "VM web in namespace n has the eviction strategy LiveMigrate and cannot be live-migrated.";
    let wanted = [
        ("VirtLauncherPodsStuckFailed", json!({"labels": {}, "summary": failed})),
        (
            "KubeVirtDeprecatedAPIRequested",
            json!({
                "labels": {"group": "kubevirt.io", "version": "v1alpha3", "resource": "virtualmachines"},
                "summary": old,
            }),
        ),
        ("OrphanedVirtualMachineInstances", json!({"labels": {"node": "two"}, "summary": orphaned})),
        (
            "VMCannotBeEvicted",
            json!({"labels": {"namespace": "n", "name": "web", "node": "one"}, "summary": evicted}),
        ),
        (
            "VirtualMachineStuckInUnhealthyState",
            json!({"labels": {"namespace": "n", "name": "off", "status": "errorunschedulable"}, "summary": stuck}),
        ),
        (
            "NoReadyVirtController",
            json!({"labels": {}, "summary": "No virt-controller has been ready for 10 minutes."}),
        ),
        (
            "VirtControllerDown",
            json!({"labels": {}, "summary": "No virt-controller has answered for 10 minutes."}),
        ),
    ];
    alerts(&series, "30m", &wanted, &["KubeVirtNoAvailableNodesToRunVMs", "VirtualMachineStuckOnNode"]);
}

#[test]
fn a_vmi_that_migrates_twelve_times_a_day_is_told_of_and_one_that_does_so_less_often_is_not() {
    let of = |vmi: &str, number: usize, pod: &str| {
        let labels = format!("namespace=\"n\",vmi=\"{vmi}\",vmim=\"move-{number}\",pod=\"{pod}\"");
        format!("kubevirt_vmi_migration_succeeded{{{labels}}}")
    };
    let mut series = Vec::new();
    for (vmi, count) in [("busy", 12), ("calm", 11)] {
        // Five objects of a VMI are kept, so that the first series end.
        let values = |number| if number + 5 < count { "1x10" } else { "1x60" };
        series.extend((0..count).map(|number| (of(vmi, number, "a"), values(number))));
        // Another virt-controller tells of the last one, too.
        series.push((of(vmi, count - 1, "b"), "1x60"));
    }
    let series: Vec<(&str, &str)> =
        series.iter().map(|(series, values)| (series.as_str(), *values)).collect();
    let summary = "VMI busy in namespace n has migrated 12 times in 24 hours.";
    let labels = json!({"labels": {"namespace": "n", "vmi": "busy"}, "summary": summary});
    alerts(&series, "60m", &[("KubeVirtVMIExcessiveMigrations", labels)], &[]);
}
