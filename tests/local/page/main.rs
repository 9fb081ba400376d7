//! `coracle ui`: its access control, and the page in a real browser, on an API server of 500 VMs.
//!
//! Tests without a browser run everywhere; the others print that they were skipped if `chromium` is not
//! installed. Pictures of the page stay in `target/page`.

#![allow(clippy::unwrap_used, clippy::print_stderr)]

mod browser;
mod door;
mod guest;
mod server;
mod shown;
mod uploads;

use serde_json::json;
use server::ApiServer;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};
use tests::place::Place;

const PROGRAM: &str = env!("CARGO_BIN_EXE_coracle");

/// The program, serving a page about a fake cluster; ended on drop.
struct Page {
    server: ApiServer,
    child: Child,
    port: u16,
    token: String,
    _place: Place,
}

impl Page {
    /// A page about a cluster with so many VMs in namespace `blue`.
    fn of(vms: usize, args: &[&str]) -> Page {
        Page::shown_by(vms, &[&["ui", "--no-open"], args].concat())
    }

    /// A page that is served by the verb in `words`.
    fn shown_by(vms: usize, words: &[&str]) -> Page {
        let server = ApiServer::start(vms);
        let place = Place::empty(PROGRAM);
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "k", "cluster": {"server": format!("http://{}", server.address)}}],
            "users": [{"name": "u", "user": {"token": "secret"}}],
            "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u", "namespace": "blue"}}],
        });
        std::fs::write(place.path("config"), config.to_string()).unwrap();
        let mut command = place.command(&[words, &["--kubeconfig", "config"]].concat());
        command.env_remove("KUBECONFIG").env_remove("KUBERNETES_SERVICE_HOST");
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let rest = line.trim().strip_prefix("http://127.0.0.1:").expect("an address on this computer");
        let (port, token) = rest.split_once("/?token=").expect("a token");
        Page { server, child, port: port.parse().unwrap(), token: token.to_owned(), _place: place }
    }

    fn address(&self) -> String {
        format!("http://127.0.0.1:{}/?token={}", self.port, self.token)
    }

    fn end(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        self.end();
    }
}
