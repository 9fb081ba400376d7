//! With virt-controller: VMIs are made, and where it has handed one to a node of kwok, the virt-handler of that node says what
//! virt-handler would. What it says is decided and written by virt-handler's own code; only the launcher is made up.

use crate::speaker::{Speaker, core, vmis};
use crate::{AT_ONCE, Fault, Result};
use api::launcher::{Life, State};
use api::vmi::InterfaceStatus;
use cluster_client::Writer;
use cluster_client::watch::{WatchMessage, follow};
use cluster_model::objects::{Kind, WatchTarget};
use cluster_model::objects::{LauncherAttempt, names};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use virt_handler::now::now;
use virt_handler::vmi::apply::{Cluster as _, read};
use virt_handler::vmi::decide::{DecisionInput, Event, Launcher, decide};
use virt_handler::vmi::patch::patch;

/// Longer than it ever takes.
const PATIENCE: Duration = Duration::from_secs(900);

pub(crate) async fn run(space: &str, count: usize, sample: &Path) -> Result<Value> {
    let administrator = Speaker::administrator().await?;
    let handlers = handlers(&administrator).await?;
    let (to, mut seen) = mpsc::channel(1024);
    let which =
        WatchTarget { namespace: space.to_owned(), ..WatchTarget::all(Kind::VirtualMachineInstance, None) };
    tokio::spawn(follow(administrator.0.clone(), which, to));

    let begin = Instant::now();
    let making = tokio::spawn(make(administrator.clone(), space.to_owned(), count));
    let (mut taken, mut told) = (BTreeSet::new(), BTreeSet::new());
    let mut writing: JoinSet<Result<()>> = JoinSet::new();
    let mut last = String::new();
    while told.len() < count {
        let objects = tokio::select! {
            event = tokio::time::timeout(PATIENCE.saturating_sub(begin.elapsed()), seen.recv()) => match event {
                Ok(Some(WatchMessage::Changed(_, object))) => vec![object],
                Ok(Some(WatchMessage::Listed(_, objects))) => objects,
                // None is followed by its name here.
                Ok(Some(WatchMessage::Only(..))) => continue,
                Ok(Some(WatchMessage::Gone(key, _))) => return Err(format!("{key} has gone").into()),
                Ok(None) => return Err("the watch has ended".into()),
                Err(_) => return Err(format!("{} of {count} are told of after {PATIENCE:?}; {last}", told.len()).into()),
            },
            Some(done) = writing.join_next(), if !writing.is_empty() => {
                done??;
                continue;
            }
        };
        for object in objects {
            let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            let phase = object["status"]["phase"].as_str().unwrap_or_default();
            if phase == "Running" && is_ready(&object) {
                told.insert(name);
            } else if phase == "Failed" {
                return Err(format!("{name} has failed: {}", object["status"]).into());
            } else if phase == "Scheduled" && taken.insert(name) {
                let node = object["status"]["nodeName"].as_str().unwrap_or_default();
                let handler = handlers.get(node).ok_or_else(|| format!("{node} is no node of kwok"))?;
                writing.spawn(run_vmi(handler.clone(), administrator.clone(), object));
            } else {
                last = object["status"].to_string();
            }
        }
    }
    let seconds = begin.elapsed().as_secs_f64();
    let made = making.await??;
    while let Some(done) = writing.join_next().await {
        done??;
    }
    keep(&administrator, space, sample).await?;
    Ok(json!({"seconds": seconds, "made": made}))
}

/// Makes the VMIs; how many seconds that took.
async fn make(administrator: Speaker, space: String, count: usize) -> Result<f64> {
    let begin = Instant::now();
    let path = vmis(&space);
    let each = stream::iter((0..count).map(Ok::<_, Fault>));
    each.try_for_each_concurrent(AT_ONCE, |number| {
        let (administrator, path) = (&administrator, &path);
        async move { administrator.create(path, &vmi(number)).await.map(drop) }
    })
    .await?;
    Ok(begin.elapsed().as_secs_f64())
}

