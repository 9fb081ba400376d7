//! Labels of this node for the scheduler, and its heartbeat.
//!
//! ```text
//!  FINDINGS/node.json (virt-launcher node-info) ─► labels (pure) ─┐
//!  the node's metadata as it is ──────────────────────────────────┴─► patch (pure) ─► merge patch, if it differs
//! ```
//!
//! | label | meaning |
//! |---|---|
//! | `kubevirt.io/schedulable` | VMIs may come; `false` when virt-handler ends |
//! | `machine-type.node…/*`, `cpu-model.node…/*`, `cpu-feature.node…/*` | features that a VMI here can have |
//! | `hyperv.node…/*` | Hyper-V enlightenments that not every host has |
//! | `cpu-timer.node…/tsc-frequency`, `…/tsc-scalable` | the time stamp counter of the host |
//! | `node-labeller.kubevirt.io/obsolete-host-model` | the cluster calls the model of the host's processor obsolete |
//! | `cpu-vendor.node…/*`, `host-model-cpu.node…/*`, `host-model-required-features.node…/*` | the host's processor |
//! | `cpumanager`, `kubevirt.io/cpumanager` | the kubelet assigns exclusive CPUs: VMIs may have dedicated CPUs |
//! | `kubevirt.io/realtime` | the kernel lets real-time threads run without limit |
//! | annotation `kubevirt.io/heartbeat` | time of virt-handler's last heartbeat |
//!
//! A label with one of our prefixes that is no longer true is removed. With the annotation
//! `node-labeller.kubevirt.io/skip-node`, only the first and the last line are written.

use super::blocking::Blocking;
use super::cpu::Cpus;
use super::error::{Error, ErrorKind, Result};
use super::machine_types;
use super::now::{Now, now};
use super::pod::Folder;
use api::machine::hyperv::OF_HOSTS;
use api::node::Node;
use cluster_client::{Server as _, Writer};
use cluster_model::config::node::NodeSettings;
use cluster_model::objects::{
    ABILITIES, CPU_MANAGER, CPU_MANAGER_OF_KUBEVIRT, HEARTBEAT, Key, Kind as ObjectKind, OBSOLETE_HOST_MODEL,
    REALTIME, SCHEDULABLE,
};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::sync::watch;

/// Time between two heartbeats.
const BEAT: Duration = Duration::from_secs(60);
/// Time before a failed heartbeat is retried.
const AGAIN: Duration = Duration::from_secs(5);
/// Time limit for reading a file of the node.
const PATIENCE: Duration = Duration::from_secs(10);
/// File that `virt-launcher node-info` writes.
const NODE: &str = "node.json";
/// Largest file that is read.
const LARGEST: u64 = 8 << 20;
const SKIP: &str = "node-labeller.kubevirt.io/skip-node";
/// Writer of the node's labels and heartbeat.
#[derive(Clone)]
pub(crate) struct Labeller {
    pub(crate) writer: Writer,
    /// Name of the node.
    pub(crate) node: String,
    /// Folder with the results of `virt-launcher node-info`.
    pub(crate) findings: PathBuf,
    pub(crate) kubelet: PathBuf,
    /// Threads that read files of the node.
    pub(crate) blocking: Blocking,
    /// Cluster settings of nodes. Until they are known, only the labels of the heartbeat are written.
    pub(crate) settings: watch::Receiver<Option<NodeSettings>>,
    /// Receives the labels of the node after each write.
    pub(crate) labels: watch::Sender<Value>,
}

