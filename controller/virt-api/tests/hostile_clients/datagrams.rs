//! UDP ports whose clients never read, while the guest sends as much as it can.

use crate::client::{answer, head, say};
use crate::consoles::masked;
use crate::scene::{ANN, SUBRESOURCES, Scene};
use std::net::{IpAddr, Ipv4Addr};
use tokio::io::AsyncReadExt as _;
use tokio::net::UdpSocket;

/// Limit on virt-api's memory for such a stream, in KiB: a received datagram, its message, its TLS records,
/// and the input of the client.
const OF_A_STREAM: u64 = 512;

/// A non-loopback address of this host, since virt-api does not dial loopback addresses of guests.
fn own() -> Option<IpAddr> {
    // Nothing is sent: the kernel chooses the source address at `connect`.
    let socket = std::net::UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
    socket.connect((Ipv4Addr::new(203, 0, 113, 1), 9)).ok()?;
    socket.local_addr().ok().map(|address| address.ip()).filter(|address| !address.is_loopback())
}

#[tokio::test]
async fn ports_of_udp_whose_clients_never_read_cost_little_memory_and_hold_up_nobody() {
    const STREAMS: usize = 128;
    const OF_A_VMI: usize = 64;
    let Some(address) = own() else {
        eprintln!("skipped: this host has no address but loopback");
        return;
    };
    let scene = Scene::begin().await;
    let guest = UdpSocket::bind((address, 0)).await.unwrap();
    let port = guest.local_addr().unwrap().port();
    let aggregator = scene.aggregator();
    let before = scene.program.memory();
    let (mut clients, mut peers) = (Vec::new(), Vec::new());
    for at in 0..STREAMS {
        let name = format!("udp-{}", at / OF_A_VMI);
        scene.runs_at(&name, address);
        let more = "connection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n\
            sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
        let path = format!("{SUBRESOURCES}/virtualmachineinstances/{name}/portforward/{port}/udp");
        let mut client = aggregator.connect_narrow().await;
        say(&mut client, head("GET", &path, ANN, more).as_bytes()).await.unwrap();
        let said = answer(&mut client).await.unwrap();
        assert_eq!(said.status, 101, "{said:?}");
        say(&mut client, &masked(0x82, b"hello")).await.unwrap();
        let (_, peer) = guest.recv_from(&mut [0; 9]).await.unwrap();
        clients.push(client);
        peers.push(peer);
    }
    // Far more than the kernel's buffers: the rest is lost.
    let datagram = vec![b'x'; 60_000];
    for _ in 0..64 {
        for peer in &peers {
            guest.send_to(&datagram, peer).await.unwrap();
        }
    }
    scene.start("ports of UDP whose clients never read").await;
    // They also send more than the guest reads.
    for client in &mut clients {
        say(client, &masked(0x82, b"hello").repeat(100)).await.unwrap();
    }
    scene.start("ports of UDP whose clients never read, and speak").await;
    let memory = scene.program.most_memory();
    let each = memory.saturating_sub(before) / STREAMS as u64;
    eprintln!("{STREAMS} ports of UDP: virt-api had at most {} MiB, {each} KiB for each", memory >> 10);
    assert!(each < OF_A_STREAM, "{each} KiB for each: {before} KiB at first, then {memory} KiB");
    // All streams were open all the time, and each has data to read.
    for client in &mut clients {
        // A complete binary message with an extended length.
        assert_eq!(client.read_u16().await.unwrap(), 0x827e);
        assert_eq!(usize::from(client.read_u16().await.unwrap()), datagram.len());
    }
}
