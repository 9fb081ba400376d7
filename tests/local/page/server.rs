//! An API server with VMs: lists in pages, watches, subresources, consoles that echo, and screens of one colour.

use crate::guest;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;
use tokio_tungstenite::tungstenite::WebSocket;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::Role;

const VMS: &str = "virtualmachines";
const VMIS: &str = "virtualmachineinstances";
const SUBRESOURCES: &str = "/apis/subresources.kubevirt.io/v1/namespaces/blue/";

#[derive(Default)]
struct World {
    /// Plural and name of an object.
    objects: BTreeMap<(String, String), Value>,
    version: u64,
    /// resourceVersion, plural, and the event of a watch.
    log: Vec<(u64, String, Value)>,
    asked: Vec<String>,
    keys: Vec<u32>,
    answers: BTreeMap<String, (u16, String)>,
    console_is_taken: bool,
}

#[derive(Default)]
struct State {
    world: Mutex<World>,
    changed: Condvar,
}

/// The server, which runs until the test ends.
#[derive(Clone)]
pub(crate) struct ApiServer {
    pub(crate) address: SocketAddr,
    state: Arc<State>,
}

/// A VM and its running VMI; every fifth VM is off.
fn objects(number: usize) -> (String, Value, Option<Value>) {
    let name = format!("vm-{number:04}");
    let is_on = !number.is_multiple_of(5);
    let metadata = json!({
        "namespace": "blue", "name": name, "uid": format!("uid-{number}"), "resourceVersion": "1",
        "creationTimestamp": "2026-09-01T10:00:00Z",
    });
    let spec = json!({
        "domain": {
            "cpu": {"sockets": 1, "cores": 2, "threads": 1}, "memory": {"guest": "2Gi"},
            "devices": {"disks": [{"name": "root", "disk": {"bus": "virtio"}}]},
        },
        "volumes": [{"name": "root", "containerDisk": {"image": "registry.example/debian:12"}}],
    });
    let vm = json!({
        "metadata": metadata,
        "spec": {"runStrategy": if is_on { "Always" } else { "Halted" }, "template": {"spec": spec}},
        "status": {"printableStatus": if is_on { "Running" } else { "Stopped" }, "ready": is_on},
    });
    let vmi = is_on.then(|| {
        json!({
            "metadata": metadata, "spec": spec,
            "status": {
                "phase": "Running", "nodeName": format!("node-{}", number % 7),
                "interfaces": [{"name": "default", "ipAddress": format!("10.0.{}.{}", number / 250, number % 250 + 1)}],
                "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-09-01T10:01:00Z"}],
            },
        })
    });
    (name, vm, vmi)
}

impl ApiServer {
    /// A server with so many VMs.
    pub(crate) fn start(vms: usize) -> ApiServer {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(State::default());
        {
            let mut world = state.world();
            world.version = 1;
            for number in 0..vms {
                let (name, vm, vmi) = objects(number);
                world.objects.insert((VMS.to_owned(), name.clone()), vm);
                if let Some(vmi) = vmi {
                    world.objects.insert((VMIS.to_owned(), name), vmi);
                }
            }
        }
        let server = Arc::clone(&state);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let state = Arc::clone(&server);
                thread::spawn(move || state.serve(stream.unwrap()));
            }
        });
        ApiServer { address, state }
    }

    /// Changes a VM's printable status, and sends the change to all watches.
    pub(crate) fn says(&self, name: &str, status: &str) {
        let mut world = self.state.world();
        world.version += 1;
        let version = world.version;
        let object = world.objects.get_mut(&(VMS.to_owned(), name.to_owned())).unwrap();
        object["status"]["printableStatus"] = json!(status);
        object["metadata"]["resourceVersion"] = json!(version.to_string());
        let event = json!({"type": "MODIFIED", "object": object});
        world.log.push((version, VMS.to_owned(), event));
        drop(world);
        self.state.changed.notify_all();
    }

    /// Deletes a VM.
    pub(crate) fn deletes(&self, name: &str) {
        let mut world = self.state.world();
        world.version += 1;
        let version = world.version;
        for plural in [VMS, VMIS] {
            if let Some(object) = world.objects.remove(&(plural.to_owned(), name.to_owned())) {
                world.log.push((version, plural.to_owned(), json!({"type": "DELETED", "object": object})));
            }
        }
        drop(world);
        self.state.changed.notify_all();
    }

    /// Sets the answer to a request like `PUT /path`.
    pub(crate) fn answers(&self, request: &str, status: u16, body: &str) {
        self.state.world().answers.insert(request.to_owned(), (status, body.to_owned()));
    }

    /// Lets another client have the keyboard of all consoles and screens.
    pub(crate) fn takes_consoles(&self) {
        self.state.world().console_is_taken = true;
    }

    /// Recorded requests, without those that read.
    pub(crate) fn asked(&self) -> Vec<String> {
        let mut world = self.state.world();
        world.asked.retain(|asked| !asked.starts_with("GET "));
        std::mem::take(&mut world.asked)
    }

    /// Keys that a screen has received, as keysyms.
    pub(crate) fn keys(&self) -> Vec<u32> {
        self.state.world().keys.clone()
    }
}