impl Labeller {
    /// Writes labels and heartbeats. Never returns.
    pub(crate) async fn run(&self) {
        let mut settings = self.settings.clone();
        loop {
            settings.mark_unchanged();
            let pause = match self.write(true).await {
                Ok(()) => BEAT,
                Err(e) => {
                    tracing::warn!("{}", e.chain());
                    AGAIN
                }
            };
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                Ok(()) = settings.changed() => {}
            }
        }
    }

    /// Writes labels and heartbeat once.
    pub(crate) async fn write(&self, schedulable: bool) -> Result<()> {
        let (findings, kubelet) = (self.findings.clone(), self.kubelet.clone());
        let look = move || Ok((read(&findings)?, Cpus::read(&kubelet)));
        let found = self.blocking.run("reading what node-info wrote", PATIENCE, look).await;
        let (found, cpus) = found.map(|(found, cpus)| (found, Some(cpus))).unwrap_or_else(|e| {
            tracing::warn!("{}", e.chain());
            (None, None)
        });
        if let Some(node) = &found {
            machine_types::set_deprecated(node.deprecated_machine_types.clone());
        }
        let settings = self.settings.borrow().clone();
        let wanted = found.zip(settings).map(|(node, settings)| labels(node, &settings));
        let key = Key::new(ObjectKind::Node, "", self.node.as_str());
        let failed = |error| Error::failed("cannot write the labels of this node").because(error);
        let object = self.writer.get(&key).await.map_err(failed)?;
        self.labels.send_if_modified(|known| {
            let is_other = *known != object["metadata"]["labels"];
            known.clone_from(&object["metadata"]["labels"]);
            is_other
        });
        let patch = patch(&object["metadata"], wanted.as_ref(), cpus, schedulable, &now());
        // No other program writes these labels: the resource version does not matter.
        self.writer.patch(&key, &patch, None).await.map(drop).map_err(failed)
    }
}

/// Report of `node-info` about this node; `None` if it has not run. `findings`: its folder.
pub(crate) fn read(findings: &Path) -> Result<Option<Node>> {
    let shown = findings.join(NODE);
    let shown = shown.display();
    let file = match Folder::open(findings).and_then(|folder| folder.read(NODE)) {
        Ok(file) => file,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(e),
    };
    let mut text = Vec::new();
    let read = file.take(LARGEST).read_to_end(&mut text);
    read.map_err(|e| Error::io(format!("cannot read {shown}"), e))?;
    let node = serde_json::from_slice(&text);
    node.map(Some).map_err(|e| {
        Error::new(ErrorKind::Failed, format!("{shown} is not a report of virt-launcher node-info"))
            .because(e)
    })
}

/// Labels of such a node, without the models that the cluster calls obsolete.
fn labels(mut node: Node, settings: &NodeSettings) -> BTreeMap<String, String> {
    node.cpu.models.retain(|model| !settings.obsolete_models.contains(model));
    let is_obsolete =
        node.cpu.host_model.as_ref().is_some_and(|model| settings.obsolete_models.contains(model));
    let each = |prefix: &'static str, names: &[String]| -> Vec<(String, String)> {
        names
            .iter()
            .filter(|name| is_name(name))
            .map(|name| (format!("{prefix}{name}"), "true".into()))
            .collect()
    };
    let one = |name: &Option<String>| name.iter().cloned().collect::<Vec<_>>();
    let [machine, model, feature, vendor, host, required, enlightenment, timer] = ABILITIES;
    let known = |name: &&String| OF_HOSTS.contains(&name.as_str());
    let enlightenments: Vec<String> = node.cpu.hyperv.iter().filter(known).cloned().collect();
    let tsc = node.cpu.tsc.map(|tsc| {
        vec![
            (format!("{timer}tsc-frequency"), tsc.frequency.to_string()),
            (format!("{timer}tsc-scalable"), tsc.scalable.to_string()),
        ]
    });
    let all = [
        each(machine, &node.machine_types),
        each(model, &node.cpu.models),
        each(feature, &node.cpu.features),
        each(vendor, &one(&node.cpu.vendor)),
        each(host, &one(&node.cpu.host_model)),
        each(required, if node.cpu.host_model.is_some() { &node.cpu.features } else { &[] }),
        each(enlightenment, &enlightenments),
        tsc.unwrap_or_default(),
    ];
    let obsolete = is_obsolete.then(|| (OBSOLETE_HOST_MODEL.to_owned(), "true".to_owned()));
    all.into_iter().flatten().chain(obsolete).collect()
}

