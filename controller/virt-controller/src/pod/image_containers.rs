//! Images of disks where the cluster cannot mount them: a container of each image runs beside the launcher, and
//! virt-handler takes the disk out of its root.
//!
//! ```text
//!  init: the launcher's image ──copies the helper──► emptyDir (bin)
//!                                                       │ /container-disk-binary/container-disk
//!  volumeNAME: the user's image, all of it only read ◄──┘ listens on /container-disks/disk_I.sock
//!  compute: sees what virt-handler shows it in the launcher's own folder, and nothing of this emptyDir
//! ```

use super::volumes::Volumes;
use super::{Surroundings, insert_unless_empty, narrow};
use api::machine::firmware::Image;
use cluster_model::config::Config;
use serde_json::{Map, Value, json};

/// Folder of the helper in the container of an image, which is also the folder of its socket. Images do not
/// have such a folder.
const BIN: &str = "/container-disk-binary";
const SOCKETS: &str = "/container-disks";
/// The helper in the launcher's image.
pub(super) const HELPER: &str = "/usr/bin/container-disk";
/// Name of these containers in the settings.
const KIND: &str = "container-disk";
/// The containers, and the pod's volumes that they share.
#[derive(Default)]
pub(super) struct ImageContainers {
    containers: Vec<Value>,
    /// The pod's volumes: the helper, and the sockets.
    shared: Option<(String, String)>,
}

impl ImageContainers {
    /// Init containers and running containers.
    pub(super) fn containers(self, around: &Surroundings<'_>) -> (Vec<Value>, Vec<Value>) {
        let Some((bin, _)) = self.shared else { return (Vec::new(), Vec::new()) };
        let mut copy = Map::new();
        insert_unless_empty(&mut copy, "name", json!("container-disk-binary"));
        insert_unless_empty(&mut copy, "image", json!(around.facts.launcher_image));
        insert_unless_empty(&mut copy, "imagePullPolicy", json!(around.config.image_pull_policy));
        insert_unless_empty(&mut copy, "command", json!([HELPER, "--install", BIN]));
        insert_unless_empty(&mut copy, "resources", container_resources(around.config, KIND));
        insert_unless_empty(&mut copy, "securityContext", security());
        insert_unless_empty(&mut copy, "terminationMessagePolicy", json!("FallbackToLogsOnError"));
        insert_unless_empty(&mut copy, "volumeMounts", json!([{"name": bin, "mountPath": BIN}]));
        (vec![Value::Object(copy)], self.containers)
    }
}

/// Adds a container that provides an image to virt-handler. `held` is the name of its socket.
pub(super) fn add_container(all: &mut Volumes, container: &str, image: &Image, held: &str, config: &Config) {
    let (bin, sockets) = match &all.beside.shared {
        Some(shared) => shared.clone(),
        None => {
            let [bin, sockets] =
                ["container-disk-binary", "container-disks"].map(|name| all.add_shared_folder(name));
            all.beside.shared = Some((bin.clone(), sockets.clone()));
            (bin, sockets)
        }
    };
    let mut beside = Map::new();
    insert_unless_empty(&mut beside, "name", json!(cluster_model::objects::names::dns_label(container)));
    insert_unless_empty(&mut beside, "image", json!(image.name));
    insert_unless_empty(&mut beside, "imagePullPolicy", json!(image.pull_policy));
    let program = format!("{BIN}/container-disk");
    insert_unless_empty(&mut beside, "command", json!([program, "--copy-path", format!("{SOCKETS}/{held}")]));
    // The image's own may be a folder that is not there.
    insert_unless_empty(&mut beside, "workingDir", json!("/"));
    insert_unless_empty(&mut beside, "resources", container_resources(config, KIND));
    insert_unless_empty(&mut beside, "securityContext", security());
    insert_unless_empty(&mut beside, "terminationMessagePolicy", json!("FallbackToLogsOnError"));
    insert_unless_empty(
        &mut beside,
        "volumeMounts",
        json!([
            {"name": bin, "mountPath": BIN, "readOnly": true},
            {"name": sockets, "mountPath": SOCKETS},
        ]),
    );
    all.beside.containers.push(Value::Object(beside));
}

/// Resources of a small container, unless the settings have others for its kind. The container sleeps. A
/// limit of a tenth of a CPU keeps its start from taking seconds.
pub(super) fn container_resources(config: &Config, kind: &str) -> Value {
    let mut resources = json!({
        "requests": {"cpu": "1m", "memory": "1M", "ephemeral-storage": "50M"},
        "limits": {"cpu": "100m", "memory": "40M"},
    });
    if let Some(said) = config.support.get(kind) {
        cluster_model::plan::merge(&mut resources, said);
    }
    resources
}

/// Security context without write access: neither the image's own container nor another writes to an image.
pub(super) fn security() -> Value {
    let mut context = narrow(&[]);
    context["readOnlyRootFilesystem"] = json!(true);
    context
}
