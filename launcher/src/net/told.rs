//! What the guest is told: what the node agent found out, what the pod's own files say, what the manifest adds.

use super::dhcp::{DhcpSettings, Mac};
use super::resolv::{Resolv, read};
use crate::error::{Error, Result};
use api::launcher::Link;
use api::lease::Lease;
use api::machine::{Interface, Machine};
use std::fs;
use std::io::Read as _;
use std::net::Ipv4Addr;

/// No file of a pod that we read is longer.
const LARGEST: u64 = 64 << 10;

/// What this pod says of itself.
#[derive(Clone, Debug, Default)]
pub(super) struct Pod {
    pub(super) resolv: Resolv,
    pub(super) hostname: String,
}

impl Pod {
    /// Read from its files; one that is not there says nothing.
    pub(super) fn look() -> Pod {
        Pod {
            resolv: read(&text("/etc/resolv.conf")),
            hostname: text("/proc/sys/kernel/hostname").trim().to_owned(),
        }
    }
}

fn text(path: &str) -> String {
    let mut bytes = Vec::new();
    // What cannot be read says nothing.
    if let Ok(file) = fs::File::open(path) {
        drop(file.take(LARGEST).read_to_end(&mut bytes));
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// What the guest behind an interface is told. `None` where it asks nobody.
pub(super) fn told(
    machine: &Machine,
    interface: &Interface,
    link: &Link,
    pod: &Pod,
) -> Result<Option<(String, DhcpSettings)>> {
    let Link::Tap { mac, mtu, dhcp: Some(lease), .. } = link else { return Ok(None) };
    let mac: Mac = Mac::read(mac).ok_or_else(|| {
        Error::refused(format!("the address {mac} of the interface '{}' is no MAC", interface.name))
    })?;
    check(lease, &interface.name)?;
    let more = interface.dhcp.clone().unwrap_or_default();
    let domain = pod.resolv.search.iter().max_by_key(|domain| domain.len()).cloned();
    let domain = match (&machine.subdomain, domain) {
        (Some(sub), Some(domain)) if !domain.starts_with(&format!("{sub}.")) => {
            Some(format!("{sub}.{domain}"))
        }
        (_, domain) => domain,
    };
    let told = DhcpSettings {
        mac,
        mtu: mtu.and_then(|mtu| u16::try_from(mtu).ok()),
        lease: (**lease).clone(),
        dns: pod.resolv.servers.clone(),
        search: pod.resolv.search.clone(),
        hostname: Some(pod.hostname.clone()).filter(|name| !name.is_empty()),
        domain,
        boot_file: more.boot_file,
        tftp_server: more.tftp_server,
        ntp: more.ntp_servers.iter().filter_map(|server| server.parse::<Ipv4Addr>().ok()).collect(),
        private: more.private,
    };
    Ok(Some((lease.device.clone(), told)))
}

fn check(lease: &Lease, interface: &str) -> Result<()> {
    let bad = lease.prefix > 32 || lease.routes.iter().any(|route| route.prefix > 32);
    let name = !lease.device.is_empty() && lease.device.len() <= 15;
    match (bad, name) {
        (false, true) => Ok(()),
        _ => {
            Err(Error::refused(format!("the lease of the interface '{interface}' cannot be told: {lease:?}")))
        }
    }
}
