//! Parser of `/etc/resolv.conf`, for the settings of a guest.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Most entries of a kind; further entries of the file are ignored.
const MOST: usize = 32;

/// Settings of a resolver.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Resolv {
    /// IPv4 addresses of the name servers.
    pub(super) servers: Vec<Ipv4Addr>,
    /// IPv6 name servers that a guest can reach: link-local ones belong to the pod's link.
    pub(super) servers6: Vec<Ipv6Addr>,
    /// Domains that complete short names.
    pub(super) search: Vec<String>,
}

/// Reads the file's text.
pub(super) fn read(text: &str) -> Resolv {
    let mut found = Resolv::default();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        match words.next() {
            Some("nameserver") => match words.next().and_then(|word| word.parse::<IpAddr>().ok()) {
                Some(IpAddr::V4(server)) if found.servers.len() < MOST => found.servers.push(server),
                Some(IpAddr::V6(server))
                    if found.servers6.len() < MOST && !server.is_unicast_link_local() =>
                {
                    found.servers6.push(server);
                }
                _ => {}
            },
            // The last line counts, as in the resolver.
            Some("search" | "domain") => {
                found.search = words.take(MOST).map(|word| word.trim_end_matches('.').to_owned()).collect();
                found.search.retain(|domain| is_domain(domain));
            }
            _ => {}
        }
    }
    found
}

/// True if the text can be written as DNS labels.
fn is_domain(domain: &str) -> bool {
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
    };
    domain.len() <= 253 && domain.split('.').all(label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_and_search_domains_are_read_and_the_rest_ignored() {
        let text = "# a pod's\nsearch ns.svc.cluster.local svc.cluster.local. bad..name\n\
                    nameserver 10.96.0.10\nnameserver fd00::a\nnameserver fe80::1\nnameserver x\noptions ndots:5\n";
        let found = read(text);
        assert_eq!(found.servers, [Ipv4Addr::new(10, 96, 0, 10)]);
        assert_eq!(found.servers6, ["fd00::a".parse::<Ipv6Addr>().unwrap()]);
        assert_eq!(found.search, ["ns.svc.cluster.local", "svc.cluster.local"]);
        assert_eq!(read(""), Resolv::default());
    }
}
