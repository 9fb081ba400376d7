//! What the KubeVirt object says of the programs themselves, and how it holds without a restart.

use std::process::{Command, Stdio};
use tests::cluster::{Space, until};

#[test]
fn every_program_keeps_to_the_tls_that_is_asked_for() {
    let Some(space) = Space::new("tls") else { return };
    let asks = |versions: &str| {
        let patch = format!(r#"{{"spec":{{"configuration":{{"tlsConfiguration":{versions}}}}}}}"#);
        space.run(&["patch", "-n", "kubevirt", "kubevirt", "kubevirt", "--type", "merge", "-p", &patch]);
    };
    // Other stories end programs meanwhile: those that are there now are looked at.
    let pods = "jsonpath={range .items[*]}{.metadata.name} {.status.podIP}{\"\\n\"}{end}";
    let programs =
        || space.run(&["get", "pods", "-n", "kubevirt", "-l", "prometheus.kubevirt.io=true", "-o", pods]);
    // Those that answer a client that can no TLS above 1.2, and those that do not.
    let old = || {
        let is_answered = |line: &&str| {
            let address = line.split(' ').nth(1).unwrap_or_default();
            let mut curl = Command::new("curl");
            curl.args(["-s", "-k", "-m", "20", "--tls-max", "1.2", "-o", "/dev/null"]);
            let done = curl.arg(format!("https://{address}:8443/healthz")).stdin(Stdio::null()).status();
            done.unwrap().success()
        };
        let found = programs();
        let (with, without): (Vec<_>, Vec<_>) = found.lines().partition(is_answered);
        (with.join(", "), without.join(", "))
    };
    until(|| old().1.is_empty(), || format!("TLS 1.2 is not spoken by {}", old().1));
    asks(r#"{"minTLSVersion":"VersionTLS13"}"#);
    until(|| old().0.is_empty(), || format!("TLS 1.2 is still spoken by {}", old().0));
    asks("null");
    until(|| old().1.is_empty(), || format!("TLS 1.2 is not spoken again by {}", old().1));
    // What could not hold is refused where it is written.
    let cipher = r#"{"spec":{"configuration":{"tlsConfiguration":{"ciphers":["TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"]}}}}"#;
    let object = [
        "patch",
        "-n",
        "kubevirt",
        "kubevirt",
        "kubevirt",
        "--type",
        "merge",
        "--dry-run=server",
        "-p",
        cipher,
    ];
    let refused = space.try_run(&object);
    assert!(refused.code != 0 && refused.err.contains("You cannot specify ciphers"), "{}", refused.err);
}
