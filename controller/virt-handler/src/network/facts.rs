//! Facts about the pod's network before any change. Plain values.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::str::FromStr;

/// MAC address of a network card.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mac(pub(crate) [u8; 6]);

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl FromStr for Mac {
    type Err = ();

    fn from_str(text: &str) -> Result<Mac, ()> {
        let mut mac = Mac::default();
        let mut parts = text.split(':');
        for byte in &mut mac.0 {
            let part = parts.next().filter(|part| part.len() == 2).ok_or(())?;
            *byte = u8::from_str_radix(part, 16).map_err(|_| ())?;
        }
        parts.next().is_none().then_some(mac).ok_or(())
    }
}

/// IP address with the prefix length of its network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) ip: IpAddr,
    pub(crate) prefix: u8,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.ip, self.prefix)
    }
}

impl FromStr for Address {
    type Err = ();

    fn from_str(text: &str) -> Result<Address, ()> {
        let (ip, prefix) = text.split_once('/').ok_or(())?;
        let ip: IpAddr = ip.parse().map_err(|_| ())?;
        let most = if ip.is_ipv4() { 32 } else { 128 };
        let prefix = prefix.parse().ok().filter(|prefix| *prefix <= most).ok_or(())?;
        Ok(Address { ip, prefix })
    }
}

/// A route of the pod; the text form is `DESTINATION>GATEWAY`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Route {
    /// Destination; a prefix length of 0 is the default route.
    pub(crate) to: Address,
    /// Gateway; `None` for a route on the link itself.
    pub(crate) via: Option<IpAddr>,
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.via {
            Some(via) => write!(f, "{}>{via}", self.to),
            None => write!(f, "{}", self.to),
        }
    }
}

impl FromStr for Route {
    type Err = ();

    fn from_str(text: &str) -> Result<Route, ()> {
        let (to, via) = match text.split_once('>') {
            Some((to, via)) => (to, Some(via.parse().map_err(|_| ())?)),
            None => (text, None),
        };
        Ok(Route { to: to.parse()?, via })
    }
}

/// A card of the pod, as the cluster's network plugin made it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Card {
    /// Name of the interface, such as `eth0`.
    pub(crate) name: String,
    pub(crate) mac: Mac,
    /// MTU of the card.
    pub(crate) mtu: u32,
    /// Addresses, without link-local ones.
    pub(crate) addresses: Vec<Address>,
    /// Routes over the card, without the one to its own network.
    pub(crate) routes: Vec<Route>,
}

impl Card {
    /// First IPv4 address, with its prefix length.
    pub(crate) fn v4(&self) -> Option<(Ipv4Addr, u8)> {
        self.addresses.iter().find_map(|address| match address.ip {
            IpAddr::V4(ip) => Some((ip, address.prefix)),
            IpAddr::V6(_) => None,
        })
    }

    /// True if the card has an IPv6 address.
    pub(crate) fn has_v6(&self) -> bool {
        self.addresses.iter().any(|address| address.ip.is_ipv6())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        for text in ["0.0.0.0/0>10.244.0.1", "169.254.1.1/32", "::/0>fe80::1"] {
            assert_eq!(text.parse::<Route>().map(|route| route.to_string()), Ok(text.to_owned()));
        }
        for text in ["", "1.2.3.4", "1.2.3.4/33", "::/129", "1.2.3.4/8>", "1.2.3.4/-1"] {
            assert_eq!(text.parse::<Route>(), Err(()), "{text}");
        }
        assert_eq!(
            "02:00:0a:ff:00:01".parse::<Mac>().map(|mac| mac.to_string()),
            Ok("02:00:0a:ff:00:01".into())
        );
        for text in ["", "02:00:00:00:00", "02:00:00:00:00:00:00", "2:0:0:0:0:0", "02:00:00:00:00:0g"] {
            assert_eq!(text.parse::<Mac>(), Err(()), "{text}");
        }
    }
}
