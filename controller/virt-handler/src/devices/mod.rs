//! Devices of this node for pods: `devices.kubevirt.io/{kvm,tun,vhost-net,vhost-vsock}`, by the kubelet's device plug-ins.
//!
//! ```text
//!  kubelet.sock ◄── Register ── plugin (one per device, its own socket beside)
//!      │                           ▲
//!      └── ListAndWatch, Allocate ─┘ ◄── health: the device opens, and for kvm: the probe said `full`
//!
//!  kubelet begins anew: its socket is another, ours is gone ─► listen and register again
//! ```
//!
//! Each of these devices is shared: it is advertised as often as VMIs may be on the node. One that is not healthy is advertised as
//! such, so that who waits for it is told by the scheduler what is missing; vhost-vsock, with which whoever has it reaches programs of
//! the node, is offered only with the feature gate `VSOCK`. Those that one VMI at a time has are in [`host`].
//! A pod that was given one finds it root's; [`own`] makes the pod's own node of it the launcher's.

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
    /// What follows `devices.kubevirt.io/`.
    pub(crate) name: &'static str,
    /// Where it is, on the host as in a pod.
    pub(crate) path: &'static str,
}

/// The one by which guests speak to the node.
const VSOCK: &str = "vhost-vsock";

/// Those that VMIs use.
pub(crate) const DEVICES: [Device; 4] = [
    Device { name: "kvm", path: "/dev/kvm" },
    Device { name: "tun", path: "/dev/net/tun" },
    Device { name: "vhost-net", path: "/dev/vhost-net" },
    Device { name: VSOCK, path: "/dev/vhost-vsock" },
];

/// Files of `/dev` that are looked at in a pod, of each folder.
const NODES: usize = 1024;

/// Offers all devices to the kubelet, for ever.
pub(crate) async fn run(
    folder: &Path,
    findings: &Path,
    roots: host::Roots,
    settings: &watch::Receiver<Option<NodeSettings>>,
    labels: watch::Receiver<Value>,
) {
    // Each looks at its device and at the kubelet, now and then both at once.
    let blocking = Blocking::new("the node's devices", 2 * DEVICES.len());
    let offer = |device| {
        let health = health::Health { device, findings: findings.to_owned() };
        shared::run(folder.to_owned(), device, health, blocking.clone(), settings.clone())
    };
    let [kvm, tun, net, vsock] = DEVICES.map(offer);
    tokio::join!(kvm, tun, net, vsock, host::run(folder, roots, settings.clone(), labels));
}

/// Makes a pod's own nodes of the devices the launcher's.
pub(crate) fn own(root: &Folder, machine: &Machine) -> Result<()> {
    let dev = root.within("/dev")?;
    // A launcher that runs in no pod sees the host's own.
    if dev.is(&Folder::open(Path::new("/dev"))?)? {
        return Ok(());
    }
    // One that the runtime has mounted there is the host's own, and stays root's.
    let dev = dev.alone()?;
    // Who asks for VSOCK as a resource and not as a device of the guest gets none.
    for device in DEVICES.iter().filter(|device| device.name != VSOCK || machine.vsock) {
        give(&dev, device.path.trim_start_matches("/dev/"))?;
    }
    // A macvtap is a file with its number.
    if machine.interfaces.iter().any(|interface| interface.binding == Binding::Tap) {
        let is_tap = |name: &String| {
            let number = name.strip_prefix("tap").unwrap_or_default();
            !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit())
        };
        for name in dev.names(NODES)?.into_iter().filter(is_tap) {
            give(&dev, &name)?;
        }
    }
    if !machine.has_device_of_node() {
        return Ok(());
    }
    // The kubelet knows which these are: there are no others in the pod.
    for name in names(&dev, "vfio")? {
        give(&dev, &format!("vfio/{name}"))?;
    }
    for bus in names(&dev, "bus/usb")? {
        for name in names(&dev, &format!("bus/usb/{bus}"))? {
            give(&dev, &format!("bus/usb/{bus}/{name}"))?;
        }
    }
    Ok(())
}

/// Makes one of them the launcher's, if it is there.
fn give(dev: &Folder, name: &str) -> Result<()> {
    match dev.held(name) {
        Ok(held) if held.kind() == rustix::fs::FileType::CharacterDevice => held.give(),
        Ok(_) => {
            tracing::warn!("/dev/{name} of a pod is no device");
            Ok(())
        }
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(()),
        Err(e) => Err(e),
    }
}

/// The names in a folder of a pod's `/dev`, if it is there.
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
