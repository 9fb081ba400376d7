//! What the programs measure: read as a monitor reads it, by TLS from each pod, with the token of an account.

use install::InstallOptions;
use install::monitoring::{Monitor, objects};
use serde_json::{Value, json};
use std::process::{Command, Stdio};
use tests::cluster::{Space, until};
use tests::prometheus::Prometheus;

/// The name in every program's certificate.
const NAME: &str = "kubevirt-prometheus-metrics.kubevirt.svc";

#[test]
fn measures_are_for_monitors_and_health_is_for_all() {
    let Some(space) = Space::new("measures") else { return };
    for account in ["monitor", "stranger"] {
        space.run(&["create", "serviceaccount", account]);
    }
    let binding = format!("{}-monitor", space.name);
    let subject = format!("--serviceaccount={}:monitor", space.name);
    let role = "--clusterrole=kubevirt.io:metrics-reader";
    space.run(&["create", "clusterrolebinding", &binding, role, &subject]);
    let token = |account: &str| Some(space.run(&["create", "token", account]));
    let (monitor, stranger) = (token("monitor"), token("stranger"));
    let bundle = ["get", "configmap", "-n", "kubevirt", "kubevirt-ca", "-o", "jsonpath={.data.ca-bundle}"];
    let authorities = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(authorities.path(), space.run(&bundle)).unwrap();
    let asks = |address: &str, port: u16, path: &str, token: &Option<String>| {
        let mut curl = Command::new("curl");
        curl.args(["-s", "-m", "20", "-w", "\n%{http_code}", "--cacert"]).arg(authorities.path());
        curl.args(["--connect-to", &format!("{NAME}:{port}:{address}:{port}")]);
        if let Some(token) = token {
            curl.args(["-H", &format!("Authorization: Bearer {}", token.trim())]);
        }
        let done = curl.arg(format!("https://{NAME}:{port}{path}")).stdin(Stdio::null()).output().unwrap();
        let text = String::from_utf8(done.stdout).unwrap();
        let (page, status) = text.rsplit_once('\n').unwrap();
        (done.status.code().unwrap(), status.to_owned(), page.to_owned())
    };
    let pods = "jsonpath={range .items[*]}{.metadata.labels.kubevirt\\.io} {.status.podIP}{\"\\n\"}{end}";
    let found =
        space.run(&["get", "pods", "-n", "kubevirt", "-l", "prometheus.kubevirt.io=true", "-o", pods]);
    let mut programs = std::collections::BTreeSet::new();
    for line in found.lines() {
        let (program, address) = line.split_once(' ').unwrap();
        programs.insert(program);
        // It may show the certificate of its own making yet.
        until(
            || asks(address, 8443, "/metrics", &monitor).0 == 0,
            || format!("{program}: {:?}", asks(address, 8443, "/metrics", &monitor)),
        );
        let (_, status, page) = asks(address, 8443, "/metrics", &monitor);
        assert!(status == "200" && page.contains("# TYPE kubevirt_"), "{program}: {status} {page}");
        for (token, refused) in [(&None, "401"), (&Some("made-up".to_owned()), "401"), (&stranger, "403")] {
            let (_, status, page) = asks(address, 8443, "/metrics", token);
            assert!(status == refused && !page.contains("kubevirt_"), "{program}: {status} {page}");
        }
        for path in ["/healthz", "/readyz"] {
            assert_eq!(asks(address, 8443, path, &None).1, "200", "{program}: {path}");
        }
        // Nothing is left where it was plain HTTP.
        assert_eq!(asks(address, 8080, "/metrics", &monitor).0, 7, "{program}: somebody listens on 8080");
    }
    assert_eq!(Vec::from_iter(programs), ["cdi-uploadproxy", "virt-api", "virt-controller", "virt-handler"]);
    // Monitors find the same pods by the service.
    let service = "kubernetes.io/service-name=kubevirt-prometheus-metrics";
    let to = "jsonpath={.items[*].endpoints[*].addresses[0]}";
    let behind = space.run(&["get", "endpointslices", "-n", "kubevirt", "-l", service, "-o", to]);
    assert_eq!(behind.split_whitespace().count(), found.lines().count(), "{behind}");
    space.run(&["delete", "clusterrolebinding", &binding]);
}

/// Panels that show something as soon as one VM with a disk runs, whatever else there is; by their dashboards.
const PANELS: [(&str, &[&str]); 3] = [
    (
        "KubeVirt / Cluster",
        &[
            "VMs",
            "Running VMIs",
            "Nodes that take VMs",
            "virt-controller leads",
            "virt-handler ready",
            "VMIs by node",
            "VMs by status",
            "CPU use, the 10 busiest VMIs",
            "Memory of QEMU, the 10 largest VMIs",
            "Disk traffic by node",
            "Network traffic by node",
            "Objects that wait for a decision",
            "Requests to the API server by status",
        ],
    ),
    (
        "KubeVirt / VM",
        &[
            "VM",
            "VMI",
            "CPU",
            "Memory",
            "Swap and page faults",
            "Disk traffic",
            "Disk requests",
            "Network traffic",
            "Packets lost or broken",
            "Interfaces",
            "Disks",
        ],
    ),
    (
        "KubeVirt / Imports and uploads",
        &[
            "CDI ready",
            "DataVolumes without a StorageClass",
            "Uploads under way",
            "Exports under way",
            "StorageProfiles",
        ],
    ),
];

