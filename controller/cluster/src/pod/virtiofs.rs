//! File systems that the guest mounts: a container for each, in which virtiofsd serves the files of one volume.
//!
//! ```text
//!  virtiofs-NAME: the launcher's image, nothing but this volume at /virtiofs
//!                 container-disk --virtiofs SOCKETS/NAME.sock -- virtiofsd …
//!                        │ listens                             ▲ the guest's memory, an open file
//!  compute: QEMU ────────┘ connects once; ends ─► virtiofsd ends, and its container
//! ```
//!
//! A `containerPath` is a folder of this container itself: webhooks of others put their files into all containers of a pod.
//! Where nobody has put one, virtiofsd says so and ends, and the VMI does not start.
//!
//! It is as unprivileged as the launcher: user 107, no capability, no namespace of its own (`--sandbox none`: the container
//! is one), a root that is only read. So a file that the guest makes belongs to user 107, and what 107 may not read in the
//! volume the guest may not either, whoever it is in the guest. Whoever breaks virtiofsd by the guest's requests has what the
//! guest had: the volume, and the guest's memory. It does not see the launcher's folders, nor other volumes.

use super::volumes::Volumes;
use super::{Surroundings, beside, put};
use api::machine::{Filesystem, Machine, Volume};
use kubernetes::config::Config;
use kubernetes::launcher::VIRTIOFS;
use kubernetes::objects::{PersistentVolumeClaim, names};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// What the settings call these containers.
const KIND: &str = "virtiofs";
/// Where the containers and QEMU meet.
const SOCKETS: &str = "/var/run/kubevirt/virtiofs-containers";
/// Where a container has its volume.
pub(super) const SHARED: &str = "/virtiofs";
/// The program: it is of a newer Debian than the rest of the image, and comes with the loader and the libraries of that.
const PROGRAM: [&str; 4] = [
    "/usr/lib/virtiofsd/ld-linux-x86-64.so.2",
    "--library-path",
    "/usr/lib/virtiofsd",
    "/usr/lib/virtiofsd/virtiofsd",
];

/// Serves the folder of a file system: where its volume is mounted, which is one of the pod's already, or another.
pub(super) fn serve(all: &mut Volumes, filesystem: &Filesystem, folder: &str, around: &Surroundings<'_>) {
    let name = &filesystem.name;
    let sockets = match &all.virtiofs_sockets {
        Some(sockets) => sockets.clone(),
        None => {
            let sockets = all.shared("virtiofs-containers");
            all.mount(&sockets, SOCKETS, false);
            all.virtiofs_sockets = Some(sockets.clone());
            sockets
        }
    };
    let socket = format!("{SOCKETS}/{name}.sock");
    let own =
        ["--socket-path", socket.as_str(), "--shared-dir", folder, "--sandbox", "none", "--cache", "auto"];
    let only_read = filesystem.is_readonly().then_some("--readonly");
    let command = [beside::HELPER, VIRTIOFS, socket.as_str(), "--"].into_iter().chain(PROGRAM).chain(own);
    let mut container = Map::new();
    put(&mut container, "name", json!(names::dns_label(&format!("virtiofs-{name}"))));
    put(&mut container, "image", json!(around.facts.launcher_image));
    put(&mut container, "imagePullPolicy", json!(around.config.image_pull_policy));
    put(&mut container, "command", json!(command.chain(only_read).collect::<Vec<_>>()));
    put(&mut container, "resources", resources(around.config));
    put(&mut container, "securityContext", beside::security());
    put(&mut container, "terminationMessagePolicy", json!("FallbackToLogsOnError"));
    let mut mounts = vec![json!({"name": sockets, "mountPath": SOCKETS})];
    if folder == SHARED {
        let mut shared = json!({"name": name, "mountPath": SHARED});
        if filesystem.is_readonly() {
            shared["readOnly"] = json!(true);
        }
        mounts.push(shared);
    }
    put(&mut container, "volumeMounts", Value::Array(mounts));
    all.virtiofs.push(Value::Object(container));
}

/// Why no container can serve a file system: its PVC is a device, and a pod that mounts one waits for ever.
pub(crate) fn without_files(
    machine: &Machine,
    claims: &BTreeMap<String, PersistentVolumeClaim>,
) -> Option<String> {
    machine.filesystems.iter().enumerate().find_map(|(n, filesystem)| {
        let (Volume::Claim { name, .. } | Volume::DataVolume { name }) = &filesystem.volume else { return None };
        claims.get(name).filter(|claim| claim.is_block())?;
        Some(format!(
            "spec.domain.devices.filesystems[{n}]: PVC {}/{name} is a block device (volumeMode: Block), which has no files to \
             share; name a PVC with volumeMode Filesystem, or give the guest a disk of this one",
            machine.namespace
        ))
    })
}

/// What it asks for, unless the settings say other amounts: it keeps an open file for each that the guest knows.
fn resources(config: &Config) -> Value {
    let mut resources = json!({
        "requests": {"cpu": "10m", "memory": "40M", "ephemeral-storage": "1M"},
        "limits": {"cpu": "1", "memory": "80M"},
    });
    if let Some(said) = config.support.get(KIND) {
        kubernetes::plan::merge(&mut resources, said);
    }
    resources
}
