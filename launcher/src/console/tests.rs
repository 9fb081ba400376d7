//! The relay between a QEMU played by the test and clients that misbehave in several ways.

use super::*;
use crate::error::ErrorKind;
use rustix::fs::{Mode as Rights, OFlags};
use std::path::Path;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::net::UnixStream;

/// Long enough for a busy host; only a test that fails waits so long.
const SOON: Duration = Duration::from_secs(60);

/// A QEMU's side of the line, and the relay.
struct Line {
    give: Give,
    qemu: UnixStream,
    relay: Relay,
}

/// A line: our end is given away, QEMU's is the test's.
fn ring_up(give: &Give) -> UnixStream {
    let (ours, qemu) = UnixStream::pair().unwrap();
    give.send(ours.into_std().unwrap().into()).unwrap();
    qemu
}

async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(SOON, future).await {
        Ok(done) => done,
        Err(_) => panic!("waited {SOON:?} for {what}"),
    }
}

impl Line {
    async fn new(options: Options) -> Line {
        let (give, lines) = lines();
        let relay = Relay::start(lines, options);
        let line = Line { qemu: ring_up(&give), give, relay };
        line.until("the line", |status| status.connected).await;
        line
    }

    async fn until(&self, what: &str, mut is: impl FnMut(&Status) -> bool) {
        soon(what, async {
            while !is(&self.relay.status()) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        })
        .await;
    }

    /// QEMU writes bytes, and the relay has read them.
    async fn say(&mut self, bytes: &[u8]) {
        let before = self.relay.status().bytes;
        soon("QEMU to be heard", self.qemu.write_all(bytes)).await.unwrap();
        let all = before + bytes.len() as u64;
        self.until("all bytes", |status| status.bytes == all).await;
    }

    /// A client whose side of the stream holds `room` bytes.
    fn client(&self, mode: Mode, from: Begin, room: usize) -> DuplexStream {
        let (ours, theirs) = tokio::io::duplex(room);
        let slot = self.relay.reserve(mode, from).unwrap();
        tokio::spawn(slot.serve(theirs));
        ours
    }

    async fn hears(&mut self, wanted: &str) {
        let mut heard = vec![0; wanted.len()];
        soon("QEMU to hear", self.qemu.read_exact(&mut heard)).await.unwrap();
        assert_eq!(String::from_utf8_lossy(&heard), wanted);
    }
}

async fn reads(client: &mut DuplexStream, wanted: &str) {
    let mut read = vec![0; wanted.len()];
    soon("a client to read", client.read_exact(&mut read)).await.unwrap();
    assert_eq!(String::from_utf8_lossy(&read), wanted);
}

async fn types(client: &mut DuplexStream, text: &str) {
    soon("a client to type", client.write_all(text.as_bytes())).await.unwrap();
}

async fn rest(client: &mut DuplexStream) -> Vec<u8> {
    let mut rest = Vec::new();
    soon("a client's end", client.read_to_end(&mut rest)).await.unwrap();
    rest
}

#[tokio::test]
async fn many_read_and_one_types() {
    let mut line = Line::new(Options::default()).await;
    line.say(b"before\r\n\x1b[2Jlogin: ").await;
    let mut reader = line.client(Mode::Read, Begin::Screen, 1 << 10);
    let mut all = line.client(Mode::Read, Begin::Everything, 1 << 10);
    let mut later = line.client(Mode::Read, Begin::Now, 1 << 10);
    let mut writer = line.client(Mode::Write, Begin::Screen, 1 << 10);
    reads(&mut reader, "\x1b[2Jlogin: ").await;
    reads(&mut all, "before\r\n\x1b[2Jlogin: ").await;
    reads(&mut writer, "\x1b[2Jlogin: ").await;
    types(&mut reader, "not me\n").await;
    types(&mut writer, "root\n").await;
    line.hears("root\n").await;
    line.say(b"# ").await;
    for client in [&mut reader, &mut all, &mut later, &mut writer] {
        reads(client, "# ").await;
    }
    assert_eq!(line.relay.status().clients, 4);
}

