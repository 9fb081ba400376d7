use super::*;
use crate::filesystems::Filesystems;
use crate::launcher_client::Client;
use crate::launchers::Registration;
use crate::pod::played::may_mount;
use crate::pod::{Layout, PodFolder, Pods};
use api::launcher::{Life, PAUSED_BY_DISK_PRESSURE, State};
use api::meta::ObjectMeta;
use serde_json::{Value, json};
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixListener;
use tokio::sync::mpsc;
use tokio::time::timeout;

const MIB: usize = 1 << 20;
/// Time limit of a wait.
const LONG: Duration = Duration::from_secs(60);

/// A file system of 64 MiB, on which the kubelet of a node keeps its pods.
struct Disk(tempfile::TempDir);

impl Disk {
    fn new() -> Option<Disk> {
        if !may_mount() {
            eprintln!("skipped: only root may mount a small file system");
            return None;
        }
        let disk = Disk(tempfile::tempdir().unwrap());
        let options = ["-t", "tmpfs", "-o", "size=64m", "none"];
        let mounted = Command::new("mount").args(options).arg(disk.path()).status();
        assert!(mounted.unwrap().success());
        Some(disk)
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        drop(Command::new("umount").arg("--lazy").arg(self.0.path()).status());
    }
}

/// A VMI with a containerDisk, and a launcher that accepts every request and reports it.
struct Vm {
    listed: Registration,
    disk: PathBuf,
    requests: mpsc::UnboundedReceiver<Value>,
}

impl Vm {
    fn new(name: &str, disk: &Disk, launchers: &Launchers) -> Vm {
        let empty = disk.path().join(name).join("volumes/kubernetes.io~empty-dir");
        std::fs::create_dir_all(empty.join("private/vm/disks")).unwrap();
        let listener = UnixListener::bind(empty.join("private/sock")).unwrap();
        let (tell, requests) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let (mut text, mut piece) = (String::new(), [0; 4096]);
                // The body is one JSON text after the head.
                let body = loop {
                    let read = stream.read(&mut piece).await.unwrap();
                    text.push_str(std::str::from_utf8(&piece[..read]).unwrap());
                    let body =
                        text.split_once("\r\n\r\n").and_then(|(_, body)| serde_json::from_str(body).ok());
                    if let Some(body) = body {
                        break body;
                    }
                };
                tell.send(body).unwrap();
                let answer = r#"{"answer":"queued"}"#;
                let length = answer.len();
                let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{answer}");
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
        });
        let place = place(name, disk.path());
        let meta = ObjectMeta { name: Some(name.into()), uid: Some(name.into()), ..ObjectMeta::default() };
        let client = Client::new(name, place.clone());
        let listed = launchers.list(&meta, &client, &Filesystems::default());
        let vmi = json!({
            "metadata": {"name": name},
            "spec": {"domain": {}, "volumes": [
                {"name": "root", "containerDisk": {"image": "a"}},
                {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
            ]},
        });
        listed.grows(GrowingDisks::for_vmi(&api::wire::read(vmi).unwrap(), &place));
        let vm = Vm { listed, disk: empty.join("private/vm/disks/root.qcow2"), requests };
        vm.is(Life::Running, None);
        vm
    }

    fn is(&self, life: Life, reason: Option<&str>) {
        let reason = reason.map(str::to_owned);
        self.listed.update(&State { life, reason, ..State::default() });
    }

    /// The guest writes this much more.
    fn writes(&self, bytes: usize) {
        let disk = OpenOptions::new().create(true).append(true).open(&self.disk);
        disk.unwrap().write_all(&vec![7; bytes]).unwrap();
    }

    async fn request(&mut self) -> Value {
        timeout(LONG, self.requests.recv()).await.expect("a minute is enough").unwrap()
    }
}

/// The folder of a launcher pod.
fn place(uid: &str, pods: &Path) -> Arc<PodFolder> {
    let pod = json!({
        "metadata": {"name": uid, "uid": uid},
        "spec": {
            "containers": [{
                "name": "compute", "command": ["virt-launcher", "--root=/p/vm", "--socket=/p/sock"],
                "volumeMounts": [{"name": "private", "mountPath": "/p"}],
            }],
            "volumes": [{"name": "private", "emptyDir": {}}],
        },
    });
    let layout = Layout::parse(&serde_json::from_value(pod).unwrap()).unwrap();
    Arc::new(PodFolder::new(&Pods::played(pods), layout))
}

