//! Properties that must hold for any readers and writers of a serial console.
//!
//! ```text
//!  QEMU writes 7-bit bytes; the relay's own markers hold "…", so that both can be told apart
//!  a reader's bytes, from the end backwards = QEMU's bytes, from the end backwards, with gaps as long as the markers say
//! ```

use crate::tasks::run;
use launcher::console::{Begin, Mode, Options, Relay, lines};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::net::UnixStream;

/// Bytes that are kept for readers: the fewest a relay has.
const RING: usize = 4 << 10;
/// Clients at once.
const CLIENTS: usize = 3;

/// Events, byte by byte.
pub(crate) fn console(input: &[u8]) {
    run(play(input.to_vec()));
}

/// A client: its stream, the bytes that it has read, the bytes that it has typed.
struct Client {
    number: u8,
    stream: DuplexStream,
    read: Vec<u8>,
    typed: Arc<Mutex<Vec<u8>>>,
    types: bool,
}

async fn play(script: Vec<u8>) {
    let (give, taken) = lines();
    let options = Options { ring: RING, clients: CLIENTS, patience: Duration::from_millis(1), log: None };
    let relay = Relay::start(taken, options);
    let mut said = Vec::new();
    let heard = Arc::new(Mutex::new(Vec::new()));
    let mut qemu = None;
    let mut clients: Vec<Client> = Vec::new();
    let mut gone: Vec<Client> = Vec::new();
    let mut rest = &script[..];
    while let [what, after @ ..] = rest {
        rest = after;
        let more = usize::from(what >> 3);
        match what & 7 {
            // QEMU restarts; or writes the next bytes of the script, or many.
            0 => {
                drop(qemu.take());
                until(&relay, |status| !status.connected && status.bytes == said.len() as u64).await;
                let (ours, theirs) = UnixStream::pair().expect("a pair");
                let ours = ours.into_std().expect("a socket");
                give.send(ours.into()).expect("the relay");
                until(&relay, |status| status.connected).await;
                let (from, to) = theirs.into_split();
                tokio::spawn(hear(from, Arc::clone(&heard)));
                qemu = Some(to);
            }
            1 | 2 => {
                let Some(qemu) = &mut qemu else { continue };
                let (piece, after) = rest.split_at(more.min(rest.len()));
                rest = after;
                let times = if what & 7 == 2 { 200 } else { 1 };
                let piece: Vec<u8> = piece.iter().map(|byte| byte & 0x7f).collect::<Vec<_>>().repeat(times);
                said.extend_from_slice(&piece);
                qemu.write_all(&piece).await.expect("the relay hears");
            }
            3 => {
                let mode = [Mode::Read, Mode::Write, Mode::Take, Mode::Read][more & 3];
                let begin = [Begin::Screen, Begin::Everything, Begin::Now][(more >> 2) % 3];
                match relay.reserve(mode, begin) {
                    Ok(slot) => {
                        let (stream, theirs) = tokio::io::duplex(16 << (more & 7));
                        tokio::spawn(slot.serve(theirs));
                        let number = (clients.len() + gone.len()) as u8 & 7;
                        let (read, typed) = (Vec::new(), Arc::default());
                        clients.push(Client { number, stream, read, typed, types: mode != Mode::Read });
                    }
                    Err(_) => {
                        let status = relay.status();
                        assert!(
                            status.clients >= CLIENTS || status.writer,
                            "refused without a reason: {status:?}"
                        );
                    }
                }
            }
            4 => {
                let Some(client) = client(&mut clients, more) else { continue };
                // A typed byte names its client and its place in the order.
                let text: Vec<u8> = {
                    let mut typed = client.typed.lock().expect("nobody panics with it");
                    let from = typed.len();
                    let new = (from..from + more)
                        .map(|at| client.number << 5 | (at & 31) as u8)
                        .collect::<Vec<_>>();
                    typed.extend_from_slice(&new);
                    new
                };
                client.stream.write_all(&text).await.expect("the relay reads");
            }
            5 => {
                let Some(client) = client(&mut clients, more) else { continue };
                let mut piece = vec![0; 1 + more * 32];
                // There may be nothing to read.
                let read =
                    tokio::time::timeout(Duration::from_millis(1), client.stream.read(&mut piece)).await;
                if let Ok(Ok(size)) = read {
                    client.read.extend_from_slice(&piece[..size]);
                }
            }
            6 if !clients.is_empty() => {
                let Client { number, stream, read, typed, types } = clients.remove(more % clients.len());
                drop(stream);
                gone.push(Client { number, stream: tokio::io::duplex(1).0, read, typed, types });
                // Its place is free for the next client.
                until(&relay, |status| status.clients == clients.len()).await;
            }
            _ => tokio::task::yield_now().await,
        }
    }
    drop(qemu);
    until(&relay, |status| !status.connected && status.bytes == said.len() as u64).await;
    let finish = relay.finish();
    let read = async {
        for client in &mut clients {
            client.stream.read_to_end(&mut client.read).await.expect("the rest");
        }
    };
    tokio::join!(finish, read);
    for client in &clients {
        compare(&client.read, &said);
    }
    let heard = heard.lock().expect("nobody panics with it").clone();
    for client in clients.iter().chain(&gone) {
        let typed = client.typed.lock().expect("nobody panics with it").clone();
        let mut left = typed.iter();
        let own = heard.iter().filter(|byte| *byte >> 5 == client.number);
        // Several clients may have had the same number.
        if clients.len() + gone.len() <= 8 {
            for byte in own {
                assert!(client.types, "a client that may only read was heard");
                assert!(left.any(|typed| typed == byte), "QEMU reads a byte that no client typed");
            }
        }
    }
}

fn client(clients: &mut [Client], which: usize) -> Option<&mut Client> {
    let count = clients.len().max(1);
    clients.get_mut(which % count)
}

/// Keeps the bytes that QEMU reads, until the line ends.
async fn hear(mut from: tokio::net::unix::OwnedReadHalf, heard: Arc<Mutex<Vec<u8>>>) {
    let mut piece = [0; 512];
    while let Ok(size @ 1..) = from.read(&mut piece).await {
        heard.lock().expect("nobody panics with it").extend_from_slice(&piece[..size]);
    }
}

async fn until(relay: &Relay, is: impl Fn(&launcher::console::Status) -> bool) {
    while !is(&relay.status()) {
        tokio::time::sleep(Duration::from_micros(100)).await;
    }
}

/// From the end backwards a reader has QEMU's bytes, with gaps as long as its markers say.
fn compare(read: &[u8], said: &[u8]) {
    let mut end = said.len();
    let text = String::from_utf8(read.to_vec()).expect("seven bits, and words of our own");
    let mut rest = text.as_str();
    loop {
        let Some((before, after)) = rest.rsplit_once(" …]\r\n") else {
            assert!(
                said[..end].ends_with(rest.as_bytes()),
                "a reader has {rest:?}, which QEMU did not write"
            );
            return;
        };
        assert!(said[..end].ends_with(after.as_bytes()), "a reader has {after:?}, which QEMU did not write");
        end -= after.len();
        let (before, told) = before.rsplit_once("\r\n[… ").expect("words of our own have a begin");
        match told.strip_suffix(" bytes lost") {
            Some(lost) => {
                let lost: usize = lost.parse().expect("a number");
                assert!(lost > 0 && lost <= end, "{lost} bytes lost of {end}");
                end -= lost;
            }
            None => assert_eq!(told, "someone else types here now"),
        }
        rest = before;
    }
}