#[tokio::test]
async fn a_second_writer_is_refused_or_takes_over() {
    let mut line = Line::new(Options::default()).await;
    let mut first = line.client(Mode::Write, Begin::Screen, 1 << 10);
    let refused = line.relay.reserve(Mode::Write, Begin::Screen).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Busy);
    assert!(refused.to_string().contains("another client types on this console"), "{refused}");

    let mut second = line.client(Mode::Take, Begin::Screen, 1 << 10);
    reads(&mut first, "\r\n[… someone else types here now …]\r\n").await;
    types(&mut first, "lost").await;
    types(&mut second, "kept").await;
    line.hears("kept").await;
    line.say(b"both").await;
    reads(&mut first, "both").await;
    reads(&mut second, "both").await;

    drop(second);
    line.until("the writer to leave", |status| !status.writer).await;
    let mut third = line.client(Mode::Write, Begin::Now, 1 << 10);
    types(&mut third, "third").await;
    line.hears("third").await;
}

#[tokio::test]
async fn a_client_that_wants_to_be_alone_closes_the_writers_and_no_reader() {
    let mut line = Line::new(Options::default()).await;
    let mut reader = line.client(Mode::Read, Begin::Screen, 1 << 10);
    let mut former = line.client(Mode::Write, Begin::Screen, 1 << 10);
    let mut writer = line.client(Mode::Take, Begin::Screen, 1 << 10);
    reads(&mut former, "\r\n[… someone else types here now …]\r\n").await;
    let mut alone = line.client(Mode::Alone, Begin::Now, 1 << 10);
    let last_words = "\r\n[… another client has opened this console …]\r\n";
    for closed in [&mut former, &mut writer] {
        assert_eq!(String::from_utf8_lossy(&rest(closed).await), last_words);
    }
    types(&mut alone, "mine").await;
    line.hears("mine").await;
    line.say(b"here").await;
    reads(&mut reader, "here").await;
    reads(&mut alone, "here").await;
    assert_eq!(line.relay.status().clients, 2);
}

/// A client that reads nothing is not told, and does not keep its connection either.
#[tokio::test]
async fn a_client_that_does_not_read_is_closed_all_the_same() {
    let mut line = Line::new(Options::default()).await;
    let (client, theirs) = tokio::io::duplex(1);
    let stuck = tokio::spawn(line.relay.reserve(Mode::Write, Begin::Screen).unwrap().serve(theirs));
    line.say(b"more than it has room for").await;
    let _alone = line.client(Mode::Alone, Begin::Now, 1 << 10);
    assert_eq!(soon("the client to be closed", stuck).await.unwrap(), SlotEnd::Replaced);
    drop(client);
}

#[tokio::test]
async fn a_client_that_leaves_frees_its_place() {
    let line = Line::new(Options { clients: 2, ..Options::default() }).await;
    let (one, _two) =
        (line.client(Mode::Write, Begin::Screen, 64), line.relay.reserve(Mode::Read, Begin::Now).unwrap());
    let refused = line.relay.reserve(Mode::Read, Begin::Now).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Busy);
    assert!(refused.to_string().contains("has 2 clients"), "{refused}");
    drop(one);
    line.until("a free place", |status| status.clients == 1 && !status.writer).await;
    line.relay.reserve(Mode::Write, Begin::Now).unwrap();
}

