//! Relay of a VM's screen to a port of this computer, for VNC viewers: each connection becomes a stream of
//! its own to the launcher. Only programs of the same user may connect.

use crate::error::{Error, Result};
use launcher_client::Access;
use local_vm::client::Client;
use std::io::{Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};

/// TCP listener that serves the screen of one VM.
pub(crate) struct Relay {
    listener: TcpListener,
    client: Client,
}

impl Relay {
    /// Listens on the loopback address, on this port or, with 0, on a free one.
    pub(crate) fn listen(client: Client, port: u16) -> Result<Relay> {
        let listener = TcpListener::bind(("127.0.0.1", port))
            .map_err(|e| Error::io(format!("cannot listen on port {port}"), e))?;
        Ok(Relay { listener, client })
    }

    /// The address that viewers connect to.
    pub(crate) fn address(&self) -> Result<SocketAddr> {
        self.listener.local_addr().map_err(|e| Error::io("cannot get the address of the listener", e))
    }

    /// Serves viewers, each in a thread of its own, until the program ends.
    pub(crate) fn serve(self) -> Result<()> {
        for viewer in self.listener.incoming() {
            let viewer = viewer.map_err(|e| Error::io("cannot accept the connection of a viewer", e))?;
            let client = self.client.clone();
            std::thread::spawn(move || {
                if let Err(e) = join(&viewer, &client) {
                    tracing::info!("the connection of a viewer ended: {e}");
                }
                // The viewer may have closed the connection already.
                let _ = viewer.shutdown(Shutdown::Both);
            });
        }
        Ok(())
    }
}

fn join(viewer: &TcpStream, client: &Client) -> Result<()> {
    if !is_ours(viewer) {
        return Err(Error::failed("the connection was refused: the client belongs to another user"));
    }
    let cannot = |e| Error::io("the stream of the screen broke off", e);
    // The new viewer takes keyboard and mouse; earlier viewers stay connected and see the screen.
    let stream = client.vnc(Access::Take)?;
    let _ = viewer.set_nodelay(true);
    (&*viewer).write_all(&stream.first).map_err(cannot)?;
    let (mut from_viewer, mut to_vm) =
        (viewer.try_clone().map_err(cannot)?, stream.socket.try_clone().map_err(cannot)?);
    let keys = std::thread::spawn(move || {
        let _ = pump(&mut from_viewer, &mut to_vm);
        let _ = to_vm.shutdown(Shutdown::Both);
    });
    let (mut from_vm, mut to_viewer) = (stream.socket, viewer);
    let done = pump(&mut from_vm, &mut to_viewer);
    let _ = viewer.shutdown(Shutdown::Both);
    let _ = keys.join();
    done.map_err(cannot)
}

fn pump(from: &mut impl Read, to: &mut impl Write) -> std::io::Result<()> {
    std::io::copy(from, to).map(drop)
}

/// True if the program at the other end belongs to the same user, by the kernel's table of sockets.
pub(crate) fn is_ours(viewer: &TcpStream) -> bool {
    let (Ok(peer), Ok(own)) = (viewer.peer_addr(), viewer.local_addr()) else { return false };
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"];
    let owner = tables.iter().find_map(|path| owner(&std::fs::read_to_string(path).ok()?, peer, own));
    let sudo = std::env::var("SUDO_UID").ok().and_then(|uid| uid.parse().ok());
    owner.is_some_and(|uid| may_connect(uid, rustix::process::geteuid().as_raw(), sudo))
}

/// True if a program of user `uid` may connect to one of `me`. Under sudo the browser or viewer is the
/// user's, not root's.
fn may_connect(uid: u32, me: u32, sudo: Option<u32>) -> bool {
    uid == me || me == 0 && sudo == Some(uid)
}

