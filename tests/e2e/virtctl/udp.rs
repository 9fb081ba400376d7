//! Ports of UDP: by virtctl, and the same by `coracle virt`. The story of the guest that has a program for it calls this.

use super::{Running, Virtctl, same};
use std::net::{Ipv4Addr, UdpSocket};
use std::time::Duration;
use tests::cluster::{Space, until};
use tests::serial::Serial;

/// Says back what comes, behind who it came to: a line for the guest's shell.
const ECHO: &str = "python3 -c \"exec('import socket\\ns=socket.socket(2,2)\\ns.bind((str(),5353))\\nprint(str().join([\
chr(108),str(1),chr(115)]),flush=True)\\nwhile 1:\\n d,a=s.recvfrom(65535)\\n s.sendto(b\\x27to you: \\x27+d,a)')\" &";

/// A port of UDP of the VMI `web`, on whose console somebody is logged in as root, is reached.
pub(crate) fn reaches(space: &Space, console: &mut Serial) {
    let mut virtctl = Virtctl::of(space, "udp");
    console.types(ECHO).says("l1s");
    for is_ours in [false, true] {
        let port = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
        let args = ["port-forward", "vmi/web", &format!("udp/{port}:5353")];
        let mut command = if is_ours { same::command(&virtctl, &args) } else { virtctl.command(&args) };
        let _forward = Running(command.spawn().unwrap());
        // Each peer has a stream of its own, and hears its own answers alone.
        let peers = [peer(port), peer(port)];
        for (at, peer) in peers.iter().enumerate() {
            answers(peer, format!("first of {at}").as_bytes());
        }
        for (at, peer) in peers.iter().enumerate() {
            // More than one piece anywhere, and less than a frame of the network.
            answers(peer, format!("{at}{}", "x".repeat(1200)).as_bytes());
        }
        if !is_ours {
            virtctl.table.calls(port.to_string(), "PORT");
            virtctl.table.say(&args, 0, "");
        }
    }
}

fn peer(port: u16) -> UdpSocket {
    let peer = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    peer.connect((Ipv4Addr::LOCALHOST, port)).unwrap();
    peer.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    peer
}

/// Says this until the guest has said it back: a datagram may be lost, and comes too early before somebody listens.
#[track_caller]
fn answers(peer: &UdpSocket, said: &[u8]) {
    let wanted = [b"to you: ", said].concat();
    let mut heard = vec![0; 65_536];
    let hears = || {
        // Who has sent to a port on which nobody listens yet is told so by the next call.
        let _ = peer.send(said);
        loop {
            match peer.recv(&mut heard) {
                Ok(size) if heard[..size] == wanted => return true,
                // An answer to the one before, sent twice.
                Ok(size) => assert!(heard[..size].starts_with(b"to you: first"), "{:?}", &heard[..size]),
                Err(_) => return false,
            }
        }
    };
    until(hears, || format!("no answer to {:?}", String::from_utf8_lossy(said)));
}