/// The client does not read while QEMU writes much more than the ring holds. QEMU gets through; the client is
/// told its loss, to the byte, and a reader beside it misses nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_reader_does_not_block_qemu() {
    const RING: usize = 16 << 10;
    let patience = Duration::from_secs(3600);
    let mut line =
        Line::new(Options { ring: RING, patience: Duration::from_millis(1), ..Options::default() }).await;
    let mut stopped = line.client(Mode::Read, Begin::Screen, 100);
    let numbers: String = (0..100_000).map(|i| format!("{i:07}\n")).collect();
    line.say(numbers.as_bytes()).await;
    let relay = line.relay.clone();
    drop(line.qemu);
    let reading = tokio::spawn(async move { rest(&mut stopped).await });
    relay.finish().await;
    let read = String::from_utf8(reading.await.unwrap()).unwrap();

    let (first, after) = read.split_once("\r\n[… ").expect("a marker");
    let (lost, last) = after.split_once(" bytes lost …]\r\n").expect("a marker");
    assert_eq!(first, &numbers[..first.len()]);
    assert_eq!(first.len() + lost.parse::<usize>().unwrap() + last.len(), numbers.len());
    assert_eq!(last, &numbers[numbers.len() - last.len()..]);
    assert_eq!(last.len(), RING);

    // With unlimited patience it loses nothing, however small its window.
    let mut line = Line::new(Options { ring: RING, patience, ..Options::default() }).await;
    let mut slow = line.client(Mode::Read, Begin::Screen, 100);
    let wanted = numbers.clone();
    let reading = tokio::spawn(async move { reads(&mut slow, &wanted).await });
    line.say(numbers.as_bytes()).await;
    reading.await.unwrap();
}

/// A writer faces a QEMU that does not read: the bytes that wait for it are bounded, and the output goes on.
#[tokio::test]
async fn a_qemu_that_does_not_read_stops_the_writer_alone() {
    let mut line = Line::new(Options::default()).await;
    let mut writer = line.client(Mode::Write, Begin::Screen, 1 << 10);
    let piece = [b'x'; 1 << 10];
    let mut typed = 0;
    while let Ok(written) = tokio::time::timeout(Duration::from_millis(200), writer.write(&piece)).await {
        typed += written.unwrap();
        assert!(typed < 4 << 20, "typed bytes are not bounded");
    }
    line.say(b"still there").await;
    reads(&mut writer, "still there").await;
}

#[tokio::test]
async fn clients_stay_while_qemu_restarts() {
    let mut line = Line::new(Options::default()).await;
    let mut client = line.client(Mode::Write, Begin::Screen, 1 << 10);
    line.say(b"one ").await;
    drop(std::mem::replace(&mut line.qemu, UnixStream::pair().unwrap().0));
    line.until("the relay to see QEMU's end", |status| !status.connected).await;
    types(&mut client, "for nobody").await;
    line.qemu = ring_up(&line.give);
    line.until("the line", |status| status.connected).await;
    line.say(b"two").await;
    reads(&mut client, "one two").await;
    types(&mut client, "for this one").await;
    line.hears("for this one").await;
}

#[tokio::test]
async fn the_last_output_of_qemu_reaches_the_readers() {
    let mut line = Line::new(Options::default()).await;
    let mut client = line.client(Mode::Read, Begin::Screen, 1 << 10);
    line.qemu.write_all(b"Power down\r\n").await.unwrap();
    drop(line.qemu);
    soon("the end", line.relay.finish()).await;
    assert_eq!(rest(&mut client).await, b"Power down\r\n");
    assert_eq!(line.relay.reserve(Mode::Read, Begin::Now).unwrap_err().kind(), ErrorKind::NotFound);
}

#[tokio::test]
async fn the_relay_ends_with_its_last_handle() {
    let line = Line::new(Options::default()).await;
    let mut client = line.client(Mode::Read, Begin::Screen, 1 << 10);
    let Line { relay, mut qemu, .. } = line;
    drop(relay);
    assert!(rest(&mut client).await.is_empty());
    assert_eq!(soon("QEMU to see the relay's end", qemu.read(&mut [0; 1])).await.unwrap(), 0);
}

#[tokio::test]
async fn its_log_is_kept_small() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("serial.log");
    let log = Log::new(path.clone(), 64 << 10);
    std::fs::write(&path, vec![b'x'; 100 << 10]).unwrap();
    let mut line = Line::new(Options { log: Some(log.clone()), ..Options::default() }).await;
    let small = |path: &Path| std::fs::metadata(path).is_ok_and(|meta| meta.len() <= 64 << 10);
    line.until("the log of an earlier launcher to be trimmed", |_| small(&path) && log.old().exists()).await;
    std::fs::write(&path, vec![b'y'; 100 << 10]).unwrap();
    line.say(&vec![b'y'; 100 << 10]).await;
    line.until("the log to be trimmed", |_| small(&path)).await;
    assert_eq!(line.relay.status().trouble, None);
}

