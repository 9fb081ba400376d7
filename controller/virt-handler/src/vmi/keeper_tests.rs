use super::*;
use crate::vmi::decide::Event;
use api::launcher::{Request, State};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use kit::patched;
use serde_json::json;
use std::convert::Infallible;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::net::UnixListener;
use tokio::time::timeout;

const UUID: &str = "5d307ca9-b3ef-428c-8861-06e72d69f223";

type Body = UnsyncBoxBody<Bytes, Infallible>;

/// A fake launcher that starts its VMI at once, and ends it on request.
#[derive(Clone)]
struct Fake {
    state: watch::Sender<State>,
    told: Arc<Mutex<Vec<Value>>>,
    /// Report of the guest agent.
    guest: Arc<Mutex<Value>>,
    /// Refusals of the next hand-overs and requests.
    refuses: Arc<Mutex<Vec<(u16, Value)>>>,
    /// False: a VMI that was handed over does not start.
    starts: Arc<AtomicBool>,
}

impl Fake {
    fn new() -> Fake {
        let state = serde_json::from_value(json!({
            "number": 0, "generation": 0, "life": "Empty", "since": "x", "agent": false, "targets": {"data": "vda"}
        }));
        Fake {
            state: watch::channel(state.unwrap()).0,
            told: Arc::default(),
            guest: Arc::default(),
            refuses: Arc::default(),
            starts: Arc::new(AtomicBool::new(true)),
        }
    }

    fn is(&self, life: api::launcher::Life) {
        self.state.send_modify(|state| (state.life, state.number) = (life, state.number + 1));
    }

    fn told(&self) -> Vec<Value> {
        self.told.lock().unwrap().clone()
    }

    /// Waits for this number of requests.
    async fn until_told(&self, number: usize) {
        let mut state = self.state.subscribe();
        let told = state.wait_for(|_| self.told().len() >= number);
        timeout(Duration::from_secs(60), told).await.expect("never told").unwrap();
    }

    /// Listens in the kubelet's folder of the pod's sockets.
    fn listen(&self, pods: &Path) -> tokio::task::JoinHandle<()> {
        self.listen_in(pods, "pod-uid")
    }

    /// Listens in the folder of the pod with this UID.
    fn listen_in(&self, pods: &Path, uid: &str) -> tokio::task::JoinHandle<()> {
        let empty = pods.join(uid).join("volumes/kubernetes.io~empty-dir");
        std::fs::create_dir_all(empty.join("private/root")).unwrap();
        std::fs::create_dir_all(empty.join("sockets")).unwrap();
        let listener = UnixListener::bind(empty.join("sockets/launcher-sock")).unwrap();
        let fake = self.clone();
        tokio::spawn(async move {
            let mut all = tokio::task::JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let fake = fake.clone();
                let answer = service_fn(move |request| {
                    let fake = fake.clone();
                    async move { Ok::<_, Infallible>(fake.answer(request).await) }
                });
                all.spawn(async move {
                    drop(
                        hyper::server::conn::http1::Builder::new()
                            .serve_connection(TokioIo::new(stream), answer)
                            .await,
                    );
                });
            }
        })
    }

    async fn answer(&self, request: hyper::Request<Incoming>) -> hyper::Response<Body> {
        let path = request.uri().path().to_owned();
        if path == "/v1/state" {
            let mut state = self.state.subscribe();
            state.mark_changed();
            let lines = futures_util::stream::unfold(state, |mut state| async move {
                state.changed().await.ok()?;
                let line = serde_json::to_string(&*state.borrow_and_update()).unwrap() + "\n";
                Some((Ok(Frame::data(Bytes::from(line))), state))
            });
            return hyper::Response::new(StreamBody::new(lines).boxed_unsync());
        }
        if path == "/v1/guest/info" {
            let said = Bytes::from(self.guest.lock().unwrap().to_string());
            return hyper::Response::new(Full::new(said).boxed_unsync());
        }
        let body = request.into_body().collect().await.unwrap().to_bytes();
        let asked: Value = serde_json::from_slice(&body).unwrap();
        self.told.lock().unwrap().push(asked.clone());
        if let Some((status, refusal)) = self.refuses.lock().unwrap().pop() {
            let refusal = Full::new(Bytes::from(refusal.to_string())).boxed_unsync();
            return hyper::Response::builder().status(status).body(refusal).unwrap();
        }
        match path.as_str() {
            "/v1/vm" if self.starts.load(Ordering::Relaxed) => self.is(api::launcher::Life::Running),
            // Readers see that there is a request.
            "/v1/vm" => self.is(api::launcher::Life::Empty),
            _ if asked["request"] == "shutdown" => self.is(api::launcher::Life::Stopping),
            _ if asked["request"] == "link" => {
                self.state.send_modify(|state| {
                    // A launcher reports that it begins, and the result.
                    state.number += 2;
                    let name = asked["interface"].as_str().unwrap();
                    if name != "stuck" {
                        state.links.insert(name.to_owned(), asked["up"] == true);
                    }
                });
            }
            _ => {}
        }
        let answer = Bytes::from(json!({"answer": "queued"}).to_string());
        hyper::Response::new(Full::new(answer).boxed_unsync())
    }
}