#[test]
fn volumes_that_are_not_on_the_disk_of_the_node_are_left_out() {
    let place = place("uid", Path::new("/"));
    let names = |volumes: Value| {
        let vmi = json!({"metadata": {"name": "a"}, "spec": {"domain": {}, "volumes": volumes}});
        let disks = GrowingDisks::for_vmi(&api::wire::read(vmi).unwrap(), &place);
        disks.map(|disks| disks.names.join(" "))
    };
    assert_eq!(names(json!([{"name": "a", "persistentVolumeClaim": {"claimName": "a"}}])), None);
    let all = json!([
        {"name": "a", "persistentVolumeClaim": {"claimName": "a"}},
        {"name": "b", "containerDisk": {"image": "b"}},
        {"name": "c", "ephemeral": {"persistentVolumeClaim": {"claimName": "c"}}},
        {"name": "d", "emptyDisk": {"capacity": "1Gi"}},
        {"name": "e", "cloudInitNoCloud": {"userData": "e"}},
    ]);
    assert_eq!(names(all).as_deref(), Some("b c d"));
}

/// Its kubelet would end the launcher of a paused guest, which does not answer.
#[test]
fn a_vmi_with_a_liveness_probe_is_not_paused() {
    let place = place("uid", Path::new("/"));
    let grows = |probe: &str| {
        let disk = json!([{"name": "root", "containerDisk": {"image": "a"}}]);
        let spec = json!({"domain": {}, "volumes": disk, probe: {"tcpSocket": {"port": 22}}});
        let vmi = json!({"metadata": {"name": "a"}, "spec": spec});
        GrowingDisks::for_vmi(&api::wire::read(vmi).unwrap(), &place).is_some()
    };
    assert_eq!((grows("livenessProbe"), grows("readinessProbe")), (false, true));
}

#[test]
fn a_vmi_that_a_user_resumes_is_paused_at_the_next_look() {
    let (mut asked, now) = (Unanswered::default(), Instant::now());
    let vmi = |vcpus: Vcpus| [Growing { uid: "hog".into(), vcpus, taken: None }];
    assert!(asked.add("hog", Vcpus::PausedForDisk, now));
    // The launcher has not reported the pause yet.
    asked.forget(&vmi(Vcpus::Running), now + AGAIN / 2);
    assert!(!asked.add("hog", Vcpus::PausedForDisk, now + AGAIN / 2));
    asked.forget(&vmi(Vcpus::PausedForDisk), now + AGAIN / 2);
    assert!(asked.add("hog", Vcpus::PausedForDisk, now + AGAIN / 2), "it is paused, and was resumed since");
    asked.forget(&vmi(Vcpus::Running), now + AGAIN * 2);
    assert!(asked.add("hog", Vcpus::PausedForDisk, now + AGAIN * 2), "the launcher did nothing");
}

#[tokio::test]
async fn a_vmi_that_fills_the_disk_of_its_node_is_paused_until_there_is_room_and_its_neighbour_runs() {
    let Some(disk) = Disk::new() else { return };
    let launchers = Launchers::default();
    let (mut hog, mut neighbour) = (Vm::new("hog", &disk, &launchers), Vm::new("log", &disk, &launchers));
    let ballast = disk.path().join("ballast");
    std::fs::write(&ballast, vec![7; 30 * MIB]).unwrap();
    let settings =
        NodeSettings { eviction_hard: Some("nodefs.available<10%".into()), ..NodeSettings::default() };
    let pressure = DiskPressure {
        node: "node1".into(),
        launchers,
        pods: disk.path().to_owned(),
        proc: "/proc".into(),
        settings: watch::channel(Some(settings)).1,
    };
    let running = tokio::spawn(pressure.run());
    // 34 MiB are left, and guests are paused at 9.6 MiB. The neighbour has written before, and writes a
    // little now.
    neighbour.writes(MIB);
    let mut wrote = 0;
    let request = loop {
        if let Ok(request) = timeout(Duration::from_millis(100), hog.requests.recv()).await {
            break request.unwrap();
        }
        hog.writes(MIB);
        wrote += 1;
        assert!(wrote < 27, "6.4 MiB are left: the kubelet evicts");
    };
    assert!(wrote > 20, "paused with {wrote} MiB written");
    assert_eq!(request["request"], "pauseForDiskPressure");
    let message = request["message"].as_str().unwrap();
    assert!(message.contains("disk of node node1 is nearly full"), "{message}");
    hog.is(Life::Paused, Some(PAUSED_BY_DISK_PRESSURE));
    neighbour.writes(MIB / 4);
    std::fs::remove_file(&ballast).unwrap();
    assert_eq!(hog.request().await, json!({"request": "resumeAfterDiskPressure"}));
    assert!(neighbour.requests.try_recv().is_err(), "the neighbour was asked for something");
    running.abort();
}
