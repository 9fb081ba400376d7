//! Proxies come from the environment, which belongs to a whole process: so the test is its own child.

use super::{open, quick, read_all};
use std::process::Command;
use tests::http::{Behaviour, Server, pattern};

const IN_CHILD: &str = "CORACLE_TEST_PROXY_CHILD";

#[test]
fn a_proxy_of_the_environment_is_used() {
    if std::env::var_os(IN_CHILD).is_some() {
        // The host does not exist: only the proxy can answer.
        assert!(read_all(&open("http://disks.invalid/d", &quick())) == pattern(1_000_000));
        return;
    }
    // A proxy for plain HTTP is a server that is asked for whole URLs.
    let proxy = Server::start(pattern(1_000_000), Behaviour::default());
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "proxy::a_proxy_of_the_environment_is_used"])
        .env(IN_CHILD, "1")
        .env("http_proxy", proxy.url(""))
        .env_remove("no_proxy")
        .env_remove("NO_PROXY")
        .output()
        .unwrap();
    assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stdout));
    let requests = proxy.requests();
    assert!(
        !requests.is_empty() && requests.iter().all(|r| r.path == "http://disks.invalid/d"),
        "{requests:?}"
    );
}
