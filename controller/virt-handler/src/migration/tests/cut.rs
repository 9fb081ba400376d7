//! A network that is cut: each packet of a connection is dropped, and neither end is told. And peers that are
//! only slow.

use super::*;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Instant;

/// Time after which a peer is lost, with what a loaded computer adds.
const LOST: Duration = Duration::from_secs(30);

/// Ends of the stream in both pods, a while after the network was cut.
async fn both_end(scene: &Scene, mut source: UnixStream, mut target: UnixStream) {
    let cut = Instant::now();
    drop_packets(scene.ports.ports().of(Channel::Memory));
    let both = async { tokio::join!(is_ended(&mut source), is_ended(&mut target)) };
    assert_eq!(timeout(LOST, both).await.expect("a stream hangs"), (true, true));
    assert!(cut.elapsed() >= SHORT.silence, "it ends before it can be known");
    for failure in [scene.sockets.failure(), scene.ports.failure()] {
        let failure = failure.expect("no failure");
        assert!(failure.contains("does not answer") || failure.contains("timed out"), "{failure}");
        assert!(failure.contains("the stream of the memory after"), "{failure}");
    }
}

#[tokio::test]
async fn an_idle_stream_ends_at_both_ends_when_the_network_is_cut() {
    if !may_give() {
        return;
    }
    let scene = Scene::begin(SHORT).await;
    let (mut source, mut target) = scene.stream(Channel::Memory).await;
    passes(&mut source, &mut target, b"some").await;
    both_end(&scene, source, target).await;
}

#[tokio::test]
async fn a_busy_stream_ends_at_both_ends_when_the_network_is_cut() {
    if !may_give() {
        return;
    }
    let scene = Scene::begin(SHORT).await;
    let (source, mut target) = scene.stream(Channel::Memory).await;
    let (mut back, mut send) = source.into_split();
    let sends = tokio::spawn(async move { while send.write_all(&[1; 64 << 10]).await.is_ok() {} });
    target.read_exact(&mut vec![0; 4 << 20]).await.unwrap();
    drop_packets(scene.ports.ports().of(Channel::Memory));
    let ends = async { while !matches!(back.read(&mut [0; 512]).await, Ok(0) | Err(_)) {} };
    let all = async { tokio::join!(ends, is_ended(&mut target), sends) };
    timeout(LOST, all).await.expect("a stream hangs").2.unwrap();
    assert!(scene.sockets.failure().unwrap().contains("does not answer"));
}

/// QEMU at the target may wait for its storage longer than a lost peer is waited for.
#[tokio::test]
async fn a_target_that_reads_nothing_for_long_is_waited_for_and_a_cut_is_found_then_too() {
    if !may_give() {
        return;
    }
    let scene = Scene::begin(SHORT).await;
    let (mut source, mut target) = scene.stream(Channel::Memory).await;
    let mut sent = 0;
    while let Ok(written) = timeout(Duration::from_secs(1), source.write(&[2; 64 << 10])).await {
        sent += written.unwrap();
    }
    sleep(3 * SHORT.silence).await;
    assert_eq!((scene.sockets.failure(), scene.ports.failure()), (None, None));
    let mut read = vec![0; sent];
    timeout(LONG, target.read_exact(&mut read)).await.unwrap().unwrap();
    passes(&mut source, &mut target, b"goes on").await;
    while timeout(Duration::from_secs(1), source.write(&[2; 64 << 10])).await.is_ok() {}
    both_end(&scene, source, target).await;
}

/// Drops each packet that arrives at a connection with this port at one end.
fn drop_packets(port: u16) {
    let is_one = |address: SocketAddr| address.port() == port && address.ip() == Ipv4Addr::LOCALHOST;
    let mut cut = 0;
    for entry in fs::read_dir("/proc/self/fd").unwrap() {
        let number: i32 = entry.unwrap().file_name().into_string().unwrap().parse().unwrap();
        cut += usize::from(filter::drop_all_of(number, is_one));
    }
    assert!(cut >= 2, "the connection is not found");
}

mod filter {
    #![allow(unsafe_code)] // rustix has no socket filters

    use rustix::net::{getpeername, getsockname};
    use std::net::SocketAddr;
    use std::os::fd::BorrowedFd;

    /// Lets the kernel drop all packets that come for this socket, if it is a connection with this address.
    pub(super) fn drop_all_of(number: i32, is_one: impl Fn(SocketAddr) -> bool) -> bool {
        // SAFETY: the calls fail for a number that is not a socket any more.
        let socket = unsafe { BorrowedFd::borrow_raw(number) };
        let own = getsockname(socket).ok().and_then(|address| SocketAddr::try_from(address).ok());
        let peer = getpeername(socket).ok().flatten().and_then(|address| SocketAddr::try_from(address).ok());
        let (Some(own), Some(peer)) = (own, peer) else { return false };
        if !is_one(own) && !is_one(peer) {
            return false;
        }
        // A program of one instruction: return 0, the number of bytes to keep.
        let mut nothing = libc::sock_filter { code: 0x06, jt: 0, jf: 0, k: 0 };
        let program = libc::sock_fprog { len: 1, filter: &raw mut nothing };
        // SAFETY: the program is copied by the kernel.
        let done = unsafe {
            libc::setsockopt(
                number,
                libc::SOL_SOCKET,
                libc::SO_ATTACH_FILTER,
                (&raw const program).cast(),
                size_of::<libc::sock_fprog>() as libc::socklen_t,
            )
        };
        done == 0
    }
}