/// A terminal drops unread bytes when its other side goes; QEMU's log keeps them.
#[tokio::test]
async fn the_last_output_of_qemu_is_read_from_its_log() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("serial.log");
    std::fs::write(&path, "the day before\r\n").unwrap();
    let options = || Options { log: Some(Log::new(path.clone(), 64 << 10)), ..Options::default() };
    let append = |text: &str| {
        let mut log = std::fs::OpenOptions::new().append(true).open(&path).unwrap();
        std::io::Write::write_all(&mut log, text.as_bytes()).unwrap();
    };
    let mut line = Line::new(options()).await;
    let mut client = line.client(Mode::Read, Begin::Screen, 1 << 10);
    append("login: \r\nPower down\r\n");
    line.say(b"login: \r\nPower").await;
    drop(line.qemu);
    soon("the end", line.relay.finish()).await;
    assert_eq!(rest(&mut client).await, b"login: \r\nPower down\r\n");

    // A QEMU that was gone before any byte was read; earlier content of the log is not its own.
    let line = Line::new(options()).await;
    let mut client = line.client(Mode::Read, Begin::Screen, 1 << 10);
    append("panic\r\n");
    drop(line.qemu);
    soon("the end", line.relay.finish()).await;
    assert_eq!(rest(&mut client).await, b"panic\r\n");
}

/// A terminal, as QEMU uses it: our side takes 4000 bytes and more while it is not read, and its end is an
/// error.
#[tokio::test]
async fn a_terminal_serves_as_the_line() {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    let qemu = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&qemu).unwrap();
    unlockpt(&qemu).unwrap();
    let name = ptsname(&qemu, Vec::new()).unwrap();
    let ours = rustix::fs::open(name, OFlags::RDWR | OFlags::NOCTTY, Rights::empty()).unwrap();
    let mut raw = rustix::termios::tcgetattr(&ours).unwrap();
    raw.make_raw();
    rustix::termios::tcsetattr(&ours, rustix::termios::OptionalActions::Now, &raw).unwrap();
    let said = vec![b'x'; 4000];
    for byte in &said {
        assert_eq!(rustix::io::write(&qemu, &[*byte]).unwrap(), 1);
    }
    let (give, lines) = lines();
    let relay = Relay::start(lines, Options::default());
    let (mut client, theirs) = tokio::io::duplex(64);
    tokio::spawn(relay.reserve(Mode::Write, Begin::Screen).unwrap().serve(theirs));
    give.send(ours).unwrap();
    reads(&mut client, &"x".repeat(said.len())).await;
    types(&mut client, "typed\r").await;
    let heard = tokio::task::spawn_blocking(move || {
        let mut heard = [0; 6];
        let mut at = 0;
        while at < heard.len() {
            at += rustix::io::read(&qemu, &mut heard[at..]).unwrap();
        }
        heard
    });
    assert_eq!(&soon("QEMU to hear", heard).await.unwrap(), b"typed\r");
    soon("the end", relay.finish()).await;
    assert!(rest(&mut client).await.is_empty());
}

/// Calls that hang may hold all threads of the runtime.
#[test]
fn its_log_is_kept_small_while_other_calls_hang() {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().max_blocking_threads(1).build().unwrap();
    runtime.block_on(async {
        let (release, held) = std::sync::mpsc::channel::<()>();
        let hangs = tokio::task::spawn_blocking(move || held.recv());
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("serial.log");
        std::fs::write(&path, vec![b'x'; 100 << 10]).unwrap();
        let log = Log::new(path, 64 << 10);
        let line = Line::new(Options { log: Some(log.clone()), ..Options::default() }).await;
        line.until("the log to be trimmed", |_| log.old().exists()).await;
        drop(release);
        let _ = hangs.await;
    });
}
