//! Device plug-ins of this node for the kubelet: `devices.kubevirt.io/{kvm,tun,vhost-net,vhost-vsock}`.
//!
//! ```text
//!  kubelet.sock ◄── Register ── plugin (one per device, its own socket beside)
//!      │                           ▲
//!      └── ListAndWatch, Allocate ─┘ ◄── health: the device opens, and for kvm: the probe said `full`
//!
//!  kubelet restarts: its socket is new, ours is gone ─► listen and register again
//! ```
//!
//! Each of these devices is shared: it is advertised as many times as the node may have VMIs. An unhealthy
//! device is advertised as such, so that the scheduler tells waiting pods what is missing. vhost-vsock gives
//! access to programs of the node, so it is offered only with the feature gate `VSOCK`. Devices for one VMI
//! at a time are in [`host`]. A device node in a pod belongs to root at first; [`own_device_nodes`] makes the launcher its
//! owner.

pub(crate) mod health;
pub(crate) mod host;
mod plugin;
mod shared;
pub(crate) mod vsock;
mod wire;

pub(crate) use host::to_pods as given_to_pods;

use super::blocking::Blocking;
use super::error::{ErrorKind, Result};
use super::pod::Folder;
use api::machine::{Binding, Machine};
use cluster_model::config::node::NodeSettings;
use serde_json::Value;
use std::path::Path;
use tokio::sync::watch;

/// A device of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Device {
    /// Part of the resource name after `devices.kubevirt.io/`.
    pub(crate) name: &'static str,
    /// Path on the host and in a pod.
    pub(crate) path: &'static str,
}

/// Device by which guests connect to the node.
const VSOCK: &str = "vhost-vsock";

/// Devices that VMIs use.
pub(crate) const DEVICES: [Device; 4] = [
    Device { name: "kvm", path: "/dev/kvm" },
    Device { name: "tun", path: "/dev/net/tun" },
    Device { name: "vhost-net", path: "/dev/vhost-net" },
    Device { name: VSOCK, path: "/dev/vhost-vsock" },
];

/// Most files of each folder in a pod's `/dev`.
const NODES: usize = 1024;

/// Offers all devices to the kubelet. Never returns.
pub(crate) async fn run(
    folder: &Path,
    findings: &Path,
    roots: host::Roots,
    settings: &watch::Receiver<Option<NodeSettings>>,
    labels: watch::Receiver<Value>,
) {
    // Each device checks itself and the kubelet, sometimes both at once.
    let blocking = Blocking::new("the node's devices", 2 * DEVICES.len());
    let offer = |device| {
        let health = health::Health { device, findings: findings.to_owned() };
        shared::run(folder.to_owned(), device, health, blocking.clone(), settings.clone())
    };
    let [kvm, tun, net, vsock] = DEVICES.map(offer);
    tokio::join!(kvm, tun, net, vsock, host::run(folder, roots, settings.clone(), labels));
}

/// Makes the launcher the owner of the device nodes in its pod.
pub(crate) fn own_device_nodes(root: &Folder, machine: &Machine) -> Result<()> {
    let dev = root.open_in_root("/dev")?;
    // A launcher outside a pod sees the host's own `/dev`.
    if dev.is(&Folder::open(Path::new("/dev"))?)? {
        return Ok(());
    }
    // A device that the runtime has bind-mounted is the host's own, and stays root's.
    let dev = dev.alone()?;
    // A pod that requests VSOCK as a resource, but not as a device of the guest, does not get it.
    for device in DEVICES.iter().filter(|device| device.name != VSOCK || machine.vsock) {
        own_device_node(&dev, device.path.trim_start_matches("/dev/"))?;
    }
    // A macvtap is a device file with the number of its link.
    if machine.interfaces.iter().any(|interface| interface.binding == Binding::Tap) {
        let is_tap = |name: &String| {
            let number = name.strip_prefix("tap").unwrap_or_default();
            !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit())
        };
        for name in dev.names(NODES)?.into_iter().filter(is_tap) {
            own_device_node(&dev, &name)?;
        }
    }
    if !machine.has_device_of_node() {
        return Ok(());
    }
    // The kubelet has chosen these files: there are no others in the pod.
    for name in names(&dev, "vfio")? {
        own_device_node(&dev, &format!("vfio/{name}"))?;
    }
    for bus in names(&dev, "bus/usb")? {
        for name in names(&dev, &format!("bus/usb/{bus}"))? {
            own_device_node(&dev, &format!("bus/usb/{bus}/{name}"))?;
        }
    }
    Ok(())
}

/// Makes the launcher the owner of one device node, if it exists.
fn own_device_node(dev: &Folder, name: &str) -> Result<()> {
    match dev.held(name) {
        Ok(held) if held.kind() == rustix::fs::FileType::CharacterDevice => held.give_to_launcher(),
        Ok(_) => {
            tracing::warn!("/dev/{name} of a pod is not a device");
            Ok(())
        }
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(()),
        Err(e) => Err(e),
    }
}

/// Names in a folder of a pod's `/dev`; none if it does not exist.
fn names(dev: &Folder, folder: &str) -> Result<Vec<String>> {
    match dev.folder(folder) {
        Ok(folder) => folder.names(NODES),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        Err(e) => Err(e),
    }
}

#[cfg(test)]
#[path = "own_tests.rs"]
mod tests;
