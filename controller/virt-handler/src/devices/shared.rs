//! Devices that all VMIs share: each is advertised as many times as the node may have VMIs.

use super::health::Health;
use super::plugin::{self, Offer, PATIENCE};
use super::wire::{self, AllocateRequest, AllocateResponse, ContainerResponse, DeviceSpec, Devices};
use super::{Device, VSOCK};
use crate::blocking::Blocking;
use cluster_model::config::node::NodeSettings;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// Time between two checks of the device.
const EXAMINE: Duration = Duration::from_secs(10);

/// Offers one device to the current kubelet. Never returns.
pub(super) async fn run(
    folder: PathBuf,
    device: Device,
    health: Health,
    blocking: Blocking,
    mut settings: watch::Receiver<Option<NodeSettings>>,
) {
    let times = |settings: &mut watch::Receiver<Option<NodeSettings>>| {
        times(device, settings.borrow_and_update().as_ref().unwrap_or(&NodeSettings::default()))
    };
    // A device that is not offered is not opened: opening loads kernel modules.
    let healthy = async |times: usize| times > 0 && examine(&health, &blocking).await.is_none();
    let count = times(&mut settings);
    let mut is_healthy = healthy(count).await;
    let (tell, list) = watch::channel(devices(is_healthy, count));
    let examined = async {
        loop {
            tokio::select! {
                () = tokio::time::sleep(EXAMINE) => is_healthy = healthy(times(&mut settings)).await,
                changed = settings.changed() => {
                    if changed.is_err() {
                        return std::future::pending().await;
                    }
                    let is_first = tell.borrow().devices.is_empty();
                    let count = times(&mut settings);
                    if is_first && count > 0 {
                        is_healthy = healthy(count).await;
                    }
                }
            }
            let now = devices(is_healthy, times(&mut settings));
            tell.send_if_modified(|known| {
                let is_other = *known != now;
                *known = now;
                is_other
            });
        }
    };
    tokio::join!(examined, plugin::offer(folder, offer(device, list), blocking.clone()));
}

/// Offer of a device for its plug-in.
pub(super) fn offer(device: Device, list: watch::Receiver<Devices>) -> Offer {
    Offer {
        resource: format!("devices.kubevirt.io/{}", device.name),
        endpoint: format!("kubevirt-{}.sock", device.name),
        list,
        allocate: Arc::new(move |asked, permissions| {
            Box::pin(std::future::ready(Ok(allocate(device, permissions, &asked))))
        }),
    }
}

/// Number of times that the device is advertised.
fn times(device: Device, settings: &NodeSettings) -> usize {
    if device.name == VSOCK && !settings.vsock { 0 } else { settings.vmis }
}

async fn examine(health: &Health, blocking: &Blocking) -> Option<String> {
    let (name, health) = (health.device.name, health.clone());
    let found = blocking.run("looking at a device", PATIENCE, move || Ok(health.trouble())).await;
    let found = found.unwrap_or_else(|e| Some(e.chain()));
    tracing::debug!("{name}: {}", found.as_deref().unwrap_or("healthy"));
    found
}

/// List that has one device this many times.
pub(super) fn devices(healthy: bool, times: usize) -> Devices {
    let device = |number| wire::Device { id: format!("{number:03}"), ..wire::Device::with_health(healthy) };
    Devices { devices: (0..times).map(device).collect() }
}

fn allocate(device: Device, permissions: &str, asked: &AllocateRequest) -> AllocateResponse {
    let spec = DeviceSpec::same_path(device.path, permissions);
    let given = ContainerResponse { devices: vec![spec], ..ContainerResponse::default() };
    AllocateResponse { containers: asked.containers.iter().map(|_| given.clone()).collect() }
}

#[cfg(test)]
mod tests {
    use super::super::DEVICES;
    use super::*;

    #[test]
    fn what_reaches_the_node_is_offered_with_its_gate_alone() {
        let offered = |vsock: bool| {
            let settings = NodeSettings { vmis: 7, vsock, ..NodeSettings::default() };
            DEVICES.map(|device| times(device, &settings))
        };
        assert_eq!(offered(false), [7, 7, 7, 0]);
        assert_eq!(offered(true), [7; 4]);
    }
}
