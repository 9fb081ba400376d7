//! What the name of a host says about where it is. Names are not looked up.

use std::net::{IpAddr, Ipv4Addr};

/// The host of `host:port`, without the brackets of an IPv6 address.
pub fn host_of(address: &str) -> &str {
    match address.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((v6, _)) => v6,
        None => address.split_once(':').map_or(address, |(host, _)| host),
    }
}

/// Whether bytes for this address stay on this machine.
pub fn is_loopback(address: &str) -> bool {
    let name = host_of(address);
    name == "localhost" || name.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// Whether a host is an address that only machines nearby reach.
pub(crate) fn is_inside(host: &str) -> bool {
    match host.parse::<IpAddr>() {
        Ok(IpAddr::V4(ip)) => inside_v4(ip),
        Ok(IpAddr::V6(ip)) => {
            let first = ip.segments()[0];
            let (unique_local, link_local) = (first & 0xfe00 == 0xfc00, first & 0xffc0 == 0xfe80);
            ip.is_loopback()
                || ip.is_unspecified()
                || unique_local
                || link_local
                || ip.to_ipv4_mapped().is_some_and(inside_v4)
        }
        Err(_) => host == "localhost" || host.ends_with(".localhost"),
    }
}

fn inside_v4(ip: Ipv4Addr) -> bool {
    let shared = ip.octets()[0] == 100 && ip.octets()[1] & 0xc0 == 64;
    ip.is_private() || ip.is_loopback() || ip.is_link_local() || ip.is_unspecified() || shared
}