impl State {
    fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap()
    }

    fn serve(&self, mut stream: TcpStream) {
        stream.set_nodelay(true).unwrap();
        let Some(head) = head(&mut stream) else { return };
        let lower = head.to_lowercase();
        let says = |name: &str| {
            let value = lower.lines().position(|line| line.starts_with(&format!("{name}: ")));
            value.map(|at| head.lines().nth(at).unwrap()[name.len() + 2..].trim().to_owned())
        };
        assert_eq!(says("authorization").as_deref(), Some("Bearer secret"), "{head}");
        let mut body = vec![0; says("content-length").map_or(0, |length| length.parse().unwrap())];
        stream.read_exact(&mut body).unwrap();
        let asked = head.lines().next().unwrap().trim_end_matches(" HTTP/1.1").to_owned();
        let (method, target) = asked.split_once(' ').unwrap();
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        self.world().asked.push(asked.clone());
        if let Some(key) = says("sec-websocket-key") {
            return self.open(stream, path, query, &key);
        }
        let part = |name: &str| {
            let value = query.split('&').find_map(|pair| pair.strip_prefix(name));
            value.map(str::to_owned)
        };
        let list = path
            .strip_prefix("/apis/kubevirt.io/v1/namespaces/blue/")
            .or(path.strip_prefix("/apis/kubevirt.io/v1/"));
        let known = self.world().answers.get(&format!("{method} {path}")).cloned();
        match (method, list) {
            _ if known.is_some() => {
                let (code, text) = known.unwrap();
                respond(&mut stream, code, &text);
            }
            ("GET", Some(plural)) if part("watch=").is_some() => {
                let version = part("resourceVersion=").unwrap().parse().unwrap();
                self.watch(stream, plural, version);
            }
            ("GET", Some(plural)) if [VMS, VMIS].contains(&plural) => {
                let limit = part("limit=").map_or(usize::MAX, |limit| limit.parse().unwrap());
                let from = part("continue=").map_or(0, |from| from.parse().unwrap());
                let only = part("fieldSelector=metadata.name%3D");
                let page = self.page(plural, only.as_deref(), from, limit);
                respond(&mut stream, 200, &page.to_string());
            }
            ("GET", Some(object)) => match object.split_once('/') {
                Some((plural, name)) => {
                    let found = self.world().objects.get(&(plural.to_owned(), name.to_owned())).cloned();
                    match found {
                        Some(object) => respond(&mut stream, 200, &object.to_string()),
                        None => respond(&mut stream, 404, &status(404, &format!("{name} not found"))),
                    }
                }
                None => respond(&mut stream, 404, &status(404, "not found")),
            },
            ("GET", None) if path.ends_with("/events") => respond(&mut stream, 200, &events().to_string()),
            ("GET", None) if path.ends_with("/pods") => respond(&mut stream, 200, r#"{"items": []}"#),
            ("PUT", None) if path.starts_with(SUBRESOURCES) => respond(&mut stream, 202, ""),
            _ => respond(&mut stream, 404, &status(404, &format!("{path} not found"))),
        }
    }

    fn page(&self, plural: &str, only: Option<&str>, from: usize, limit: usize) -> Value {
        let world = self.world();
        let is_meant = |kind: &str, name: &str| kind == plural && only.is_none_or(|only| only == name);
        let all = world.objects.iter().filter(|((kind, name), _)| is_meant(kind, name));
        let all: Vec<&Value> = all.map(|(_, object)| object).collect();
        let page: Vec<&Value> = all.iter().skip(from).take(limit).copied().collect();
        let more =
            if from + page.len() < all.len() { (from + page.len()).to_string() } else { String::new() };
        json!({"items": page, "metadata": {"resourceVersion": world.version.to_string(), "continue": more}})
    }

    fn watch(&self, mut stream: TcpStream, plural: &str, mut version: u64) {
        let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n";
        if stream.write_all(head.as_bytes()).is_err() {
            return;
        }
        loop {
            let mut world = self.world();
            let mut lines = String::new();
            for (at, kind, event) in &world.log {
                if *at > version && kind == plural {
                    lines += &format!("{event}\n");
                }
            }
            version = world.version;
            if lines.is_empty() {
                world = self.changed.wait_timeout(world, Duration::from_secs(1)).unwrap().0;
            }
            drop(world);
            if stream.write_all(lines.as_bytes()).is_err() {
                return;
            }
        }
    }

    fn open(&self, mut stream: TcpStream, path: &str, query: &str, key: &str) {
        let is_shared = path.ends_with("/console") || path.ends_with("/vnc");
        if is_shared && query == "mode=write" && self.world().console_is_taken {
            return respond(&mut stream, 409, &status(409, "another client types on this console"));
        }
        let accept = derive_accept_key(key.as_bytes());
        let head = format!(
            "HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: websocket\r\n\
             sec-websocket-accept: {accept}\r\nsec-websocket-protocol: plain.kubevirt.io\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).unwrap();
        let socket = WebSocket::from_raw_socket(stream, Role::Server, None);
        match path.rsplit('/').next() {
            Some("console") => guest::console(socket),
            _ => guest::screen(socket, |key| self.world().keys.push(key)),
        }
    }
}

fn events() -> Value {
    let event = |number: usize| {
        json!({
            "type": if number == 0 { "Warning" } else { "Normal" }, "reason": format!("Reason{number}"),
            "message": format!("event number {number}"),
            "involvedObject": {"kind": "VirtualMachine", "name": "vm-0003"},
            "source": {"component": "virt-controller"},
            "lastTimestamp": format!("2026-09-01T10:{:02}:00Z", 59 - number), "count": 1,
        })
    };
    json!({"items": (0..20).map(event).collect::<Vec<_>>(), "metadata": {}})
}

/// A refusal, as the API server writes it.
pub(crate) fn status(code: u16, message: &str) -> String {
    json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "code": code})
        .to_string()
}

/// The header of a request, and no byte more.
fn head(stream: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        if stream.read(&mut byte).ok()? == 0 {
            return None;
        }
        head.push(byte[0]);
    }
    String::from_utf8(head).ok()
}

fn respond(stream: &mut TcpStream, code: u16, body: &str) {
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {code} Answer\r\ncontent-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n"
    );
    // The client may have closed the connection.
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes()));
}
