//! What the programs measure: read as a monitor reads it, by TLS from each pod, with the token of an account.

use std::process::{Command, Stdio};
use tests::cluster::{Space, until};

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