/// Fake API server with one VMI, which applies patches.
#[derive(Clone)]
struct Server {
    object: watch::Sender<Value>,
    events: Arc<Mutex<Vec<String>>>,
    writes: Arc<Mutex<usize>>,
    /// Number of writes that came too late.
    conflicts: Arc<Mutex<usize>>,
}

impl Server {
    fn new(object: Value) -> Server {
        let object = watch::channel(object).0;
        Server { object, events: Arc::default(), writes: Arc::default(), conflicts: Arc::default() }
    }

    fn status(&self, field: &str) -> Value {
        self.object.borrow()["status"][field].clone()
    }

    async fn until(&self, what: &str, is: impl FnMut(&Value) -> bool) -> Value {
        let mut object = self.object.subscribe();
        let waited = timeout(Duration::from_secs(60), object.wait_for(is)).await;
        waited.unwrap_or_else(|_| panic!("never: {what}: {}", *self.object.borrow())).unwrap().clone()
    }
}

impl Cluster for Server {
    async fn change(&self, vmi: &api::meta::ObjectMeta, change: &Value) -> Result<Option<Value>> {
        let (object, version) = (self.object.borrow().clone(), vmi.resource_version.as_deref());
        let Some(mut object) = patched(object, change, version) else {
            *self.conflicts.lock().unwrap() += 1;
            return Ok(None);
        };
        let version: u64 = object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
        object["metadata"]["resourceVersion"] = json!((version + 1).to_string());
        *self.writes.lock().unwrap() += 1;
        self.object.send_replace(object.clone());
        Ok(Some(object))
    }

    async fn record_event(&self, _: &api::meta::ObjectMeta, event: &Event) {
        self.events.lock().unwrap().push(event.reason.to_owned());
    }
}

pub(super) fn vmi() -> Value {
    json!({
        "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance",
        "metadata": {"name": "a", "namespace": "test", "uid": "u", "resourceVersion": "1", "generation": 1},
        "spec": {
            "domain": {
                "memory": {"guest": "128Mi"},
                "firmware": {"uuid": UUID},
                "devices": {"autoattachPodInterface": false, "disks": [{"name": "data", "disk": {"bus": "virtio"}}]}
            },
            "volumes": [{"name": "data", "emptyDisk": {"capacity": "1Gi"}}],
            "later": {"kept": true}
        },
        "status": {"phase": "Scheduled", "runtimeUser": 107}
    })
}

pub(super) fn pod() -> Arc<Pod> {
    Arc::new(Pod::read(&json!({
        "metadata": {"name": "virt-launcher-a", "uid": "pod-uid"},
        "spec": {
            "containers": [{
                "name": "compute",
                "args": ["run", "--root", "/private/root", "--socket", "/sockets/launcher-sock"],
                "volumeMounts": [
                    {"name": "private", "mountPath": "/private"}, {"name": "sockets", "mountPath": "/sockets"}
                ]
            }],
            "volumes": [{"name": "private", "emptyDir": {}}, {"name": "sockets", "emptyDir": {}}]
        }
    }))
    .unwrap())
}

struct Scene {
    place: tempfile::TempDir,
    pods: Pods,
    server: Server,
    launcher: Fake,
    wanted: watch::Sender<KeeperInput>,
    keeper: tokio::task::JoinHandle<()>,
}

impl Scene {
    fn of(object: Value) -> Scene {
        Scene::among(object, |place| Pods::played(place))
    }