/// A small VMI that goes to a node of kwok.
fn vmi(number: usize) -> Value {
    json!({
        "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance",
        "metadata": {"name": format!("m{number:05}"), "labels": {"app": "load"}},
        "spec": {
            "nodeSelector": {"type": "kwok"},
            "tolerations": [{"key": "kwok.x-k8s.io/node", "operator": "Exists"}],
            "domain": {
                "memory": {"guest": "128Mi"},
                "devices": {
                    "disks": [{"name": "root", "disk": {"bus": "virtio"}}],
                    "interfaces": [{"name": "default", "masquerade": {}}],
                },
            },
            "networks": [{"name": "default", "pod": {}}],
            "volumes": [{"name": "root", "containerDisk": {"image": "registry:5000/disk:1"}}],
        },
    })
}

/// The virt-handler of each node of kwok.
async fn handlers(administrator: &Speaker) -> Result<BTreeMap<String, Arc<Writer>>> {
    let nodes = administrator.get("/api/v1/nodes?labelSelector=type%3Dkwok").await?;
    let names =
        nodes["items"].as_array().into_iter().flatten().filter_map(|node| node["metadata"]["name"].as_str());
    let speakers = stream::iter(names).then(|name| async move {
        let speaker = Speaker::handler(name).await?;
        Ok::<_, Fault>((name.to_owned(), Arc::new(Writer::on_node(speaker.0, "virt-handler", name))))
    });
    speakers.try_collect().await
}

/// What virt-handler says of a VMI that its launcher has and runs.
async fn run_vmi(handler: Arc<Writer>, administrator: Speaker, mut object: Value) -> Result<()> {
    let launcher = Launcher::Speaks(Box::new(State {
        number: 3,
        generation: 1,
        life: Life::Running,
        reason: None,
        message: None,
        since: now().text,
        doing: None,
        grace: None,
        qemu_pid: None,
        qemu_started: None,
        frozen: false,
        selinux: None,
        kernel_boot: None,
        agent: false,
        targets: [("root".to_owned(), "vda".to_owned())].into(),
        sizes: Default::default(),
        links: [].into(),
        credentials: None,
        receives: false,
        migration: None,
        phases: Vec::new(),
    }));
    let interface = InterfaceStatus {
        name: Some("default".to_owned()),
        ip_address: Some("10.0.2.2".to_owned()),
        ip_addresses: vec!["10.0.2.2".to_owned()],
        ..InterfaceStatus::default()
    };
    let mut begins = true;
    loop {
        let vmi = read(object.clone()).map_err(|e| e.chain())?;
        if begins {
            handler
                .record_event(&vmi.metadata, &Event::normal("Created", "VirtualMachineInstance defined."))
                .await;
            begins = false;
        }
        let interfaces = std::slice::from_ref(&interface);
        let known = DecisionInput {
            interfaces,
            may_begin: false,
            emulated: true,
            ..DecisionInput::new(&vmi, &launcher)
        };
        let plan = decide(&known, &now());
        let Some(status) = plan.status else { return Ok(()) };
        let change = patch(vmi.status.as_ref(), &status).unwrap_or_default();
        if handler.change(&vmi.metadata, &change).await.map_err(|e| e.chain())?.is_some() {
            for event in &plan.events {
                handler.record_event(&vmi.metadata, event).await;
            }
            return Ok(());
        }
        // Somebody was quicker; virt-handler, too, would look again.
        let space = object["metadata"]["namespace"].as_str().unwrap_or_default();
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        object = administrator.get(&format!("{}/{name}", vmis(space))).await?;
    }
}

fn is_ready(object: &Value) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    conditions.into_iter().flatten().any(|one| one["type"] == "Ready" && one["status"] == "True")
}

/// Writes one VMI and its pod to the file `sample`. The run without virt-controller makes copies of them.
async fn keep(administrator: &Speaker, space: &str, sample: &Path) -> Result<()> {
    let vmi = administrator.get(&format!("{}/m00000", vmis(space))).await?;
    let uid = vmi["metadata"]["uid"].as_str().unwrap_or_default();
    let pod = administrator
        .get(&format!("{}/{}", core(space, "pods"), names::pod("m00000", uid, LauncherAttempt::Start)))
        .await?;
    std::fs::write(sample, json!({"vmi": vmi, "pod": pod}).to_string())?;
    Ok(())
}
