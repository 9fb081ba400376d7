//! A VM's screen on a port of this computer, for viewers that know no launcher: each connection becomes a stream
//! of its own, and only the user's own programs are let in.

use super::client::Client;
use cdi::{Error, Result};
use launcher_client::Access;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, SocketAddrV4, TcpListener, TcpStream};

/// Listens.
pub(crate) struct Relay {
    listener: TcpListener,
    client: Client,
}

impl Relay {
    /// On the loopback, on this port or (0) on any.
    pub(crate) fn listen(client: Client, port: u16) -> Result<Relay> {
        let listener = TcpListener::bind(("127.0.0.1", port))
            .map_err(|e| Error::io(format!("cannot listen on port {port}"), e))?;
        Ok(Relay { listener, client })
    }

    /// Where.
    pub(crate) fn address(&self) -> Result<SocketAddr> {
        self.listener.local_addr().map_err(|e| Error::io("cannot tell where it listens", e))
    }

    /// Serves viewers, each by a thread of its own, until the program ends.
    pub(crate) fn serve(self) -> Result<()> {
        for viewer in self.listener.incoming() {
            let viewer = viewer.map_err(|e| Error::io("cannot take a viewer's call", e))?;
            let client = self.client.clone();
            std::thread::spawn(move || {
                if let Err(e) = join(&viewer, &client) {
                    tracing::info!("a viewer is gone: {e}");
                }
                // It may be gone already.
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
    // Whoever opens a viewer wants to type in it; those that are open see on.
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

/// Whether the program at the other end is the user's own: the kernel notes whose each socket is.
pub(crate) fn is_ours(viewer: &TcpStream) -> bool {
    let (Ok(SocketAddr::V4(peer)), Ok(SocketAddr::V4(own))) = (viewer.peer_addr(), viewer.local_addr())
    else {
        return false;
    };
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap_or_default();
    let me = rustix::process::geteuid().as_raw();
    owner(&table, peer, own).is_some_and(|uid| uid == me || me == 0)
}

/// Whose socket it is that leads from `local` to `remote`.
fn owner(table: &str, local: SocketAddrV4, remote: SocketAddrV4) -> Option<u32> {
    let written = |address: SocketAddrV4| {
        format!("{:08X}:{:04X}", u32::from_ne_bytes(address.ip().octets()), address.port())
    };
    let (local, remote) = (written(local), written(remote));
    table.lines().skip(1).find_map(|line| {
        let mut words = line.split_whitespace().skip(1);
        let found = words.next()? == local && words.next()? == remote;
        found.then(|| words.nth(4)?.parse().ok()).flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_programs_are_known() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let _caller = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (viewer, _) = listener.accept().unwrap();
        assert!(is_ours(&viewer));
        let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
        let nobody = "127.0.0.1:1".parse().unwrap();
        assert_eq!(owner(&table, nobody, nobody), None);
    }
}