    fn among(object: Value, pods: fn(&Path) -> Pods) -> Scene {
        Scene::at(tempfile::tempdir().unwrap(), object, pods)
    }

    fn at(place: tempfile::TempDir, object: Value, pods: fn(&Path) -> Pods) -> Scene {
        let pods = pods(place.path());
        let server = Server::new(object);
        let settings = json!({
            "metadata": {"namespace": "kubevirt", "name": "kubevirt"},
            "spec": {"configuration": {"smbios": {"manufacturer": "Acme"}}},
        });
        let permitted = Permitted::By(Arc::new(api::machine::Settings::of_cluster(&settings)));
        let wanted = KeeperInput {
            object: Arc::new(server.object.borrow().clone()),
            pod: Some(pod()),
            permitted,
            role: Role::Guest,
        };
        let wanted = watch::channel(wanted).0;
        let keeper = tokio::spawn(std::future::ready(()));
        let mut scene = Scene { place, pods, server, launcher: Fake::new(), wanted, keeper };
        scene.begin();
        scene
    }

    /// A new keeper in place of the earlier one.
    fn begin(&mut self) {
        self.keeper.abort();
        let pods = self.pods.clone();
        let findings = self.place.path().join("none");
        let node = Node {
            cluster: self.server.clone(),
            pods,
            findings,
            launchers: Default::default(),
            address: None,
        };
        self.tell_all();
        self.keeper = tokio::spawn(manage(Arc::new(node), self.wanted.subscribe()));
    }

    /// Event of the watch: the current object.
    fn tell_all(&self) {
        let object = Arc::new(self.server.object.borrow().clone());
        self.wanted.send_modify(|wanted| wanted.object = object);
    }

    fn delete(&self) {
        self.server.object.send_modify(|object| {
            object["metadata"]["deletionTimestamp"] = json!(now().text);
            object["metadata"]["resourceVersion"] = json!("1000");
        });
        self.tell_all();
    }
}

#[tokio::test]
async fn a_vmi_is_begun_watched_and_ended() {
    let scene = Scene::of(vmi());
    let _listening = scene.launcher.listen(scene.place.path());
    let object = scene.server.until("Running", |object| object["status"]["phase"] == "Running").await;
    assert_eq!(object["status"]["volumeStatus"], json!([{"name": "data", "target": "vda"}]));
    let told = scene.launcher.told();
    assert_eq!((told.len(), &told[0]["generation"]), (1, &json!(1)));
    assert_eq!(told[0]["vmi"]["spec"]["later"], json!({"kept": true}), "what is not known is handed on");
    assert_eq!(told[0]["resolved"]["hardware"]["smbios"]["manufacturer"], "Acme", "as the cluster says");
    assert_eq!(*scene.server.writes.lock().unwrap(), 1);

    scene.delete();
    scene
        .launcher
        .state
        .subscribe()
        .wait_for(|state| state.life == api::launcher::Life::Stopping)
        .await
        .unwrap();
    let asked: Request = serde_json::from_value(scene.launcher.told()[1].clone()).unwrap();
    assert!(matches!(asked, Request::Shutdown { grace: Some(_) }), "{asked:?}");
    scene.launcher.is(api::launcher::Life::Succeeded);
    scene.server.until("Succeeded", |object| object["status"]["phase"] == "Succeeded").await;
    scene.keeper.await.unwrap();
    assert_eq!(
        *scene.server.events.lock().unwrap(),
        ["Created", "Started", "ShuttingDown", "Stopped", "Deleted"]
    );
    assert_eq!(scene.launcher.told().len(), 2);
}

#[tokio::test]
async fn a_new_keeper_takes_a_running_vmi_over_and_begins_nothing() {
    let mut object = vmi();
    object["status"]["phase"] = json!("Running");
    let mut scene = Scene::of(object);
    scene.launcher.is(api::launcher::Life::Running);
    let _listening = scene.launcher.listen(scene.place.path());
    scene.begin();
    scene.server.until("a target", |object| object["status"]["volumeStatus"][0]["target"] == "vda").await;
    scene.launcher.is(api::launcher::Life::Paused);
    scene
        .server
        .until("a pause", |object| object["status"]["conditions"].to_string().contains("Paused"))
        .await;
    scene.begin();
    scene.launcher.is(api::launcher::Life::Running);
    scene
        .server
        .until("no pause", |object| !object["status"]["conditions"].to_string().contains("Paused"))
        .await;
    assert_eq!(scene.launcher.told(), Vec::<Value>::new());
}

