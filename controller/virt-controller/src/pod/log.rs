//! The container `guest-console-log` copies the guest's serial console to its output, for `kubectl logs -c
//! guest-console-log`.
//!
//! ```text
//!  compute: QEMU ──► private/root/log/serial.log ──► container-disk --tail ──► the runtime's log of this container
//!           the launcher holds private/root/lock ──► it ends with the launcher, and so the pod can end
//! ```
//!
//! It exists by default. `logSerialConsole` of the VMI turns it off; if that is not set, the settings do
//! (`virtualMachineOptions.disableSerialConsoleLog`).
//!
//! **Why it is not a sidecar** (an init container with `restartPolicy: Always`). After starting such a
//! container, the kubelet starts the others only at its next sync of the pod, up to a second later, and a log
//! does not justify a second of every start. So it is an ordinary container that is started last, need not be
//! ready for the hand-over, and ends by itself.

use super::volumes::PRIVATE;
use super::{Surroundings, image_containers, insert_unless_empty};
use api::machine::Machine;
use api::vmi::VirtualMachineInstance;
use serde_json::{Map, Value, json};

/// Name of the container.
pub(crate) const NAME: &str = "guest-console-log";

/// The container, where one is wanted. `private`: the pod's volume with the launcher's folder.
pub(super) fn container(
    vmi: &VirtualMachineInstance,
    machine: &Machine,
    around: &Surroundings<'_>,
    private: &str,
) -> Option<Value> {
    // Without a log there is nothing to show.
    machine.serial.filter(|serial| serial.log)?;
    let said = vmi.spec.domain.devices.log_serial_console;
    if !said.unwrap_or(around.config.serial_log) {
        return None;
    }
    let below = |path: &str| format!("{PRIVATE}/root/{path}");
    let mut container = Map::new();
    insert_unless_empty(&mut container, "name", json!(NAME));
    insert_unless_empty(&mut container, "image", json!(around.facts.launcher_image));
    insert_unless_empty(&mut container, "imagePullPolicy", json!(around.config.image_pull_policy));
    let command = [image_containers::HELPER.to_owned(), "--tail".into(), below("log/serial.log")];
    insert_unless_empty(
        &mut container,
        "command",
        json!([&command[..], &["--while".into(), below("lock")]].concat()),
    );
    insert_unless_empty(
        &mut container,
        "resources",
        image_containers::container_resources(around.config, NAME),
    );
    insert_unless_empty(&mut container, "securityContext", image_containers::security());
    insert_unless_empty(&mut container, "terminationMessagePolicy", json!("FallbackToLogsOnError"));
    insert_unless_empty(
        &mut container,
        "volumeMounts",
        json!([{"name": private, "mountPath": PRIVATE, "readOnly": true}]),
    );
    Some(Value::Object(container))
}