/// Merge patch from the node's metadata to the current labels. `wanted`: labels of the node's features, if
/// known.
fn patch(
    metadata: &Value,
    wanted: Option<&BTreeMap<String, String>>,
    cpus: Option<Cpus>,
    schedulable: bool,
    now: &Now,
) -> Value {
    let there = metadata["labels"].as_object();
    let mut changes = Map::new();
    let mut say = |key: &str, value: Value| {
        if there.and_then(|there| there.get(key)).unwrap_or(&Value::Null) != &value {
            changes.insert(key.to_owned(), value);
        }
    };
    say(SCHEDULABLE, json!(schedulable.to_string()));
    let skipped = metadata["annotations"].get(SKIP).is_some();
    if let Some(Cpus { manager, realtime }) = cpus.filter(|_| !skipped) {
        for key in [CPU_MANAGER, CPU_MANAGER_OF_KUBEVIRT] {
            say(key, json!(manager.to_string()));
        }
        say(REALTIME, if realtime { json!("") } else { Value::Null });
    }
    if let Some(wanted) = wanted.filter(|_| !skipped) {
        for (key, value) in wanted {
            say(key, json!(value));
        }
        let ours = |key: &&String| {
            *key == OBSOLETE_HOST_MODEL || ABILITIES.iter().any(|prefix| key.starts_with(prefix))
        };
        let old = there.into_iter().flat_map(|there| there.keys()).filter(ours);
        for key in old.filter(|key| !wanted.contains_key(*key)) {
            say(key, Value::Null);
        }
    }
    let mut metadata = json!({"annotations": {HEARTBEAT: now.text}});
    if !changes.is_empty() {
        metadata["labels"] = Value::Object(changes);
    }
    json!({"metadata": metadata})
}