#[tokio::test]
async fn links_are_made_as_the_spec_says_and_one_that_does_not_move_is_asked_for_once() {
    let mut object = vmi();
    let interface = |name: &str, state: &str| json!({"name": name, "bridge": {}, "state": state});
    let network = |name: &str| json!({"name": name, "multus": {"networkName": "lan"}});
    object["spec"]["domain"]["devices"]["interfaces"] =
        json!([interface("lan", "up"), interface("stuck", "up")]);
    object["spec"]["networks"] = json!([network("lan"), network("stuck")]);
    object["status"]["phase"] = json!("Running");
    let scene = Scene::of(object);
    scene.launcher.state.send_modify(|state| {
        state.links = [("lan".to_owned(), true), ("stuck".to_owned(), true)].into();
    });
    scene.launcher.is(api::launcher::Life::Running);
    let _listening = scene.launcher.listen(scene.place.path());
    let link = |object: &Value, at: usize| object["status"]["interfaces"][at]["linkState"].clone();
    scene.server.until("links", |object| link(object, 0) == "up" && link(object, 1) == "up").await;
    assert_eq!(scene.launcher.told(), Vec::<Value>::new(), "nothing is to be done");

    let change = |version: &str, states: [&str; 2]| {
        scene.server.object.send_modify(|object| {
            for (at, state) in states.into_iter().enumerate() {
                object["spec"]["domain"]["devices"]["interfaces"][at]["state"] = json!(state);
            }
            object["metadata"]["resourceVersion"] = json!(version);
        });
        scene.tell_all();
    };
    change("1000", ["down", "up"]);
    scene.server.until("a link that is down", |object| link(object, 0) == "down").await;
    let down = json!({"request": "link", "interface": "lan", "up": false});
    assert_eq!(scene.launcher.told(), std::slice::from_ref(&down));
    change("2000", ["up", "down"]);
    let object = scene.server.until("a link that is up", |object| link(object, 0) == "up").await;
    assert_eq!(link(&object, 1), "up", "it is told as it is, not as it should be");
    tokio::time::sleep(Duration::from_millis(300)).await;
    let up = json!({"request": "link", "interface": "lan", "up": true});
    let stuck = json!({"request": "link", "interface": "stuck", "up": false});
    assert_eq!(scene.launcher.told(), [down, up, stuck]);
}

#[tokio::test]
async fn a_launcher_that_dies_takes_its_vmi_with_it() {
    let scene = Scene::of(vmi());
    let listening = scene.launcher.listen(scene.place.path());
    scene.server.until("Running", |object| object["status"]["phase"] == "Running").await;
    listening.abort();
    let mut pod = (*pod()).clone();
    pod.status.phase = "Failed".into();
    scene.wanted.send_modify(|wanted| wanted.pod = Some(Arc::new(pod)));
    scene.server.until("Failed", |object| object["status"]["phase"] == "Failed").await;
    assert!(scene.server.status("conditions").to_string().contains("the launcher ended"));
}

#[tokio::test]
async fn the_last_words_of_a_launcher_are_read_where_it_left_them() {
    let mut object = vmi();
    object["status"]["phase"] = json!("Running");
    let scene = Scene::of(object);
    let root = scene.place.path().join("pod-uid/volumes/kubernetes.io~empty-dir/private/root");
    std::fs::create_dir_all(&root).unwrap();
    std::fs::create_dir_all(root.join("../../sockets")).unwrap();
    scene.launcher.is(api::launcher::Life::Succeeded);
    std::fs::write(root.join("state.json"), serde_json::to_vec(&*scene.launcher.state.borrow()).unwrap())
        .unwrap();
    scene.server.until("Succeeded", |object| object["status"]["phase"] == "Succeeded").await;
}

#[tokio::test]
async fn a_launcher_whose_process_is_not_of_the_pod_is_handed_nothing() {
    // The fake launcher listens in this process, which is in no pod for the kernel.
    let scene = Scene::among(vmi(), |place| Pods::of_kubelet(place));
    let _listening = scene.launcher.listen(scene.place.path());
    let object = scene
        .server
        .until("a reason", |object| object.to_string().contains("does not belong to the pod pod-uid"))
        .await;
    assert_eq!(object["status"]["phase"], "Scheduled");
    assert_eq!(scene.launcher.told(), Vec::<Value>::new());
}

