//! A node: what its kubelet makes is played, what its virt-handler does is done by virt-handler's own parts, and in the pod is a real
//! launcher on a hypervisor that runs nothing.

use super::cluster::{Cluster, NODE};
use ::virt_handler::blocking::Blocking;
use ::virt_handler::launcher_client::{Client, States};
use ::virt_handler::now::now;
use ::virt_handler::pod::{Folder, Layout, Pod, PodFolder, Pods, Process};
use ::virt_handler::vmi::patch::patch;
use ::virt_handler::vmi::{Actions, DecisionInput, Launcher as LauncherState, decide};
use ::virt_handler::volumes::{self, Parts};
use api::launcher::{Answer, Format, Info, Life, Resolved, Source, Sync};
use api::machine::Machine;
use api::vmi::VirtualMachineInstance;
use cluster_model::objects::Key;
use launcher::hypervisor::fake::Fake;
use launcher::root::Root;
use launcher::server::{Listener, Service};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// More than anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Node {
    place: tempfile::TempDir,
}

impl Node {
    pub(crate) fn new() -> Node {
        Node { place: tempfile::Builder::new().prefix("n").tempdir_in("/tmp").unwrap() }
    }

    /// The folder that the launcher's container sees as `/`.
    fn root(&self) -> PathBuf {
        self.place.path().join("root")
    }

    /// A file of the image, where the launcher sees it.
    pub(crate) fn image(&self, path: &str) -> Source {
        Source::Image {
            path: self.root().join("var/run/kubevirt-image-volume/disk_0").join(path),
            format: Format::Raw,
        }
    }

    /// The kubelet starts a pod: its folders, its mounts, its launcher.
    pub(crate) async fn start(&self, cluster: &Cluster, key: &Key) -> Launcher {
        let object = cluster.object(key);
        let pods = self.place.path().join("pods");
        let pod = Pod::read(&object).unwrap();
        let layout = Layout::parse(&pod).unwrap();
        let empty = pods.join(&layout.uid).join("volumes/kubernetes.io~empty-dir");
        for volume in object["spec"]["volumes"].as_array().unwrap() {
            let name = volume["name"].as_str().unwrap();
            if volume["emptyDir"].is_object() {
                fs::create_dir_all(empty.join(name)).unwrap();
                continue;
            }
            let Some(mount) = layout.mounts.get(name) else { continue };
            let mount = self.root().join(mount.trim_start_matches('/'));
            if volume["image"].is_object() {
                fs::create_dir_all(mount.join("disk")).unwrap();
                fs::write(mount.join("disk/os.img"), vec![0; 1 << 20]).unwrap();
            } else if volume["persistentVolumeClaim"].is_object() {
                fs::create_dir_all(mount).unwrap();
            }
        }
        let inside =
            |place: &::virt_handler::pod::layout::PodPath| empty.join(&place.volume).join(&place.path);
        let fake = Arc::new(Fake::default());
        let folder = inside(&layout.root);
        let serving = serve(fake.clone(), &folder, &inside(&layout.socket), self.place.path()).await;
        cluster.change(
            key,
            &json!({"spec": {"nodeName": NODE}, "status": {
                "phase": "Running",
                "qosClass": "Burstable",
                "conditions": [{"type": "Ready", "status": "True"}],
                "containerStatuses": [{"name": "compute", "ready": true, "state": {"running": {}}}],
            }}),
        );
        let place = PodFolder::new(&Pods::played(&pods), layout);
        let client = Client::new(&key.name, Arc::new(place.clone()));
        let (states, process) = client.watch().await.unwrap();
        let process = Arc::new(process.unwrap());
        Launcher { fake, folder, place, client, states, process, root: self.root(), _serving: serving }
    }
}

/// The program `virt-launcher` without its command line: as `run` wires it.
async fn serve(fake: Arc<Fake>, folder: &Path, socket: &Path, runtime: &Path) -> tokio::task::JoinHandle<()> {
    let root = Root::open(folder, runtime).unwrap();
    let (give, lines) = launcher::console::lines();
    let info = Info {
        version: "1.0.0".into(),
        pid: std::process::id(),
        libvirt: "0.0.0".into(),
        uri: "fake:///".into(),
        root: folder.to_owned(),
    };
    let parts = launcher::vm::Parts { hypervisor: fake, root, lines: give, clock: launcher::clock::now };
    let (handle, driver) = launcher::vm::drive(parts).unwrap();
    tokio::spawn(driver);
    let service = Service::new(handle, lines, info).unwrap();
    let listener = Listener::bind(socket).await.unwrap();
    tokio::spawn(async move { listener.serve(service).await })
}

/// A launcher, as the virt-handler of its node has it.
pub(crate) struct Launcher {
    fake: Arc<Fake>,
    /// All that it keeps.
    folder: PathBuf,
    place: PodFolder,
    client: Client,
    states: States,
    process: Arc<Process>,
    root: PathBuf,
    _serving: tokio::task::JoinHandle<()>,
}

impl Launcher {
    /// virt-handler hears the next word of the launcher, decides, and says what is to be said.
    pub(crate) async fn look(&mut self, cluster: &Cluster, key: &Key) -> Actions {
        let next = tokio::time::timeout(PATIENCE, self.states.next()).await;
        let state = next.expect("a word").unwrap().expect("the launcher lives");
        assert_ne!(state.life, Life::Failed, "{state:?}");
        let vmi = vmi_of(cluster, key);
        let launcher = LauncherState::Speaks(Box::new(state));
        let known =
            DecisionInput { emulated: !self.place.layout().kvm, ..DecisionInput::new(&vmi, &launcher) };
        let plan = decide(&known, &now());
        if let Some(status) = &plan.status {
            cluster.tell(key, &patch(vmi.status.as_ref(), status).unwrap_or_default());
        }
        plan
    }

    /// virt-handler makes all ready and hands the VM over. Where its parts are, as the launcher was told.
    pub(crate) async fn begin(&self, cluster: &Cluster, key: &Key) -> Resolved {
        let vmi = vmi_of(cluster, key);
        let machine = Machine::check_again(&vmi).unwrap();
        let (place, process, root) = (self.place.clone(), self.process.clone(), self.root.clone());
        let spec = vmi.clone();
        let prepare = move || {
            let root = Folder::open(&root)?;
            volumes::prepare(&Parts {
                vmi: &spec,
                machine: &machine,
                place: &place,
                process: &process,
                root: &root,
                files: api::machine::Files::default(),
                receives: false,
            })
        };
        let ready = Blocking::new("the pod", 1).run("preparing", PATIENCE, prepare).await;
        let mut resolved = ready.unwrap().resolved;
        // The launcher of this test has the test's own `/`.
        for source in resolved.volumes.values_mut() {
            if let Source::Image { path, .. } | Source::File { path, .. } = source {
                *path = self.root.join(path.strip_prefix("/").unwrap());
            }
        }
        let generation = vmi.metadata.generation.and_then(|number| u64::try_from(number).ok()).unwrap();
        let sync = Sync { vmi: cluster.object(key), generation, resolved: resolved.clone() };
        assert_eq!(self.client.sync(&sync).await.unwrap(), Answer::Queued);
        resolved
    }

    /// The calls that the hypervisor received.
    pub(crate) fn heard(&self) -> Vec<String> {
        self.fake.conversation()
    }

    /// The launcher keeps a file.
    pub(crate) fn kept(&self, path: &str) -> bool {
        self.folder.join(path).is_file()
    }
}

fn vmi_of(cluster: &Cluster, key: &Key) -> VirtualMachineInstance {
    let object: Value = cluster.object(key);
    api::wire::read(object).unwrap()
}
