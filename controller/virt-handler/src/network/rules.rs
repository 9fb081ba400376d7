//! Rules of nftables as values, and as `nft` would print them. What the kernel is sent is `netlink::rules`.

use std::fmt;
use std::net::IpAddr;

/// A table of our chains; what others have in it stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Table {
    /// Its name.
    pub(crate) name: &'static str,
    /// Addresses of IPv6, not of IPv4.
    pub(crate) v6: bool,
    /// In order; each is emptied first.
    pub(crate) chains: Vec<Chain>,
}

/// A chain of rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Chain {
    /// Its name.
    pub(crate) name: &'static str,
    /// Where packets come into it; nowhere but from other chains otherwise.
    pub(crate) hook: Option<Hook>,
    /// In order.
    pub(crate) rules: Vec<Rule>,
}

/// Where packets come into a chain: one that translates addresses, but for the first two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hook {
    /// As they come from a link, before any address is translated, also back.
    Raw,
    /// As they go from one link to another, between the translations of their two addresses.
    Forward,
    Prerouting,
    Input,
    Output,
    Postrouting,
}

/// What is done to which packets. All are counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rule {
    /// All of them hold.
    pub(crate) matches: Vec<Match>,
    /// What is done.
    pub(crate) verdict: Verdict,
}

/// A property of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Match {
    /// It came in on this link.
    From(String),
    /// It came in on another link than this one.
    NotFrom(String),
    /// It goes out on this link.
    To(String),
    /// Who sent it.
    Source(IpAddr),
    /// It has another sender.
    NotSource(IpAddr),
    /// Whom it is for.
    Destination(IpAddr),
    /// It is for another address.
    NotDestination(IpAddr),
    /// Its sender is of 127.0.0.0/8.
    FromLoopback,
    /// It is for one of 127.0.0.0/8.
    ToLoopback,
    /// The protocol (6 TCP, 17 UDP) and the ports that it is for: the first and the last.
    Ports(u8, u16, u16),
}

/// What is done to a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It goes through another chain.
    Jump(&'static str),
    /// It comes from the link's own address.
    Masquerade,
    /// It is for this one.
    Dnat(IpAddr),
    /// It comes from this one.
    Snat(IpAddr),
    /// It leaves the chain as it is.
    Return,
    /// It goes nowhere.
    Drop,
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let family = if self.v6 { "ip6" } else { "ip" };
        writeln!(f, "table {family} {}", self.name)?;
        for chain in &self.chains {
            match chain.hook {
                Some(hook) => writeln!(f, "  {}: {hook}", chain.name)?,
                None => writeln!(f, "  {}:", chain.name)?,
            }
            for rule in &chain.rules {
                write!(f, "    ")?;
                for property in &rule.matches {
                    match property {
                        Match::From(link) => write!(f, "iifname {link:?} ")?,
                        Match::NotFrom(link) => write!(f, "iifname != {link:?} ")?,
                        Match::To(link) => write!(f, "oifname {link:?} ")?,
                        Match::Source(ip) => write!(f, "{family} saddr {ip} ")?,
                        Match::NotSource(ip) => write!(f, "{family} saddr != {ip} ")?,
                        Match::Destination(ip) => write!(f, "{family} daddr {ip} ")?,
                        Match::NotDestination(ip) => write!(f, "{family} daddr != {ip} ")?,
                        Match::FromLoopback => write!(f, "ip saddr 127.0.0.0/8 ")?,
                        Match::ToLoopback => write!(f, "ip daddr 127.0.0.0/8 ")?,
                        Match::Ports(protocol, first, last) => {
                            match protocol {
                                6 => write!(f, "tcp dport ")?,
                                17 => write!(f, "udp dport ")?,
                                other => write!(f, "protocol {other} dport ")?,
                            }
                            match first == last {
                                true => write!(f, "{first} ")?,
                                false => write!(f, "{first}-{last} ")?,
                            }
                        }
                    }
                }
                match &rule.verdict {
                    Verdict::Jump(chain) => writeln!(f, "counter jump {chain}")?,
                    Verdict::Masquerade => writeln!(f, "counter masquerade")?,
                    Verdict::Dnat(ip) => writeln!(f, "counter dnat to {ip}")?,
                    Verdict::Snat(ip) => writeln!(f, "counter snat to {ip}")?,
                    Verdict::Return => writeln!(f, "counter return")?,
                    Verdict::Drop => writeln!(f, "counter drop")?,
                }
            }
        }
        Ok(())
    }
}

impl fmt::Display for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (hook, priority) = self.place();
        let name = ["prerouting", "input", "forward", "output", "postrouting"];
        let name = usize::try_from(hook).ok().and_then(|hook| name.get(hook)).unwrap_or(&"");
        write!(f, "type {} hook {name} priority {priority}", self.kind())
    }
}

impl Hook {
    /// The kind of its chains.
    pub(crate) fn kind(self) -> &'static str {
        match self {
            Hook::Raw | Hook::Forward => "filter",
            Hook::Prerouting | Hook::Input | Hook::Output | Hook::Postrouting => "nat",
        }
    }

    /// Its number and the usual priority there, of address translation, before it or between.
    pub(crate) fn place(self) -> (u32, i32) {
        match self {
            Hook::Raw => (0, -300),
            Hook::Prerouting => (0, -100),
            Hook::Input => (1, 100),
            Hook::Forward => (2, 0),
            Hook::Output => (3, -100),
            Hook::Postrouting => (4, 100),
        }
    }
}