#[tokio::test]
async fn a_storm_of_states_is_written_once_a_second_and_what_is_last_is_never_lost() {
    use api::launcher::Life;
    let scene = Scene::of(vmi());
    let _listening = scene.launcher.listen(scene.place.path());
    let began = std::time::Instant::now();
    scene.server.until("Running", |object| object["status"]["phase"] == "Running").await;
    for number in 0..2000 {
        scene.launcher.is(if number % 2 == 0 { Life::Running } else { Life::Paused });
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let is_paused = |object: &Value| object["status"]["conditions"].to_string().contains("Paused");
    scene.server.until("the last of the storm", is_paused).await;
    scene.launcher.is(Life::Succeeded);
    scene.server.until("Succeeded", |object| object["status"]["phase"] == "Succeeded").await;
    scene.keeper.await.unwrap();
    let (writes, seconds) = (*scene.server.writes.lock().unwrap(), began.elapsed().as_secs());
    // A burst, then one for each second, and the final status.
    assert!(writes as u64 <= 8 + seconds + 2, "{writes} writes in {seconds} s");
    let events = scene.server.events.lock().unwrap();
    assert!(events.len() <= 16 + 3 && events.last().unwrap() == "Deleted", "{events:?}");
}

#[tokio::test]
async fn a_guest_with_ten_thousand_addresses_makes_no_large_object() {
    let scene = Scene::of(vmi());
    let _listening = scene.launcher.listen(scene.place.path());
    let ips: Vec<String> = (0..10_000u32).map(|n| std::net::Ipv4Addr::from(n).to_string()).collect();
    let card = |n: u32| json!({"name": format!("veth{n}"), "mac": format!("02:00:00:00:{:02x}:{:02x}", n / 256, n % 256), "ips": ips[..50]});
    let mut cards: Vec<Value> = (0..500).map(card).collect();
    cards[0]["ips"] = json!(ips);
    *scene.launcher.guest.lock().unwrap() =
        json!({"os": {"name": "x".repeat(100_000)}, "hostname": "y".repeat(100_000), "interfaces": cards});
    scene.server.until("Running", |object| object["status"]["phase"] == "Running").await;
    scene.launcher.state.send_modify(|state| (state.agent, state.number) = (true, state.number + 1));
    let object = scene
        .server
        .until("what the guest says", |object| object["status"]["guestOSInfo"]["name"].is_string())
        .await;
    let size = object.to_string().len();
    assert!(size < 32 << 10, "{size} bytes");
    let conditions = object["status"]["conditions"].as_array().unwrap();
    let connected = conditions.iter().find(|condition| condition["type"] == "AgentConnected").unwrap();
    assert_eq!(connected["reason"], "Truncated");
    assert!(connected["message"].as_str().unwrap().contains("468 of 500 interfaces"), "{connected}");
}

#[tokio::test]
async fn without_settings_nothing_is_begun_and_it_is_said_why() {
    let mut scene = Scene::of(vmi());
    let _listening = scene.launcher.listen(scene.place.path());
    scene.keeper.abort();
    let permitted = scene.wanted.borrow().permitted.clone();
    scene.wanted.send_modify(|wanted| wanted.permitted = Permitted::Nothing("kubevirt".into()));
    scene.server.object.send_replace(vmi());
    let told = scene.launcher.told().len();
    scene.begin();
    let said = |object: &Value| object["status"]["conditions"].to_string().contains("no KubeVirt object");
    scene.server.until("why it waits", said).await;
    assert_eq!(scene.launcher.told().len(), told, "nothing is handed over");
    assert_eq!(scene.server.status("phase"), "Scheduled", "it may come");
    scene.wanted.send_modify(|wanted| wanted.permitted = permitted);
    scene.server.until("Running", |object| object["status"]["phase"] == "Running").await;
}

#[path = "ending_tests.rs"]
mod ending;
#[path = "exchange_tests.rs"]
mod exchange;
#[path = "failure_tests.rs"]
mod failure;
#[path = "hostile_tests.rs"]
mod hostile;
