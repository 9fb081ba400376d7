//! The container `guest-console-log`: what the guest says on its serial console, for `kubectl logs -c guest-console-log`.
//!
//! ```text
//!  compute: QEMU ──► private/root/log/serial.log ──► container-disk --tail ──► the runtime's log of this container
//!           the launcher holds private/root/lock ──► it ends with the launcher, and so the pod can end
//! ```
//!
//! It is there unless somebody does not want it: `logSerialConsole` of the VMI decides, and where that says nothing, the
//! settings do (`virtualMachineOptions.disableSerialConsoleLog`).
//!
//! **Why it is no init container that goes on** (`restartPolicy: Always`), as one would think: the kubelet begins the others
//! after such a one only at its next look at the pod, up to a second later; a log is not worth a second of every start. So it
//! is an ordinary one that is begun last, need not be ready for the hand-over, and ends by itself.

use super::volumes::PRIVATE;
use super::{Surroundings, beside, put};
use api::machine::Machine;
use api::vmi::VirtualMachineInstance;
use serde_json::{Map, Value, json};

/// The container's name.
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
    put(&mut container, "name", json!(NAME));
    put(&mut container, "image", json!(around.facts.launcher_image));
    put(&mut container, "imagePullPolicy", json!(around.config.image_pull_policy));
    let command = [beside::HELPER.to_owned(), "--tail".into(), below("log/serial.log")];
    put(&mut container, "command", json!([&command[..], &["--while".into(), below("lock")]].concat()));
    put(&mut container, "resources", beside::small(around.config, NAME));
    put(&mut container, "securityContext", beside::security());
    put(&mut container, "terminationMessagePolicy", json!("FallbackToLogsOnError"));
    put(&mut container, "volumeMounts", json!([{"name": private, "mountPath": PRIVATE, "readOnly": true}]));
    Some(Value::Object(container))
}
