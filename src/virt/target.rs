//! Names on the command line: of an object, of a kind, `vm/NAME/NAMESPACE`, and of a port.

use api::meta::is_name;
use cluster_model::objects::Kind;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::str::FromStr;

/// A VM or a VMI, with its namespace if given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) kind: Kind,
    pub(crate) name: String,
    /// Namespace that replaces the context's.
    pub(crate) namespace: Option<String>,
}

impl Target {
    /// Prefix of the name: `vm` or `vmi`.
    pub(crate) fn word(&self) -> &'static str {
        if self.kind == Kind::VirtualMachine { "vm" } else { "vmi" }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.name)
    }
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Target, String> {
        let parts: Vec<&str> = text.split('/').collect();
        let (kind_word, name_text, within) = match parts.as_slice() {
            [""] => return Err("target cannot be empty".to_owned()),
            [_] => return Err("target must contain type and name separated by '/'".to_owned()),
            [kind, name] => (kind, name, None),
            [_, _, ""] => return Err("namespace cannot be empty".to_owned()),
            [kind, name, namespace] => (kind, name, Some(namespace)),
            _ => return Err("target is not valid with more than two '/'".to_owned()),
        };
        let kind = kind(kind_word)?;
        if name_text.is_empty() {
            return Err("name cannot be empty".to_owned());
        }
        let namespace = within.map(|within| name(within)).transpose()?;
        Ok(Target { kind, name: name(name_text)?, namespace })
    }
}

/// A login to a guest: `[USER@]TYPE/NAME[/NAMESPACE]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Login {
    /// User name, if given.
    pub(crate) user: Option<String>,
    pub(crate) target: Target,
}

impl FromStr for Login {
    type Err = String;

    fn from_str(text: &str) -> Result<Login, String> {
        match text.split_once('@') {
            Some(("", _)) => Err("expected username before '@'".to_owned()),
            Some((_, "")) => Err("expected target after '@'".to_owned()),
            Some((user, target)) => Ok(Login { user: Some(username(user)?), target: target.parse()? }),
            None => Ok(Login { user: None, target: text.parse()? }),
        }
    }
}

/// Parses a user name. A leading `-` is refused: ssh and scp would take it for an option.
pub(crate) fn username(text: &str) -> Result<String, String> {
    match text.starts_with('-') {
        true => Err(format!("'{text}' is not a username")),
        false => Ok(text.to_owned()),
    }
}

/// Parses `vm` or `vmi`, in all forms that kubectl accepts.
pub(crate) fn kind(word: &str) -> Result<Kind, String> {
    match word.to_lowercase().as_str() {
        "vm" | "vms" | "virtualmachine" | "virtualmachines" => Ok(Kind::VirtualMachine),
        "vmi" | "vmis" | "virtualmachineinstance" | "virtualmachineinstances" => {
            Ok(Kind::VirtualMachineInstance)
        }
        _ => Err(format!("unsupported resource type '{word}': say vm or vmi")),
    }
}

/// True for `vmirs`, in all forms that kubectl accepts.
pub(crate) fn is_replica_set(word: &str) -> bool {
    matches!(
        word.to_lowercase().as_str(),
        "vmirs" | "vmirss" | "virtualmachineinstancereplicaset" | "virtualmachineinstancereplicasets"
    )
}

/// Parses the name of an object, which becomes part of a path.
pub(crate) fn name(text: &str) -> Result<String, String> {
    match is_name(text) {
        true => Ok(text.to_owned()),
        false => Err("a name has lower-case letters, digits, '-' and '.', up to 253 of them".to_owned()),
    }
}

/// Parses an IP address to listen on, or `localhost`.
pub(crate) fn address(text: &str) -> Result<IpAddr, String> {
    match text {
        "localhost" => Ok(Ipv4Addr::LOCALHOST.into()),
        other => other.parse().map_err(|_| "say an IP address, or localhost".to_owned()),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    Tcp,
    Udp,
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Protocol::Tcp => "tcp",
            Protocol::Udp => "udp",
        })
    }
}

/// A local port and the guest's port that it is forwarded to: `[PROTOCOL/]LOCAL[:TARGET]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Port {
    pub(crate) protocol: Protocol,
    /// Port number; 0 for any free port.
    pub(crate) local: u16,
    pub(crate) remote: u16,
}

