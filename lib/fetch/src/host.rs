//! Classification of hosts by the text of their name. Names are not looked up.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The host of `host:port`, without the brackets of an IPv6 address.
pub fn host_of(address: &str) -> &str {
    match address.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((v6, _)) => v6,
        None => address.split_once(':').map_or(address, |(host, _)| host),
    }
}

/// True if bytes for this address stay on this host.
pub fn is_loopback(address: &str) -> bool {
    let name = host_of(address);
    name == "localhost" || name.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// True for an address that only hosts nearby can reach, also where it is an IPv4 address inside an IPv6 one.
pub(crate) fn is_inside(host: &str) -> bool {
    let host = host.trim_end_matches('.');
    match host.parse::<IpAddr>() {
        Ok(IpAddr::V4(ip)) => inside_v4(ip),
        Ok(IpAddr::V6(ip)) => inside_v6(ip),
        Err(_) => host == "localhost" || host.ends_with(".localhost"),
    }
}

/// True for an address of this host, of its link, or of a cloud metadata service (which may hand out
/// credentials), also where it is an IPv4 address inside an IPv6 one. Multicast and broadcast addresses count
/// too.
pub(crate) fn is_near(ip: IpAddr) -> bool {
    // Metadata services of clouds, beside 169.254.169.254, which is link-local.
    const METADATA: [IpAddr; 3] = [
        IpAddr::V4(Ipv4Addr::new(100, 100, 100, 200)),
        IpAddr::V4(Ipv4Addr::new(192, 0, 0, 192)),
        IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254)),
    ];
    let v4 = |ip: Ipv4Addr| {
        let is_here = ip.octets()[0] == 0 || ip.is_loopback();
        is_here || ip.is_link_local() || ip.is_multicast() || ip.is_broadcast()
    };
    let near = |ip: IpAddr| match ip {
        IpAddr::V4(ip) => v4(ip),
        IpAddr::V6(ip) => {
            let first = ip.segments()[0];
            // Link-local (fe80::/10) and site-local (fec0::/10).
            ip.is_loopback() || ip.is_unspecified() || ip.is_multicast() || first & 0xff80 == 0xfe80
        }
    };
    let within = match ip {
        IpAddr::V4(_) => None,
        IpAddr::V6(ip) => v4_within(ip).map(IpAddr::V4),
    };
    [Some(ip), within].into_iter().flatten().any(|ip| METADATA.contains(&ip) || near(ip))
}

/// The IPv4 address that an IPv6 address leads to: mapped (::ffff:0:0/96), compatible (::/96, which holds ::1
/// and ::), NAT64 (64:ff9b::/96), 6to4 (2002::/16).
fn v4_within(ip: Ipv6Addr) -> Option<Ipv4Addr> {
    let v4 = |high: u16, low: u16| Some(Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low)));
    match ip.segments() {
        [0, 0, 0, 0, 0, 0 | 0xffff, high, low]
        | [0x64, 0xff9b, 0, 0, 0, 0, high, low]
        | [0x2002, high, low, ..] => v4(high, low),
        _ => None,
    }
}

fn inside_v6(ip: Ipv6Addr) -> bool {
    match (v4_within(ip), ip.segments()) {
        (Some(ip), _) => inside_v4(ip),
        // NAT64 with a prefix of the local network.
        (None, [0x64, 0xff9b, 1, ..]) => true,
        // Unique local (fc00::/7), link-local (fe80::/10) and site-local (fec0::/10).
        (None, [first, ..]) => first & 0xfe00 == 0xfc00 || first & 0xff80 == 0xfe80,
    }
}

fn inside_v4(ip: Ipv4Addr) -> bool {
    let [a, b, c, _] = ip.octets();
    let (here, shared, protocols) = (a == 0, a == 100 && b & 0xc0 == 64, [a, b, c] == [192, 0, 0]);
    ip.is_private() || ip.is_loopback() || ip.is_link_local() || here || shared || protocols
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_near_is_known_in_every_writing() {
        for (ip, near) in [
            ("127.0.0.1", true),
            ("127.9.9.9", true),
            ("0.0.0.0", true),
            ("0.1.2.3", true),
            ("169.254.169.254", true),
            ("100.100.100.200", true),
            ("224.0.0.1", true),
            ("255.255.255.255", true),
            ("::1", true),
            ("::", true),
            ("fe80::1", true),
            ("ff02::1", true),
            ("fd00:ec2::254", true),
            ("::ffff:127.0.0.1", true),
            ("::ffff:169.254.169.254", true),
            ("::127.0.0.1", true),
            ("64:ff9b::169.254.169.254", true),
            ("2002:7f00:1::", true),
            ("10.0.0.1", false),
            ("192.168.0.1", false),
            ("93.184.216.34", false),
            ("fd00::1", false),
            ("2001:db8::1", false),
            ("::ffff:10.0.0.1", false),
        ] {
            assert_eq!(is_near(ip.parse().unwrap()), near, "{ip}");
        }
    }
}
