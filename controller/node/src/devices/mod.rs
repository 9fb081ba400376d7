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
//! Each device is shared: it is advertised as often as VMIs may be on the node. One that is not healthy is advertised as such, so that who
//! waits for it is told by the scheduler what is missing. A pod that was given one finds it root's; [`own`] makes the
//! pod's own node of it the launcher's.

pub(crate) mod health;
pub(crate) mod plugin;
pub(crate) mod vsock;
pub(crate) mod wire;

use super::blocking::Blocking;
use super::error::Result;
use super::pod::Folder;
use kubernetes::config::node::NodeSettings;
use std::path::{Path, PathBuf};
use tokio::sync::watch;

/// A device of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Device {
    /// What follows `devices.kubevirt.io/`.
    pub(crate) name: &'static str,
    /// Where it is, on the host as in a pod.
    pub(crate) path: &'static str,
}

/// Those that VMIs use.
pub(crate) const DEVICES: [Device; 4] = [
    Device { name: "kvm", path: "/dev/kvm" },
    Device { name: "tun", path: "/dev/net/tun" },
    Device { name: "vhost-net", path: "/dev/vhost-net" },
    Device { name: "vhost-vsock", path: "/dev/vhost-vsock" },
];

/// Offers all devices to the kubelet, for ever.
pub(crate) async fn run(folder: &Path, findings: &Path, settings: &watch::Receiver<Option<NodeSettings>>) {
    // Each looks at its device and at the kubelet, now and then both at once.
    let blocking = Blocking::new("the node's devices", 2 * DEVICES.len());
    let offer = |device| {
        let health = health::Health { device, findings: findings.to_owned() };
        plugin::offer(folder.to_owned(), device, health, blocking.clone(), settings.clone())
    };
    let [kvm, tun, net, vsock] = DEVICES.map(offer);
    tokio::join!(kvm, tun, net, vsock);
}

/// Makes a pod's own nodes of the devices the launcher's.
pub(crate) fn own(root: &Folder) -> Result<()> {
    let dev = root.within("/dev")?;
    // A launcher that runs in no pod sees the host's own.
    if dev.is(&Folder::open(Path::new("/dev"))?)? {
        return Ok(());
    }
    // One that the runtime has mounted there is the host's own, and stays root's.
    let dev = dev.alone()?;
    for device in DEVICES {
        let name = device.path.trim_start_matches("/dev/");
        match dev.held(name) {
            Ok(held) if held.kind() == rustix::fs::FileType::CharacterDevice => held.give()?,
            Ok(_) => tracing::warn!("{} of a pod is no device", device.path),
            Err(e) if e.kind() == super::error::ErrorKind::NotFound => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// The name of a device's socket beside the kubelet's.
fn endpoint(device: Device) -> PathBuf {
    format!("kubevirt-{}.sock", device.name).into()
}

#[cfg(test)]
#[path = "own_tests.rs"]
mod tests;
