//! The DHCP settings of the guest: virt-handler's lease, the pod's own files, the options of the manifest.

use super::dhcp::{DhcpSettings, Mac};
use super::dhcp6::Dhcp6Settings;
use super::resolv::{Resolv, read};
use crate::error::{Error, Result};
use api::launcher::Link;
use api::lease::Lease;
use api::machine::{Interface, Machine};
use std::fs;
use std::io::Read as _;
use std::net::Ipv4Addr;

/// Size limit of the pod's files.
const LARGEST: u64 = 64 << 10;

/// Resolver and host name of the pod.
#[derive(Clone, Debug, Default)]
pub(super) struct Pod {
    pub(super) resolv: Resolv,
    pub(super) hostname: String,
}

impl Pod {
    /// Reads the pod's files; a missing file gives empty settings.
    pub(super) fn read() -> Pod {
        Pod {
            resolv: read(&text("/etc/resolv.conf")),
            hostname: text("/proc/sys/kernel/hostname").trim().to_owned(),
        }
    }
}

fn text(path: &str) -> String {
    let mut bytes = Vec::new();
    // An unreadable file gives empty settings.
    if let Ok(file) = fs::File::open(path) {
        drop(file.take(LARGEST).read_to_end(&mut bytes));
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The settings of the guest behind an interface. `None` for an interface without a lease.
pub(super) fn dhcp_settings(
    machine: &Machine,
    interface: &Interface,
    link: &Link,
    pod: &Pod,
) -> Result<Option<(String, DhcpSettings)>> {
    let Link::Tap { mac, mtu, dhcp: Some(lease), .. } = link else { return Ok(None) };
    let mac: Mac = Mac::read(mac).ok_or_else(|| {
        Error::refused(format!(
            "the address {mac} of the interface '{}' is not a MAC address",
            interface.name
        ))
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
    let settings = DhcpSettings {
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
    Ok(Some((lease.device.clone(), settings)))
}

/// The DHCPv6 settings of the guest behind an interface. `None` for an interface without a lease.
pub(super) fn dhcp6_settings(
    interface: &Interface,
    link: &Link,
    pod: &Pod,
) -> Result<Option<(String, Dhcp6Settings)>> {
    let Link::Tap { dhcp6: Some(lease), .. } = link else { return Ok(None) };
    if !is_device(&lease.device) {
        let name = &interface.name;
        let what =
            format!("the lease of the interface '{name}' has a device name of a wrong length: {lease:?}");
        return Err(Error::refused(what));
    }
    let settings = Dhcp6Settings {
        lease: (**lease).clone(),
        dns: pod.resolv.servers6.clone(),
        search: pod.resolv.search.clone(),
    };
    Ok(Some((lease.device.clone(), settings)))
}

fn is_device(name: &str) -> bool {
    !name.is_empty() && name.len() <= 15
}

fn check(lease: &Lease, interface: &str) -> Result<()> {
    let bad = lease.prefix > 32 || lease.routes.iter().any(|route| route.prefix > 32);
    match (bad, is_device(&lease.device)) {
        (false, true) => Ok(()),
        _ => Err(Error::refused(format!(
            "the lease of the interface '{interface}' has a prefix above 32 or a device name of a wrong length: {lease:?}"
        ))),
    }
}
