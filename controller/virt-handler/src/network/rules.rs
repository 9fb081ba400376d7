//! nftables rules as values, printed in the format of `nft`. Module `netlink::rules` encodes them for the
//! kernel.

use std::fmt;
use std::net::IpAddr;

/// A table with our chains; chains of other programs in it stay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Table {
    pub(crate) name: &'static str,
    /// True for IPv6, false for IPv4.
    pub(crate) v6: bool,
    /// Chains in order; each is emptied first.
    pub(crate) chains: Vec<Chain>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Chain {
    pub(crate) name: &'static str,
    /// Hook of a base chain; `None` for a chain that is reached by jumps only.
    pub(crate) hook: Option<Hook>,
    pub(crate) rules: Vec<Rule>,
}

/// Netfilter hook of a base chain. Chains translate addresses, except for the first two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hook {
    /// Prerouting of packets in either direction, before address translation.
    Raw,
    /// Forwarding of packets between links, after the translation of the destination and before that of the
    /// source.
    Forward,
    Prerouting,
    Input,
    Output,
    Postrouting,
}

/// Conditions with a verdict. Matching packets are counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rule {
    /// Conditions, all of which must hold.
    pub(crate) matches: Vec<Match>,
    pub(crate) verdict: Verdict,
}

/// Condition on a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Match {
    /// Interface that the packet came in by.
    From(String),
    /// Incoming link other than this one.
    NotFrom(String),
    /// Interface that the packet leaves by.
    To(String),
    /// Source address of the packet.
    Source(IpAddr),
    /// Source address other than this one.
    NotSource(IpAddr),
    /// Destination address of the packet.
    Destination(IpAddr),
    /// Destination address other than this one.
    NotDestination(IpAddr),
    /// Source address in 127.0.0.0/8.
    FromLoopback,
    /// Destination address in 127.0.0.0/8.
    ToLoopback,
    /// Protocol (6 TCP, 17 UDP), and first and last destination port.
    Ports(u8, u16, u16),
}

/// Action on a matching packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Jump to another chain.
    Jump(&'static str),
    /// Translation of the source to the address of the outgoing link.
    Masquerade,
    /// Translation of the destination to this address.
    Dnat(IpAddr),
    /// Translation of the source to this address.
    Snat(IpAddr),
    /// End of the chain, without an action.
    Return,
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
        let (hook, priority) = self.number_and_priority();
        let name = ["prerouting", "input", "forward", "output", "postrouting"];
        let name = usize::try_from(hook).ok().and_then(|hook| name.get(hook)).unwrap_or(&"");
        write!(f, "type {} hook {name} priority {priority}", self.kind())
    }
}

impl Hook {
    /// Type of chains at this hook.
    pub(crate) fn kind(self) -> &'static str {
        match self {
            Hook::Raw | Hook::Forward => "filter",
            Hook::Prerouting | Hook::Input | Hook::Output | Hook::Postrouting => "nat",
        }
    }

    /// Number of the hook, and the usual priority of address translation, or of filters before it or in
    /// between.
    pub(crate) fn number_and_priority(self) -> (u32, i32) {
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
