//! What the name of a host says about where it is. Names are not looked up.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

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

/// Whether a host is an address that only machines nearby reach, also where it stands inside of one of IPv6.
pub(crate) fn is_inside(host: &str) -> bool {
    let host = host.trim_end_matches('.');
    match host.parse::<IpAddr>() {
        Ok(IpAddr::V4(ip)) => inside_v4(ip),
        Ok(IpAddr::V6(ip)) => inside_v6(ip),
        Err(_) => host == "localhost" || host.ends_with(".localhost"),
    }
}

fn inside_v6(ip: Ipv6Addr) -> bool {
    let s = ip.segments();
    let v4 = |high: u16, low: u16| Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low));
    match s {
        // Mapped (::ffff:0:0/96), compatible (::/96, which holds ::1 and ::), NAT64 (64:ff9b::/96).
        [0, 0, 0, 0, 0, 0 | 0xffff, high, low] => inside_v4(v4(high, low)),
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => inside_v4(v4(high, low)),
        // NAT64 of one's own network.
        [0x64, 0xff9b, 1, ..] => true,
        // 6to4.
        [0x2002, high, low, ..] => inside_v4(v4(high, low)),
        // Unique local (fc00::/7), link-local (fe80::/10) and site-local (fec0::/10).
        [first, ..] => first & 0xfe00 == 0xfc00 || first & 0xff80 == 0xfe80,
    }
}

fn inside_v4(ip: Ipv4Addr) -> bool {
    let [a, b, c, _] = ip.octets();
    let (here, shared, protocols) = (a == 0, a == 100 && b & 0xc0 == 64, [a, b, c] == [192, 0, 0]);
    ip.is_private() || ip.is_loopback() || ip.is_link_local() || here || shared || protocols
}
