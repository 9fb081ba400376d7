//! The process that holds a port of this computer, for the message that a port is taken.
//!
//! ```text
//!  /proc/net/{tcp,udp}[6] ─► inode of the socket ─► /proc/PID/fd ─► the process ─► a VM of ours, or its name
//! ```

use crate::place::Home;
use crate::record::Vm;
use api::launcher::{Forward, Link};
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// State of a listening TCP socket, and of a UDP socket.
const LISTENS: [&str; 2] = ["0A", "07"];

/// Words about the holder of a port: `VM web`, or `nginx (process 812)`. `None` if it is not known, such as a process of
/// another user.
pub(crate) fn holder(home: &Home, wanted: &Forward) -> Option<String> {
    vm(home, wanted).or_else(|| process(wanted))
}

/// The running VM that forwards the port.
fn vm(home: &Home, wanted: &Forward) -> Option<String> {
    let vms = Vm::all(home).ok()?.into_iter().filter_map(|(_, vm)| vm.ok());
    let has = |vm: &Vm| {
        let forwards = vm.record.sync.resolved.interfaces.values().flat_map(Link::forwards);
        forwards.into_iter().any(|own| overlaps(own, wanted))
    };
    let mut holders = vms.filter(has).filter(|vm| vm.standing().is_ok_and(|standing| standing.is_up()));
    holders.next().map(|vm| format!("the VM {}", vm.name()))
}

fn overlaps(own: &Forward, wanted: &Forward) -> bool {
    let any = |forward: &Forward| ["0.0.0.0", "::"].contains(&forward.address.as_str());
    own.protocol == wanted.protocol
        && own.port == wanted.port
        && (own.address == wanted.address || any(own) || any(wanted))
}

fn process(wanted: &Forward) -> Option<String> {
    let address: IpAddr = wanted.address.parse().ok()?;
    let tables = [wanted.protocol.clone(), format!("{}6", wanted.protocol)];
    let inodes: Vec<String> = tables
        .iter()
        .filter_map(|table| fs::read_to_string(format!("/proc/net/{table}")).ok())
        .flat_map(|text| sockets(&text, address, wanted.port))
        .collect();
    for entry in fs::read_dir("/proc").ok()?.flatten() {
        let Ok(pid) = entry.file_name().to_string_lossy().parse::<u32>() else { continue };
        let Ok(files) = fs::read_dir(entry.path().join("fd")) else { continue };
        let is_own = |file: fs::DirEntry| {
            let target = fs::read_link(file.path()).unwrap_or_default();
            inodes.iter().any(|inode| target.as_os_str() == format!("socket:[{inode}]").as_str())
        };
        if files.flatten().any(is_own) {
            let name = fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
            return Some(format!("{} (process {pid})", printable::line(name.trim())));
        }
    }
    None
}

/// Inodes of the sockets in a table of `/proc/net` that listen on the port. Their address is `address`, or one of the two is the
/// unspecified address.
fn sockets(table: &str, address: IpAddr, port: u16) -> Vec<String> {
    let inode = |line: &str| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let (local, state, inode) = (words.get(1)?, words.get(3)?, words.get(9)?);
        let (ip, number) = local.split_once(':')?;
        let ip = self::address(ip)?.to_canonical();
        let is_same = ip == address || ip.is_unspecified() || address.is_unspecified();
        let is_held = u16::from_str_radix(number, 16) == Ok(port) && LISTENS.contains(state) && is_same;
        is_held.then(|| (*inode).to_owned())
    };
    table.lines().skip(1).filter_map(inode).collect()
}

/// An address as the kernel writes it: words of four bytes in the order of the host.
fn address(text: &str) -> Option<IpAddr> {
    let words = text.as_bytes().chunks(8).map(|word| {
        let word = u32::from_str_radix(std::str::from_utf8(word).ok()?, 16).ok()?;
        Some(word.to_ne_bytes())
    });
    let bytes: Vec<u8> = words.collect::<Option<Vec<_>>>()?.concat();
    match bytes.len() {
        4 => Some(Ipv4Addr::from(<[u8; 4]>::try_from(bytes).ok()?).into()),
        16 => Some(Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?).into()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, UdpSocket};

    fn forward(protocol: &str, address: &str, port: u16) -> Forward {
        Forward { protocol: protocol.into(), address: address.into(), port, guest_port: 1 }
    }

    #[test]
    fn the_process_that_listens_is_found() {
        let own = format!("(process {})", std::process::id());
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = tcp.local_addr().unwrap().port();
        for address in ["127.0.0.1", "0.0.0.0"] {
            assert!(process(&forward("tcp", address, port)).unwrap().ends_with(&own));
        }
        assert_eq!(process(&forward("tcp", "127.0.0.2", port)), None);
        assert_eq!(process(&forward("udp", "127.0.0.1", port)), None);
        let udp = UdpSocket::bind("0.0.0.0:0").unwrap();
        let port = udp.local_addr().unwrap().port();
        assert!(process(&forward("udp", "127.0.0.1", port)).unwrap().ends_with(&own));
        drop(tcp);
    }

    #[test]
    fn ports_of_one_address_and_of_all_overlap() {
        let own = forward("tcp", "127.0.0.1", 80);
        for (other, wanted) in [
            (forward("tcp", "127.0.0.1", 80), true),
            (forward("tcp", "0.0.0.0", 80), true),
            (forward("tcp", "127.0.0.2", 80), false),
            (forward("udp", "127.0.0.1", 80), false),
            (forward("tcp", "127.0.0.1", 81), false),
        ] {
            assert_eq!(overlaps(&own, &other), wanted, "{other:?}");
        }
    }
}