impl FromStr for Port {
    type Err = String;

    fn from_str(text: &str) -> Result<Port, String> {
        let (protocol, ports) = match text.split_once('/') {
            None => (Protocol::Tcp, text),
            Some(("tcp" | "TCP", ports)) => (Protocol::Tcp, ports),
            Some(("udp" | "UDP", ports)) => (Protocol::Udp, ports),
            Some((other, _)) => return Err(format!("unknown protocol '{other}': say tcp or udp")),
        };
        let number = |text: &str| {
            text.parse().map_err(|_| format!("'{text}' is not a port: say a number from 1 to 65535"))
        };
        let (local, remote) = match ports.split_once(':') {
            None => (number(ports)?, number(ports)?),
            Some(("", remote)) => (0, number(remote)?),
            Some((local, remote)) => (number(local)?, number(remote)?),
        };
        match remote {
            0 => Err("port 0 of a guest leads nowhere: say LOCAL:TARGET".to_owned()),
            _ => Ok(Port { protocol, local, remote }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_have_a_kind_a_name_and_sometimes_a_namespace() {
        let target = |kind, name: &str, namespace: Option<&str>| {
            Ok(Target { kind, name: name.to_owned(), namespace: namespace.map(str::to_owned) })
        };
        for (text, wanted) in [
            ("vm/web", target(Kind::VirtualMachine, "web", None)),
            ("VMIs/web.a/ns", target(Kind::VirtualMachineInstance, "web.a", Some("ns"))),
            ("virtualmachines/w-1/ns-2", target(Kind::VirtualMachine, "w-1", Some("ns-2"))),
            ("", Err("target cannot be empty".to_owned())),
            ("web", Err("target must contain type and name separated by '/'".to_owned())),
            ("vm/", Err("name cannot be empty".to_owned())),
            ("vm/web/", Err("namespace cannot be empty".to_owned())),
            ("vm/web/ns/x", Err("target is not valid with more than two '/'".to_owned())),
            ("pod/web", Err("unsupported resource type 'pod': say vm or vmi".to_owned())),
        ] {
            assert_eq!(text.parse(), wanted, "{text}");
        }
    }

    #[test]
    fn logins_may_name_a_user() {
        let login: Login = "me@vmi/web/ns".parse().unwrap();
        assert_eq!((login.user.as_deref(), login.target.word()), (Some("me"), "vmi"));
        assert_eq!("vm/web".parse::<Login>().unwrap().user, None);
        for text in ["@vm/web", "me@", "me@web", "me@you@vm/web", "-oProxyCommand=x@vm/web"] {
            assert!(text.parse::<Login>().is_err(), "{text}");
        }
    }

    #[test]
    fn names_cannot_leave_their_place_in_a_path() {
        for good in ["a", "web-1", "a.b", "0"] {
            assert_eq!(name(good).as_deref(), Ok(good));
        }
        for bad in ["", "-a", "a-", "..", "a/b", "A", "a%2e", "a?b", "a b", "é", &"a".repeat(254)] {
            assert!(name(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn localhost_is_an_address() {
        assert_eq!(address("localhost"), address("127.0.0.1"));
        assert_eq!(address("::1").map(|address| address.to_string()).as_deref(), Ok("::1"));
        assert!(address("example.com").is_err());
    }

    #[test]
    fn ports_are_read() {
        let port = |protocol, local, remote| Ok(Port { protocol, local, remote });
        for (text, wanted) in [
            ("8080", port(Protocol::Tcp, 8080, 8080)),
            ("8080:80", port(Protocol::Tcp, 8080, 80)),
            (":80", port(Protocol::Tcp, 0, 80)),
            ("0:80", port(Protocol::Tcp, 0, 80)),
            ("udp/53:5353", port(Protocol::Udp, 53, 5353)),
            ("tcp/22", port(Protocol::Tcp, 22, 22)),
        ] {
            assert_eq!(text.parse(), wanted, "{text}");
        }
        for bad in ["", "0", "x", "65536", "80:", "1:2:3", "sctp/80", "-1", "80:0"] {
            assert!(bad.parse::<Port>().is_err(), "{bad}");
        }
    }
}
