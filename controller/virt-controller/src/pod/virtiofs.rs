//! File systems that the guest mounts: a container for each, in which virtiofsd serves the files of one volume.
//!
//! ```text
//!  virtiofs-NAME: the launcher's image, nothing but this volume at /virtiofs
//!                 container-disk --virtiofs SOCKETS/NAME.sock -- virtiofsd …
//!                        │ listens                             ▲ the guest's memory, an open file
//!  compute: QEMU ────────┘ connects once; ends ─► virtiofsd ends, and its container
//! ```
//!
//! A `containerPath` is a folder of this container itself, for files that webhooks of other systems put into
//! all containers of a pod. If the folder is missing, virtiofsd reports it and ends, and the VMI fails with
//! its message.
//!
//! The container is as unprivileged as the launcher: user 107, no capabilities, no namespace of its own
//! (`--sandbox none`: the container provides it), and a read-only root. So a file that the guest creates
//! belongs to user 107, and files that 107 may not read are not readable for any user in the guest. A guest
//! that takes over virtiofsd gains only what it already had: the volume, and its own memory. It has no access
//! to the launcher's folders or to other volumes.

use super::volumes::Volumes;
use super::{Surroundings, image_containers, insert_unless_empty};
use api::machine::{Filesystem, Machine, Volume};
use cluster_model::config::Config;
use cluster_model::launcher::VIRTIOFS;
use cluster_model::objects::{PersistentVolumeClaim, names};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Name of these containers in the settings.
const KIND: &str = "virtiofs";
/// Folder of the sockets between the containers and QEMU.
const SOCKETS: &str = "/var/run/kubevirt/virtiofs-containers";
/// Mount path of the volume.
const SHARED: &str = "/virtiofs";
/// Path of virtiofsd in the image of virt-launcher.
const PROGRAM: &str = "/usr/libexec/virtiofsd";

/// Serves the folder of a file system: where its volume is mounted, or a folder that others put into the container. That one may
/// have any path, also the one at which volumes are mounted.
pub(super) fn serve(
    all: &mut Volumes,
    filesystem: &Filesystem,
    injected: Option<&str>,
    around: &Surroundings<'_>,
) {
    let name = &filesystem.name;
    let folder = injected.unwrap_or(SHARED);
    let sockets = match &all.virtiofs_sockets {
        Some(sockets) => sockets.clone(),
        None => {
            let sockets = all.add_shared_folder("virtiofs-containers");
            all.mount(&sockets, SOCKETS, false);
            all.virtiofs_sockets = Some(sockets.clone());
            sockets
        }
    };
    let socket = format!("{SOCKETS}/{name}.sock");
    let own =
        ["--socket-path", socket.as_str(), "--shared-dir", folder, "--sandbox", "none", "--cache", "auto"];
    let only_read = filesystem.is_readonly().then_some("--readonly");
    let command = [image_containers::HELPER, VIRTIOFS, socket.as_str(), "--", PROGRAM].into_iter().chain(own);
    let mut container = Map::new();
    insert_unless_empty(&mut container, "name", json!(names::dns_label(&format!("virtiofs-{name}"))));
    insert_unless_empty(&mut container, "image", json!(around.facts.launcher_image));
    insert_unless_empty(&mut container, "imagePullPolicy", json!(around.config.image_pull_policy));
    insert_unless_empty(&mut container, "command", json!(command.chain(only_read).collect::<Vec<_>>()));
    insert_unless_empty(&mut container, "resources", resources(around.config, all.guaranteed));
    insert_unless_empty(&mut container, "securityContext", image_containers::security());
    insert_unless_empty(&mut container, "terminationMessagePolicy", json!("FallbackToLogsOnError"));
    let mut mounts = vec![json!({"name": sockets, "mountPath": SOCKETS})];
    if injected.is_none() {
        let mut shared = json!({"name": name, "mountPath": SHARED});
        if filesystem.is_readonly() {
            shared["readOnly"] = json!(true);
        }
        mounts.push(shared);
    }
    insert_unless_empty(&mut container, "volumeMounts", Value::Array(mounts));
    all.virtiofs.push(Value::Object(container));
}

/// Message about a file system that no container can serve, because its PVC has no files.
pub(super) fn without_files(
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

/// Resources of the container, unless the settings have others. virtiofsd keeps an open file for each that
/// the guest knows. A container of a Guaranteed pod requests its limit. A whole CPU would be a dedicated CPU,
/// so it requests less.
fn resources(config: &Config, guaranteed: bool) -> Value {
    let mut resources = json!({
        "requests": {"cpu": "10m", "memory": "40M", "ephemeral-storage": "1M"},
        "limits": {"cpu": if guaranteed { "900m" } else { "1" }, "memory": "80M"},
    });
    if let Some(said) = config.support.get(KIND) {
        cluster_model::plan::merge(&mut resources, said);
    }
    resources
}

#[cfg(test)]
mod tests {
    use crate::pod::tests::render;
    use serde_json::{Value, json};

    fn container(pod: &Value, name: &str) -> Value {
        let containers = pod["spec"]["containers"].as_array().unwrap();
        containers.iter().find(|container| container["name"] == name).unwrap().clone()
    }

    #[test]
    fn a_folder_that_others_put_where_volumes_are_mounted_is_no_volume() {
        let pod = render(
            json!({"spec": {
                "domain": {"devices": {"disks": [], "filesystems": [{"name": "injected", "virtiofs": {}}]}},
                "volumes": [{"name": "injected", "containerPath": {"path": super::SHARED}}],
            }}),
            json!({}),
            true,
        );
        let own = container(&pod, "virtiofs-injected");
        let mounts = own["volumeMounts"].as_array().unwrap();
        assert_eq!(mounts.len(), 1, "{mounts:?}: the pod has no volume of the name");
        assert!(own["command"].as_array().unwrap().contains(&json!(super::SHARED)));
    }

    #[test]
    fn a_server_of_files_takes_no_whole_cpu_from_others() {
        let pod = |cpu: Value, settings: Value| {
            let change = json!({"spec": {
                "domain": {
                    "cpu": cpu, "memory": {"guest": "64Mi"},
                    "devices": {"disks": [], "filesystems": [{"name": "conf", "virtiofs": {}}]},
                },
                "volumes": [{"name": "conf", "configMap": {"name": "conf"}}],
            }});
            container(&render(change, settings, true), "virtiofs-conf")["resources"].clone()
        };
        let own = pod(json!({"cores": 2, "dedicatedCpuPlacement": true}), json!({}));
        assert_eq!((&own["requests"]["cpu"], &own["limits"]["cpu"]), (&json!("900m"), &json!("900m")));
        let shared = pod(json!({"cores": 2}), json!({}));
        assert_eq!((&shared["requests"]["cpu"], &shared["limits"]["cpu"]), (&json!("10m"), &json!("1")));
        // What the settings say is said on purpose.
        let of = json!({"type": "virtiofs", "resources": {"limits": {"cpu": "2"}}});
        let settings = json!({"configuration": {"supportContainerResources": [of]}});
        let own = pod(json!({"cores": 2, "dedicatedCpuPlacement": true}), settings);
        assert_eq!(own["limits"]["cpu"], "2");
    }
}