/// True for a valid end of a label's key.
fn is_name(name: &str) -> bool {
    let ends = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    name.len() <= 63
        && ends(name.chars().next())
        && ends(name.chars().last())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node() -> Node {
        serde_json::from_value(json!({
            "kvm": {"verdict": "full"}, "arch": "amd64", "libvirt": "9.0.0", "qemu": "7.2.0",
            "accelerators": ["kvm"], "machineTypes": ["q35", "pc-q35-7.2", "a b"],
            "cpu": {"vendor": "Intel", "hostModel": "Skylake-Client", "models": ["Penryn"], "features": ["vmx"],
                    "count": 2, "hyperv": ["relaxed", "vpindex", "synictimer"],
                    "tsc": {"frequency": 2_600_000_000_u64, "scalable": true}},
            "devices": [], "hugepages": [], "firmware": [], "missing": []
        }))
        .unwrap()
    }

    fn said(settings: &NodeSettings) -> BTreeMap<String, String> {
        labels(node(), settings)
    }

    fn at() -> Now {
        Now { text: "2026-11-21T10:00:00Z".into() }
    }

    #[test]
    fn a_node_says_what_vmis_can_have_there() {
        let metadata = json!({"labels": {
            "kubernetes.io/arch": "amd64", "machine-type.node.kubevirt.io/pc-q35-6.0": "true",
            "cpu-model.node.kubevirt.io/Penryn": "true", "hyperv.node.kubevirt.io/ipi": "true"
        }});
        assert_eq!(
            patch(&metadata, Some(&said(&NodeSettings::default())), None, true, &at()),
            json!({"metadata": {
                "annotations": {"kubevirt.io/heartbeat": "2026-11-21T10:00:00Z"},
                "labels": {
                    "kubevirt.io/schedulable": "true",
                    "machine-type.node.kubevirt.io/q35": "true",
                    "machine-type.node.kubevirt.io/pc-q35-7.2": "true",
                    "machine-type.node.kubevirt.io/pc-q35-6.0": null,
                    "cpu-feature.node.kubevirt.io/vmx": "true",
                    "cpu-vendor.node.kubevirt.io/Intel": "true",
                    "host-model-cpu.node.kubevirt.io/Skylake-Client": "true",
                    "host-model-required-features.node.kubevirt.io/vmx": "true",
                    "hyperv.node.kubevirt.io/ipi": null,
                    "hyperv.node.kubevirt.io/vpindex": "true",
                    "hyperv.node.kubevirt.io/synictimer": "true",
                    "cpu-timer.node.kubevirt.io/tsc-frequency": "2600000000",
                    "cpu-timer.node.kubevirt.io/tsc-scalable": "true"
                }
            }})
        );
    }

    #[test]
    fn a_model_that_the_cluster_calls_obsolete_is_not_offered() {
        let settings =
            NodeSettings { obsolete_models: ["Penryn".to_owned()].into(), ..NodeSettings::default() };
        let had = json!({"labels": said(&NodeSettings::default())});
        let patch = patch(&had, Some(&said(&settings)), None, true, &at());
        let expected = json!({SCHEDULABLE: "true", "cpu-model.node.kubevirt.io/Penryn": null});
        assert_eq!(patch["metadata"]["labels"], expected);
    }

    #[test]
    fn a_host_of_an_obsolete_model_says_so_until_it_is_none_any_more() {
        let settings =
            NodeSettings { obsolete_models: ["Skylake-Client".to_owned()].into(), ..NodeSettings::default() };
        let patch = |had: &NodeSettings, has: &NodeSettings| {
            let had = json!({"labels": said(had)});
            patch(&had, Some(&said(has)), None, true, &at())["metadata"]["labels"][OBSOLETE_HOST_MODEL]
                .clone()
        };
        assert_eq!(patch(&NodeSettings::default(), &settings), json!("true"));
        assert_eq!(patch(&settings, &NodeSettings::default()), Value::Null);
        assert!(said(&settings).contains_key(OBSOLETE_HOST_MODEL));
        assert!(said(&settings).contains_key("host-model-cpu.node.kubevirt.io/Skylake-Client"));
    }

    #[test]
    fn a_heartbeat_alone_changes_no_label() {
        let all = said(&NodeSettings::default());
        let mut metadata = json!({"labels": all});
        metadata["labels"][SCHEDULABLE] = json!("true");
        let patch = |metadata: &Value, schedulable| patch(metadata, Some(&all), None, schedulable, &at());
        assert!(patch(&metadata, true)["metadata"].get("labels").is_none());
        assert_eq!(patch(&metadata, false)["metadata"]["labels"], json!({SCHEDULABLE: "false"}));
        let skipped = json!({"annotations": {SKIP: "true"}});
        assert_eq!(patch(&skipped, true)["metadata"]["labels"], json!({SCHEDULABLE: "true"}));
    }

    #[test]
    fn a_node_says_whether_vmis_can_have_cpus_of_their_own() {
        let said = |metadata: Value, manager, realtime| {
            let cpus = Some(Cpus { manager, realtime });
            patch(&metadata, None, cpus, true, &at())["metadata"]["labels"].clone()
        };
        let none = json!({"labels": {SCHEDULABLE: "true"}});
        let off = json!({"cpumanager": "false", "kubevirt.io/cpumanager": "false"});
        assert_eq!(said(none.clone(), false, false), off);
        let on = json!({"cpumanager": "true", "kubevirt.io/cpumanager": "true", "kubevirt.io/realtime": ""});
        assert_eq!(said(none, true, true), on);
        let mut labels = on.clone();
        labels[SCHEDULABLE] = json!("true");
        assert_eq!(said(json!({"labels": labels}), true, true), Value::Null, "nothing changes");
        assert_eq!(said(json!({"labels": labels}), true, false), json!({"kubevirt.io/realtime": null}));
        let skipped = json!({"labels": {SCHEDULABLE: "true"}, "annotations": {SKIP: "true"}});
        assert_eq!(said(skipped, true, true), Value::Null);
    }
}