/// A Prometheus beside the cluster, set up as the ServiceMonitor says, answers all that the dashboards ask; panels and rules have
/// values.
#[test]
fn the_dashboards_are_answered_by_a_prometheus() {
    let Some(space) = Space::new("dashboards") else { return };
    space.apply(&crate::volumes::manifest("Filesystem", "standard"));
    space.run(&["create", "serviceaccount", "monitor"]);
    let binding = format!("{}-monitor", space.name);
    let subject = format!("--serviceaccount={}:monitor", space.name);
    let role = "--clusterrole=kubevirt.io:metrics-reader";
    space.run(&["create", "clusterrolebinding", &binding, role, &subject]);
    let bundle = ["get", "configmap", "-n", "kubevirt", "kubevirt-ca", "-o", "jsonpath={.data.ca-bundle}"];
    let authorities = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(authorities.path(), space.run(&bundle)).unwrap();
    let pods = "jsonpath={range .items[*]}{.metadata.name} {.status.podIP}{\"\\n\"}{end}";
    let found =
        space.run(&["get", "pods", "-n", "kubevirt", "-l", "prometheus.kubevirt.io=true", "-o", pods]);
    let targets = found.lines().map(|line| {
        let (pod, address) = line.split_once(' ').unwrap();
        json!({"targets": [format!("{address}:8443")], "labels": {"namespace": "kubevirt", "pod": pod}})
    });
    let mut scrape = json!({
        "job_name": "kubevirt-prometheus-metrics",
        "honor_labels": true,
        "scheme": "https",
        "authorization": {"credentials": space.run(&["create", "token", "monitor"])},
        "tls_config": {"ca_file": authorities.path(), "server_name": NAME},
        "static_configs": targets.collect::<Vec<Value>>(),
    });
    let wishes = InstallOptions {
        namespace: "kubevirt".into(),
        registry: "registry.example".into(),
        version: "1".into(),
        pull_policy: None,
        pull_secret: None,
    };
    let monitor = Monitor { namespace: "monitoring".into(), account: "monitor".into() };
    let all = objects(&wishes, &monitor);
    let of_kind = |kind: &str| &all.iter().find(|object| object["kind"] == kind).unwrap()["spec"];
    let service = of_kind("ServiceMonitor");
    for (limit, field) in [
        ("sample_limit", "sampleLimit"),
        ("label_limit", "labelLimit"),
        ("label_name_length_limit", "labelNameLengthLimit"),
        ("label_value_length_limit", "labelValueLengthLimit"),
    ] {
        scrape[limit] = service[field].clone();
    }
    let keep = &service["endpoints"][0]["metricRelabelings"][0];
    scrape["metric_relabel_configs"] =
        json!([{"source_labels": keep["sourceLabels"], "regex": keep["regex"], "action": keep["action"]}]);
    let prometheus = Prometheus::start(&json!([scrape]), &of_kind("PrometheusRule")["groups"]);
    let has = |query: &str| prometheus.ask(query).unwrap_or_else(|e| panic!("{query}: {e}"));
    until(
        || has("min(up) == 1 and on () cluster:kubevirt_virt_controller_leading:sum == 1").len() == 1,
        || format!("{:?}\n{}", has("up"), prometheus.log()),
    );
    for program in ["api", "controller", "handler"] {
        for rule in
            [format!("cluster:kubevirt_virt_{program}_ready:sum"), format!("kubevirt_virt_{program}_up")]
        {
            // A rule is as old as its last evaluation, which may have been before the scrape.
            until(|| !has(&format!("{rule} > 0")).is_empty(), || format!("{rule}\n{}", prometheus.log()));
        }
    }
    let of = format!("{{namespace=\"{}\",name=\"web\"", space.name);
    for query in [
        format!("sum(kubevirt_vmi_vcpu_seconds_total{of}}}) > 0"),
        format!("kubevirt_vmi_cpu_user_usage_seconds_total{of}}} > 0"),
        format!("kubevirt_vmi_storage_read_times_seconds_total{of},drive=\"data\"}} >= 0"),
        format!("kubevirt_vmi_storage_flush_requests_total{of},drive=\"data\"}} >= 0"),
        format!("kubevirt_vm_info{of},status=\"running\"}} == 1"),
        format!("kubevirt_vmi_vnic_info{of},network=\"pod networking\"}} == 1"),
    ] {
        until(|| has(&query).len() == 1, || format!("{query}\n{}", prometheus.log()));
    }
    let shows = |query: &str| {
        has(query).iter().any(|series| series["value"][1].as_str().is_some_and(|value| value != "NaN"))
    };
    let (mut asked, mut shown) = (0, 0);
    for board in all.iter().filter(|object| object["kind"] == "ConfigMap") {
        for content in board["data"].as_object().unwrap().values() {
            let board: Value = serde_json::from_str(content.as_str().unwrap()).unwrap();
            let (_, full) = PANELS.iter().find(|(title, _)| board["title"] == *title).unwrap();
            for panel in board["panels"].as_array().unwrap() {
                let title = panel["title"].as_str().unwrap();
                for target in panel["targets"].as_array().unwrap() {
                    let query = target["expr"].as_str().unwrap().replace("$__rate_interval", "1m");
                    let query = query.replace("$namespace", &space.name).replace("$name", "web");
                    has(&query);
                    asked += 1;
                    if full.contains(&title) {
                        until(
                            || shows(&query),
                            || format!("{title} is empty: {query}\n{}", prometheus.log()),
                        );
                    }
                }
                shown += usize::from(full.contains(&title));
            }
        }
    }
    assert!(asked > 50, "{asked} were asked");
    let wanted: usize = PANELS.iter().map(|(_, full)| full.len()).sum();
    assert_eq!(shown, wanted, "a panel has another title");
    space.run(&["delete", "clusterrolebinding", &binding]);
}
