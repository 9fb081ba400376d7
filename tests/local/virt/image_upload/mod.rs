//! `coracle virt image-upload` against an API server and an upload proxy: the requests to both, their order
//! and bytes, and the messages when an upload is hindered.

mod requests;
mod resumes;
mod sources;
mod waits;

use super::Cluster;
use super::server::ApiServer;
use serde_json::{Value, json};
use std::io::Write as _;
use std::process::Stdio;
use tests::coracle::Ran;
use tests::http::pattern;
use tests::upload_proxy::{Manners, UploadProxy};

const PVC: &str = "/api/v1/namespaces/blue/persistentvolumeclaims/d";
const PVCS: &str = "/api/v1/namespaces/blue/persistentvolumeclaims";
const DV: &str = "/apis/cdi.kubevirt.io/v1beta1/namespaces/blue/datavolumes/d";
const DVS: &str = "/apis/cdi.kubevirt.io/v1beta1/namespaces/blue/datavolumes";
const DATA_SOURCE: &str = "/apis/cdi.kubevirt.io/v1beta1/namespaces/blue/datasources/d";
const DATA_SOURCES: &str = "/apis/cdi.kubevirt.io/v1beta1/namespaces/blue/datasources";
const CONFIG: &str = "/apis/cdi.kubevirt.io/v1beta1/cdiconfigs/config";
const TOKENS: &str = "/apis/upload.cdi.kubevirt.io/v1beta1/namespaces/blue/uploadtokenrequests";
const EVENTS: &str = "/api/v1/namespaces/blue/events?limit=1000";

/// A PVC after its upload.
fn filled() -> Value {
    json!({"metadata": {"name": "d", "annotations": {"cdi.kubevirt.io/storage.pod.phase": "Succeeded"}}})
}

fn data_volume(phase: &str) -> Value {
    json!({"metadata": {"name": "d", "uid": "v"}, "status": {"phase": phase, "claimName": "d"}})
}

/// A cluster in which a DataVolume can be created and takes an upload at once, with its proxy.
struct Story {
    cluster: Cluster,
    proxy: UploadProxy,
    disk: Vec<u8>,
}

impl Story {
    fn new(manners: Manners) -> Story {
        Story::with(UploadProxy::start(manners), pattern(300_000))
    }

    fn with(proxy: UploadProxy, disk: Vec<u8>) -> Story {
        let cluster = Cluster::new();
        std::fs::write(cluster.place.path("disk.img"), &disk).unwrap();
        let server = &cluster.server;
        for objects in [DVS, PVCS, DATA_SOURCES] {
            server.answers(&format!("POST {objects}"), 201, "{}");
        }
        server.has(DV, &data_volume("UploadReady"));
        server.has(CONFIG, &json!({"spec": {"uploadProxyURLOverride": proxy.url()}}));
        server.answers(&format!("POST {TOKENS}"), 201, token("t1"));
        server.answers("GET /api/v1/namespaces/blue/events", 200, r#"{"items": []}"#);
        let story = Story { cluster, proxy, disk };
        story.fills();
        story
    }

    fn server(&self) -> &ApiServer {
        &self.cluster.server
    }

    /// Marks the PVC as filled once the proxy has all bytes.
    fn fills(&self) {
        let server = self.server().clone();
        self.proxy.when_whole(move || server.has(PVC, &filled()));
    }

    fn run(&self, line: &str) -> Ran {
        self.cluster.run(&format!("image-upload {line}"))
    }

    /// Runs the command with these bytes at standard input.
    fn piped(&self, line: &str, input: &[u8]) -> Ran {
        let args: Vec<&str> = ["image-upload"].into_iter().chain(line.split_whitespace()).collect();
        let mut command = self.cluster.command(&args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        // A program that refuses may not read its input.
        let _ = stdin.write_all(input);
        drop(stdin);
        Ran::of(child.wait_with_output().unwrap())
    }

    /// Requests to the API server, without bodies.
    fn asked(&self) -> Vec<String> {
        let words = |asked: String| asked.split(' ').take(2).collect::<Vec<_>>().join(" ");
        self.server().asked().into_iter().map(words).collect()
    }

    /// Asserts that the proxy has received the disk once.
    #[track_caller]
    fn has_the_disk(&self) {
        let uploads = self.proxy.uploads();
        assert!(uploads.len() == 1 && uploads[0] == self.disk, "{} uploads", uploads.len());
    }
}

fn token(token: &str) -> String {
    json!({"status": {"token": token}}).to_string()
}

/// Behaviour of upstream's upload server.
fn upstream() -> Manners {
    Manners { early: true, ..Manners::default() }
}

/// Behaviour of our upload server.
fn ours() -> Manners {
    Manners { tus: true, early: true, ..Manners::default() }
}

fn out(ran: &Ran) -> String {
    String::from_utf8(ran.out.clone()).unwrap()
}

/// The body of the first request that begins with this text.
#[track_caller]
fn body(asked: &[String], request: &str) -> Value {
    let found = asked.iter().find_map(|one| one.strip_prefix(&format!("{request} ")));
    serde_json::from_str(found.unwrap_or_else(|| panic!("no {request}: {asked:?}"))).unwrap()
}