/// User ID of the owner of the socket that leads from `local` to `remote`.
fn owner(table: &str, local: SocketAddr, remote: SocketAddr) -> Option<u32> {
    // The kernel lists a socket whose program has ended as root's; only established ones count.
    const ESTABLISHED: &str = "01";
    let wanted: Vec<_> = written(local).into_iter().zip(written(remote)).collect();
    table.lines().skip(1).find_map(|line| {
        let mut words = line.split_whitespace().skip(1);
        let (local, remote, state) = (words.next()?, words.next()?, words.next()?);
        let found = state == ESTABLISHED
            && wanted.iter().any(|(from, to)| (from.as_str(), to.as_str()) == (local, remote));
        found.then(|| words.nth(3)?.parse().ok()).flatten()
    })
}

/// An address as the kernel's tables have it. An IPv4 address is also given in its IPv6-mapped form.
fn written(address: SocketAddr) -> Vec<String> {
    let words = |bytes: &[u8]| -> String {
        let words = bytes.chunks_exact(4).filter_map(|word| word.try_into().ok());
        words.map(|word| format!("{:08X}", u32::from_ne_bytes(word))).collect()
    };
    let hosts = match address.ip() {
        IpAddr::V4(ip) => vec![words(&ip.octets()), words(&ip.to_ipv6_mapped().octets())],
        IpAddr::V6(ip) => vec![words(&ip.octets())],
    };
    hosts.into_iter().map(|host| format!("{host}:{:04X}", address.port())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::tests::mapped::as_mapped_by_a_server;
    use std::net::Ipv4Addr;
    use std::sync::mpsc::channel;

    /// The two ends of a connection.
    fn joined(address: &str) -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind(address).unwrap();
        let caller = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (listener.accept().unwrap().0, caller)
    }

    #[test]
    fn our_own_programs_are_known() {
        let (viewer, _caller) = joined("127.0.0.1:0");
        assert!(is_ours(&viewer));
        let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
        let nobody = "127.0.0.1:1".parse().unwrap();
        assert_eq!(owner(&table, nobody, nobody), None);
        let is_without_ipv6 = TcpListener::bind("[::1]:0").is_err();
        if is_without_ipv6 {
            eprintln!("skipped: this computer has no IPv6");
            return;
        }
        let (viewer, _caller) = joined("[::1]:0");
        assert!(is_ours(&viewer));
        // A viewer in Java, say.
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let mapped = Ipv4Addr::LOCALHOST.to_ipv6_mapped();
        let _caller = TcpStream::connect((mapped, port)).unwrap();
        assert!(is_ours(&listener.accept().unwrap().0));
    }

    #[test]
    fn root_is_reached_by_root_and_by_who_called_sudo() {
        for (uid, me, sudo, may) in [
            (1000, 1000, None, true),
            (1001, 1000, None, false),
            (0, 1000, None, false),
            (0, 0, None, true),
            (1000, 0, None, false),
            (1000, 0, Some(1000), true),
            (1001, 0, Some(1000), false),
            // 'sudo -u' to a user other than root.
            (1000, 1001, Some(1000), false),
        ] {
            assert_eq!(may_connect(uid, me, sudo), may, "{uid} to {me}, called by {sudo:?}");
        }
    }

    #[test]
    fn a_program_of_another_user_is_refused_by_root_too() {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: only root can make what belongs to another user");
            return;
        }
        let (ends, end) = channel();
        as_mapped_by_a_server(65534, move || ends.send(joined("127.0.0.1:0")).unwrap());
        let (viewer, _caller) = end.recv().unwrap();
        assert!(!is_ours(&viewer));
    }

    #[test]
    fn a_program_that_has_gone_is_not_taken_for_root() {
        let (viewer, caller) = joined("127.0.0.1:0");
        let (peer, own) = (viewer.peer_addr().unwrap(), viewer.local_addr().unwrap());
        let table = || std::fs::read_to_string("/proc/net/tcp").unwrap();
        assert!(owner(&table(), peer, own).is_some());
        drop(caller);
        assert_eq!(owner(&table(), peer, own), None);
    }
}
